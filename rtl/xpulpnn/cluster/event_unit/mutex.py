"""Mutex of the event unit (guide, "The event unit")."""

from amaranth.hdl import Cat, Const, Module, Signal

from xpulpnn.cluster.event_unit.access import MUTEX_REGION, REGION_BITS, WORD_SHIFT, AccessSignature, lowest
from xpulpnn.component import Component, In, Out
from xpulpnn.config import ClusterConfig
from xpulpnn.isa.machine import XLEN


class MutexUnit(Component):
    """Lock that cores wait for, with a message word from each owner to the next.

    While the mutex is free, the lowest waiting core gets it. A store by any core unlocks it and leaves the message; a
    store while it is free only changes the message. If several cores store in the same cycle, the lowest core wins.
    Unlocked in cycle t, granted in t+1. Reset frees the mutex and clears the message.
    """

    def __init__(self, config: ClusterConfig):
        ports = {
            "number": In(REGION_BITS - WORD_SHIFT),  #: Number of the mutex; constant.
            "accesses": In(AccessSignature()).array(config.cores),  #: Accesses of the cores.
            "waiting": In(config.cores),  #: Cores that wait for this mutex.
            "granted": Out(config.cores),  #: The core that gets the mutex in this cycle.
            "message": Out(XLEN),  #: Data of the last store.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        locked = Signal()
        m.d.comb += self.granted.eq(lowest(self.waiting) & (~locked).replicate(len(self.waiting)))
        # the last assignment wins
        for core, access in reversed(list(enumerate(self.accesses))):
            unlocks = Signal(name=f"unlocks{core}")
            selected = access.offset == Cat(Const(0, WORD_SHIFT), self.number, Const(MUTEX_REGION))
            m.d.comb += unlocks.eq(access.write & selected)
            with m.If(unlocks):
                m.d.sync += [locked.eq(0), self.message.eq(access.data)]
        with m.If(self.granted.any()):
            m.d.sync += locked.eq(1)
        return m
