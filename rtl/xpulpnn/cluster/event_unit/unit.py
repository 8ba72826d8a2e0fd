"""Event unit of the cluster (guide, "The event unit")."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module

from xpulpnn.cluster.event_unit.barrier import BarrierUnit
from xpulpnn.cluster.event_unit.core_unit import CoreUnit
from xpulpnn.cluster.event_unit.dispatch import Dispatch
from xpulpnn.cluster.event_unit.mutex import MutexUnit
from xpulpnn.cluster.event_unit.shared_view import SharedView
from xpulpnn.cluster.event_unit.sw_events import SwEvents
from xpulpnn.component import Component, In, Out, connect, flipped
from xpulpnn.config import ClusterConfig
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import EventLine


class EventUnit(Component):
    """Events between cores, and barriers, mutexes and a dispatch queue that cores wait for.

    Every access of a private view is granted at once; a waiting access is answered when its condition holds (see
    :class:`~xpulpnn.cluster.event_unit.core_unit.CoreUnit`). The last core of a barrier that requests in cycle t is
    answered in t+3, in the same cycle as all others; likewise a core that waits for a software event triggered in t.
    An event line that is high in cycle t is seen in the buffer in t+1 and answers a waiting core in t+2. All responses
    come from registers. Reset clears everything and drops waiting accesses.
    """

    def __init__(self, config: ClusterConfig):
        cores = config.cores
        #: dma_events: Event line 8 of each core; with a DMA only.
        #: dma_interrupts: Event line 9 of each core; with a DMA only.
        ports = {
            "cores": In(ObiSignature()).array(cores),  #: Private views; bits 9:0 of the address count.
            "shared": In(ObiSignature()),  #: Shared view; bits 12:0 of the address count.
            "timer_events": In(2),  #: Event lines 10 and 11 of all cores.
            "cluster_events": In(2),  #: Event lines 22 and 23 of all cores.
            "irq": Out(cores),  #: An event is in buffer and interrupt mask of the core.
            "fetch_idle": In(cores),  #: No instruction fetch of the core is outstanding.
            "core_clock_en": Out(cores),  #: The core needs its clock.
            **({"dma_events": In(cores), "dma_interrupts": In(cores)} if config.dma else {}),
        }
        if config.core.debug:
            #: halt: Cores that must halt or are in debug mode, whose accesses do not wait; only with debug mode.
            #: debug_mode: Cores in debug mode.
            ports |= {"halt": In(cores), "debug_mode": In(cores)}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        units = [CoreUnit(config) for _ in range(config.cores)]
        barriers = [BarrierUnit(config) for _ in range(config.barriers)]
        mutexes = [MutexUnit(config) for _ in range(config.mutexes)]
        m.submodules.shared_view = shared_view = SharedView(config)
        m.submodules.dispatch = dispatch = Dispatch(config)
        m.submodules.sw_events = sw_events = SwEvents(config)
        for kind, parts in (("core", units), ("barrier", barriers), ("mutex", mutexes)):
            for number, part in enumerate(parts):
                m.submodules[f"{kind}_{number}"] = part
                if kind != "core":
                    m.d.comb += part.number.eq(number)
        connect(m, flipped(self.shared), shared_view.port)
        for core, unit in enumerate(units):
            connect(m, flipped(self.cores[core]), unit.port)
            connect(m, shared_view.slots[core], unit.shared)
            self._lines(m, core, unit, barriers, sw_events)
            if config.core.debug:
                m.d.comb += [unit.halt.eq(self.halt[core]), unit.debug_mode.eq(self.debug_mode[core])]
            for shared in (dispatch, sw_events, *barriers, *mutexes):
                connect(m, unit.access, shared.accesses[core])
            for number, barrier in enumerate(barriers):
                connect(m, barrier.state, unit.barriers[number])
            for number, mutex in enumerate(mutexes):
                m.d.comb += [
                    mutex.waiting[core].eq(unit.locking[number]),
                    unit.granted[number].eq(mutex.granted[core]),
                    unit.messages[number].eq(mutex.message),
                ]
            m.d.comb += [
                # cores that have triggered an incomplete barrier
                unit.summary.eq(reduce(or_, (barrier.state.status for barrier in barriers), 0)),
                unit.team.eq(dispatch.team),
                dispatch.popping[core].eq(unit.popping),
                unit.popped.eq(dispatch.popped[core]),
                unit.found.eq(dispatch.found[core]),
                dispatch.pushing[core].eq(unit.pushing),
                unit.pushed.eq(dispatch.pushed[core]),
                dispatch.words[core].eq(unit.word),
                unit.fetch_idle.eq(self.fetch_idle[core]),
                self.irq[core].eq(unit.irq),
                self.core_clock_en[core].eq(unit.core_clock_en),
            ]
        return m

    def _lines(self, m, core, unit, barriers, sw_events):
        lines = {
            EventLine.TIMER_LOW: self.timer_events[0],
            EventLine.TIMER_HIGH: self.timer_events[1],
            EventLine.BARRIER: reduce(or_, (barrier.events[core] for barrier in barriers), 0),
            EventLine.CLUSTER: self.cluster_events[0],
            EventLine.CLUSTER + 1: self.cluster_events[1],
        }
        if self.config.dma:
            lines |= {EventLine.DMA: self.dma_events[core], EventLine.DMA_INTERRUPT: self.dma_interrupts[core]}
        m.d.comb += unit.events[: self.config.sw_events].eq(sw_events.events[core])
        m.d.comb += [unit.events[line].eq(value) for line, value in lines.items()]
