"""Bench of the NN register file: random reads and writes against a list of words, and reset between them."""

from random import Random

import cocotb
import numpy as np

from xpulpnn.isa.machine import FIRST_PARAMETER, NNRF_ACTIVATIONS, NNRF_WEIGHTS
from xpulpnn_sim.benches.cadence import Dut, Scoreboard, pulse_reset, run_vectors, start
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.reference.stimuli import random_words

PARAMETERS = ("nn_kappa", "nn_lambda")  # outputs of the entries behind the weights


def accesses(entries: int, beats: int, rng: Random) -> dict[str, np.ndarray]:
    """Random reads and writes; every entry is written and read back at least once in the first beats."""
    columns = {
        "we": np.array([1] * entries + [rng.randrange(2) for _ in range(beats - entries)]),
        "waddr": np.array(list(range(entries)) + [rng.randrange(entries) for _ in range(beats - entries)]),
        "wdata": random_words(rng, beats),
        "wgt_addr": np.array([rng.randrange(NNRF_WEIGHTS) for _ in range(beats)]),
    }
    if entries > NNRF_WEIGHTS:
        columns["act_addr"] = np.array([rng.randrange(NNRF_ACTIVATIONS) for _ in range(beats)])
    return columns


def words_read(entries: int, columns: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """Words read per beat: activations and weights after the write of the same beat, parameters before it."""
    words = [0] * entries
    first_weight = min(entries - NNRF_WEIGHTS, NNRF_ACTIVATIONS)
    parameters = PARAMETERS[: max(entries - FIRST_PARAMETER, 0)]
    reads: dict[str, list[int]] = {"wgt": []} | ({"act": []} if first_weight else {})
    reads |= {name: [] for name in parameters}
    for beat in range(len(columns["we"])):
        for number, name in enumerate(parameters):
            reads[name].append(words[FIRST_PARAMETER + number])
        if columns["we"][beat]:
            words[columns["waddr"][beat]] = int(columns["wdata"][beat])
        reads["wgt"].append(words[first_weight + columns["wgt_addr"][beat]])
        if first_weight:
            reads["act"].append(words[columns["act_addr"][beat]])
    return reads


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
