"""Bench of the debug module: a debugger, harts that execute its memory, and the system's bus, against a model."""

from collections.abc import Callable, Coroutine
from itertools import product
from random import Random
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.isa.debug import DEBUG_BYTES, DMI_ADDRESS_BITS, Command, CommandError, Control, DmReg, Place, Sbcs
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.benches.cadence import Dut, Scoreboard, Together, beside, drive, pulse_reset, sample, start
from xpulpnn_sim.benches.debugged_harts import (
    CSRS,
    EBREAK,
    ILLEGAL,
    DebuggedHarts,
    HartState,
    bus_reader,
    bus_writer,
    random_command,
    random_program,
    run_program,
)
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.obi import ObiInitiator, ObiResponder, ObiTiming, Transfer, WordMemory
from xpulpnn_sim.reference.golden.debug_module import DebuggedHart, DebugModuleModel

_CALM = 4  # cycles for what needs no hart
_FAILING = (0x4000_0000, 0x100)
_BUSY = 1 << 12
_HALTS = (DmReg.DMSTATUS, DmReg.HALTSUM0, DmReg.DMCONTROL, DmReg.HAWINDOW)


class Scene:
    """A module with its surroundings, and the model of it."""

    def __init__(self, dut: Dut, rng: Random) -> None:
        self.dut, self.rng, self.board = dut, rng, Scoreboard()
        self.count: int = bench_data()["harts"]
        self.port = ObiInitiator(dut, "memory")
        self.words = WordMemory((_FAILING,))
        self.bus = ObiResponder(dut, "bus", self.words, ObiTiming(0.7, 1, 3), rng)
        self.harts = DebuggedHarts(dut, self.port, self.count, rng)
        expected = WordMemory((_FAILING,))
        self.model = DebugModuleModel(self.count, self._run, bus_reader(expected), bus_writer(expected))
        for hart in self.model.harts:
            hart.csrs = dict.fromkeys(CSRS, 0)

    @staticmethod
    def _run(hart: DebuggedHart, words: Any) -> bool:
        state = HartState(hart.csrs, hart.registers)
        return run_program(state, words)

    async def access(self, register: int, value: int | None = None) -> int:
        """An access of the debugger; returns what is read."""
        dut = self.dut
        drive(dut, {"dmi__valid": 1, "dmi__write": int(value is not None), "dmi__addr": register})
        dut.dmi__wdata.value = self.rng.getrandbits(32) if value is None else value
        await RisingEdge(dut.clk)
        dut.dmi__valid.value = 0
        await FallingEdge(dut.clk)
        found = sample(dut.dmi__rdata)
        await RisingEdge(dut.clk)
        return found

    async def calm(self, cycles: int = 0) -> None:
        """Wait some cycles, or until every hart has done what it is asked for."""
        if cycles:
            await ClockCycles(self.dut.clk, cycles)
        else:
            await self.harts.calm()

    async def write(self, register: int, value: int, *, waits: bool = True) -> None:
        """Write a register of gates and model, and wait until nothing is under way."""
        await self.access(register, value)
        self.model.write(register, value)
        await self.calm(0 if waits and self._may_begin(register) else _CALM)

    def _may_begin(self, register: int) -> bool:
        """Return whether an access to a register gives a hart something to do."""
        automatic = register in (DmReg.DATA0, DmReg.DATA1) or register >= DmReg.PROGBUF0
        return not automatic or self.model.read(DmReg.ABSTRACTAUTO) > 0

    async def compare(self, *registers: int, where: str = "") -> None:
        """Read registers of gates and model."""
        for register in registers:
            found = await self.access(register)
            self.board.equal(hex(found), hex(self.model.read(register)), f"{where}: register {register:#x}")
            if register == DmReg.SBDATA0:
                await self.calm(_CALM * 4)
            elif register in (DmReg.DATA0, DmReg.DATA1) or register >= DmReg.PROGBUF0:
                await self.calm(0 if self._may_begin(register) else _CALM)

    async def select(self, number: int, bits: int = 0) -> None:
        """Write dmcontrol of an active module."""
        await self.write(DmReg.DMCONTROL, number << 16 | bits | Control.DMACTIVE)


