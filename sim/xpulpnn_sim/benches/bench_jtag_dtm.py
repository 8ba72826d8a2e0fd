"""Bench of the JTAG transport between a TAP manager and a table of registers."""

from collections.abc import Iterable
from random import Random

import cocotb
from cocotb.triggers import ClockCycles, Timer

from xpulpnn.isa.debug import DMI_ADDRESS_BITS, DTMCS_DMIHARDRESET, DTMCS_DMIRESET, IR_BITS, DmiOp, TapRegister
from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.benches.agents.base import Agent, Dut, sample, start
from xpulpnn_sim.benches.agents.jtag import DMI_BITS, JtagManager
from xpulpnn_sim.benches.agents.obi import WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import CLOCK_NS, bench_data

_PERIODS_NS = (3, 10, 10.5, 47)  # periods of TCK; the clock period is 10 ns
_DTMCS = 0x5071  # version 1, 7 bits of address, 5 cycles in Run-Test/Idle
_WALK = 1500  # cycles of TCK, in which every state is left both ways many times
_ADDRESSES = [(1 << bit) % (1 << DMI_ADDRESS_BITS) ^ flip for bit in range(DMI_ADDRESS_BITS + 1) for flip in (0, 0x7F)]
_UNKNOWN = sorted({*range(1 << IR_BITS)} - {TapRegister.IDCODE, TapRegister.DTMCS, TapRegister.DMI})  # bypass


class DmiSubordinate(Agent):
    """Registers of a debug module as words by address, with a log of all accesses."""

    def __init__(self, dut: Dut) -> None:
        super().__init__(dut)
        self.words = WordMemory()
        self.seen: list[tuple[int, int, int]] = []
        self._dut = dut
        self._read: int | None = None

    def drive(self) -> None:
        if self._read is not None:
            self._dut.dmi__rdata.value, self._read = self._read, None

    def sample(self) -> None:
        dut = self._dut
        if sample(dut.dmi__valid) and not sample(dut.rst):
            write, address, word = (sample(getattr(dut, f"dmi__{name}")) for name in ("write", "addr", "wdata"))
            self.seen.append((write, address, word if write else 0))
            self._read = self.words[address]
            if write:
                self.words[address] = word


async def _begin(dut: Dut, period_ns: float) -> tuple[JtagManager, DmiSubordinate, Scoreboard, Random]:
    rng, board = await start(dut), Scoreboard()
    port = JtagManager(dut, period_ns / 2, bench_data()["idcode"], rng, board)
    dut.tck_rst.value = 1
    await port.modes(1, 1)
    dut.tck_rst.value = 0
    return port, DmiSubordinate(dut), board, rng


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def registers_are_those_of_the_standard(dut: Dut) -> None:
    """Identification, instruction capture, bypass of all other instructions, dtmcs; no accesses of the DMI."""
    port, module, board, rng = await _begin(dut, CLOCK_NS)
    with module:
        for part in range(3):
            await _registers(port, board, rng, _UNKNOWN[part::3])
    board.equal(module.seen, [], "accesses")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def every_way_through_the_diagram(dut: Dut) -> None:
    """Random TMS with resets: ``tdo`` is the output of the register that the instruction selects."""
    port, module, _, rng = await _begin(dut, CLOCK_NS)
    with module:
        for _ in range(_WALK):
            dut.tck_rst.value = int(rng.random() < 1 / 200)
            await port.clock(rng.getrandbits(1), rng.getrandbits(1))
        dut.tck_rst.value = 0
        await port.reset()


async def _registers(port: JtagManager, board: Scoreboard, rng: Random, unknown: Iterable[int]) -> None:
    # five cycles of TMS = 1 reset the controller from any state
    await port.modes(*(rng.getrandbits(1) for _ in range(rng.randrange(30))))
    await port.reset()
    board.equal(await port.data(0, 32), bench_data()["idcode"], "register after reset")
    await port.instruction(TapRegister.DTMCS)
    board.equal(await port.data(0, 32), _DTMCS, "dtmcs")
    for register in unknown:
        await port.instruction(register)
        word = rng.getrandbits(DMI_BITS - 2) << 2 | DmiOp.WRITE
        board.equal(await port.data(word, DMI_BITS) >> 1, word % (1 << DMI_BITS - 1), f"bypass by {register:#x}")
    await port.instruction(TapRegister.IDCODE)
    board.equal(await port.data(WORD_MASK, XLEN), bench_data()["idcode"], "identification")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(period=range(len(_PERIODS_NS)))
