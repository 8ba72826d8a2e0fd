"""Bench of the NN register file: random reads and writes against a list of words, and reset between them."""

from random import Random

import cocotb
import numpy as np

from xpulpnn_sim.bench.cadence import Dut, bench_data, pulse_reset, run_vectors, start
from xpulpnn_sim.bench.scoreboard import Scoreboard
from xpulpnn_sim.stimuli import random_words

BEATS = 600
WEIGHTS = 4


def stimulus(entries: int, rng: Random) -> dict[str, np.ndarray]:
    """Random reads and writes; every entry is written and read back at least once in the first beats."""
    columns = {
        "we": np.array([1] * entries + [rng.randrange(2) for _ in range(BEATS - entries)]),
        "waddr": np.array(list(range(entries)) + [rng.randrange(entries) for _ in range(BEATS - entries)]),
        "wdata": random_words(rng, BEATS),
        "wgt_addr": np.array([rng.randrange(WEIGHTS) for _ in range(BEATS)]),
    }
    if entries > WEIGHTS:
        columns["act_addr"] = np.array([rng.randrange(entries - WEIGHTS) for _ in range(BEATS)])
    return columns


def expected(entries: int, columns: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """Words read per beat: the entries after the write of the same beat, activations numbered before weights."""
    words = [0] * entries
    first_weight = entries - WEIGHTS
    reads: dict[str, list[int]] = {"wgt": []} | ({"act": []} if first_weight else {})
    for beat in range(BEATS):
        if columns["we"][beat]:
            words[columns["waddr"][beat]] = int(columns["wdata"][beat])
        reads["wgt"].append(words[first_weight + columns["wgt_addr"][beat]])
        if first_weight:
            reads["act"].append(words[columns["act_addr"][beat]])
    return reads


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_match_writes(dut: Dut) -> None:
    """Reads see the newest word, also one written in the same cycle; reset clears all of them."""
    entries = bench_data()["entries"]
    rng, board = await start(dut), Scoreboard()
    for phase in ("after reset", "after a reset in flight"):
        columns = stimulus(entries, rng)
        want = expected(entries, columns)
        board.compare(want, await run_vectors(dut, columns, list(want)), columns, phase)
        dut.we.value = 0
        await pulse_reset(dut)
        quiet = {"wgt_addr": range(WEIGHTS)} | ({"act_addr": [0, 1, 0, 1]} if "act" in want else {})
        board.compare({name: [0] * WEIGHTS for name in want}, await run_vectors(dut, quiet, list(want)), quiet, "reset")
