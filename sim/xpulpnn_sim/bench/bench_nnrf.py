"""Bench of the NN register file: random reads and writes against a list of words, and reset between them."""

from random import Random

import cocotb
import numpy as np

from xpulpnn.isa.machine import FIRST_PARAMETER, NNRF_ACTIVATIONS, NNRF_WEIGHTS
from xpulpnn_sim.bench.cadence import Dut, pulse_reset, run_vectors, start
from xpulpnn_sim.bench.handover import bench_data
from xpulpnn_sim.bench.scoreboard import Scoreboard
from xpulpnn_sim.stimuli import random_words

_BEATS = 600
_PARAMETERS = ("nn_kappa", "nn_lambda")
"""Outputs of the entries behind the weights."""


def _stimulus(entries: int, rng: Random) -> dict[str, np.ndarray]:
    """Random reads and writes; every entry is written and read back at least once in the first beats."""
    columns = {
        "we": np.array([1] * entries + [rng.randrange(2) for _ in range(_BEATS - entries)]),
        "waddr": np.array(list(range(entries)) + [rng.randrange(entries) for _ in range(_BEATS - entries)]),
        "wdata": random_words(rng, _BEATS),
        "wgt_addr": np.array([rng.randrange(NNRF_WEIGHTS) for _ in range(_BEATS)]),
    }
    if entries > NNRF_WEIGHTS:
        columns["act_addr"] = np.array([rng.randrange(NNRF_ACTIVATIONS) for _ in range(_BEATS)])
    return columns


def _expected(entries: int, columns: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """Words read per beat: activations and weights after the write of the same beat, parameters before it."""
    words = [0] * entries
    first_weight = min(entries - NNRF_WEIGHTS, NNRF_ACTIVATIONS)
    parameters = _PARAMETERS[: max(entries - FIRST_PARAMETER, 0)]
    reads: dict[str, list[int]] = {"wgt": []} | ({"act": []} if first_weight else {})
    reads |= {name: [] for name in parameters}
    for beat in range(_BEATS):
        for number, name in enumerate(parameters):
            reads[name].append(words[FIRST_PARAMETER + number])
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
        columns = _stimulus(entries, rng)
        want = _expected(entries, columns)
        board.compare(want, await run_vectors(dut, columns, list(want)), columns, phase)
        dut.we.value = 0
        await pulse_reset(dut)
        quiet = {"wgt_addr": range(NNRF_WEIGHTS)} | ({"act_addr": [0, 1, 0, 1]} if "act" in want else {})
        board.compare(
            {name: [0] * NNRF_WEIGHTS for name in want}, await run_vectors(dut, quiet, list(want)), quiet, "reset"
        )