async def _begin(dut: Dut) -> Scene:
    return Scene(dut, await start(dut))


def _scene(test: Callable[[Scene], Coroutine[Any, Any, None]]) -> Callable[[Dut], Coroutine[Any, Any, None]]:
    """Let a test run in a scene with everything going."""

    async def run(dut: Dut) -> None:
        scene = await _begin(dut)
        with Together(dut, [scene.port, scene.bus]), beside(scene.harts.run()):
            await test(scene)

    run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
    return run


@cocotb.test(timeout_time=20, timeout_unit="ms")
@_scene
async def harts_halt_and_resume(scene: Scene) -> None:
    """Selection, halting, resuming and resets by anything written to dmcontrol and the mask."""
    rng = scene.rng
    likely = (Control.HALTREQ, Control.RESUMEREQ, Control.ACKHAVERESET, Control.HASEL)
    for step in range(bench_data()["steps"]):
        bits = sum(bit for bit in likely if rng.random() < 0.4)
        if not bits & Control.RESUMEREQ:
            bits |= sum(bit for bit in (Control.HARTRESET, Control.NDMRESET) if rng.random() < 0.1)
        if rng.random() < 0.9:
            bits |= Control.DMACTIVE
        if bits & Control.RESUMEREQ:
            bits &= ~Control.ACKHAVERESET
        if rng.random() < 0.2:
            await scene.write(DmReg.HAWINDOW, rng.getrandbits(32), waits=False)
        await scene.write(DmReg.DMCONTROL, bits | rng.randrange(scene.count + 1) << 16)
        await scene.compare(*_HALTS, where=f"step {step}")
        inside = sum(here << hart for hart, here in enumerate(scene.harts.in_debug))
        halted = sum(hart.halted << place for place, hart in enumerate(scene.model.harts))
        scene.board.equal(inside, halted, f"step {step}: harts in debug mode")


@cocotb.test(timeout_time=60, timeout_unit="ms")
@_scene
async def commands_move_registers(scene: Scene) -> None:
    """Abstract commands with all their bits, automatic execution, and what is left of every register."""
    rng = scene.rng
    for hart, halts in product(range(scene.count), (0, Control.HALTREQ)):
        # no command before it has halted
        await scene.select(hart, halts)
        await scene.write(DmReg.COMMAND, 2 << 20 | Command.TRANSFER | Command.WRITE | 0x100A + hart)
        await scene.compare(DmReg.ABSTRACTCS, where=f"hart {hart}, {halts}")
        await scene.write(DmReg.ABSTRACTCS, 7 << 8, waits=False)
    for step in range(bench_data()["steps"]):
        if rng.random() < 0.15:
            await scene.select(rng.randrange(scene.count + 1))
        if rng.random() < 0.1:
            await scene.write(DmReg.ABSTRACTAUTO, rng.choice((0, rng.getrandbits(32))), waits=False)
        if rng.random() < 0.3:
            for place, word in enumerate(random_program(rng)):
                await scene.write(DmReg.PROGBUF0 + place, word)
        await scene.write(rng.choice((DmReg.DATA0, DmReg.DATA0, DmReg.DATA1)), rng.getrandbits(32))
        await scene.write(DmReg.COMMAND, random_command(rng))
        await scene.compare(DmReg.ABSTRACTCS, DmReg.DATA0, DmReg.DATA1, DmReg.PROGBUF0 + step % 8, where=f"step {step}")
        await scene.compare(DmReg.ABSTRACTCS, DmReg.ABSTRACTAUTO, where=f"step {step}, after")
        if scene.model.error != CommandError.NONE and rng.random() < 0.7:
            await scene.write(DmReg.ABSTRACTCS, rng.choice((7, scene.model.error)) << 8, waits=False)
        for state, hart in zip(scene.harts.states, scene.model.harts, strict=True):
            # s0 and s1 are in the module's hands while a hart is halted
            kept = [place for place in range(32) if place not in (8, 9)]
            found, wanted = ([owner.registers[place] for place in kept] for owner in (state, hart))
            scene.board.equal(found, wanted, f"step {step}: registers")
            scene.board.equal({number: state.csrs[number] for number in CSRS}, hart.csrs, f"step {step}: CSRs")
    await scene.write(DmReg.ABSTRACTAUTO, 0, waits=False)
    await scene.write(DmReg.ABSTRACTCS, 7 << 8, waits=False)
    await scene.select(0)
    for write, number in product((Command.WRITE, 0), CSRS):
        where = f"CSR {number:#x} {'written' if write else 'read'}"
        await scene.write(DmReg.DATA0, rng.getrandbits(32))
        await scene.write(DmReg.COMMAND, 2 << 20 | Command.TRANSFER | write | number)
        await scene.compare(DmReg.ABSTRACTCS, DmReg.DATA0, where=where)
        csrs = scene.harts.states[0].csrs
        scene.board.equal({one: csrs[one] for one in CSRS}, scene.model.harts[0].csrs, where)
    await scene.write(DmReg.HAWINDOW, (1 << scene.count) - 1)
    await scene.select(0, Control.HASEL)
    await scene.select(0, Control.HASEL | Control.RESUMEREQ)
    await scene.compare(*_HALTS, where="resumed")
    for place, (state, hart) in enumerate(zip(scene.harts.states, scene.model.harts, strict=True)):
        scene.board.equal(state.registers, hart.registers, f"registers of hart {place} when it has resumed")


