"""Bench of the ALU: every row of the instruction table it executes, against the reference model."""

import cocotb

from xpulpnn_sim.benches.cadence import Dut, Scoreboard, run_vectors, start
from xpulpnn_sim.benches.row_batches import alu_expectation, batch_of_rows


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def rows_match_golden(dut: Dut) -> None:
    """All rows interleaved, corner cases and random operands."""
    batch = batch_of_rows(await start(dut), alu_expectation)
    batch.check(Scoreboard(), await run_vectors(dut, batch.stimulus, list(batch.expected)))
