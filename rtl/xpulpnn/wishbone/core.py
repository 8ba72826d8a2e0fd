# amaranth: UnusedElaboratable=no
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal

from xpulpnn.cluster.icache.private import PrivateCache
from xpulpnn.component import Component, Out, assign_by_name, connect, flipped, pass_ports
from xpulpnn.config import ClusterConfig
from xpulpnn.core.core import FENCE_PORTS
from xpulpnn.core.gated_core import core_of
from xpulpnn.debug.core_debug import CoreDebug
from xpulpnn.debug.dtm import JtagDtm
from xpulpnn.wishbone.bridge import WishboneBridge
from xpulpnn.wishbone.clint import WishboneClint
from xpulpnn.wishbone.ports import WishboneSignature

_BUSES = {"instr": "ibus", "data": "dbus", "bus": "sbus"}
"""Names of the Wishbone ports, by the port of the core that each replaces."""


class CoreWishbone(Component):
    """One core and its instruction cache, with Wishbone managers for instructions and for data.

    The cache reads lines of 16 bytes in bursts; ``fence.i`` empties it. Data are not cached: Wishbone sees a load or
    store in the cycle after its request. Everything else is as in :class:`~xpulpnn.core.core.Core`.
    """

    # config: ``core`` and the fields of a core's instruction cache; without a cache every word is
    # fetched separately. Debug mode adds the ports of CoreDebug, which explains ``transport``. ``clint`` adds a
    # core-local interruptor at 0x02000000, whose lines are or-ed with ``irq``; ``sbus`` does not reach it.

    #: ibus: Instruction fetches.
    #: dbus: Data accesses.
    #: sbus: Memory accesses of the debugger while the core runs; only with debug mode.
    #: core_sleep: wfi waits and neither core nor cache has an outstanding access: the core's clock is not needed.
    #: system_reset: Reset of the system, which also resets core, cache and ports, but not debug module and ``sbus``;
    #:   ``ndmreset`` requests it; synchronous to the clock; only with debug mode.

    def __init__(self, config: ClusterConfig, *, transport: Any = JtagDtm):
        fence_port = config.icache_private > 0
        if config.core.debug:
            core = CoreDebug(config.core, fence_port=fence_port, system_reset=True, transport=transport)
        else:
            core = core_of(config.core, fence_port=fence_port)
        self.wrapped = (core,)
        ports = {
            _BUSES.get(name, name): Out(WishboneSignature()) if name in _BUSES else member
            for name, member in core.signature.members.items()
            if name not in FENCE_PORTS
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self.wrapped[0]
        ports = {name: getattr(core, name) for name in core.signature.members if name in _BUSES}
        registered = self.config.core.late_results
        domain = "sync"
        if self.config.core.debug:
            domain = "system"
            m.domains += ClockDomain(domain, local=True)
            m.d.comb += ClockSignal(domain).eq(ClockSignal())
            m.d.comb += ResetSignal(domain).eq(ResetSignal() | self.system_reset)
        if self.config.icache_private:
            cache = PrivateCache(self.config)
            m.submodules.icache = DomainRenamer(domain)(cache)
            ports["instr"] = cache.line
            answer = assign_by_name(core.instr, cache.core, "rvalid", "rdata", "err")
            fence = core.fence_i
            if registered:
                # a registered core sees answers a cycle later
                fence = Signal(name="fence")
                m.d[domain] += [*answer, fence.eq(core.fence_i)]
            else:
                m.d.comb += answer
            m.d.comb += [
                *assign_by_name(cache.core, core.instr, "addr"),
                # a lookup does not see the flush of its own cycle
                cache.core.req.eq(core.instr.req & ~fence),
                core.instr.gnt.eq(cache.core.gnt & ~fence),
                cache.control.enable.eq(1),
                cache.control.prefetch.eq(self.config.prefetch),
                cache.control.flush.eq(fence),
                # a line may be prefetched
                core.fetch_busy.eq(cache.line.req | self.ibus.cyc),
            ]
            if registered:
                m.d.comb += core.fetch_busy.eq(cache.line.req | self.ibus.cyc | cache.line.rvalid)
        for name, port in ports.items():
            bridge = WishboneBridge(port.signature, registered=registered)
            m.submodules[f"{name}_bridge"] = bridge if name == "bus" else DomainRenamer(domain)(bridge)
            connect(m, port, bridge.port)
            bus, outside = bridge.bus, flipped(getattr(self, _BUSES[name]))
            if name == "data" and self.config.clint:
                clint = WishboneClint()
                m.submodules.clint = DomainRenamer(domain)(clint)
                connect(m, bus, clint.manager)
                bus = clint.bus
                m.d.comb += core.irq.eq(self.irq | clint.irq)
            connect(m, bus, outside)
        pass_ports(m, self, core, excluded=(*FENCE_PORTS, *_BUSES, *(("irq",) if self.config.clint else ())))
        return m
