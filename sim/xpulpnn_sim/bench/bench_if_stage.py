"""Bench of the IF stage: expanded instructions in program order, hardware-loop jumps, redirects and their cycles."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple

import cocotb
from cocotb.triggers import RisingEdge

from xpulpnn_sim.bench.bench_compressed_decoder import expanded
from xpulpnn_sim.bench.cadence import Dut, PortMonitor, drive, pulse_reset, start
from xpulpnn_sim.bench.obi import PROMPT, ObiResponder, ObiTiming
from xpulpnn_sim.bench.random_code import (
    FETCH_TIMINGS,
    HALF_BYTES,
    SILENCE_LIMIT,
    FetchHabits,
    RandomCode,
    random_target,
)
from xpulpnn_sim.bench.scoreboard import Scoreboard

_CYCLES = 500
STRAIGHT, LOOPING, ROUGH = FetchHabits(0.04, 1.0), FetchHabits(0.02, 1.0, 0.4), FetchHabits(0.25, 0.5, 0.2)
_RUNS = [(PROMPT, STRAIGHT), (PROMPT, LOOPING)] + [(timing, ROUGH) for timing in FETCH_TIMINGS]


class StagePorts(NamedTuple):
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


async def drive_stage(dut: Dut, rng: Random, habits: FetchHabits) -> None:
    """Everything but the instruction port at random, beginning with a redirect."""
    for cycle in range(_CYCLES):
        inputs = {
            "redirect": int(cycle == 0 or rng.random() < habits.redirect),
            "target": random_target(rng),
            "insn__ready": int(rng.random() < habits.take),
            "loop_back": int(rng.random() < habits.loop_back),
            "loop_start": random_target(rng),
        }
        drive(dut, inputs)
        await RisingEdge(dut.clk)
    dut.redirect.value = 0


def in_id(code: RandomCode, pc: int, looped: int) -> dict[str, int]:
    """The ports that describe the instruction at ``pc`` in ID."""
    return {
        "insn__payload__word": expanded(code.instruction_at(pc)),
        "insn__payload__pc": pc,
        "insn__payload__compressed": int(code.size_at(pc) == HALF_BYTES),
        "id_after": code.after(pc),
        "id_looped": looped,
    }


def _check_delivery(cycles: Sequence[StagePorts], code: RandomCode, board: Scoreboard) -> None:
    """Follow the instructions into ID: an instruction that appears there was the one at ``pc`` a cycle earlier."""
    pc = cycles[0].target & ~1
    shown: dict[str, int] = {}
    silence = 0
    for number, (ports, after) in enumerate(pairwise(cycles[1:]), start=1):
        where = f"in cycle {number}"
        board.equal(hex(ports.pc), hex(pc), f"pc {where}")
        silence = 0 if ports.insn__valid or ports.redirect else silence + 1
        assert silence < SILENCE_LIMIT, f"no instruction {where} (seed {board.seed})"
        if ports.insn__valid:
            board.equal({name: getattr(ports, name) for name in shown}, shown, f"ID {where}")
        if ports.redirect:
            board.equal(after.insn__valid, 0, f"valid after a redirect {where}")
            pc = ports.target & ~1
        elif ports.insn__valid and not ports.insn__ready:
            board.equal(after.insn__valid, 1, f"valid of a waiting instruction {where}")
        elif after.insn__valid:
            shown = in_id(code, pc, ports.loop_back)
            pc = ports.loop_start & ~1 if ports.loop_back else code.after(pc)


def _check_promptness(cycles: Sequence[StagePorts], code: RandomCode, board: Scoreboard) -> None:
    """With an ideal memory: in ID two cycles after a redirect, no bubble behind a loop end, one more for two words."""
    ready_at = len(cycles)
    valid = 0
    pc = 0
    want: list[int] = []
    for number, ports in enumerate(cycles):
        want.append(valid)
        takes = number >= ready_at and (not valid or ports.insn__ready) and not ports.redirect
        valid = int(not ports.redirect and (takes or (valid and not ports.insn__ready)))
        if ports.redirect or (takes and ports.loop_back):
            pc = (ports.target if ports.redirect else ports.loop_start) & ~1
            ready_at = number + code.words_of(pc)
    board.compare({"valid": want}, {"valid": [ports.insn__valid for ports in cycles]}, label="with an ideal memory")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize((("timing", "habits"), _RUNS))
async def program_order_reaches_id(dut: Dut, timing: ObiTiming, habits: FetchHabits) -> None:
    """Random redirects, loop ends, back pressure, stalls and instruction lengths; again after a reset in flight."""
    rng, board = await start(dut), Scoreboard()
    for _ in range(2):
        code = RandomCode(rng)
        with ObiResponder(dut, "instr", code, timing, rng), PortMonitor(dut, StagePorts._fields) as monitor:
            await drive_stage(dut, rng, habits)
        cycles = [StagePorts(*row) for row in monitor.rows]
        _check_delivery(cycles, code, board)
        if timing is PROMPT:
            _check_promptness(cycles, code, board)
        await pulse_reset(dut)
