"""A cluster with faults that a program can enable, and one compiled model of it for all tests."""

from dataclasses import replace
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.hdl import Mux, Signal

from xpulpnn.cluster.cluster import Cluster
from xpulpnn.cluster.event_unit.unit import EventUnit
from xpulpnn.config import ClusterConfig, preset
from xpulpnn.isa.cluster import NO_MASTER, TCDM_BASE, EventLine
from xpulpnn.verilog import emit
from xpulpnn_sim.cosimulation.model.build import build_model
from xpulpnn_sim.cosimulation.model.libraries import rig_of, simulated
from xpulpnn_sim.tools.results import cached_results, digest, sources_digest

FAULT_WORD = TCDM_BASE + 0xF7FC  # core 0 enables a fault by storing its number here

_SELDOM = 5  # bits of an address that select the accesses for intermittent faults


class ClusterFault(IntEnum):
    NONE = 0
    LOST_EVENT = 1  # core 1 receives no barrier events
    EARLY_BARRIER = 2  # barrier 0 counts the trigger of core 1 also for core 2
    DROPPED_GRANT = 3  # requests of core 3 do not reach the TCDM
    SWAPPED_BANKS = 4  # banks 0 and 1 are swapped
    WRONG_STORE = 5  # the lowest bit of writes to bank 2 is inverted
    UNMARKED = 6  # test-and-set does not write
    SILENT_ACCESS = 7  # bank 1 sometimes grants an access without making it
    LOST_MARK = 8  # the write of a test-and-set is sometimes lost
    DMA_BYTE = 9  # the DMA sometimes omits a byte
    DMA_EVENT = 10  # the DMA does not signal the end of a transfer
    DMA_STATUS = 11  # identifiers of running transfers read as finished
    TIMER_STEP = 12  # the timer expires a cycle early
    ANY_MUTEX = 13  # mutex 0 is granted to any waiting core, even while locked
    DMA_ENDLESS = 14  # identifiers of transfers read as running forever
    STALE_LINES = 15  # instruction caches ignore flushes


EVENT_FAULTS = ClusterFault.EARLY_BARRIER
"""The last of the faults whose numbers are put on the external event lines of the event unit."""


class FaultyEventUnit(EventUnit):
    """An event unit that loses barrier events of a core, or counts a trigger also for another core.

    The external event lines, for which no program waits, select the fault.
    """

    def elaborate(self, platform):
        m = super().elaborate(platform)
        units = [getattr(m.submodules, f"core_{core}") for core in range(self.config.cores)]
        barrier = m.submodules.barrier_0
        for unit in units:
            m.d.comb += unit.events[EventLine.CLUSTER : EventLine.CLUSTER + len(self.cluster_events)].eq(0)
        with m.If(self.cluster_events == ClusterFault.LOST_EVENT):
            m.d.comb += units[1].events[EventLine.BARRIER].eq(0)
        with m.If(self.cluster_events == ClusterFault.EARLY_BARRIER):
            m.d.comb += [
                getattr(barrier.accesses[2], name).eq(getattr(units[1].access, name)) for name in ("offset", "read")
            ]
        with m.If(self.cluster_events == 3):
            m.d.comb += [unit.granted[0].eq(unit.locking[0]) for unit in units]
        return m