@cocotb.test(timeout_time=20, timeout_unit="ms")
@_scene
async def harts_see_what_is_written(scene: Scene) -> None:
    """All words of the memory: data registers and program buffer, with every bit; what is elsewhere reads as 0."""
    rng, board = scene.rng, scene.board
    registers = [*range(DmReg.PROGBUF0, DmReg.PROGBUF0 + 8), DmReg.DATA0, DmReg.DATA1]
    places = [Place.PROGRAM + WORD_BYTES * index for index in range(8)] + [Place.DATA, Place.DATA + WORD_BYTES]
    await scene.write(DmReg.DMCONTROL, Control.DMACTIVE)
    words = [rng.getrandbits(32) for _ in registers]
    everywhere = range(0, DEBUG_BYTES, WORD_BYTES)
    for flip in (0, 0xFFFF_FFFF):
        wanted = [word ^ flip for word in words]
        for register, word in zip(registers, wanted, strict=True):
            await scene.access(register, word)
        # harts write data registers only, which is looked at below
        await scene.port.make([Transfer(at, 1, value=rng.getrandbits(32)) for at in everywhere if at not in places[8:]])
        read = [Transfer(at) for at in everywhere]
        await scene.port.make(read)
        found = {transfer.address: transfer.data for transfer in read}
        board.equal([found.pop(place) for place in places], wanted, "program buffer and data registers")
        board.equal(found.pop(Place.DATA - WORD_BYTES), EBREAK, "the word behind the program buffer")
        end = next(at for at in range(Place.ROM, DEBUG_BYTES, WORD_BYTES) if not found[at])
        used = {*range(Place.ABSTRACT, Place.PROGRAM, WORD_BYTES), *range(Place.ROM, end, WORD_BYTES)}
        board.equal({at: hex(word) for at, word in found.items() if word and at not in used}, {}, "words elsewhere")
        for register, place, word in zip(registers[8:], places[8:], words, strict=False):
            await scene.port.write(place, word ^ flip)
            board.equal(hex(await scene.access(register)), hex(word ^ flip), f"register {register:#x}")


