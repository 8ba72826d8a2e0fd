"""Bench of the prefetch buffer: the delivered instructions, their timing, and the rules of the fetch port."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from cocotb.triggers import ClockCycles, RisingEdge, Timer

from xpulpnn.isa.machine import BYTE_BITS, HALF_BITS, HALF_BYTES, HALF_MASK, LENGTH_MASK, WORD_BYTES, WORD_MASK
from xpulpnn.isa.machine import instruction_size as size_of
from xpulpnn.isa.table import INSNS
from xpulpnn_sim.benches.agents.base import SETTLE_NS, Dut, PortMonitor, drive, pulse_reset, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import OUTSTANDING_LIMIT, PROMPT, ObiMemory, ObiTiming, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard

SLOWEST = ObiTiming(0.25, 1, 6)
FETCH_TIMINGS = (PROMPT, ObiTiming(1.0, 1, 6), ObiTiming(0.4, 1, 1), ObiTiming(0.6, 5, 6), SLOWEST)
"""Timings of the memory from ideal to slow: late answers, late grants, both."""

SILENCE_LIMIT = 120
"""Cycles within which an instruction must be offered: several times the slowest answer to two stalled requests."""

_COMPRESSED = [insn for insn in INSNS if insn.size == HALF_BYTES]


@dataclass(frozen=True, slots=True)
class FetchHabits:
    """Probabilities per cycle of a redirect, of taking an offered instruction, and of the end of a hardware loop."""

    redirect: float
    take: float
    loop_back: float = 0.0


class RandomCode(WordMemory):
    """Random code whose words are drawn at their first read; half of the compressed instructions are legal."""

    def __init__(self, rng: Random, full_length: float = 0.5, failing: float = 0.0) -> None:
        super().__init__()
        self._failures = defaultdict[int, bool](lambda: rng.random() < failing)
        self._rng, self._full_length = rng, full_length

    def __missing__(self, address: int) -> int:
        self[address] = self._half() | self._half() << HALF_BITS
        return self[address]

    def _half(self) -> int:
        half = self._rng.getrandbits(HALF_BITS)
        if self._rng.random() < self._full_length:
            return half | LENGTH_MASK
        if self._rng.random() < 0.5:
            row = self._rng.choice(_COMPRESSED)
            return self._rng.choice((half, half, 0, HALF_MASK)) & ~row.mask | row.match
        return half & ~LENGTH_MASK | self._rng.randrange(LENGTH_MASK)

    def fails(self, address: int) -> bool:
        return self._failures[address]

    def error_at(self, address: int) -> bool:
        word = address & ~(WORD_BYTES - 1)
        return self.fails(word) or (self.words_of(address) > 1 and self.fails((word + WORD_BYTES) & WORD_MASK))

    def size_at(self, address: int) -> int:
        return size_of(self.load(address))

    def instruction_at(self, address: int) -> int:
        return self.load(address) & (1 << BYTE_BITS * self.size_at(address)) - 1

    def after(self, address: int) -> int:
        return (address + self.size_at(address)) & WORD_MASK

    def words_of(self, address: int) -> int:
        return 1 + (address % WORD_BYTES + self.size_at(address) > WORD_BYTES)


def random_target(rng: Random) -> int:
    """Return a target in one of three short regions, one of them at the end of the address space; bit 0 is random."""
    base = rng.choice((0x100, 0x1C00_0080, 0xFFFF_FFE0))
    return (base + rng.randrange(64)) & WORD_MASK


_CYCLES = 400
GREEDY, JUMPY, LAZY = FetchHabits(0.05, 1.0), FetchHabits(0.4, 0.8), FetchHabits(0.03, 0.3)
_RUNS = [(timing, habits) for timing in FETCH_TIMINGS for habits in (GREEDY, JUMPY)] + [(PROMPT, LAZY), (SLOWEST, LAZY)]

_PORTS = "redirect target take valid pc word error idle instr__req instr__gnt instr__rvalid"


async def consume(dut: Dut, rng: Random, habits: FetchHabits) -> None:
    lost = True
    for _ in range(_CYCLES):
        redirect = lost or rng.random() < habits.redirect
        lost = False
        drive(dut, {"redirect": int(redirect), "target": random_target(rng), "take": 0})
        if rng.random() < habits.take:
            await Timer(SETTLE_NS, unit="ns")
            dut.take.value = sample(dut.valid)
            # nothing is expected after an unreadable instruction
            lost = bool(sample(dut.valid) and sample(dut.error) and not redirect)
        await RisingEdge(dut.clk)
    drive(dut, {"redirect": 0, "take": 0})


async def redirect_to(dut: Dut, target: int) -> None:
    drive(dut, {"redirect": 1, "target": target})
    await RisingEdge(dut.clk)
    dut.redirect.value = 0


def _check_delivery(cycles: Sequence[Any], code: RandomCode, board: Scoreboard) -> None:
    pc: int | None = cycles[0].target & ~1
    silence = 0
    for number, ports in enumerate(cycles[1:], start=1):
        where = f"in cycle {number}"
        if pc is None:
            # an error is followed by a redirect at once
            assert ports.redirect, f"no redirect {where} (seed {board.seed})"
        else:
            board.equal(ports.pc, pc, f"pc {where}")
            silence = 0 if ports.valid or ports.redirect else silence + 1
            assert silence < SILENCE_LIMIT, f"no instruction {where} (seed {board.seed})"
        if pc is not None and ports.valid:
            word = ports.word & (1 << BYTE_BITS * code.size_at(pc)) - 1
            board.equal(ports.error, code.error_at(pc), f"error {where}")
            board.equal(word, word if ports.error else code.instruction_at(pc), f"instruction {where}")
        if pc is not None and ports.take:
            pc = None if ports.error else code.after(pc)
        if ports.redirect:
            pc = ports.target & ~1


def check_idle(cycles: Sequence[Any], board: Scoreboard) -> None:
    """Check ``idle`` in every cycle without a redirect: nothing is requested or outstanding."""
    under_way = 0
    for number, ports in enumerate(cycles):
        if not ports.redirect:
            board.equal(ports.idle, not (under_way or ports.instr__req), f"idle in cycle {number}")
        under_way += (ports.instr__req & ports.instr__gnt) - ports.instr__rvalid


def _check_promptness(cycles: Sequence[Any], code: RandomCode, board: Scoreboard) -> None:
    """With an ideal memory, check one cycle per word after a redirect, then an instruction in every cycle."""
    ready_at = len(cycles)
    for number, ports in enumerate(cycles):
        board.equal(ports.valid, number >= ready_at, f"valid in cycle {number} with an ideal memory")
        if ports.redirect:
            ready_at = number + code.words_of(ports.target & ~1)


@unit_test((("timing", "habits"), _RUNS))
async def program_order_is_delivered(
    dut: Dut, rng: Random, board: Scoreboard, timing: ObiTiming, habits: FetchHabits
) -> None:
    """Random redirects, back pressure, stalls and instruction lengths; again after a reset."""
    for _ in range(2):
        code = RandomCode(rng)
        with ObiMemory(dut, "instr", code, timing, rng), PortMonitor(dut, _PORTS.split()) as monitor:
            await consume(dut, rng, habits)
        _check_delivery(monitor.rows, code, board)
        check_idle(monitor.rows, board)
        if timing is PROMPT:
            _check_promptness(monitor.rows, code, board)
        await pulse_reset(dut)


@unit_test(timing=[PROMPT, SLOWEST])
async def errors_come_with_the_instructions_they_belong_to(
    dut: Dut, rng: Random, board: Scoreboard, timing: ObiTiming
) -> None:
    """One word in six fails: exactly the instructions in such a word have an error."""
    code = RandomCode(rng, failing=1 / 6)
    with ObiMemory(dut, "instr", code, timing, rng), PortMonitor(dut, _PORTS.split()) as monitor:
        await consume(dut, rng, FetchHabits(0.1, 0.9))
    _check_delivery(monitor.rows, code, board)
    assert any(ports.valid and ports.error for ports in monitor.rows), "no error was told"


@unit_test(latency=[1, 2, 3])
async def a_word_is_fetched_in_every_cycle(dut: Dut, rng: Random, board: Scoreboard, latency: int) -> None:
    """Aligned four-byte instructions flow without a gap up to a latency of three cycles."""
    code, timing = RandomCode(rng, full_length=1.0), ObiTiming(1.0, latency, latency)
    with ObiMemory(dut, "instr", code, timing, rng), PortMonitor(dut, _PORTS.split()) as monitor:
        # the first redirect, to an aligned address, is the only one
        await redirect_to(dut, 0)
        for _ in range(latency - 1):
            await RisingEdge(dut.clk)
        dut.take.value = 1
        await ClockCycles(dut.clk, _CYCLES // 4)
    _check_delivery(monitor.rows, code, board)
    flow = [ports.valid for ports in monitor.rows[latency:]]
    board.equal(flow, [1] * len(flow), "valid")


@unit_test(timing=[PROMPT, ObiTiming(0.4, 1, 6)])
async def at_most_four_words_are_buffered(dut: Dut, rng: Random, board: Scoreboard, timing: ObiTiming) -> None:
    """Nothing is fetched before the first redirect, nor more than fits while no instruction is taken."""
    with ObiMemory(dut, "instr", RandomCode(rng), timing, rng) as memory:
        await ClockCycles(dut.clk, SILENCE_LIMIT)
        board.equal(memory.log, [], "requests before the first redirect")
        await redirect_to(dut, WORD_BYTES * rng.randrange(64))
        await ClockCycles(dut.clk, SILENCE_LIMIT)
        board.equal(len(memory.log), OUTSTANDING_LIMIT["instr"], "requests while nothing is taken")