class FaultyCluster(Cluster):
    """A cluster of at least four cores with the :class:`ClusterFault` that core 0 stores at :data:`FAULT_WORD`."""

    def _event_unit(self):
        return FaultyEventUnit(self.config)

    def elaborate(self, platform):
        m = super().elaborate(platform)
        fault, seldom = Signal(range(max(ClusterFault) + 1)), Signal(_SELDOM)
        port, tcdm = m.submodules.core0.data, m.submodules.tcdm
        m.d.sync += seldom.eq(seldom + 1)
        with m.If(port.req & port.gnt & port.we & (port.addr == FAULT_WORD)):
            m.d.sync += fault.eq(port.wdata)
        in_unit = Mux(fault <= EVENT_FAULTS, fault, Mux(fault == ClusterFault.ANY_MUTEX, EVENT_FAULTS + 1, 0))
        m.d.comb += m.submodules.event_unit.cluster_events.eq(in_unit)
        with m.If(fault == ClusterFault.DROPPED_GRANT):
            m.d.comb += [tcdm.ports[3].req.eq(0), m.submodules.demux3.tcdm.gnt.eq(0)]
        with m.If(fault == ClusterFault.SWAPPED_BANKS):
            for one, other in ((0, 1), (1, 0)):
                for name in ("req", "we", "be", "addr", "wdata"):
                    m.d.comb += getattr(self.banks[one], name).eq(getattr(tcdm.banks[other], name))
                m.d.comb += getattr(self, f"bank_master_{one}").eq(tcdm.bank_masters[other])
                m.d.comb += tcdm.banks[one].rdata.eq(self.banks[other].rdata)
        with m.If(fault == ClusterFault.WRONG_STORE):
            m.d.comb += self.banks[2].wdata.eq(tcdm.banks[2].wdata ^ 1)
        with m.If((fault == ClusterFault.SILENT_ACCESS) & (seldom == 0)):
            m.d.comb += self.banks[1].req.eq(0)
        lost = (fault == ClusterFault.UNMARKED) | (fault == ClusterFault.LOST_MARK) & (seldom < 2)
        for bank in range(self.config.banks):
            with m.If(lost & (tcdm.bank_masters[bank] == NO_MASTER)):
                m.d.comb += self.banks[bank].req.eq(0)
        with m.If((fault == ClusterFault.TIMER_STEP) & m.submodules.timer.armed.any()):
            m.d.comb += m.submodules.event_unit.timer_events.eq(m.submodules.timer.armed)
        if self.config.icache_private:
            with m.If(fault == ClusterFault.STALE_LINES):
                m.d.comb += m.submodules.icache.port.we.eq(0)
        if self.config.dma:
            self._dma_faults(m, fault, seldom)
        return m

    def _dma_faults(self, m, fault, seldom):
        dma, event_unit, first = m.submodules.dma, m.submodules.event_unit, self.config.cores
        ports = m.submodules.tcdm.ports
        for number in range(first, len(ports) - 1):
            with m.If((fault == ClusterFault.DMA_BYTE) & (seldom < 2)):
                m.d.comb += ports[number].be.eq(dma.tcdm[number - first].be & ~1)
        with m.If(fault == ClusterFault.DMA_EVENT):
            m.d.comb += event_unit.dma_events.eq(0)
        for number in range(first):
            demux = getattr(m.submodules, f"demux{number}")
            rdata = dma.cores[number].rdata
            with m.If(fault == ClusterFault.DMA_STATUS):
                # a value with zero upper half is an identifier
                m.d.comb += demux.dma.rdata.eq(Mux(rdata[16:].any(), rdata & 0xFFFF_0000, rdata))
            with m.If(fault == ClusterFault.DMA_ENDLESS):
                m.d.comb += demux.dma.rdata.eq(rdata | rdata[16:])


CONFIG = simulated(
    ClusterConfig(
        core=preset("ri5cy"), cores=4, banks=8, tcdm_bytes=0x1_0000, icache_private=512, memories="ports", rvfi=True
    )
)


@cache
def emitted() -> tuple[str, dict[str, Any]]:
    """Verilog and manifest, which the processes of the tests share on disk."""
    results, name = cached_results("designs"), f"faulty-{digest(sources_digest(), Path(__file__).read_text())}"
    known: dict[str, Any] | None = results.find(name)
    if known is None:
        made = emit(FaultyCluster(CONFIG), "cluster", config=CONFIG, both_edges=True)
        known = {"verilog": made.text, "manifest": made.manifest}
        results.store(name, known)
    return known["verilog"], known["manifest"]


@cache
def faulty_model() -> Path:
    return build_model(replace(rig_of(*emitted()), both_edges=True))
