"""Bench of the debug module with debugger and system bus, compared with a model."""

from itertools import product
from random import Random

from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.isa.debug import DMI_ADDRESS_BITS, Command, CommandError, Control, DmReg, Sbcs, SbError
from xpulpnn.isa.machine import BYTE_BITS, BYTE_MASK, WORD_MASK
from xpulpnn_sim.benches import debug_env as debug
from xpulpnn_sim.benches.agents import Dut, Scoreboard, drive, pulse_reset, sample, unit_test
from xpulpnn_sim.benches.debug_directed import a_command_is_not_disturbed as a_command_is_not_disturbed
from xpulpnn_sim.benches.debug_directed import a_command_is_of_one_hart as a_command_is_of_one_hart
from xpulpnn_sim.benches.debug_directed import commands_become_instructions as commands_become_instructions
from xpulpnn_sim.benches.debug_directed import each_flag_is_of_its_hart as each_flag_is_of_its_hart
from xpulpnn_sim.benches.debug_directed import each_register_may_start_a_command as each_register_may_start_a_command
from xpulpnn_sim.benches.debug_directed import every_bit_of_registers_is_kept as every_bit_of_registers_is_kept
from xpulpnn_sim.benches.debug_directed import every_word_of_the_memory_is_known as every_word_of_the_memory_is_known
from xpulpnn_sim.benches.launcher_data import bench_data

_SETTINGS = (Sbcs.READONADDR, Sbcs.AUTOINCREMENT, Sbcs.READONDATA)
_CLEAR_BUS = 7 << 12  # all bits of sberror


@debug.debug_test
async def the_bus_is_read_and_written(env: debug.DebugEnv) -> None:
    """System bus accesses of every size, aligned or not, failing or not, are started by every register that can."""
    rng = env.rng
    for step in range(bench_data()["accesses"]):
        if rng.random() < 0.2:
            bits = sum(bit for bit in _SETTINGS if rng.random() < 0.7)
            size = rng.choice((0, 0, 1, 2, rng.randrange(8)))
            await env.write(DmReg.SBCS, bits | size << 17 | Sbcs.BUSYERROR | _CLEAR_BUS)
        if rng.random() < 0.4:
            base = rng.choice((0x1C00_0000, rng.getrandbits(29) << 3, 0xFFFF_FFF8, debug.FAILING[0] - 4))
            await env.write(DmReg.SBADDRESS0, base + rng.choice((0, rng.randrange(8))) & WORD_MASK)
        else:
            await env.write(DmReg.SBDATA0, rng.getrandbits(32))
        await env.compare(DmReg.SBDATA0, DmReg.SBADDRESS0, DmReg.SBCS, where=f"step {step}")


@debug.debug_test
async def the_bus_has_lanes_and_carries(env: debug.DebugEnv) -> None:
    """System bus accesses of every size in every byte lane; incremented addresses carry into any bit."""
    rng = env.rng
    words = [rng.getrandbits(32) for _ in range(4)]
    for size in range(8):
        settings = [sum(chosen) for chosen in product(*((0, bit) for bit in _SETTINGS))]
        rng.shuffle(settings)
        for place, bits in enumerate(settings):
            where, lane = f"size {size}, settings {bits:#x}, case {place}", place % 4
            address, word = rng.getrandbits(30) << 2, words[lane] ^ (WORD_MASK if place < 4 else 0)
            await env.write_bus(2 << 17 | _CLEAR_BUS, address, word)
            await env.write_bus(size << 17 | Sbcs.READONADDR, address | lane)
            await env.compare(DmReg.SBDATA0, DmReg.SBCS, where=f"{where}, read")
            await env.write_bus(size << 17 | bits | _CLEAR_BUS, address | lane)
            await env.compare(DmReg.SBDATA0, DmReg.SBADDRESS0, where=where)
            await env.write(DmReg.SBDATA0, word ^ WORD_MASK)
            await env.compare(DmReg.SBDATA0, DmReg.SBADDRESS0, DmReg.SBCS, where=f"{where}, written")
    for size in range(3):
        await env.write(DmReg.SBCS, size << 17 | Sbcs.AUTOINCREMENT | _CLEAR_BUS)
        for bit in range(size, 32):
            await env.write(DmReg.SBADDRESS0, (rng.getrandbits(32) << bit) - (1 << size) & WORD_MASK)
            await env.write(DmReg.SBDATA0, rng.getrandbits(32))
            await env.compare(DmReg.SBADDRESS0, where=f"a carry to bit {bit}")