@cocotb.test(timeout_time=20, timeout_unit="ms")
@_scene
async def nothing_else_is_a_register(scene: Scene) -> None:
    """What is written elsewhere, be it a command, has no effect, and reads as 0."""
    known = sorted({*DmReg, *range(DmReg.PROGBUF0, DmReg.PROGBUF0 + 8)})
    await scene.select(0, Control.HALTREQ)
    await scene.write(DmReg.DATA0, 5)
    for address in {*range(1 << DMI_ADDRESS_BITS)} - {*known}:
        for value in (2 << 20 | Command.TRANSFER | Command.WRITE | 0x100A, 0xFFFF_FFFF):
            await scene.access(address, value)
        scene.board.equal(await scene.access(address), 0, f"read at {address:#x}")
    await scene.calm()
    await scene.compare(*known, where="as before")
    scene.board.equal(scene.harts.states[0].registers[10], 0, "a register that no command has written")


@cocotb.test(timeout_time=20, timeout_unit="ms")
@_scene
async def nothing_is_lost_while_busy(scene: Scene) -> None:
    """Accesses while a command runs set the error busy, have no effect, and the command ends as it would have."""
    rng, board, count = scene.rng, scene.board, scene.count
    await scene.write(DmReg.DMCONTROL, Control.DMACTIVE)
    for hart in range(count):
        await scene.select(hart, Control.HALTREQ)
    forbidden: list[tuple[int, int | None]] = [
        *((register, None) for register in (DmReg.DATA0, DmReg.DATA1, DmReg.PROGBUF0 + 7)),
        *((register, 0) for register in (DmReg.DATA0, DmReg.DATA1, DmReg.PROGBUF0, DmReg.ABSTRACTCS)),
        (DmReg.COMMAND, 2 << 20 | Command.TRANSFER | Command.WRITE | 0x1005),
        (DmReg.ABSTRACTAUTO, 3),
    ]
    for register, value in forbidden:
        kept = [rng.getrandbits(32) for _ in range(3)]
        for place, word in zip((DmReg.DATA0, DmReg.DATA1, DmReg.PROGBUF0), kept, strict=True):
            await scene.write(place, word, waits=False)
        command = 2 << 20 | Command.TRANSFER | Command.WRITE | 0x1000 + rng.randrange(10, 32)
        await scene.access(DmReg.COMMAND, command)
        scene.model.write(DmReg.COMMAND, command)
        found = await scene.access(DmReg.ABSTRACTCS)
        board.equal(found, scene.model.read(DmReg.ABSTRACTCS) | _BUSY, "abstractcs of a command under way")
        await scene.access(register, value)
        scene.model.error = CommandError.BUSY
        await scene.calm()
        await scene.compare(
            DmReg.ABSTRACTCS, DmReg.DATA0, DmReg.DATA1, DmReg.PROGBUF0, DmReg.ABSTRACTAUTO, where="after"
        )
        # nothing begins until the error is cleared
        await scene.write(DmReg.COMMAND, command ^ Command.WRITE)
        await scene.compare(DmReg.DATA0, where="refused")
        await scene.write(DmReg.ABSTRACTCS, 7 << 8, waits=False)
        state, hart = scene.harts.states[count - 1], scene.model.harts[count - 1]
        board.equal(state.registers[10:], hart.registers[10:], f"registers behind {register:#x}")


@cocotb.test(timeout_time=20, timeout_unit="ms")
@_scene
async def what_fails_is_not_counted(scene: Scene) -> None:
    """A command that meets an exception is the same when it is executed again, the next one when it succeeds."""
    await scene.write(DmReg.DMCONTROL, Control.DMACTIVE)
    await scene.select(0, Control.HALTREQ)
    await scene.write(DmReg.DATA0, 1)
    await scene.write(DmReg.PROGBUF0, ILLEGAL)
    bits = Command.TRANSFER | Command.WRITE | Command.POSTEXEC | Command.POSTINCREMENT
    await scene.write(DmReg.COMMAND, 2 << 20 | bits | 0x100A)
    await scene.compare(DmReg.ABSTRACTCS, where="exception")
    await scene.write(DmReg.ABSTRACTCS, 7 << 8, waits=False)
    await scene.write(DmReg.PROGBUF0, EBREAK)
    await scene.write(DmReg.ABSTRACTAUTO, 1, waits=False)
    for value in (2, 3):
        await scene.write(DmReg.DATA0, value)
        found, wanted = scene.harts.states[0].registers[10:13], scene.model.harts[0].registers[10:13]
        scene.board.equal(found, wanted, f"registers with {value}")


