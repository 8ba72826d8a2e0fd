"""Bench of the NN register file: random reads and writes against a list of words, and reset between them."""

import cocotb

from xpulpnn.isa.machine import NNRF_WEIGHTS
from xpulpnn_sim.benches.cadence import Dut, pulse_reset, run_vectors, start
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.nnrf_words import accesses, words_read
from xpulpnn_sim.benches.scoreboard import Scoreboard

_BEATS = 600


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_match_writes(dut: Dut) -> None:
    """Reads see the newest word, also one written in the same cycle; reset clears all of them."""
    entries = bench_data()["entries"]
    rng, board = await start(dut), Scoreboard()
    for phase in ("after reset", "after a reset in flight"):
        columns = accesses(entries, _BEATS, rng)
        want = words_read(entries, columns)
        board.compare(want, await run_vectors(dut, columns, list(want)), columns, phase)
        dut.we.value = 0
        await pulse_reset(dut)
        quiet = {"wgt_addr": range(NNRF_WEIGHTS)} | ({"act_addr": [0, 1, 0, 1]} if "act" in want else {})
        board.compare(
            {name: [0] * NNRF_WEIGHTS for name in want}, await run_vectors(dut, quiet, list(want)), quiet, "reset"
        )
