"""Bench of the IF stage: expanded instructions in program order, hardware-loop jumps, redirects and their cycles."""

from dataclasses import dataclass
from itertools import pairwise
from random import Random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn_sim.bench.bench_compressed_decoder import expanded
from xpulpnn_sim.bench.core_fetch import (
    FETCH_TIMINGS,
    HALF_BYTES,
    PROMPT,
    FetchTiming,
    InstructionMemory,
    RandomProgram,
    random_target,
)
from xpulpnn_sim.bench.parts import Dut, Scoreboard, pulse_reset, sample, start
from xpulpnn_sim.bench.runner import seed_from_environment

CYCLES = 500
SILENCE_LIMIT = 120
"""Cycles without an instruction that count as a hang."""


@dataclass(frozen=True, slots=True)
class Habits:
    """Probability per cycle of a redirect, of room in ID, and of the end of a hardware loop."""

    redirect: float
    ready: float
    loop_back: float


STRAIGHT, LOOPING, ROUGH = Habits(0.04, 1.0, 0.0), Habits(0.02, 1.0, 0.4), Habits(0.25, 0.5, 0.2)
RUNS = [(PROMPT, STRAIGHT), (PROMPT, LOOPING)] + [(timing, ROUGH) for timing in FETCH_TIMINGS]


@dataclass(frozen=True, slots=True)
class Beat:
    """The ports in one cycle."""

    redirect: int
    target: int
    loop_back: int
    loop_start: int
    pc: int
    insn__ready: int
    insn__valid: int
    insn__payload__word: int
    insn__payload__pc: int
    insn__payload__compressed: int
    id_after: int
    id_looped: int


class StageDriver:
    """Drives everything but the instruction port at random."""

    def __init__(self, dut: Dut, rng: Random) -> None:
        self.dut = dut
        self.rng = rng

    async def run(self, cycles: int, habits: Habits) -> None:
        """Begin with a redirect, then follow ``habits``."""
        dut, rng = self.dut, self.rng
        for cycle in range(cycles):
            dut.redirect.value = int(cycle == 0 or rng.random() < habits.redirect)
            dut.target.value = random_target(rng)
            dut.insn__ready.value = int(rng.random() < habits.ready)
            dut.loop_back.value = int(rng.random() < habits.loop_back)
            dut.loop_start.value = random_target(rng)
            await RisingEdge(dut.clk)
        dut.redirect.value = 0


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


def in_id(program: RandomProgram, pc: int, looped: int) -> dict[str, int]:
    """The ports that describe the instruction at ``pc`` in ID."""
    return {
        "insn__payload__word": expanded(program.instruction_at(pc)),
        "insn__payload__pc": pc,
        "insn__payload__compressed": int(program.size_at(pc) == HALF_BYTES),
        "id_after": program.after(pc),
        "id_looped": looped,
    }


def check_delivery(beats: list[Beat], program: RandomProgram, board: Scoreboard) -> None:
    """Follow the instructions into ID: an instruction that appears there was the one at ``pc`` a cycle earlier."""
    pc = beats[0].target & ~1
    shown: dict[str, int] = {}
    silence = 0
    for cycle, (beat, after) in enumerate(pairwise(beats[1:]), start=1):
        where = f"in cycle {cycle}"
        board.equal(hex(beat.pc), hex(pc), f"pc {where}")
        silence = 0 if beat.insn__valid or beat.redirect else silence + 1
        assert silence < SILENCE_LIMIT, f"no instruction {where} (seed {board.seed})"
        if beat.insn__valid:
            board.equal({name: getattr(beat, name) for name in shown}, shown, f"ID {where}")
        if beat.redirect:
            board.equal(after.insn__valid, 0, f"valid after a redirect {where}")
            pc = beat.target & ~1
        elif beat.insn__valid and not beat.insn__ready:
            board.equal(after.insn__valid, 1, f"valid of a waiting instruction {where}")
        elif after.insn__valid:
            shown = in_id(program, pc, beat.loop_back)
            pc = beat.loop_start & ~1 if beat.loop_back else program.after(pc)


def check_promptness(beats: list[Beat], program: RandomProgram, board: Scoreboard) -> None:
    """With an ideal memory: in ID two cycles after a redirect, no bubble behind a loop end, one more for two words."""
    ready_at = len(beats)
    valid = 0
    pc = 0
    want: list[int] = []
    for cycle, beat in enumerate(beats):
        want.append(valid)
        takes = cycle >= ready_at and (not valid or beat.insn__ready) and not beat.redirect
        valid = int(not beat.redirect and (takes or (valid and not beat.insn__ready)))
        jumps = beat.redirect or (takes and beat.loop_back)
        if jumps:
            pc = (beat.target if beat.redirect else beat.loop_start) & ~1
            ready_at = cycle + program.words_of(pc)
    board.compare({"valid": want}, {"valid": [beat.insn__valid for beat in beats]}, label="with an ideal memory")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize((("timing", "habits"), RUNS))
async def program_order_reaches_id(dut: Dut, timing: FetchTiming, habits: Habits) -> None:
    """Random redirects, loop ends, back pressure, stalls and instruction lengths; again after a reset in flight."""
    rng, board = Random(seed_from_environment()), Scoreboard("if_stage")
    await start(dut)
    for _ in range(2):
        program, monitor = RandomProgram(rng), BeatMonitor(dut)
        memory = InstructionMemory(dut, timing, program.word_at, rng)
        memory.start()
        sampling = cocotb.start_soon(monitor.run())
        await StageDriver(dut, rng).run(CYCLES, habits)
        sampling.cancel()
        check_delivery(monitor.beats, program, board)
        if timing is PROMPT:
            check_promptness(monitor.beats, program, board)
        memory.stop()
        await pulse_reset(dut)
