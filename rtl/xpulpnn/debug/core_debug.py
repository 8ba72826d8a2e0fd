# amaranth: UnusedElaboratable=no
"""The core with debug module and JTAG transport."""

from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Const, DomainRenamer, Module, ResetSignal

from xpulpnn.component import In, Out, Wrapper, connect, flipped, optional, pass_ports, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core.gated_core import core_of
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dtm import JtagDtm
from xpulpnn.debug.memory_share import MemoryShare
from xpulpnn.debug.module import DebugModule
from xpulpnn.debug.port_demux import PortDemux
from xpulpnn.isa.debug import TRAP_OFFSET, Place
from xpulpnn.isa.machine import XLEN

_DEBUG_PORTS = ("debug_req", "debug_halt_addr", "debug_exception_addr")


class CoreDebug(Wrapper):
    """The core, a debug module for it, and a test access port.

    Fetches and data accesses of the core to the 4 KiB of the debug module's memory are answered inside; all others
    leave unchanged in the same cycle. The reset of the top is the power-on reset; the debugger resets the core alone,
    and requests the reset of the system by ``ndmreset``.
    """

    #: core_sleep: wfi waits and no access is outstanding: the core's clock is not needed.
    #: debug_mode: The core is in debug mode.
    #: bus: Memory accesses of the debugger while the core runs.
    #: ndmreset: The debugger requests the reset of everything but the debug module.
    #: debug_req: The debugger requests the core to halt.
    #: test_en: Scan test: clocks run, and no reset but that of the top resets the core; 0 otherwise. Optional.
    #: system_reset: Reset of the system, which also resets the core; a register, as glitches may reset; optional.

    def __init__(
        self, config: CoreConfig, *, fence_port: bool = False, system_reset: bool = False, transport: Any = JtagDtm
    ):
        self.debug_config = DebugConfig(idcode=config.idcode)
        # transport: JtagDtm, with the ports ``tms`` to ``tdo_enable``, or FpgaDtm, with the ports from ``jtdi`` on
        wrapped = (core_of(config, fence_port=fence_port), transport(self.debug_config))
        ports = {"bus": Out(ObiSignature()), "ndmreset": Out(1), "debug_req": Out(1)}
        ports |= {"system_reset": In(1)} if system_reset else {}
        ports |= {"test_en": In(1)} if config.test_en else {}
        super().__init__(config, wrapped, (*_DEBUG_PORTS, "dmi"), ports)

    def elaborate(self, platform):
        m = Module()
        (core, dtm), config = self.wrapped, self.debug_config
        m.submodules.core = DomainRenamer("core")(core)
        m.submodules.dtm = dtm
        m.submodules.dm = dm = DebugModule(config)
        m.submodules.instr_demux = instr = DomainRenamer("ports")(
            PortDemux(config, InstructionPortSignature(), hart_reset=True)
        )
        m.submodules.data_demux = accesses = DomainRenamer("ports")(PortDemux(config, ObiSignature(), hart_reset=True))
        m.submodules.share = share = MemoryShare()
        # registers, as resets may be asynchronous and must be free of glitches
        held, system = signals(1, "held system_held")
        m.d.sync += [held.eq(dm.hart_reset.any()), system.eq(dm.ndmreset)]
        # the memories outside forget their accesses with the system
        system = getattr(self, "system_reset", system)
        for domain, reset in (("core", held | system), ("ports", system)):
            m.domains += ClockDomain(domain, local=True)
            m.d.comb += ClockSignal(domain).eq(ClockSignal())
            m.d.comb += ResetSignal(domain).eq(ResetSignal() | (reset & ~optional(self, "test_en")))
        m.d.comb += [
            instr.hart_reset.eq(held),
            accesses.hart_reset.eq(held),
            self.ndmreset.eq(dm.ndmreset),
            self.debug_req.eq(dm.debug_req),
            core.debug_req.eq(dm.debug_req),
            core.debug_halt_addr.eq(Const(config.base + Place.ROM, XLEN)),
            core.debug_exception_addr.eq(Const(config.base + Place.ROM + TRAP_OFFSET, XLEN)),
        ]
        connect(m, dtm.dmi, dm.dmi)
        connect(m, dm.bus, flipped(self.bus))
        connect(m, core.instr, instr.hart)
        connect(m, core.data, accesses.hart)
        connect(m, instr.debug, share.instr)
        connect(m, accesses.debug, share.data)
        connect(m, share.memory, dm.memory)
        connect(m, instr.others, flipped(self.instr))
        connect(m, accesses.others, flipped(self.data))
        pass_ports(m, self, dtm, excluded=("dmi",))
        pass_ports(m, self, core, excluded=(*_DEBUG_PORTS, "instr", "data"))
        return m
