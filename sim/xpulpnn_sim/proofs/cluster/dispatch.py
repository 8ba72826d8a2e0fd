"""Claims about the dispatch queue."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from xpulpnn.cluster.event_unit.dispatch import Dispatch
from xpulpnn.config import ClusterConfig
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.cluster.surroundings import Surroundings

_CLAIMS = {
    "room": "no core has more words before it than the queue holds",
    "one": "the lowest core that waits pushes, if there is room, and no other",
    "waits": "only a core that waits for a word gets one, one that was pushed and that it has not passed",
    "passes": "a core passes the word it gets, and at most one per cycle",
}


class DispatchClaims(Surroundings):
    """A dispatch queue, and a count of the words that each core has not passed."""

    def __init__(self, config):
        self.cores, self.depth = config.cores, config.dispatch_depth
        width = ceil_log2(self.depth) + 1
        super().__init__(Dispatch(config), _CLAIMS, dict.fromkeys(registers_of(config), In(width)))

    def elaborate(self, platform):
        """Build the counts and the claims."""
        m = Module()
        self.surround(m)
        unit, depth = self.unit, self.depth
        left = [Signal(range(depth + 2), name=f"left_{core}") for core in range(self.cores)]
        lowest = (unit.pushing & ~(unit.pushing - 1))[: self.cores]
        waits, passes, agree, full = [], [], [], []
        for core, count in enumerate(left):
            place = getattr(self, f"place_{core}")
            before = Signal.like(place, name=f"before_{core}")
            got = Signal(name=f"got_{core}")
            known = Signal(name=f"known_{core}")
            moved = (place - before)[: len(place)]
            m.d.sync += [before.eq(place), got.eq(unit.popped[core]), known.eq(1)]
            # the word passed in the last cycle is gone now
            now = Signal.like(count, name=f"now_{core}")
            m.d.comb += now.eq(Mux(known, count - moved, 0))
            m.d.sync += count.eq(now + unit.pushed.any())
            waits.append(~unit.popped[core] | unit.popping[core] & (now != 0))
            passes.append(~known | (moved == got) | (moved == 1))
            full.append(now == depth)
            agree.append((now <= depth) & ((self.tail - place)[: len(place)] == now[: len(place)]))
        m.d.comb += [
            self.room.eq(Cat(agree).all()),
            self.waits.eq(Cat(waits).all()),
            self.passes.eq(Cat(passes).all()),
            self.one.eq(unit.pushed == Mux(Cat(full).any(), 0, lowest)),
        ]
        return m


def registers_of(config: ClusterConfig) -> dict[str, str]:
    """Registers of the queue by the inputs that show them."""
    return {name: name for name in ("tail", *(f"place_{core}" for core in range(config.cores)))}


def dispatch(config: ClusterConfig) -> Obligation:
    """The claims about the dispatch queue of a cluster."""
    return Obligation(
        unit=f"dispatch queue, {config.cores} cores",
        make=lambda: DispatchClaims(config),
        claims=_CLAIMS,
        registers=registers_of(config),
    )
