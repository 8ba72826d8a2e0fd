"""Claims about arbiters."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from xpulpnn.cluster.tcdm.arbiter import Arbiter
from xpulpnn.config import Arbiter as ArbiterKind
from xpulpnn_sim.proofs.cluster.obligation import Obligation

_ARBITER_CLAIMS = {
    "one": "at most one request is granted",
    "asked": "only what requests is granted",
    "busy": "with a request one is granted",
    "bounded": "a request that stays waits for at most inputs - 1 grants",
    "valid": "the state is one that resets and grants lead to",
}


class ArbiterClaims(wiring.Component):
    """An arbiter and what is claimed of it."""

    def __init__(self, inputs: int, kind: ArbiterKind):
        self.unit = Arbiter(inputs, kind)
        ports = {"req": In(inputs), "watched": In(ceil_log2(inputs)), **dict.fromkeys(claims_of(kind), Out(1))}
        if kind != "fixed":
            ports["state"] = In(ceil_log2(inputs) if kind == "counter" else inputs)
        super().__init__(ports)

    def elaborate(self, platform):
        """Build the arbiter and the count of grants to others."""
        m = Module()
        m.submodules.unit = unit = self.unit
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
            # from some input on all ones
            m.d.comb += self.valid.eq((~self.state & self.state << 1) == 0)
        return m


def claims_of(kind: ArbiterKind) -> dict[str, str]:
    """The claims about arbiters of a kind."""
    return {name: text for name, text in _ARBITER_CLAIMS.items() if kind != "fixed" or name != "valid"}


def arbiter(inputs: int, kind: ArbiterKind) -> Obligation:
    """The claims about an arbiter with at least two inputs; those of ``fixed`` include one that does not hold."""
    state = {"counter": {"state": "named"}, "strict": {"state": "above"}, "fixed": {}}[kind]
    return Obligation(
        unit=f"arbiter {kind}, {inputs} inputs",
        make=lambda: ArbiterClaims(inputs, kind),
        claims=claims_of(kind),
        registers=state,
        depth=inputs,
        refuted=frozenset({"bounded"} if kind == "fixed" else ()),
    )
