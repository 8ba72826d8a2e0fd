"""Software events of the event unit (guide, "The event unit")."""

from amaranth.hdl import Module, Mux, Signal

from xpulpnn.cluster.event_unit.access import REGION_BITS, TRIGGER_REGIONS, AccessSignature
from xpulpnn.component import Component, In, Out
from xpulpnn.config import ClusterConfig
from xpulpnn.isa.machine import WORD_BYTES


class SwEvents(Component):
    """Events that cores send to each other by software.

    A store to a trigger register sends the event to the cores in the stored mask, a load of a waiting trigger to the
    cores in the target mask of the loading core. A mask of 0 means all cores. Triggers of one event by several cores in
    the same cycle are combined. Triggered in cycle t, on the lines in t+1.
    """

    def __init__(self, config: ClusterConfig):
        self.cores = config.cores
        self.number = config.sw_events
        #: accesses: Accesses of the cores.
        #: events: Event lines of each core, for one cycle.
        super().__init__(
            ports={"accesses": In(AccessSignature()).array(self.cores), "events": Out(self.number).array(self.cores)}
        )

    def elaborate(self, platform):
        m = Module()
        stored, waiting, clearing = TRIGGER_REGIONS
        named = [Signal(self.cores, name=f"named_{event}") for event in range(self.number)]
        targets_of = [0] * self.number
        for core, access in enumerate(self.accesses):
            triggers = Signal(name=f"triggers_{core}")
            targets = Signal(self.cores, name=f"targets_{core}")
            with m.Switch(access.offset[REGION_BITS:]):
                with m.Case(stored):
                    m.d.comb += triggers.eq(access.write)
                with m.Case(waiting, clearing):
                    m.d.comb += triggers.eq(access.read)
            mask = access.data[: self.cores]
            m.d.comb += targets.eq(Mux(mask.any(), mask, -1) & triggers.replicate(self.cores))
            for event in range(self.number):
                hit = access.offset[:REGION_BITS] == WORD_BYTES * event
                targets_of[event] |= targets & hit.replicate(self.cores)
        m.d.comb += [lines.eq(value) for lines, value in zip(named, targets_of, strict=True)]
        for core in range(self.cores):
            for event in range(self.number):
                m.d.sync += self.events[core][event].eq(named[event][core])
        return m
