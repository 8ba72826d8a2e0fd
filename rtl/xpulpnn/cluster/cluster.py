"""The cluster: cores on a shared memory, event unit, timer, control registers, instruction caches, DMA engine."""

from dataclasses import replace
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Signal

from xpulpnn.cells.clock_gate import add_gated, add_ungated_clock
from xpulpnn.cells.memory import MemoryPortSignature
from xpulpnn.cluster.debug_router import DebugRouter
from xpulpnn.cluster.demux import CoreDemux
from xpulpnn.cluster.dma.unit import Dma
from xpulpnn.cluster.error_responder import ErrorResponder
from xpulpnn.cluster.event_unit.unit import EventUnit
from xpulpnn.cluster.external_port import ExternalPort
from xpulpnn.cluster.fetch_monitor import FetchMonitor
from xpulpnn.cluster.icache.unit import InstructionCache
from xpulpnn.cluster.outstanding_limiter import OutstandingLimiter
from xpulpnn.cluster.peripherals.bus import PeripheralBus
from xpulpnn.cluster.peripherals.clint import CoreLocalInterruptor
from xpulpnn.cluster.peripherals.control import ClusterControl
from xpulpnn.cluster.peripherals.timer import ClusterTimer
from xpulpnn.cluster.ports import REQUEST_FIELDS, RESPONSE_FIELDS, DmaPortSignature, RefillSignature
from xpulpnn.cluster.skid_buffer import SkidBuffer
from xpulpnn.cluster.tcdm.tcdm import Tcdm
from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped, optional, signals
from xpulpnn.config import ClusterConfig
from xpulpnn.core.core import Core
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.debug import DEBUG_BASE, TRAP_OFFSET, Place
from xpulpnn.isa.machine import CLINT_SPACE, XLEN, Interrupt
from xpulpnn.isa.retirement import MEANINGS, port_widths

CLUSTER_ID_BITS = 6
CORE_ID_BITS = 5  # bits of mhartid below the number of the cluster

CLUSTER_EVENTS = 2
TIMERS = 2
_DMA_LINES = ("dma_events", "dma_interrupts")

_MASTER = (
    "Number of the master whose access the bank performs, valid with an access: cores from 0, then the others; 31 for "
    "the write of a test-and-set."
)
_SHARERS = "Other masters, a bit each, whose loads the answer of the bank serves as well; valid with an access."


