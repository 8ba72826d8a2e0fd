"""Bench of the JTAG transport between a TAP manager and a table of registers."""

from functools import partial
from random import Random
from typing import Self

from cocotb.triggers import ClockCycles, Timer

from xpulpnn.isa.debug import DMI_ADDRESS_BITS, DTMCS_DMIHARDRESET, DTMCS_DMIRESET, IR_BITS, DmiOp, TapRegister
from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.benches.agents.base import Agent, Dut, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
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


class _Transport(JtagManager):
    """A debugger at the access port of the unit, and the registers behind it."""

    def __init__(self, dut: Dut, rng: Random, period_ns: float) -> None:
        self.module, self.rng, self.board = DmiSubordinate(dut), rng, Scoreboard()
        super().__init__(dut, period_ns / 2, bench_data()["idcode"], rng, self.board)

    def __enter__(self) -> Self:
        self.module.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.module.__exit__(*error)


async def _begin(dut: Dut, rng: Random, period_ns: float = CLOCK_NS) -> _Transport:
    port = _Transport(dut, rng, period_ns)
    dut.tck_rst.value = 1
    await port.modes(1, 1)
    dut.tck_rst.value = 0
    return port


@unit_test(env=_begin)
async def registers_are_those_of_the_standard(env: _Transport) -> None:
    """Identification, instruction capture, bypass of all other instructions, dtmcs; no accesses of the DMI."""
    for part in range(3):
        # five cycles of TMS = 1 reset the controller from any state
        await env.modes(*(env.rng.getrandbits(1) for _ in range(env.rng.randrange(30))))
        await env.reset()
        env.board.equal(await env.data(0, XLEN), bench_data()["idcode"], "register after reset")
        env.board.equal(await env.scan(TapRegister.DTMCS, 0), _DTMCS, "dtmcs")
        for register in _UNKNOWN[part::3]:
            word = env.rng.getrandbits(DMI_BITS - 2) << 2 | DmiOp.WRITE
            bypassed = await env.scan(register, word, DMI_BITS) >> 1
            env.board.equal(bypassed, word % (1 << DMI_BITS - 1), f"bypass by {register:#x}")
        identification = await env.scan(TapRegister.IDCODE, WORD_MASK)
        env.board.equal(identification, bench_data()["idcode"], "identification")
    env.board.equal(env.module.seen, [], "accesses")


@unit_test(env=_begin)
async def every_way_through_the_diagram(dut: Dut, env: _Transport) -> None:
    """Random TMS with resets: ``tdo`` is the output of the register that the instruction selects."""
    for _ in range(_WALK):
        dut.tck_rst.value = int(env.rng.random() < 1 / 200)
        await env.clock(env.rng.getrandbits(1), env.rng.getrandbits(1))
    dut.tck_rst.value = 0
    await env.reset()


@unit_test(env=_begin, period_ns=_PERIODS_NS)
async def every_access_arrives_once(env: _Transport, period_ns: float) -> None:
    """Reads and writes arrive in order and once, with the read data in the next scan, for several clock ratios."""
    patience = int(12 * CLOCK_NS / period_ns) + 5
    await env.reset()
    await env.instruction(TapRegister.DMI)
    expected, words = [], WordMemory()
    pending: tuple[int, int] | None = None
    for number in range(bench_data()["scans"]):
        op, address, word = env.rng.choice(list(DmiOp)), env.rng.choice(_ADDRESSES), env.rng.getrandbits(32)
        status, at, value = await env.dmi(op, address, word, idle=patience)
        env.board.equal(status, DmiOp.SUCCESS, f"outcome of the scan before {number}")
        if pending is not None:
            env.board.equal((at, value), pending, f"address and word of the scan before {number}")
        if op in (DmiOp.READ, DmiOp.WRITE):
            expected.append((int(op == DmiOp.WRITE), address, word if op == DmiOp.WRITE else 0))
            pending = address, words[address]
        if op == DmiOp.WRITE:
            words[address] = word
    env.board.equal(env.module.seen, expected, "accesses")


