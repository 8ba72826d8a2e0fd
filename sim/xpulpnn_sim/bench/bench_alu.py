"""Bench of the ALU: every row of the instruction table it executes, against the reference model."""

from random import Random

import cocotb

from xpulpnn_sim.bench.operands import alu_expectation
from xpulpnn_sim.bench.parts import Dut, Scoreboard, run_vectors, start
from xpulpnn_sim.bench.runner import seed_from_environment
from xpulpnn_sim.bench.unit_rows import batch_of_rows


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def rows_match_golden(dut: Dut) -> None:
    """All rows interleaved, corner cases and random operands."""
    batch = batch_of_rows(Random(seed_from_environment()), alu_expectation)
    await start(dut)
    batch.check(Scoreboard("alu"), await run_vectors(dut, batch.stimulus, list(batch.expected)))
