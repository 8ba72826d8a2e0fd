"""Bench of the units of one step, ALU, dot products, requantiser: every row of the instruction table they execute."""

from random import Random

import cocotb
import numpy as np

from xpulpnn_sim.benches.cadence import Dut, Scoreboard, run_vectors, start
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.row_batches import Batch, alu_expectation, batch_of_rows, value_of_rd


def with_latency(batch: Batch, rng: Random) -> Batch:
    """The batch for a unit that samples factors and control word with ``enable``, one beat before ``rd``."""
    # some beats are idle: other factors and another control word without `enable`, which must change nothing
    count = len(batch.row)
    sampled: list[int] = []
    shown: list[int] = []
    enable: list[int] = []
    for vector in range(count):
        # The last result needs one beat more to appear.
        idle = int(rng.random() < 0.25 or vector == count - 1)
        sampled += [vector] + [rng.randrange(count)] * idle
        shown += [max(vector - 1, 0)] + [vector] * idle
        enable += [1] + [0] * idle
    accumulator = batch.stimulus["rd"][shown]
    stimulus = {name: column[sampled] for name, column in batch.stimulus.items()}
    first = np.arange(len(shown)) == 0
    return Batch(
        insns=batch.insns,
        row=batch.row[shown],
        stimulus=stimulus | {"rd": accumulator, "enable": np.array(enable)},
        expected={name: column[shown] for name, column in batch.expected.items()},
        checked={name: column[shown] & ~first for name, column in batch.checked.items()},
    )


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def rows_match_golden(dut: Dut) -> None:
    """All rows interleaved, corner cases and random operands, so that every result follows one of another row."""
    rng, data = await start(dut), bench_data()
    batch = batch_of_rows(rng, alu_expectation if hasattr(dut, "comparison") else value_of_rd)
    if "enable" in data["inputs"]:
        batch = with_latency(batch, rng)
    if "valid" in data:
        # without that bit of the control word the result is 0 whatever the other inputs are
        invalid = [beat for beat in range(len(batch.row)) if rng.random() < 0.1]
        batch.stimulus["ctrl"][invalid] &= ~data["valid"]
        batch.expected["result"][invalid] = 0
    batch.check(Scoreboard(), await run_vectors(dut, batch.stimulus, list(batch.expected)))
