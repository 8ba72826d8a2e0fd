# amaranth: UnusedElaboratable=no
"""Properties of the arbiter of a TCDM bank."""

from amaranth.hdl import Mux, Signal
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from xpulpnn.cluster.tcdm.arbiter import Arbiter
from xpulpnn.config import Arbiter as ArbiterKind
from xpulpnn_sim.proofs.cluster.obligation import Obligation

_ARBITER_CLAIMS = {
    "one": "at most one request is granted",
    "asked": "only requesting inputs are granted",
    "busy": "if there is a request, one is granted",
    "bounded": "a request that stays waits for at most inputs - 1 grants",
    "valid": "the state is reachable by resets and grants",
}


class ArbiterClaims(Obligation):
    """Properties of an arbiter of at least two inputs; with ``fixed`` priority, bounded waiting must be refuted."""

    def __init__(self, inputs: int, kind: ArbiterKind):
        index = ceil_log2(inputs)
        fixed = kind == "fixed"
        super().__init__(
            f"arbiter {kind}, {inputs} inputs",
            Arbiter(inputs, kind),
            {name: text for name, text in _ARBITER_CLAIMS.items() if not fixed or name != "valid"},
            {"counter": {"state": ("preferred", index)}, "strict": {"state": ("above", inputs)}, "fixed": {}}[kind],
            ports={"req": In(inputs), "watched": In(index)},
            depth=inputs,
            refuted={"bounded"} if fixed else (),
        )

    def claim(self, m):
        unit = self.unit
        granted = unit.gnt
        last = Signal.like(self.watched)
        waited = Signal(range(unit.inputs + 1))
        before = Signal.like(waited)
        m.d.comb += [
            unit.req.eq(self.req),
            self.one.eq((granted & (granted - 1)[: unit.inputs]) == 0),
            self.asked.eq((granted & ~self.req) == 0),
            self.busy.eq(granted.any() == self.req.any()),
            self.bounded.eq(waited < unit.inputs),
            before.eq(Mux(self.watched == last, waited, 0)),
        ]
        loses = self.req.bit_select(self.watched, 1) & ~granted.bit_select(self.watched, 1) & granted.any()
        m.d.sync += [last.eq(self.watched), waited.eq(Mux(loses, Mux(before == unit.inputs, before, before + 1), 0))]
        if unit.kind == "counter":
            m.d.comb += self.valid.eq(self.state < unit.inputs)
        elif unit.kind == "strict":
            # a suffix of ones
            m.d.comb += self.valid.eq((~self.state & self.state << 1) == 0)
