"""Barrier of the event unit (guide, "The event unit")."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.utils import ceil_log2

from xpulpnn.cluster.event_unit.access import AccessSignature, BarrierStateSignature
from xpulpnn.component import Component, In, Out
from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import BARRIER_BYTES, Barrier, EventRegister

NUMBER_BITS = 3


class BarrierUnit(Component):
    """Collects triggers until exactly the cores of the trigger mask have triggered.

    Every trigger sets a bit of ``status``. In the cycle in which ``status`` equals the trigger mask, unless that is 0,
    the cores of the target mask receive the event and ``status`` restarts. A trigger of that cycle counts for the next
    use of the barrier. If several cores write a mask in the same cycle, the lowest core wins. A trigger in cycle t is
    in ``status`` in t+1, with the event if it was the last. Reset clears all.
    """

    def __init__(self, config: ClusterConfig):
        self.cores = config.cores
        ports = {
            "number": In(NUMBER_BITS),  #: Number of the barrier; constant.
            "accesses": In(AccessSignature()).array(self.cores),  #: Accesses of the cores.
            "state": Out(BarrierStateSignature(self.cores)),  #: The registers.
            "events": Out(self.cores),  #: Cores that receive the event in this cycle.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        own = Signal(self.cores)
        named = 0
        complete = Signal()
        # the last assignment wins
        for core, access in reversed(list(enumerate(self.accesses))):
            selected = Signal(name=f"selected_{core}")
            triggers = Signal(self.cores, name=f"named_by_{core}")
            region = Cat(self.number, Const(EventRegister.BARRIER // BARRIER_BYTES >> NUMBER_BITS))
            m.d.comb += selected.eq(access.offset[ceil_log2(BARRIER_BYTES) :] == region)
            with m.Switch(access.offset[: ceil_log2(BARRIER_BYTES)]):
                with m.Case(Barrier.TRIGGER_SELF, Barrier.TRIGGER_WAIT, Barrier.TRIGGER_WAIT_CLEAR):
                    m.d.comb += own[core].eq(selected & access.read)
                with m.Case(Barrier.TRIGGER):
                    m.d.comb += triggers.eq(access.data & (selected & access.write).replicate(self.cores))
                with m.Case(Barrier.TRIGGER_MASK), m.If(selected & access.write):
                    m.d.sync += self.state.trigger_mask.eq(access.data)
                with m.Case(Barrier.TARGET_MASK), m.If(selected & access.write):
                    m.d.sync += self.state.target_mask.eq(access.data)
            named |= triggers
        m.d.comb += [
            complete.eq(self.state.trigger_mask.any() & (self.state.status == self.state.trigger_mask)),
            self.events.eq(self.state.target_mask & complete.replicate(self.cores)),
        ]
        waiting = self.state.status & ~complete.replicate(self.cores)
        m.d.sync += self.state.status.eq(waiting | own | named)
        return m
