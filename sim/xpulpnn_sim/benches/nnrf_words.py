"""Words of the NN register file: random reads and writes, and what a list of words shows for them."""

from random import Random

import numpy as np

from xpulpnn.isa.machine import FIRST_PARAMETER, NNRF_ACTIVATIONS, NNRF_WEIGHTS
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