@cocotb.test(timeout_time=20, timeout_unit="ms")
@_scene
async def reset_ends_a_command(scene: Scene) -> None:
    """A hart that is reset in the middle of a command does not leave the module waiting."""
    for cycles in range(0, 60, 3):
        await scene.access(DmReg.DMCONTROL, Control.HALTREQ | Control.DMACTIVE)
        await scene.calm()
        await scene.access(DmReg.COMMAND, 2 << 20 | Command.TRANSFER | 0x1005)
        await ClockCycles(scene.dut.clk, cycles + 1)
        under_way = await scene.access(DmReg.ABSTRACTCS) & _BUSY
        await scene.access(DmReg.DMCONTROL, Control.HARTRESET | Control.HALTREQ | Control.DMACTIVE)
        await scene.calm(_CALM)
        found = await scene.access(DmReg.ABSTRACTCS)
        if under_way:
            scene.board.equal(found & _BUSY, 0, f"busy after a reset {cycles} cycles behind a command")
        await scene.access(DmReg.DMCONTROL, Control.HALTREQ | Control.DMACTIVE)
        await scene.calm()
        await scene.access(DmReg.ABSTRACTCS, 7 << 8)
        await scene.access(DmReg.COMMAND, 2 << 20 | Command.TRANSFER | Command.WRITE | 0x1005)
        await scene.calm()
        found = await scene.access(DmReg.ABSTRACTCS)
        scene.board.equal(found, 8 << 24 | 2, f"abstractcs of a command behind a reset {cycles} cycles behind another")


@cocotb.test(timeout_time=20, timeout_unit="ms")
@_scene
async def the_bus_is_read_and_written(scene: Scene) -> None:
    """Accesses of every size, aligned or not, to memory that fails or not, with all that may start them."""
    rng = scene.rng
    await scene.write(DmReg.DMCONTROL, Control.DMACTIVE)
    for step in range(bench_data()["accesses"]):
        if rng.random() < 0.2:
            bits = sum(bit for bit in (Sbcs.READONADDR, Sbcs.AUTOINCREMENT, Sbcs.READONDATA) if rng.random() < 0.7)
            size = rng.choice((0, 0, 1, 2, rng.randrange(8)))
            await scene.write(DmReg.SBCS, bits | size << 17 | Sbcs.BUSYERROR | 7 << 12, waits=False)
        if rng.random() < 0.4:
            base = rng.choice((0x1C00_0000, rng.getrandbits(29) << 3, 0xFFFF_FFF8, _FAILING[0] - 4))
            await scene.access(DmReg.SBADDRESS0, address := base + rng.choice((0, rng.randrange(8))) & 0xFFFF_FFFF)
            scene.model.write(DmReg.SBADDRESS0, address)
        else:
            await scene.access(DmReg.SBDATA0, word := rng.getrandbits(32))
            scene.model.write(DmReg.SBDATA0, word)
        await scene.calm(40)
        await scene.compare(DmReg.SBDATA0, DmReg.SBADDRESS0, DmReg.SBCS, where=f"step {step}")
        if rng.random() < 0.5:
            # only the bits of an error that are 1 are cleared
            await scene.write(DmReg.SBCS, 2 << 17 | rng.randrange(8) << 12, waits=False)
            await scene.compare(DmReg.SBCS, where=f"step {step}, cleared")


