"""Environment of the debug module: debugger, harts, system bus, model and scoreboard."""

from collections.abc import Callable, Coroutine
from functools import wraps
from random import Random
from typing import Any

from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.isa.debug import Command, Control, DmReg
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES
from xpulpnn_sim.benches.agents.base import AgentGroup, Dut, background, drive, sample, start
from xpulpnn_sim.benches.agents.obi import ENABLED, ObiManager, ObiMemory, ObiRequest, ObiTiming, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.debugged_harts import CSRS, DebuggedHarts, HartState, run_program
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.reference.golden.debug_module import BusError, DebuggedHart, DebugModuleModel

IDLE_CYCLES = 4  # cycles of an access that needs no hart
_BUS_PATIENCE = 100
FAILING = (0x4000_0000, 0x100)  # address and size of the region that answers with an error
BUSY = 1 << 12
CLEAR = 7 << 8  # all bits of cmderr
HALT_REGISTERS = (DmReg.DMSTATUS, DmReg.HALTSUM0, DmReg.DMCONTROL, DmReg.HAWINDOW)
DATA_REGISTERS = [DmReg.DATA0, DmReg.DATA1, *range(DmReg.PROGBUF0, DmReg.PROGBUF0 + 8)]
DM_REGISTERS = sorted({*DmReg, *DATA_REGISTERS})
TRANSFER = 2 << 20 | Command.TRANSFER


class ExpectedBus:
    """Model of the memory at the system bus, with a log of the expected accesses."""

    def __init__(self) -> None:
        self.memory = WordMemory((FAILING,))
        self.log: list[ObiRequest] = []

    def _access(self, address: int, size: int, write: int, value: int) -> None:
        lane = address % WORD_BYTES
        enables = (1 << size) - 1 << lane
        self.log.append(ObiRequest(address - lane, write, enables, value << BYTE_BITS * lane & ENABLED[enables]))
        if self.memory.fails(address - lane):
            raise BusError

    def read(self, address: int, size: int) -> int:
        self._access(address, size, 0, 0)
        return self.memory.load(address) & (1 << BYTE_BITS * size) - 1

    def write(self, address: int, size: int, value: int) -> None:
        self._access(address, size, 1, value)
        self.memory.store(address, size, value)


class DebugEnv:
    """A debug module with debugger, harts and system bus, and a model of the module."""

    def __init__(self, dut: Dut, rng: Random) -> None:
        self.dut, self.rng, self.board = dut, rng, Scoreboard()
        self.count: int = bench_data()["harts"]
        self.port = ObiManager(dut, "memory")
        self.bus = ObiMemory(dut, "bus", WordMemory((FAILING,)), ObiTiming(0.7, 1, 3), rng)
        self.harts = DebuggedHarts(dut, self.port, self.count, rng)
        self.expected = ExpectedBus()
        self.model = DebugModuleModel(self.count, self._run, self.expected.read, self.expected.write)
        for hart in self.model.harts:
            hart.csrs = dict.fromkeys(CSRS, 0)

    @staticmethod
    def _run(hart: DebuggedHart, words: Any) -> bool:
        state = HartState(hart.csrs, hart.registers)
        return run_program(state, words)

    async def access(self, register: int, value: int | None = None) -> int:
        """Access a register of the debug module as debugger; return the read data."""
        dut = self.dut
        drive(dut, {"dmi__valid": 1, "dmi__write": int(value is not None), "dmi__addr": register})
        dut.dmi__wdata.value = self.rng.getrandbits(32) if value is None else value
        await RisingEdge(dut.clk)
        dut.dmi__valid.value = 0
        await FallingEdge(dut.clk)
        rdata = sample(dut.dmi__rdata)
        await RisingEdge(dut.clk)
        return rdata

    async def wait_idle(self, cycles: int = 0) -> None:
        """Wait for ``cycles`` cycles or, if 0, until all harts are idle."""
        if cycles:
            await ClockCycles(self.dut.clk, cycles)
        else:
            await self.harts.wait_idle()

    async def wait_bus_idle(self) -> None:
        """Wait until no access to the system bus is outstanding."""
        for _ in range(_BUS_PATIENCE):
            await FallingEdge(self.dut.clk)
            requested = sample(self.dut.bus__req)
            await RisingEdge(self.dut.clk)
            if not requested and not self.bus.unanswered:
                await RisingEdge(self.dut.clk)
                return
        raise AssertionError(f"the bus is not calm within {_BUS_PATIENCE} cycles")

    async def write(self, register: int, value: int, *, waits: bool = True) -> None:
        """Write a register of module and model, and wait until the effect of the write is complete."""
        await self.access(register, value)
        self.model.write(register, value)
        if register in (DmReg.SBADDRESS0, DmReg.SBDATA0):
            await self.wait_bus_idle()
        elif waits and self._may_begin(register):
            await self.wait_idle()
        else:
            await self.wait_idle(IDLE_CYCLES)

    def _may_begin(self, register: int) -> bool:
        """Return whether an access to a register may lead to an order to a hart."""
        return register not in DATA_REGISTERS or self.model.read(DmReg.ABSTRACTAUTO) > 0

    async def compare(self, *registers: int, where: str = "") -> None:
        """Compare registers of the module with those of the model."""
        for register in registers:
            observed = await self.access(register)
            self.board.equal(hex(observed), hex(self.model.read(register)), f"{where}: register {register:#x}")
            if register == DmReg.SBDATA0:
                await self.wait_bus_idle()
            elif register in DATA_REGISTERS:
                await self.wait_idle(0 if self._may_begin(register) else IDLE_CYCLES)

    async def select(self, number: int, bits: int = 0) -> None:
        await self.write(DmReg.DMCONTROL, number << 16 | bits | Control.DMACTIVE)

    def compare_outputs(self, where: str) -> None:
        """Compare the requests and resets to harts, and the state of the module."""
        dut, harts = self.dut, self.model.harts
        observed = [sample(port) for port in (dut.debug_req, dut.hart_reset, dut.ndmreset, dut.active)]
        requests, resets = (
            sum(flag << place for place, flag in enumerate(flags))
            for flags in ([hart.halt_request for hart in harts], [hart.in_reset for hart in harts])
        )
        ndmreset = self.model.read(DmReg.DMCONTROL) & Control.NDMRESET > 0
        self.board.equal(observed, [requests, resets, ndmreset, self.model.active], f"{where}: outputs")

    def compare_bus(self) -> None:
        observed = [grant._replace(value=grant.value & ENABLED[grant.enables] * grant.write) for grant in self.bus.log]
        self.board.equal(observed, self.expected.log, "accesses to the bus")


async def begin(dut: Dut) -> DebugEnv:
    return DebugEnv(dut, await start(dut))


def with_harts(test: Callable[[DebugEnv], Coroutine[Any, Any, None]]) -> Callable[[Dut], Coroutine[Any, Any, None]]:
    """Decorate a test so that harts and system bus run in the background."""

    @wraps(test)
    async def run(dut: Dut) -> None:
        env = await begin(dut)
        with AgentGroup(dut, [env.port, env.bus]), background(env.harts.run()):
            await test(env)
        env.compare_bus()

    return run
