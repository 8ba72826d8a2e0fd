"""Claims about mutexes."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In

from xpulpnn.cluster.event_unit.mutex import MutexUnit
from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import EventRegister
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.cluster.surroundings import Surroundings

_CLAIMS = {
    "exclusive": "between two grants there is a store that unlocks",
    "one": "at most one core, which waits, is granted",
    "served": "while it is free the lowest core that waits is granted",
    "free": "it is free until a grant, and from the store that unlocks on",
}


class MutexClaims(Surroundings):
    """A mutex, and a record of whether somebody has it."""

    def __init__(self, config):
        super().__init__(MutexUnit(config), _CLAIMS, {"locked": In(1)})

    def elaborate(self, platform):
        """Build the record and the claims."""
        m = Module()
        self.surround(m)
        waiting, granted = self.unit.waiting, self.unit.granted
        owned = Signal()
        unlocks = Signal()
        offset = EventRegister.MUTEX + WORD_BYTES * self.unit.number
        for access in self.unit.accesses:
            with m.If(access.write & (access.offset == offset)):
                m.d.comb += unlocks.eq(1)
        m.d.sync += owned.eq(Mux(owned, ~unlocks, granted != 0))
        served = (waiting == 0) | owned
        for core, request in enumerate(waiting):
            first = request & ~waiting[:core].any() if core else request
            served |= first & granted[core]
        m.d.comb += [
            self.exclusive.eq(~owned | (granted == 0)),
            self.one.eq(((granted & (granted - 1)[: len(granted)]) == 0) & ((granted & ~waiting) == 0)),
            self.served.eq(served),
            self.free.eq(self.locked == owned),
        ]
        return m


def mutex(config: ClusterConfig) -> Obligation:
    """The claims about the mutexes of a cluster."""
    return Obligation(
        unit=f"mutex, {config.cores} cores",
        make=lambda: MutexClaims(config),
        claims=_CLAIMS,
        registers={"locked": "locked"},
    )
