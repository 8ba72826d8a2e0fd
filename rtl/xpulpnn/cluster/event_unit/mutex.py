"""Mutex of the event unit (guide, "The event unit")."""

from amaranth.hdl import Cat, Const, Module, Signal

from xpulpnn.cluster.event_unit.access import MUTEX_REGION, REGION_BITS, WORD_SHIFT, AccessSignature, lowest
from xpulpnn.component import Component, In, Out
from xpulpnn.config import ClusterConfig
from xpulpnn.isa.machine import XLEN


class MutexUnit(Component):
    """Lock that cores wait for, with a word that each owner leaves to the next.

    While it is free the lowest core that waits gets it. A store unlocks it, whoever makes it, and leaves the message;
    a store while it is free only changes the message. Of several stores in the same cycle the lowest core's message
    stays. Unlocked in cycle t, granted in t+1. Reset frees it and clears the message.
    """

    def __init__(self, config: ClusterConfig):
        ports = {
            "number": In(REGION_BITS - WORD_SHIFT),  #: Which mutex it is; constant.
            "accesses": In(AccessSignature()).array(config.cores),  #: What each core asks for.
            "waiting": In(config.cores),  #: Cores that wait for this lock.
            "granted": Out(config.cores),  #: The one of them that gets it in this cycle.
            "message": Out(XLEN),  #: What the last store left.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        locked = Signal()
        m.d.comb += self.granted.eq(lowest(self.waiting) & (~locked).replicate(len(self.waiting)))
        # of the assignments that apply the last one counts
        for core, access in reversed(list(enumerate(self.accesses))):
            unlocks = Signal(name=f"unlocks{core}")
            selected = access.offset == Cat(Const(0, WORD_SHIFT), self.number, Const(MUTEX_REGION))
            m.d.comb += unlocks.eq(access.write & selected)
            with m.If(unlocks):
                m.d.sync += [locked.eq(0), self.message.eq(access.data)]
        with m.If(self.granted.any()):
            m.d.sync += locked.eq(1)
        return m
