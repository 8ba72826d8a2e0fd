from amaranth.hdl import Module, Signal

from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped
from xpulpnn.core.obi import ObiSignature
from xpulpnn.debug.command import AbstractCommands
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dmi import DmiSignature
from xpulpnn.debug.hart_control import HartControl
from xpulpnn.debug.memory import DebugMemory
from xpulpnn.debug.system_bus import SystemBus
from xpulpnn.isa.debug import DmReg


class DebugModule(Component):
    """Halts, inspects and resumes harts for a debugger (RISC-V Debug Specification 0.13.2).

    Halted harts execute the program in the module's memory: they enter at offset 0x800 and write that they have halted;
    exceptions go to offset 0x804. The number of a hart is the low bits of its mhartid, as many as needed. Abstract
    commands access registers and CSRs, with a program buffer of 8 words followed by an ebreak; the system bus access
    has 8, 16 and 32 bits. There is no authentication and no memory access by abstract command.

    Reset is the power-on reset: neither ``ndmreset`` nor the reset of a hart may reset the module.
    """

    def __init__(self, config: DebugConfig):
        harts = config.harts
        ports = {
            "dmi": In(DmiSignature()),  #: Accesses of the transport to the registers.
            "memory": In(ObiSignature()),  #: Fetches, loads and stores of halted harts.
            "bus": Out(ObiSignature()),  #: Accesses of the debugger to the system's bus.
            "unavailable": In(harts),  #: Harts that cannot be debugged now, such as harts without clock or power.
            "debug_req": Out(harts),  #: Halt requests; a halted hart ignores its request.
            "hart_reset": Out(harts),  #: Harts that the debugger holds in reset.
            "ndmreset": Out(1),  #: The debugger holds everything but the module in reset.
            "active": Out(1),  #: A debugger uses the module.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = HartControl(self.config)
        m.submodules.commands = commands = AbstractCommands(self.config)
        m.submodules.memory = memory = DebugMemory(self.config)
        m.submodules.system_bus = system_bus = SystemBus()
        connect(m, memory.port, flipped(self.memory))
        connect(m, system_bus.bus, flipped(self.bus))
        dmi, blocks = self.dmi, (control, commands, system_bus)
        used = Signal()
        # a module that is not active only has the bit that activates it
        m.d.comb += used.eq(dmi.valid & (self.active | (dmi.addr == DmReg.DMCONTROL)))
        for block in blocks:
            m.d.comb += [
                block.access.reads.eq(used & ~dmi.write),
                block.access.writes.eq(used & dmi.write),
                *assign_by_name(block.access, dmi, "addr", "wdata"),
                block.active.eq(self.active),
            ]
        with m.If(dmi.valid):
            m.d.sync += dmi.rdata.eq(control.access.rdata | commands.access.rdata | system_bus.access.rdata)
        with m.If(control.controls):
            m.d.sync += self.active.eq(control.activate)
        m.d.comb += [
            *assign_by_name(control, self, "unavailable"),
            *assign_by_name(self, control, "debug_req", "ndmreset"),
            self.hart_reset.eq(control.reset),
            *assign_by_name(control, memory, "halts", "resumes"),
            *assign_by_name(commands, control, "number", "halted", "reset"),
            *assign_by_name(commands, memory, "halts", "going", "exception", "data_writes", "wdata"),
            *assign_by_name(memory, commands, "go", "runs_program"),
            memory.resuming.eq(control.resuming),
            system_bus.reset.eq(control.ndmreset),
        ]
        for name in ("transfer", "program", "data"):
            pairs = zip(getattr(memory, name), getattr(commands, name), strict=True)
            m.d.comb += [inner.eq(word) for inner, word in pairs]
        return m
