# amaranth: UnusedElaboratable=no
from collections.abc import Callable, Mapping
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal

from xpulpnn.ahb.bridge import AhbBridge
from xpulpnn.bus.clint import CoreClint
from xpulpnn.cluster.axi.bridge import AxiBridge
from xpulpnn.cluster.icache.private import PrivateCache
from xpulpnn.component import Component, assign_by_name, connect, flipped, optional, pass_ports
from xpulpnn.config import ClusterConfig
from xpulpnn.core.core import FENCE_PORTS
from xpulpnn.core.gated_core import core_of
from xpulpnn.debug.core_debug import CoreDebug
from xpulpnn.debug.dtm import JtagDtm
from xpulpnn.wishbone.bridge import WishboneBridge

_PORTS = {"instr": "ibus", "data": "dbus", "bus": "sbus"}
"""Names of the bus ports, by the port of the core that each replaces."""


BUSES: Mapping[str, tuple[str, Callable[[Any, bool], Any]]] = {
    "wishbone": ("bus", lambda signature, registered: WishboneBridge(signature, registered=registered)),
    "axi": ("axi", lambda signature, registered: AxiBridge(signature, outstanding=4)),
    "ahb": ("bus", lambda signature, registered: AhbBridge(signature)),
}
"""For each bus the port of its bridges, and their constructor from the port of core or cache."""


class CoreOnBus(Component):
    """One core and its instruction cache, with managers of a bus for instructions and for data.

    The bus is Wishbone, AXI4 or AHB-Lite, with 32 bits of address and data. The cache reads lines of 16 bytes in
    bursts; ``fence.i`` empties it. Data are not cached. Everything else is as in :class:`~xpulpnn.core.core.Core`.
    """

    # config: of a cluster, of which USED are used; without a cache every word is
    # fetched separately. Debug mode adds the ports of CoreDebug, which explains ``transport``. ``clint`` adds a
    # core-local interruptor at 0x02000000, whose lines are or-ed with ``irq``; ``sbus`` does not reach it.

    USED = ("core", "clint", "icache_private", "icache_ways", "prefetch")

    #: ibus: Instruction fetches.
    #: dbus: Data accesses.
    #: sbus: Memory accesses of the debugger while the core runs; only with debug mode.
    #: core_sleep: wfi waits and neither core nor cache has an outstanding access: the core's clock is not needed.
    #: system_reset: Reset of the system, which also resets core, cache and ports, but not debug module and ``sbus``;
    #:   ``ndmreset`` requests it; a register of the clock, as glitches may reset; only with debug mode.

    def __init__(self, config: ClusterConfig, bus: str, *, transport: Any = JtagDtm):
        fence_port = config.icache_private > 0
        if config.core.debug:
            core = CoreDebug(config.core, fence_port=fence_port, system_reset=True, transport=transport)
        else:
            core = core_of(config.core, fence_port=fence_port)
        # ports that the bridges answer, by name of the port of the core
        self.answered = {name: getattr(core, name) for name in core.signature.members if name in _PORTS}
        self.wrapped = (core,)
        if fence_port:
            cache = PrivateCache(config)
            self.wrapped, self.answered["instr"] = (core, cache), cache.line
        self.bus_port, bridge_of = BUSES[bus]
        self.bridges = {
            name: bridge_of(port.signature, config.core.late_results) for name, port in self.answered.items()
        }
        ports = {
            _PORTS.get(name, name): self.bridges[name].signature.members[self.bus_port] if name in _PORTS else member
            for name, member in core.signature.members.items()
            if name not in FENCE_PORTS
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        core, *caches = self.wrapped
        m.submodules.core = core
        domain = "sync"
        if self.config.core.debug:
            domain = "system"
            m.domains += ClockDomain(domain, local=True)
            m.d.comb += ClockSignal(domain).eq(ClockSignal())
            m.d.comb += ResetSignal(domain).eq(ResetSignal() | (self.system_reset & ~optional(self, "test_en")))
        for cache in caches:
            self._connect_cache(m, core, cache, domain)
        for name, port in self.answered.items():
            bridge = self.bridges[name]
            m.submodules[f"{name}_bridge"] = bridge if name == "bus" else DomainRenamer(domain)(bridge)
            if name == "data" and self.config.clint:
                clint = CoreClint()
                m.submodules.clint = DomainRenamer(domain)(clint)
                connect(m, port, clint.port)
                port = clint.outside
                m.d.comb += core.irq.eq(self.irq | clint.irq)
            connect(m, port, bridge.port)
            connect(m, getattr(bridge, self.bus_port), flipped(getattr(self, _PORTS[name])))
        pass_ports(m, self, core, excluded=(*FENCE_PORTS, *_PORTS, *(("irq",) if self.config.clint else ())))
        return m

    def _connect_cache(self, m, core, cache, domain):
        m.submodules.icache = DomainRenamer(domain)(cache)
        answer = assign_by_name(core.instr, cache.core, "rvalid", "rdata", "err")
        fence = core.fence_i
        if self.config.core.late_results:
            # a registered core sees answers a cycle later
            fence = Signal(name="fence")
            m.d[domain] += [*answer, fence.eq(core.fence_i)]
        else:
            m.d.comb += answer
        line, line_under_way = cache.line, Signal()
        m.d[domain] += line_under_way.eq(line.req & line.gnt | line_under_way & ~line.rvalid)
        m.d.comb += [
            *assign_by_name(cache.core, core.instr, "addr"),
            # a lookup does not see the flush of its own cycle
            cache.core.req.eq(core.instr.req & ~fence),
            core.instr.gnt.eq(cache.core.gnt & ~fence),
            cache.control.enable.eq(1),
            cache.control.prefetch.eq(self.config.prefetch),
            cache.control.flush.eq(fence),
            # a line may be prefetched
            core.fetch_busy.eq(line.req | line_under_way),
        ]
