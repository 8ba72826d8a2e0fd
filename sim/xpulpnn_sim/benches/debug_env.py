"""Environment of the debug module: debugger, system bus, model and scoreboard; the test itself plays the harts."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Self

from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.isa.debug import MAX_HARTS, Command, Control, DmReg, Flag, Place
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES
from xpulpnn_sim.benches.agents.base import Dut, drive, sample, wait_until
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import ENABLED, ObiMemory, ObiTiming, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.reference.golden.debug_memory import command_code
from xpulpnn_sim.reference.golden.debug_module import BusError, DebugModuleModel
from xpulpnn_sim.reference.golden.tcdm import Request

_BUS_PATIENCE = 100
FAILING = (0x4000_0000, 0x100)  # address and size of the region that answers with an error
BUSY = 1 << 12
CLEAR = 7 << 8  # all bits of cmderr
HALT_REGISTERS = (DmReg.DMSTATUS, DmReg.HALTSUM0, DmReg.DMCONTROL, DmReg.HAWINDOW)
DATA_REGISTERS = [DmReg.DATA0, DmReg.DATA1, *range(DmReg.PROGBUF0, DmReg.PROGBUF0 + 8)]
DM_REGISTERS = sorted({*DmReg, *DATA_REGISTERS})
TRANSFER = 2 << 20 | Command.TRANSFER
TRANSFER_WRITE = TRANSFER | Command.WRITE
NOTIFICATIONS = [
    *range(Place.HALTED, Place.HALTED + WORD_BYTES * MAX_HARTS, WORD_BYTES),
    *range(Place.RESUMING, Place.RESUMING + WORD_BYTES * MAX_HARTS, WORD_BYTES),
    Place.GOING,
    Place.EXCEPTION,
]  # addresses at which harts report events


class ExpectedBus:
    def __init__(self) -> None:
        self.memory = WordMemory((FAILING,))
        self.log: list[Request] = []

    def _access(self, address: int, size: int, write: int, value: int) -> None:
        lane = address % WORD_BYTES
        enables = (1 << size) - 1 << lane
        self.log.append(Request(address - lane, write, enables, value << BYTE_BITS * lane & ENABLED[enables]))
        if self.memory.fails(address - lane):
            raise BusError

    def read(self, address: int, size: int) -> int:
        self._access(address, size, 0, 0)
        return self.memory.load(address) & (1 << BYTE_BITS * size) - 1

    def write(self, address: int, size: int, value: int) -> None:
        self._access(address, size, 1, value)
        self.memory.store(address, size, value)


class DebugEnv:
    def __init__(self, dut: Dut, rng: Random) -> None:
        self.dut, self.rng, self.board = dut, rng, Scoreboard()
        self.count: int = bench_data()["harts"]
        self.aliases = 1 << (self.count - 1).bit_length()  # hart numbers that the module distinguishes
        self.bus = ObiMemory(dut, "bus", WordMemory((FAILING,)), ObiTiming(0.7, 1, 3), rng)
        self.expected = ExpectedBus()
        self.model = DebugModuleModel(self.count, self.expected.read, self.expected.write)
        self.command = 0

    def __enter__(self) -> Self:
        self.bus.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.bus.__exit__(*error)
        if error[0] is None:
            self._compare_bus()

    async def access(self, register: int, value: int | None = None) -> int:
        dut = self.dut
        drive(dut, {"dmi__valid": 1, "dmi__write": int(value is not None), "dmi__addr": register})
        dut.dmi__wdata.value = self.rng.getrandbits(32) if value is None else value
        await RisingEdge(dut.clk)
        dut.dmi__valid.value = 0
        await FallingEdge(dut.clk)
        rdata = sample(dut.dmi__rdata)
        await RisingEdge(dut.clk)
        return rdata

    def _bus_is_idle(self) -> bool:
        return not (sample(self.dut.bus__req) or self.bus.unanswered)

    async def _settle(self, register: int) -> None:
        """Wait until the system bus is idle if the register accesses it, else for a cycle or not at all."""
        if register not in (DmReg.SBADDRESS0, DmReg.SBDATA0):
            # so that tests do not always sample in every second cycle
            if self.rng.getrandbits(1):
                await RisingEdge(self.dut.clk)
            return
        await wait_until(self.dut, self._bus_is_idle, _BUS_PATIENCE, "an idle bus")
        await RisingEdge(self.dut.clk)

    async def write(self, register: int, value: int) -> None:
        """Write a register of module and model, and wait until the effect of the write is complete."""
        await self.access(register, value)
        self.model.write(register, value)
        await self._settle(register)

    async def write_bus(self, settings: int, address: int, word: int | None = None) -> None:
        await self.write(DmReg.SBCS, settings)
        await self.write(DmReg.SBADDRESS0, address)
        if word is not None:
            await self.write(DmReg.SBDATA0, word)

    async def compare(self, *registers: int, where: str = "") -> None:
        for register in registers:
            observed = await self.access(register)
            self.board.equal(hex(observed), hex(self.model.read(register)), f"{where}: register {register:#x}")
            if register in (DmReg.SBDATA0, *DATA_REGISTERS):
                await self._settle(register)

    async def select(self, number: int, bits: int = 0) -> None:
        await self.write(DmReg.DMCONTROL, number << 16 | bits | Control.DMACTIVE)

    def compare_outputs(self, where: str) -> None:
        dut, harts = self.dut, self.model.harts
        observed = [sample(port) for port in (dut.debug_req, dut.hart_reset, dut.ndmreset, dut.active)]
        requests = sum(hart.halt_request << place for place, hart in enumerate(harts))
        resets = sum(hart.in_reset << place for place, hart in enumerate(harts))
        ndmreset = self.model.read(DmReg.DMCONTROL) & Control.NDMRESET > 0
        self.board.equal(observed, [requests, resets, ndmreset, self.model.active], f"{where}: outputs")

    def _compare_bus(self) -> None:
        observed = [grant._replace(value=grant.value & ENABLED[grant.enables] * grant.write) for grant in self.bus.log]
        self.board.equal(observed, self.expected.log, "accesses to the bus")

    async def access_memory(self, addresses: Iterable[int], values: Mapping[int, int] | None = None) -> list[int]:
        """Make harts' accesses in consecutive cycles: writes if ``values`` are given; return the words read."""
        dut, rng, words, before = self.dut, self.rng, list[int](), 0
        for address in (*addresses, None):
            word = rng.getrandbits(32) if values is None or address is None else values[address]
            drive(dut, {"memory__req": int(address is not None), "memory__wdata": word})
            # `we` without a request and the upper address bits are don't-cares
            dut.memory__we.value = int(address is None or values is not None)
            place = rng.choice(NOTIFICATIONS) if address is None else address
            dut.memory__addr.value = rng.getrandbits(20) << 12 | place
            await FallingEdge(dut.clk)
            answer = sample(dut.memory__gnt), sample(dut.memory__rvalid), sample(dut.memory__err)
            self.board.equal(answer, (1, before, 0), f"grant, answer and error at {address}")
            if before:
                words.append(sample(dut.memory__rdata))
            before = int(address is not None)
            await RisingEdge(dut.clk)
        return words

    async def notify(self, place: Place, hart: int = 0) -> None:
        many = place in (Place.HALTED, Place.RESUMING)
        number = self.rng.randrange(hart, MAX_HARTS, self.aliases) if many else 0
        at = place + WORD_BYTES * number
        await self.access_memory([at], {at: self.rng.getrandbits(32)})
        if many and hart < self.count:
            state = self.model.harts[hart]
            state.halted = place == Place.HALTED
            if place == Place.RESUMING:
                state.resume_ack, state.resuming = state.resume_ack or self.model.active, False
        self.model.settle()
        await self._settle(DmReg.DMCONTROL)

    async def halt_only(self, harts: Iterable[int]) -> None:
        for hart in range(self.count):
            await self.notify(Place.HALTED if hart in harts else Place.RESUMING, hart)

    async def write_command(self, command: int, *, at_once: bool = False) -> None:
        """Write a command to the module, not to the model; with ``at_once`` the next access may follow directly."""
        self.command = command
        if at_once:
            words = {"valid": 1, "write": 1, "addr": DmReg.COMMAND, "wdata": command}
            drive(self.dut, {f"dmi__{name}": word for name, word in words.items()})
            await RisingEdge(self.dut.clk)
        else:
            await self.access(DmReg.COMMAND, command)

    async def expect_refusal(self, error: int, where: str) -> None:
        await self.write_command(TRANSFER_WRITE | 0x100A)
        await self.expect(error, where)
        await self.clear()

    async def clear(self) -> None:
        await self.access(DmReg.ABSTRACTCS, CLEAR)

    async def finish(self, hart: int) -> None:
        await self.notify(Place.GOING)
        await self.notify(Place.HALTED, hart)

    async def expect(self, error: int, where: str, *, busy: bool = False, started: int | None = None) -> None:
        observed = await self.access(DmReg.ABSTRACTCS)
        self.board.equal(hex(observed), hex(8 << 24 | BUSY * busy | error << 8 | 2), f"{where}: abstractcs")
        orders = await self.access_memory(Place.FLAGS + WORD_BYTES * hart for hart in range(self.count))
        expected = [Flag.RESUME if hart.resuming else 0 for hart in self.model.harts]
        if started is not None:
            expected[started] = Flag.GO
        self.board.equal(orders, expected, f"{where}: orders to harts")

    async def expect_stable(self, expected: int) -> None:
        for _ in range(3):
            noise = {name: self.rng.getrandbits(bits) for name, bits in (("write", 1), ("addr", 7), ("wdata", 32))}
            drive(self.dut, {f"dmi__{name}": bits for name, bits in noise.items()})
            await FallingEdge(self.dut.clk)
            self.board.equal(hex(sample(self.dut.dmi__rdata)), hex(expected), "what is left of what was read")
            await RisingEdge(self.dut.clk)

    async def expect_code(self, where: str) -> None:
        """Check the command's instructions twice, an odd number of cycles apart, so that a toggling bit is noticed."""
        words = await self.access_memory([*range(Place.ABSTRACT, Place.PROGRAM, WORD_BYTES)] * 2)
        self.board.equal(words, command_code(self.command) * 2, f"{where}: code of {self.command:#x}")


async def _active(dut: Dut, rng: Random) -> DebugEnv:
    env = DebugEnv(dut, rng)
    await env.write(DmReg.DMCONTROL, Control.DMACTIVE)
    return env


debug_test = unit_test(env=_active, timeout_us=20_000)
"""Decorator of tests with an active debug module, whose accesses to the system bus are answered and checked."""