@cocotb.test(timeout_time=20, timeout_unit="ms")
@_scene
async def a_busy_bus_says_so(scene: Scene) -> None:
    """An access to the bus while another is under way has no effect but the error, which stops all until cleared."""
    board = scene.board
    await scene.write(DmReg.DMCONTROL, Control.DMACTIVE)
    setting = Sbcs.READONADDR | 2 << 17
    for register, value in ((DmReg.SBADDRESS0, 64), (DmReg.SBDATA0, 1), (DmReg.SBDATA0, None), (DmReg.SBCS, 0)):
        await scene.write(DmReg.SBCS, setting | Sbcs.BUSYERROR, waits=False)
        drive(scene.dut, {"dmi__valid": 1, "dmi__write": 1, "dmi__addr": DmReg.SBADDRESS0, "dmi__wdata": 0x1C00_0010})
        await RisingEdge(scene.dut.clk)
        done = len(scene.bus.log)
        await scene.access(register, value)
        scene.model.write(DmReg.SBADDRESS0, 0x1C00_0010)
        await scene.calm(40)
        board.equal(await scene.access(DmReg.SBCS), scene.model.read(DmReg.SBCS) | Sbcs.BUSYERROR, "sbcs")
        board.equal(await scene.access(DmReg.SBADDRESS0), 0x1C00_0010, "sbaddress0")
        await scene.access(DmReg.SBADDRESS0, 0x1C00_0010)
        await scene.calm(40)
        board.equal(len(scene.bus.log) - done, 1, "accesses")
        board.equal(await scene.access(DmReg.SBDATA0), scene.model.read(DmReg.SBDATA0), "sbdata0")


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def reset_ends_an_access(dut: Dut) -> None:
    """A bus that is reset forgets what is under way, be it granted or not, and makes the next access."""
    scene = await _begin(dut)
    await scene.access(DmReg.DMCONTROL, Control.DMACTIVE)
    await scene.access(DmReg.SBCS, Sbcs.READONADDR | 2 << 17)
    for granted in (0, 1, 0, 1):
        dut.bus__gnt.value = granted
        await scene.access(DmReg.SBADDRESS0, scene.rng.getrandbits(32) & ~3)
        scene.board.equal(await scene.access(DmReg.SBCS) & Sbcs.BUSY, Sbcs.BUSY, f"busy, granted {granted}")
        await scene.access(DmReg.DMCONTROL, Control.DMACTIVE | Control.NDMRESET)
        await ClockCycles(dut.clk, 1)
        await FallingEdge(dut.clk)
        scene.board.equal(sample(dut.bus__req), 0, "request in reset")
        await scene.access(DmReg.DMCONTROL, Control.DMACTIVE)
        scene.board.equal(await scene.access(DmReg.SBCS) & Sbcs.BUSY, 0, f"busy behind a reset, granted {granted}")


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def reset_clears_all_registers(dut: Dut) -> None:
    """After a reset in use, when no register is 0, all registers are what they are in the beginning."""
    data = [*range(DmReg.DATA0, DmReg.DATA1 + 1), *range(DmReg.PROGBUF0, DmReg.PROGBUF0 + 8)]
    bus = [DmReg.SBCS, DmReg.SBADDRESS0, DmReg.SBDATA0]
    rng = await start(dut)
    for _ in range(3):
        scene = Scene(dut, rng)
        with Together(dut, [scene.port, scene.bus]), beside(scene.harts.run()):
            await scene.compare(DmReg.ABSTRACTCS, *_HALTS, DmReg.ABSTRACTAUTO, *data, *bus, where="after a reset")
            await scene.select(0, Control.HALTREQ)
            await scene.compare(*_HALTS, where="active")
            await scene.write(DmReg.COMMAND, 0x7F << 24)
            settings = Sbcs.READONADDR | Sbcs.AUTOINCREMENT | Sbcs.READONDATA
            last = [(DmReg.HAWINDOW, 0xFF), (DmReg.ABSTRACTAUTO, 0xFFFF_FFFF), (DmReg.SBCS, settings | 1 << 17)]
            for register, value in [*((one, 0xFFFF_FFFF) for one in (*data, *bus[1:])), *last]:
                await scene.access(register, value)
            await scene.calm(_CALM)
            await pulse_reset(dut, 1)
