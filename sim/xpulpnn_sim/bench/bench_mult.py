"""Bench of the multiplier: every multiplication row, one cycle each but five for the high words."""

from random import Random

import cocotb

from xpulpnn_sim.bench.multicycle import run_operations
from xpulpnn_sim.bench.parts import Dut, pulse_reset, start
from xpulpnn_sim.bench.runner import seed_from_environment
from xpulpnn_sim.bench.unit_rows import batch_of_rows, value_of_rd


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def products_match_golden(dut: Dut) -> None:
    """All rows interleaved, with flushes, waiting results and gaps; then again after a reset in flight."""
    rng = Random(seed_from_environment())
    await start(dut)
    for _ in range(2):
        batch = batch_of_rows(rng, value_of_rd)
        await run_operations(dut, batch, rng, "mult")
        dut.start.value = 1
        await pulse_reset(dut)
