"""Claims about barriers."""

from amaranth.hdl import Cat, Module, Mux, Signal

from xpulpnn.cluster.event_unit.barrier import BarrierUnit
from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import BARRIER_BYTES, Barrier, EventRegister
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.cluster.surroundings import Surroundings

_CLAIMS = {
    "not_early": "an event only when every core of the trigger mask has triggered since the last one",
    "not_twice": "no trigger counts for two events",
    "not_late": "when they have, the event goes to the whole target mask in that cycle",
    "status": "the status names the cores that have triggered",
}


class BarrierClaims(Surroundings):
    """A barrier, and a record of who has triggered since it was last complete."""

    def __init__(self, config):
        super().__init__(BarrierUnit(config), _CLAIMS, {})

    def elaborate(self, platform):
        """Build the record and the claims."""
        m = Module()
        self.surround(m)
        state, events = self.unit.state, self.unit.events
        cores = self.unit.cores
        came = Signal(cores)
        # those whose last trigger has had its event; after a reset nobody has triggered
        spent = Signal(cores, init=-1)
        triggers = Signal(cores)
        complete = Signal()
        m.d.comb += [
            triggers.eq(self._triggers(cores)),
            complete.eq((state.trigger_mask != 0) & (came == state.trigger_mask)),
            self.not_early.eq((events == 0) | ((state.trigger_mask & ~came) == 0) & (state.trigger_mask != 0)),
            self.not_twice.eq(((events == 0) | ((state.trigger_mask & spent) == 0)) & ((came & spent) == 0)),
            self.not_late.eq(~complete | (events == state.target_mask)),
            self.status.eq(state.status == came),
        ]
        used = Mux(events != 0, state.trigger_mask, 0)
        m.d.sync += [came.eq(Mux(complete, 0, came) | triggers), spent.eq((spent | used) & ~triggers)]
        return m

    def _triggers(self, cores):
        """Cores that trigger in this cycle."""
        found = 0
        base = EventRegister.BARRIER + BARRIER_BYTES * self.unit.number
        for core, access in enumerate(self.unit.accesses):
            loads = (Barrier.TRIGGER_SELF, Barrier.TRIGGER_WAIT, Barrier.TRIGGER_WAIT_CLEAR)
            own = Cat(access.offset == base + register for register in loads).any()
            stored = access.write & (access.offset == base + Barrier.TRIGGER)
            found |= Mux(own & access.read, 1 << core, 0) | Mux(stored, access.data[:cores], 0)
        return found


def barrier(config: ClusterConfig) -> Obligation:
    """The claims about the barriers of a cluster."""
    return Obligation(
        unit=f"barrier, {config.cores} cores", make=lambda: BarrierClaims(config), claims=_CLAIMS, depth=1
    )