async def every_access_arrives_once(dut: Dut, period: int) -> None:
    """Reads and writes arrive in order and once, with the read data in the next scan, for several clock ratios."""
    port, module, board, rng = await _begin(dut, _PERIODS_NS[period])
    patience = int(12 * CLOCK_NS / _PERIODS_NS[period]) + 5
    with module:
        await port.reset()
        await port.instruction(TapRegister.DMI)
        expected, words = [], WordMemory()
        pending: tuple[int, int] | None = None
        for number in range(bench_data()["scans"]):
            op, address, word = rng.choice(list(DmiOp)), rng.choice(_ADDRESSES), rng.getrandbits(32)
            status, at, value = await port.dmi(op, address, word, idle=patience)
            board.equal(status, DmiOp.SUCCESS, f"outcome of the scan before {number}")
            if pending is not None:
                board.equal((at, value), pending, f"address and word of the scan before {number}")
            if op in (DmiOp.READ, DmiOp.WRITE):
                expected.append((int(op == DmiOp.WRITE), address, word if op == DmiOp.WRITE else 0))
                pending = address, words[address]
            if op == DmiOp.WRITE:
                words[address] = word
        board.equal(module.seen, expected, "accesses")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def busy_stays_until_it_is_cleared(dut: Dut) -> None:
    """A scan that comes too early reports busy, until dmireset or dmihardreset clears the error."""
    port, module, board, rng = await _begin(dut, 1)
    with module:
        await port.reset()
        for part, clearing in enumerate((DTMCS_DMIRESET, DTMCS_DMIHARDRESET)):
            await port.instruction(TapRegister.DMI)
            done = len(module.seen)
            word = rng.getrandbits(32)
            await port.dmi(DmiOp.WRITE, 3, word)
            status, *_ = await port.dmi(DmiOp.WRITE, 4, 1)
            board.equal(status, DmiOp.BUSY, "outcome at once")
            for _ in range(2):
                status, *_ = await port.dmi(DmiOp.WRITE, 5, 2, idle=60)
                board.equal(status, DmiOp.BUSY, "outcome later")
            board.equal(module.seen[done:], [(1, 3, word)], "accesses")
            for register in (*_UNKNOWN[part::2], TapRegister.IDCODE):
                await port.instruction(register)
                await port.data(-1, 32)
            await port.instruction(TapRegister.DTMCS)
            await port.data(~(DTMCS_DMIRESET | DTMCS_DMIHARDRESET), 32)
            board.equal(await port.data(0, 32), _DTMCS | DmiOp.BUSY << 10, "dtmcs while busy")
            await port.data(clearing, 32)
            board.equal(await port.data(0, 32), _DTMCS, "dtmcs afterwards")
            await port.instruction(TapRegister.DMI)
            await port.dmi(DmiOp.READ, 3, idle=120)
            status, _, value = await port.dmi(DmiOp.NOP)
            board.equal((status, value), (DmiOp.SUCCESS, word), "read afterwards")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def nothing_is_lost_behind_an_access(dut: Dut) -> None:
    """A scan of two bits directly after an access starts another access or reports busy."""
    port, module, board, rng = await _begin(dut, 1)
    busy = 0
    with module:
        await port.reset()
        await port.instruction(TapRegister.DMI)
        for wait in range(90):
            address, word = rng.choice(_ADDRESSES), rng.getrandbits(30) << 2 | rng.choice((DmiOp.READ, DmiOp.WRITE))
            module.words[address] = word
            done = len(module.seen)
            await port.dmi(DmiOp.READ, address, idle=wait)
            # a scan of two bits shifts the lowest bits of the read word into the operation
            await port.data(0, 2, idle=150)
            after, *_ = await port.dmi(DmiOp.NOP, idle=150)
            busy += after == DmiOp.BUSY
            made = len(module.seen) - done
            board.equal(made, 1 + (after == DmiOp.SUCCESS), f"accesses of a read and a scan {wait} cycles behind")
            await port.instruction(TapRegister.DTMCS)
            await port.data(DTMCS_DMIRESET, 32)
            await port.instruction(TapRegister.DMI)
    assert 0 < busy < 90, f"{busy} of 90 scans found the port busy"


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def resets_leave_nothing_behind(dut: Dut) -> None:
    """After a reset of transport or module during an access, the next access arrives once and is answered."""
    port, module, board, rng = await _begin(dut, CLOCK_NS)
    with module:
        for number in range(bench_data()["scans"] // 2):
            await port.reset()
            await port.instruction(TapRegister.DMI)
            await port.dmi(DmiOp.WRITE, 1, number)
            side = dut.rst if number % 2 else dut.tck_rst
            await Timer(rng.randrange(10 * CLOCK_NS), unit="ns")
            side.value = 1
            if number % 2:
                await ClockCycles(dut.clk, rng.randint(1, 5))
            else:
                await port.modes(*(1 for _ in range(rng.randint(1, 5))))
            side.value = 0
            await port.reset()
            await port.instruction(TapRegister.DMI)
            await port.dmi(DmiOp.NOP, idle=30)
            done, word = len(module.seen), rng.getrandbits(32)
            await port.dmi(DmiOp.WRITE, 2, word, idle=30)
            await port.dmi(DmiOp.READ, 2, idle=30)
            board.equal(await port.dmi(DmiOp.NOP), (DmiOp.SUCCESS, 2, word), f"read behind reset {number}")
            board.equal(module.seen[done:], [(1, 2, word), (0, 2, 0)], f"accesses behind reset {number}")