class Cluster(Component):
    """Up to 16 cores on a banked memory, with event unit, timer and control registers, instruction caches and DMA.

    Every core accesses the shared memory (TCDM) in one cycle unless another core uses the same bank. The private view
    of the event unit takes 1 cycle longer, other peripherals at least 2; an external access takes 2 cycles longer than
    the external memory. Reset resets everything together; then a core waits until ``fetch_enable`` or software
    starts it.
    """

    #: bank_master_*: Number of the master whose access the bank performs: cores from 0, then others; 31 for the write
    #:   of a test-and-set. Valid with an access; with ``rvfi``.
    #: bank_sharers_*: Other masters whose loads the answer of the bank serves as well; with ``rvfi`` and ``broadcast``.
    #: dma_events, dma_interrupts: Cores that the DMA engine notifies of the end of a transfer; pulses, with ``rvfi``.
    #: rvfi_*: Retirement ports; with ``rvfi``.

    def __init__(self, config: ClusterConfig):
        config = replace(config, core=replace(config.core, rvfi=config.rvfi))
        cores = range(config.cores)
        ports = {
            "cluster_id": In(CLUSTER_ID_BITS),  #: Number of the cluster, from bit 5 of mhartid up; constant.
            "boot_addr": In(XLEN),  #: First instruction address of cores without a boot address set by software.
            "fetch_enable": In(1),  #: All cores may start; a core that has started ignores it.
            "eoc": Out(1),  #: End of computation, set by software.
            "return_value": Out(XLEN),  #: Result written by software; bit 31 marks it as valid.
            "busy": Out(1),  #: A core that has started needs its clock, or the DMA engine works.
            "core_clock_en": Out(config.cores),  #: Cores that need their clock; the clocks of other cores may stop.
            #: events: External events for all cores, lines 22 and 23 of the event unit; pulses.
            "events": In(CLUSTER_EVENTS),
            #: host: Access from outside to the TCDM and the shared peripherals, at the addresses at which the cores see
            #:   them. An access is granted when the one before is answered.
            "host": In(ObiSignature()),
            "ext": Out(ObiSignature()),  #: Data accesses of the cores to all external addresses.
        }
        if config.core.debug:
            #: debug_req: Cores that must halt; only with debug mode of the cores.
            #: debug_mode: Cores in debug mode.
            #: debug: Accesses of the cores to the memory of the debug module.
            ports |= {"debug_req": In(config.cores), "debug_mode": Out(config.cores), "debug": Out(ObiSignature())}
        if config.core.clock_gate and config.core.test_en:
            #: test_en: Scan test: the clocks of all cores run; 0 otherwise. Optional.
            ports["test_en"] = In(1)
        if config.icache_private:
            #: refill: Instruction memory, with instruction caches.
            ports["refill"] = Out(RefillSignature())
        else:
            #: instr: Port of the instruction memory of each core, without instruction caches.
            ports["instr"] = Out(InstructionPortSignature()).array(config.cores)
        if config.dma:
            #: dma: Accesses of the DMA engine to all external addresses, if there is one.
            ports["dma"] = Out(DmaPortSignature())
        if config.memories == "ports":
            #: banks: The banks of the TCDM, if they are outside.
            ports["banks"] = Out(MemoryPortSignature(config.bank_words)).array(config.banks)
        if config.rvfi:
            widths = port_widths(pairs=config.core.mac_load_pair)
            ports |= {f"rvfi_{core}_{name}": Out(width) for core in cores for name, width in widths.items()}
            ports |= {f"bank_master_{bank}": Out(isa.MASTER_BITS) for bank in range(config.banks)}
            if config.broadcast:
                ports |= {f"bank_sharers_{bank}": Out(config.masters) for bank in range(config.banks)}
            #: ext_hart: Number of the core whose request ``ext`` shows; with ``rvfi``.
            ports["ext_hart"] = Out(isa.MASTER_BITS)
            #: timer_events, timer_armed: Timers that end a period in this cycle; timers that will report the end of
            #:   their period. A bit per timer; with ``rvfi``.
            ports |= {"timer_events": Out(TIMERS), "timer_armed": Out(TIMERS)}
            ports |= {name: Out(config.cores) for name in (_DMA_LINES if config.dma else ())}
        super().__init__(config, ports)
        self.PORT_MEANINGS = {f"rvfi_{core}_{name}": text for core in cores for name, text in MEANINGS.items()}
        self.PORT_MEANINGS |= {f"bank_master_{bank}": _MASTER for bank in range(config.banks)}
        self.PORT_MEANINGS |= {f"bank_sharers_{bank}": _SHARERS for bank in range(config.banks)}

    def elaborate(self, platform):
        m = Module()
        config = self.config
        if config.core.clock_gate:
            add_ungated_clock(m)
        m.submodules.event_unit = event_unit = self._event_unit()
        m.submodules.tcdm = tcdm = Tcdm(config, config.masters)
        blocks = ((isa.CONTROL, isa.BLOCK_BYTES), (isa.TIMER, isa.BLOCK_BYTES), (isa.EVENT_UNIT, isa.EVENT_UNIT_BYTES))
        blocks += ((isa.DMA, isa.BLOCK_BYTES),) if config.dma else ()
        blocks += ((isa.ICACHE_CONTROL, isa.BLOCK_BYTES),) if config.icache_private else ()
        blocks += ((isa.CLINT, CLINT_SPACE),) if config.clint else ()
        m.submodules.bus = bus = PeripheralBus(config.cores + 1, blocks)
        m.submodules.control = control = ClusterControl(config.cores)
        m.submodules.timer = timer = ClusterTimer()
        # a debugger reaches external addresses through a port of its own
        m.submodules.external = external = ExternalPort(config.cores + config.core.debug)
        connect(m, external.ext, flipped(self.ext))
        targets = [control.port, timer.port, event_unit.shared]
        busy = Signal()
        demuxes = [CoreDemux(config) for _ in range(config.cores)]
        if config.dma:
            m.submodules.dma = dma = Dma(config)
            targets.append(dma.shared)
            self._dma(m, dma, demuxes, tcdm, event_unit)
            m.d.comb += busy.eq(dma.busy)
        fetch_ports, data_ports = self._fetch_ports(m, targets), [demux.core for demux in demuxes]
        if config.core.debug:
            fetch_ports, data_ports = self._debug_router(m, fetch_ports, data_ports)
        if config.clint:
            m.submodules.clint = clint = CoreLocalInterruptor(config.cores)
            targets.append(clint.port)
        for place, target in zip(bus.peripherals, targets, strict=True):
            connect(m, place, target)
        started, enabled = signals(config.cores, "started enabled")
        for number, demux in enumerate(demuxes):
            m.submodules[f"demux{number}"] = demux
            connect(m, demux.tcdm, tcdm.ports[number])
            connect(m, demux.event_unit, event_unit.cores[number])
            connect(m, demux.peripherals, bus.initiators[number])
            connect(m, demux.ext, external.cores[number])
            self._core(m, number, demux, control, event_unit, enabled[number], fetch_ports[number], data_ports[number])
        self._host(m, tcdm.ports[-1], bus.initiators[-1], external)
        if config.core.late_results:
            of_dma = [port.req for port in tcdm.ports[config.cores : -1]]
            m.d.comb += tcdm.claims.eq(Cat(*(demux.claim for demux in demuxes), *of_dma, m.submodules.host_demux.claim))
        if config.memories == "ports":
            for bank, outside in zip(tcdm.banks, self.banks, strict=True):
                connect(m, bank, flipped(outside))
        m.d.comb += [
            control.boot_addr.eq(self.boot_addr),
            enabled.eq(control.fetch_enable | self.fetch_enable.replicate(config.cores)),
            *assign_by_name(self, control, "eoc", "return_value"),
            self.busy.eq((started & self.core_clock_en).any() | busy),
            event_unit.timer_events.eq(timer.events),
            event_unit.cluster_events.eq(self.events),
        ]
        m.d.sync += started.eq(started | enabled)
        if config.rvfi:
            self._rvfi(m, external, timer, event_unit, tcdm)
        return m

    def _debug_router(self, m, fetch_ports, data_ports):
        m.submodules.debug_router = router = DebugRouter(self.config.cores)
        connect(m, router.memory, flipped(self.debug))
        for inner, port in (
            *zip(router.others_instr, fetch_ports, strict=True),
            *zip(router.others_data, data_ports, strict=True),
        ):
            connect(m, inner, port)
        return router.instr, router.data

    def _rvfi(self, m, external, timer, event_unit, tcdm):
        m.d.comb += self.ext_hart.eq(external.owner)
        m.d.comb += assign_by_name(self, timer, "events", "armed", to_prefix="timer_")
        for name in _DMA_LINES if self.config.dma else ():
            m.d.comb += getattr(self, name).eq(getattr(event_unit, name))
        for bank in range(self.config.banks):
            m.d.comb += getattr(self, f"bank_master_{bank}").eq(tcdm.bank_masters[bank])
            if self.config.broadcast:
                m.d.comb += getattr(self, f"bank_sharers_{bank}").eq(tcdm.bank_sharers[bank])

    def _event_unit(self):
        return EventUnit(self.config)

    def _fetch_ports(self, m, targets):
        if not self.config.icache_private:
            return [flipped(port) for port in self.instr]
        m.submodules.icache = icache = InstructionCache(self.config)
        connect(m, icache.refill, flipped(self.refill))
        targets.append(icache.port)
        return icache.cores

    def _core(self, m, number, demux, control, event_unit, enabled, fetch_port, data_port):
        core, name = Core(self.config.core), f"core{number}"
        if self.config.core.clock_gate:
            add_gated(m, name, core, self.core_clock_en[number], optional(self, "test_en"))
        else:
            m.submodules[name] = core
        m.submodules[f"fetches{number}"] = fetches = FetchMonitor()
        connect(m, core.data, data_port)
        self._fetch(m, core.instr, fetch_port)
        if self.config.core.debug:
            halt, halt_request = DEBUG_BASE + Place.ROM, Signal(name=f"halt_request{number}")
            # the event unit aborts a wait, which must be repeated: the request stays until the core is in debug mode
            m.d.sync += halt_request.eq((halt_request | self.debug_req[number]) & ~core.debug_mode)
            m.d.comb += [
                core.debug_req.eq(halt_request),
                event_unit.halt[number].eq(halt_request | core.debug_mode),
                event_unit.debug_mode[number].eq(core.debug_mode),
                self.debug_mode[number].eq(core.debug_mode),
                core.debug_halt_addr.eq(Const(halt, XLEN)),
                core.debug_exception_addr.eq(Const(halt + TRAP_OFFSET, XLEN)),
            ]
        lines = {Interrupt.EXTERNAL: event_unit.irq[number]}
        if self.config.clint:
            clint = m.submodules.clint
            lines |= {Interrupt.TIMER: clint.timer[number], Interrupt.SOFTWARE: clint.software[number]}
        asleep = core.core_sleep & ~reduce(or_, lines.values())
        m.d.comb += [
            core.hart_id.eq(Cat(Const(number, CORE_ID_BITS), self.cluster_id)),
            core.boot_addr.eq(control.boot_addresses[number]),
            core.fetch_enable.eq(enabled),
            *(core.irq[line].eq(level) for line, level in lines.items()),
            *assign_by_name(fetches, core.instr, "req", "gnt", "rvalid"),
            event_unit.fetch_idle[number].eq(fetches.idle),
            self.core_clock_en[number].eq(event_unit.core_clock_en[number] & ~asleep | ~control.clock_gate),
        ]
        if self.config.core.performance_counters:
            m.d.comb += core.ext_events.eq(demux.events)
        if self.config.core.rvfi:
            names = port_widths(pairs=self.config.core.mac_load_pair)
            m.d.comb += [getattr(self, f"rvfi_{number}_{name}").eq(getattr(core, f"rvfi_{name}")) for name in names]

    def _fetch(self, m, core, port):
        """Connect the fetches of a core; with ``late_results`` the answers are registered."""
        if not self.config.core.late_results:
            connect(m, core, port)
            return
        m.d.comb += [*assign_by_name(port, core, "req", "addr"), core.gnt.eq(port.gnt)]
        m.d.sync += assign_by_name(core, port, "rvalid", "rdata", "err")

    def _dma(self, m, dma, demuxes, tcdm, event_unit):
        """Connect the DMA engine, which the cores command; its TCDM ports are numbered after those of the cores."""
        connect(m, dma.ext, flipped(self.dma))
        for demux, port in zip(demuxes, dma.cores, strict=True):
            connect(m, demux.dma, port)
        for number, (inner, port) in enumerate(zip(dma.tcdm, tcdm.ports[self.config.cores : -1], strict=True)):
            if self.config.core.late_results:
                m.submodules[f"dma_request{number}"] = request = SkidBuffer()
                m.d.comb += [
                    *assign_by_name(request.initiator, inner, "req", *REQUEST_FIELDS),
                    *assign_by_name(inner, request.initiator, "gnt"),
                    *assign_by_name(port, request.target, "req", *REQUEST_FIELDS),
                    *assign_by_name(request.target, port, "gnt"),
                    *assign_by_name(inner, port, "rvalid", *RESPONSE_FIELDS),
                ]
            else:
                connect(m, inner, port)
        m.d.comb += assign_by_name(event_unit, dma, "events", "interrupts", to_prefix="dma_")

    def _host(self, m, tcdm, peripherals, external):
        """Connect the host port, which reaches no private views, and external addresses only with debug mode."""
        m.submodules.host_order = order = OutstandingLimiter()
        m.submodules.host_demux = demux = CoreDemux(self.config)
        connect(m, flipped(self.host), order.initiator)
        connect(m, order.target, demux.core)
        connect(m, demux.tcdm, tcdm)
        connect(m, demux.peripherals, peripherals)
        if self.config.core.debug:
            connect(m, demux.ext, external.cores[-1])
        for name in (
            "event_unit",
            *(() if self.config.core.debug else ("ext",)),
            *(("dma",) if self.config.dma else ()),
        ):
            m.submodules[f"host_no_{name}"] = unmapped = ErrorResponder()
            connect(m, getattr(demux, name), unmapped.port)