@unit_test(env=partial(_begin, period_ns=1))
async def busy_stays_until_it_is_cleared(env: _Transport) -> None:
    """A scan that comes too early reports busy, until dmireset or dmihardreset clears the error."""
    await env.reset()
    for part, clearing in enumerate((DTMCS_DMIRESET, DTMCS_DMIHARDRESET)):
        await env.instruction(TapRegister.DMI)
        done = len(env.module.seen)
        word = env.rng.getrandbits(32)
        await env.dmi(DmiOp.WRITE, 3, word)
        status, *_ = await env.dmi(DmiOp.WRITE, 4, 1)
        env.board.equal(status, DmiOp.BUSY, "outcome at once")
        for _ in range(2):
            status, *_ = await env.dmi(DmiOp.WRITE, 5, 2, idle=60)
            env.board.equal(status, DmiOp.BUSY, "outcome later")
        env.board.equal(env.module.seen[done:], [(1, 3, word)], "accesses")
        for register in (*_UNKNOWN[part::2], TapRegister.IDCODE):
            await env.scan(register, -1)
        await env.scan(TapRegister.DTMCS, ~(DTMCS_DMIRESET | DTMCS_DMIHARDRESET))
        env.board.equal(await env.data(clearing, XLEN), _DTMCS | DmiOp.BUSY << 10, "dtmcs while busy")
        env.board.equal(await env.data(0, XLEN), _DTMCS, "dtmcs afterwards")
        await env.instruction(TapRegister.DMI)
        await env.dmi(DmiOp.READ, 3, idle=120)
        status, _, value = await env.dmi(DmiOp.NOP)
        env.board.equal((status, value), (DmiOp.SUCCESS, word), "read afterwards")


@unit_test(env=partial(_begin, period_ns=1))
async def nothing_is_lost_behind_an_access(env: _Transport) -> None:
    """A scan of two bits directly after an access starts another access or reports busy."""
    busy = 0
    await env.reset()
    await env.instruction(TapRegister.DMI)
    for wait in range(90):
        address = env.rng.choice(_ADDRESSES)
        word = env.rng.getrandbits(30) << 2 | env.rng.choice((DmiOp.READ, DmiOp.WRITE))
        env.module.words[address] = word
        done = len(env.module.seen)
        await env.dmi(DmiOp.READ, address, idle=wait)
        # a scan of two bits shifts the lowest bits of the read word into the operation
        await env.data(0, 2, idle=150)
        after, *_ = await env.dmi(DmiOp.NOP, idle=150)
        busy += after == DmiOp.BUSY
        made = len(env.module.seen) - done
        env.board.equal(made, 1 + (after == DmiOp.SUCCESS), f"accesses of a read and a scan {wait} cycles behind")
        await env.scan(TapRegister.DTMCS, DTMCS_DMIRESET)
        await env.instruction(TapRegister.DMI)
    assert 0 < busy < 90, f"{busy} of 90 scans found the port busy"


@unit_test(env=_begin)
async def resets_leave_nothing_behind(dut: Dut, env: _Transport) -> None:
    """After a reset of transport or module during an access, the next access arrives once and is answered."""
    for number in range(bench_data()["scans"] // 2):
        await env.reset()
        await env.instruction(TapRegister.DMI)
        await env.dmi(DmiOp.WRITE, 1, number)
        side = dut.rst if number % 2 else dut.tck_rst
        await Timer(env.rng.randrange(10 * CLOCK_NS), unit="ns")
        side.value = 1
        if number % 2:
            await ClockCycles(dut.clk, env.rng.randint(1, 5))
        else:
            await env.modes(*(1 for _ in range(env.rng.randint(1, 5))))
        side.value = 0
        await env.reset()
        await env.instruction(TapRegister.DMI)
        await env.dmi(DmiOp.NOP, idle=30)
        done, word = len(env.module.seen), env.rng.getrandbits(32)
        await env.dmi(DmiOp.WRITE, 2, word, idle=30)
        await env.dmi(DmiOp.READ, 2, idle=30)
        env.board.equal(await env.dmi(DmiOp.NOP), (DmiOp.SUCCESS, 2, word), f"read behind reset {number}")
        env.board.equal(env.module.seen[done:], [(1, 2, word), (0, 2, 0)], f"accesses behind reset {number}")