@debug.debug_test
async def the_bus_has_errors(env: debug.DebugEnv) -> None:
    """Errors are cleared bit by bit; the system bus makes no access while an error bit is set."""
    rng = env.rng
    makers = {SbError.BAD_ADDRESS: (2, debug.FAILING[0]), SbError.ALIGNMENT: (1, 1), SbError.SIZE: (3, 0)}
    for (error, (size, address)), cleared in product(makers.items(), range(8)):
        where = f"{error!r} without {cleared}"
        await env.write_bus(size << 17 | _CLEAR_BUS, address, rng.getrandbits(32))
        await env.write(DmReg.SBCS, 2 << 17 | Sbcs.READONADDR | Sbcs.READONDATA | cleared << 12)
        await env.compare(DmReg.SBCS, where=where)
        await env.write(DmReg.SBADDRESS0, rng.getrandbits(30) << 2)
        await env.compare(DmReg.SBDATA0, where=where)
        await env.write(DmReg.SBDATA0, rng.getrandbits(32))
        await env.compare(DmReg.SBADDRESS0, DmReg.SBCS, where=f"{where}, accessed")


class _ManualBusEnv(debug.DebugEnv):
    """An environment in which the test itself drives the system bus."""

    async def start(self, bits: int, address: int, word: int | None = None) -> list[int]:
        await self.access(DmReg.SBCS, bits | Sbcs.BUSYERROR | Sbcs.READONADDR * (word is None))
        await self.access(DmReg.SBADDRESS0, address)
        if word is not None:
            await self.access(DmReg.SBDATA0, word)
        return self.request()

    def request(self) -> list[int]:
        return [sample(getattr(self.dut, f"bus__{name}")) for name in ("req", "addr", "we", "be", "wdata")]

    async def step(self, **ports: int) -> None:
        drive(self.dut, {f"bus__{name}": value for name, value in ports.items()})
        await RisingEdge(self.dut.clk)
        drive(self.dut, dict.fromkeys((f"bus__{name}" for name in ports), 0))

    async def idle(self, where: str) -> None:
        await FallingEdge(self.dut.clk)
        self.board.equal(sample(self.dut.bus__req), 0, f"{where}: requests")
        await RisingEdge(self.dut.clk)


@unit_test(timeout_us=20_000)
async def a_busy_bus_says_so(dut: Dut, rng: Random, board: Scoreboard) -> None:
    """A request during a system bus access sets the sticky busy error and has no other effect."""
    env = _ManualBusEnv(dut, rng)
    await env.access(DmReg.DMCONTROL, Control.DMACTIVE)
    size, fixed = 2 << 17, 1 << 29 | 32 << 5 | 7
    for granted, word, place in product((0, 1), (None, rng.getrandbits(32)), range(4)):
        address, data = rng.getrandbits(30) << 2, rng.getrandbits(32)
        accesses = [
            (DmReg.SBCS, 5 << 17 | Sbcs.READONDATA | Sbcs.BUSYERROR),
            (DmReg.SBADDRESS0, address ^ WORD_MASK),
            (DmReg.SBDATA0, (word or 0) ^ WORD_MASK),
            (DmReg.SBDATA0, None),
        ]
        where = f"access {place}, granted {granted}, word {word}"
        request = await env.start(size | Sbcs.AUTOINCREMENT, address, word)
        board.equal(request[:4], [1, address, int(word is not None), 15], f"{where}: request")
        if granted:
            await env.step(gnt=1)
        await env.access(*accesses[place])
        if not granted:
            board.equal(env.request(), request, f"{where}: request that waits")
            await env.step(gnt=1)
        await env.step(rvalid=1, rdata=data)
        settings = size | Sbcs.AUTOINCREMENT | Sbcs.READONADDR * (word is None)
        expected = fixed | settings | Sbcs.BUSYERROR, address + 4 & WORD_MASK, data if word is None else word
        observed = [await env.access(register) for register in (DmReg.SBCS, DmReg.SBADDRESS0, DmReg.SBDATA0)]
        board.equal(observed, [*expected], f"{where}: registers")
        await env.access(DmReg.SBDATA0, word)
        await env.idle(where)
    await env.start(size, 0)
    for address in {*range(1 << DMI_ADDRESS_BITS)} - {DmReg.DMCONTROL, DmReg.SBDATA0}:
        observed = await env.access(address)
        if address == DmReg.SBCS:
            board.equal(observed, fixed | size | Sbcs.READONADDR | Sbcs.BUSY, "sbcs of a busy bus")
        if address not in (DmReg.SBCS, DmReg.SBADDRESS0):
            await env.access(address, rng.getrandbits(32))
    # an access continues while the module becomes inactive, and leaves no result
    await env.step(gnt=1)
    await env.step(rvalid=1)
    for error, lane in product((0, 1), range(4)):
        previous, data = await env.access(DmReg.SBDATA0), rng.getrandbits(32)
        request = await env.start(Sbcs.AUTOINCREMENT | Sbcs.READONDATA, lane)
        await env.access(DmReg.DMCONTROL, 0)
        board.equal(env.request(), request, "request of a module that is not active")
        await env.step(gnt=1)
        await env.step(rvalid=1, rdata=data, err=error)
        await env.access(DmReg.DMCONTROL, Control.DMACTIVE)
        observed = [await env.access(register) for register in (DmReg.SBCS, DmReg.SBADDRESS0, DmReg.SBDATA0)]
        expected = fixed | size, lane + 1 - error, previous if error else data >> BYTE_BITS * lane & BYTE_MASK
        board.equal(observed, [*expected], f"registers of a module that was not active, error {error}")


