"""Bench of the prefetch buffer: the delivered instructions, their timing, and the rules of the fetch port."""

from dataclasses import dataclass
from random import Random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, Timer

from xpulpnn_sim.bench.core_fetch import (
    FETCH_TIMINGS,
    OUTSTANDING_LIMIT,
    PROMPT,
    SLOWEST,
    WORD_BYTES,
    FetchTiming,
    InstructionMemory,
    RandomProgram,
    random_target,
)
from xpulpnn_sim.bench.parts import Dut, Scoreboard, pulse_reset, sample, start
from xpulpnn_sim.bench.runner import seed_from_environment

CYCLES = 400
SETTLE_NS = 1
"""Time after which ``valid`` shows whether an instruction may be taken; before the middle of the cycle."""
SILENCE_LIMIT = 120
"""Cycles without an instruction that count as a hang: several times the slowest answer to two stalled requests."""


@dataclass(frozen=True, slots=True)
class Habits:
    """Probability per cycle that the consumer redirects and that it takes what is offered."""

    redirect: float
    take: float


GREEDY, JUMPY, LAZY = Habits(0.05, 1.0), Habits(0.4, 0.8), Habits(0.03, 0.3)
RUNS = [(timing, habits) for timing in FETCH_TIMINGS for habits in (GREEDY, JUMPY)] + [(PROMPT, LAZY), (SLOWEST, LAZY)]


@dataclass(frozen=True, slots=True)
class Beat:
    """The ports in one cycle."""

    redirect: int
    target: int
    take: int
    valid: int
    pc: int
    word: int


class Consumer:
    """Redirects and takes at random; the only writer of ``redirect``, ``target`` and ``take``."""

    def __init__(self, dut: Dut, rng: Random) -> None:
        self.dut = dut
        self.rng = rng

    async def run(self, cycles: int, habits: Habits) -> None:
        """Begin with a redirect, then follow ``habits``."""
        dut, rng = self.dut, self.rng
        for cycle in range(cycles):
            dut.redirect.value = int(cycle == 0 or rng.random() < habits.redirect)
            dut.target.value = random_target(rng)
            dut.take.value = 0
            if rng.random() < habits.take:
                await Timer(SETTLE_NS, unit="ns")
                dut.take.value = sample(dut.valid)
            await RisingEdge(dut.clk)
        dut.redirect.value = 0
        dut.take.value = 0


class BeatMonitor:
    """Collects the ports of every cycle."""

    def __init__(self, dut: Dut) -> None:
        self.dut = dut
        self.beats: list[Beat] = []

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await FallingEdge(self.dut.clk)
            self.beats.append(Beat(*(sample(getattr(self.dut, name)) for name in Beat.__slots__)))


def check_delivery(beats: list[Beat], program: RandomProgram, board: Scoreboard) -> None:
    """Compare what is offered in every cycle with the program order since the last redirect."""
    pc = beats[0].target & ~1
    silence = 0
    want: dict[str, list[int]] = {"pc": [], "instruction": []}
    got: dict[str, list[int]] = {"pc": [], "instruction": []}
    for cycle, beat in enumerate(beats[1:], start=1):
        want["pc"].append(pc)
        got["pc"].append(beat.pc)
        silence = 0 if beat.valid or beat.redirect else silence + 1
        assert silence < SILENCE_LIMIT, f"no instruction up to cycle {cycle} (seed {board.seed})"
        if beat.valid:
            want["instruction"].append(program.instruction_at(pc))
            got["instruction"].append(beat.word & (1 << 8 * program.size_at(pc)) - 1)
        if beat.take:
            pc = program.after(pc)
        if beat.redirect:
            pc = beat.target & ~1
    board.compare(want, got)


def check_promptness(beats: list[Beat], program: RandomProgram, board: Scoreboard) -> None:
    """With an ideal memory: valid one cycle per word after the redirect, and then in every cycle."""
    ready_at = len(beats)
    want: list[int] = []
    for cycle, beat in enumerate(beats):
        want.append(cycle >= ready_at)
        if beat.redirect:
            ready_at = cycle + program.words_of(beat.target & ~1)
    board.compare({"valid": want}, {"valid": [beat.valid for beat in beats]}, label="with an ideal memory")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize((("timing", "habits"), RUNS))
async def program_order_is_delivered(dut: Dut, timing: FetchTiming, habits: Habits) -> None:
    """Random redirects, back pressure, stalls and instruction lengths; then again after a reset in flight."""
    rng, board = Random(seed_from_environment()), Scoreboard("prefetch")
    await start(dut)
    for _ in range(2):
        program, monitor = RandomProgram(rng), BeatMonitor(dut)
        memory = InstructionMemory(dut, timing, program.word_at, rng)
        memory.start()
        sampling = cocotb.start_soon(monitor.run())
        await Consumer(dut, rng).run(CYCLES, habits)
        sampling.cancel()
        check_delivery(monitor.beats, program, board)
        if timing is PROMPT:
            check_promptness(monitor.beats, program, board)
        memory.stop()
        await pulse_reset(dut)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(latency=[1, 2, 3])
async def a_word_is_fetched_in_every_cycle(dut: Dut, latency: int) -> None:
    """Aligned four-byte instructions flow without a bubble up to a latency of three cycles."""
    rng, board = Random(seed_from_environment()), Scoreboard("prefetch")
    await start(dut)
    program, monitor = RandomProgram(rng, full_length=1.0), BeatMonitor(dut)
    memory = InstructionMemory(dut, FetchTiming(1.0, latency, latency), program.word_at, rng)
    memory.start()
    sampling = cocotb.start_soon(monitor.run())
    # the only redirect, to an aligned address, is the first
    dut.target.value = 0
    dut.redirect.value = 1
    await RisingEdge(dut.clk)
    dut.redirect.value = 0
    for _ in range(latency - 1):
        await RisingEdge(dut.clk)
    dut.take.value = 1
    for _ in range(CYCLES // 4):
        await RisingEdge(dut.clk)
    sampling.cancel()
    check_delivery(monitor.beats, program, board)
    board.equal([beat.valid for beat in monitor.beats[latency:]], [1] * len(monitor.beats[latency:]), "valid")


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(timing=[PROMPT, FetchTiming(0.4, 1, 6)])
async def at_most_four_words_are_buffered(dut: Dut, timing: FetchTiming) -> None:
    """Nothing is fetched before the first redirect, and nothing beyond the buffer while nothing is taken."""
    rng, board = Random(seed_from_environment()), Scoreboard("prefetch")
    await start(dut)
    program = RandomProgram(rng)
    memory = InstructionMemory(dut, timing, program.word_at, rng)
    memory.start()
    for _ in range(SILENCE_LIMIT):
        await RisingEdge(dut.clk)
    board.equal(memory.granted, 0, "requests before the first redirect")
    dut.target.value = WORD_BYTES * rng.randrange(64)
    dut.redirect.value = 1
    await RisingEdge(dut.clk)
    dut.redirect.value = 0
    for _ in range(SILENCE_LIMIT):
        await RisingEdge(dut.clk)
    board.equal(memory.granted, OUTSTANDING_LIMIT, "requests while nothing is taken")
