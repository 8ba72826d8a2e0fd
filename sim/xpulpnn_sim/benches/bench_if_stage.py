"""Bench of the IF stage: expanded instructions in program order, hardware-loop jumps, redirects and their cycles."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

from cocotb.triggers import ClockCycles, RisingEdge, Timer

from xpulpnn_sim.benches import bench_prefetch as prefetch
from xpulpnn_sim.benches.agents.base import SETTLE_NS, Dut, PortMonitor, drive, pulse_reset, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import PROMPT, ObiMemory, ObiTiming
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.bench_compressed_decoder import expanded_words
from xpulpnn_sim.benches.bench_prefetch import FetchHabits, RandomCode, random_target

_CYCLES = 500
_QUIET = 4
STRAIGHT, LOOPING, ROUGH = FetchHabits(0.04, 1.0), FetchHabits(0.02, 1.0, 0.4), FetchHabits(0.25, 0.5, 0.2)
_FULL = FetchHabits(0.02, 0.2, 0.1)  # so few takes that the prefetch buffer is full
_RUNS = [(PROMPT, habits, 0.0) for habits in (STRAIGHT, LOOPING, _FULL)]
_RUNS += [(timing, ROUGH, 0.0) for timing in prefetch.FETCH_TIMINGS]
_RUNS += [(PROMPT, LOOPING, 1 / 6), (prefetch.SLOWEST, ROUGH, 1 / 6)]

_INSN = "insn__ready insn__valid insn__payload__word insn__payload__pc insn__payload__compressed insn__payload__error"
_PORTS = f"redirect target loop_back loop_start pc {_INSN} id_after id_looped idle instr__req instr__gnt instr__rvalid"


async def drive_stage(dut: Dut, rng: Random, habits: FetchHabits) -> None:
    for cycle in range(_CYCLES):
        inputs = {"target": random_target(rng), "loop_start": random_target(rng)}
        inputs["redirect"] = int(cycle == 0 or rng.random() < habits.redirect)
        inputs["insn__ready"] = int(rng.random() < habits.take)
        inputs["loop_back"] = int(rng.random() < habits.loop_back)
        drive(dut, inputs)
        await Timer(SETTLE_NS, unit="ns")
        if sample(dut.insn__valid) and sample(dut.insn__payload__error):
            dut.redirect.value = 1
        await RisingEdge(dut.clk)
    dut.redirect.value = 0


def in_id(code: RandomCode, pc: int, looped: int) -> dict[str, int]:
    """Return the expected ports for the instruction at ``pc`` in ID; only address and error for an unreadable one."""
    fetched = {"insn__payload__pc": pc, "insn__payload__error": int(code.error_at(pc)), "id_looped": looped}
    if code.error_at(pc):
        return fetched
    return fetched | {
        "insn__payload__word": expanded_words(code.instruction_at(pc)),
        "insn__payload__compressed": int(code.size_at(pc) == prefetch.HALF_BYTES),
        "id_after": code.after(pc),
    }


def _check_delivery(cycles: Sequence[Any], code: RandomCode, board: Scoreboard) -> None:
    pc: int | None = cycles[0].target & ~1
    shown: dict[str, int] = {}
    silence = 0
    for number, (ports, after) in enumerate(pairwise(cycles[1:]), start=1):
        where = f"in cycle {number}"
        # nothing is expected after an unreadable instruction
        if pc is not None:
            board.equal(ports.pc, pc, f"pc {where}")
        silence = 0 if ports.insn__valid or ports.redirect else silence + 1
        assert silence < prefetch.SILENCE_LIMIT, f"no instruction {where} (seed {board.seed})"
        if ports.insn__valid:
            board.equal({name: getattr(ports, name) for name in shown}, shown, f"ID {where}")
        if ports.redirect:
            board.equal(after.insn__valid, 0, f"valid after a redirect {where}")
            pc = ports.target & ~1
        elif ports.insn__valid and not ports.insn__ready:
            board.equal(after.insn__valid, 1, f"valid of a waiting instruction {where}")
        elif after.insn__valid:
            assert pc is not None, f"no redirect {where} (seed {board.seed})"
            shown = in_id(code, pc, ports.loop_back)
            next_pc = ports.loop_start & ~1 if ports.loop_back else code.after(pc)
            pc = None if code.error_at(pc) else next_pc


def _check_promptness(cycles: Sequence[Any], code: RandomCode, board: Scoreboard) -> None:
    """Check that ID has the target two cycles after a redirect, or three if it crosses words, with an ideal memory."""
    ready_at, valid, pc = len(cycles), False, 0
    for number, ports in enumerate(cycles):
        board.equal(ports.insn__valid, valid, f"valid in cycle {number} with an ideal memory")
        takes = number >= ready_at and (not valid or ports.insn__ready) and not ports.redirect
        valid = not ports.redirect and (takes or (valid and not ports.insn__ready))
        if ports.redirect or (takes and ports.loop_back):
            pc = (ports.target if ports.redirect else ports.loop_start) & ~1
            ready_at = number + code.words_of(pc)


@unit_test((("timing", "habits", "failing"), _RUNS))
async def program_order_reaches_id(
    dut: Dut, rng: Random, board: Scoreboard, timing: ObiTiming, habits: FetchHabits, failing: float
) -> None:
    """Random redirects, loop ends, back pressure, stalls, lengths and errors; again after a reset."""
    for _ in range(2):
        code = RandomCode(rng, failing=failing)
        with ObiMemory(dut, "instr", code, timing, rng) as memory:
            await ClockCycles(dut.clk, _QUIET)
            board.equal(memory.log, [], "requests before the first redirect")
            with PortMonitor(dut, _PORTS.split()) as monitor:
                await drive_stage(dut, rng, habits)
        _check_delivery(monitor.rows, code, board)
        prefetch.check_idle(monitor.rows, board)
        if timing is PROMPT and not failing:
            _check_promptness(monitor.rows, code, board)
        await pulse_reset(dut)