@unit_test(timeout_us=20_000)
async def reset_ends_an_access(dut: Dut, rng: Random) -> None:
    """A reset ends a system bus access, granted or not; the next access is then made."""
    env = debug.DebugEnv(dut, rng)
    await env.access(DmReg.DMCONTROL, Control.DMACTIVE)
    await env.access(DmReg.SBCS, Sbcs.READONADDR | 2 << 17)
    for granted in (0, 1, 0, 1):
        dut.bus__gnt.value = granted
        await env.access(DmReg.SBADDRESS0, rng.getrandbits(32) & ~3)
        env.board.equal(await env.access(DmReg.SBCS) & Sbcs.BUSY, Sbcs.BUSY, f"busy, granted {granted}")
        await env.access(DmReg.DMCONTROL, Control.DMACTIVE | Control.NDMRESET)
        await ClockCycles(dut.clk, 1)
        await FallingEdge(dut.clk)
        env.board.equal(sample(dut.bus__req), 0, "request in reset")
        await env.access(DmReg.DMCONTROL, Control.DMACTIVE)
        env.board.equal(await env.access(DmReg.SBCS) & Sbcs.BUSY, 0, f"busy behind a reset, granted {granted}")


@unit_test(timeout_us=20_000)
async def reset_clears_all_registers(dut: Dut, rng: Random) -> None:
    """After a reset with accesses outstanding, registers that were not 0 have their reset values."""
    # an inactive module clears most registers too, so each case reads one register in the first cycle
    for size, granted, first in (
        *((5, 0, register) for register in (DmReg.SBCS, DmReg.ABSTRACTCS, DmReg.DMSTATUS)),
        *((1, 0, register) for register in (DmReg.SBCS, DmReg.DMCONTROL)),
        *(
            (2, granted, register)
            for granted in (0, 1)
            for register in (DmReg.SBCS, DmReg.ABSTRACTAUTO, DmReg.HAWINDOW)
        ),
    ):
        env = _ManualBusEnv(dut, rng)
        await env.write(DmReg.DMCONTROL, Control.DMACTIVE)
        await env.write(DmReg.HAWINDOW, WORD_MASK)
        await env.halt_only([])
        await env.halt_only(range(env.count))
        await env.select(env.count - 1, Control.ACKHAVERESET | Control.RESUMEREQ * granted | Control.HASEL)
        await env.select(env.count - 1, Control.HALTREQ | Control.HASEL)
        await env.compare(*debug.HALT_REGISTERS, where="in use")
        await env.access(DmReg.SBCS, size << 17 | sum(_SETTINGS) - Sbcs.READONADDR * (size == 2))
        for register in (*debug.DATA_REGISTERS, DmReg.SBADDRESS0, DmReg.SBDATA0, DmReg.ABSTRACTAUTO):
            await env.access(register, WORD_MASK - 3 * (register == DmReg.SBADDRESS0 and size == 2))
        await env.write_command(debug.TRANSFER | Command.WRITE | Command.POSTEXEC | Command.POSTINCREMENT | 0x101F)
        for register in (DmReg.DATA0, DmReg.SBDATA0):
            await env.access(register)
        await env.expect(CommandError.BUSY, "in use", busy=True, started=env.count - 1)
        if granted:
            await env.step(gnt=1)
        if first == DmReg.DMCONTROL:
            await env.access(DmReg.DMCONTROL, WORD_MASK)
        await pulse_reset(dut, 1)
        env, where = _ManualBusEnv(dut, rng), f"after a reset before size {size}, granted {granted}"
        await FallingEdge(dut.clk)
        env.compare_outputs(where)
        env.board.equal(env.request()[0], 0, f"{where}: requests")
        await env.compare(first, *debug.DM_REGISTERS, where=where)
        await env.expect_code(where)
        await env.expect(CommandError.NONE, where)
