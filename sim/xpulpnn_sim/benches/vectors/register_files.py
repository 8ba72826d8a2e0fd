"""Accesses to the NN register file, and the words that its reads give."""

from random import Random

import numpy as np

from xpulpnn.isa.machine import FIRST_PARAMETER, NNRF_ACTIVATIONS, NNRF_WEIGHTS, NNRF_WORDS, SECOND_PAIR
from xpulpnn_sim.reference.stimuli import random_words

_PARAMETERS = ("nn_kappa", "nn_lambda")  # outputs of the entries behind the weights
Columns = dict[str, np.ndarray]


def nn_accesses(entries: int, beats: int, rng: Random, *, pairs: bool = False, weights: int = NNRF_WEIGHTS) -> Columns:
    """Random reads and writes; every entry is written and read back at least once in the first beats. With ``pairs``
    there are two entries more, of which the first is read as activation 2. ``weights`` are read as such."""
    numbers = [*range(entries), *(range(SECOND_PAIR, NNRF_WORDS) if pairs else ())]
    columns = {
        "we": np.array([1] * len(numbers) + [rng.randrange(2) for _ in range(beats - len(numbers))]),
        "waddr": np.array(numbers + [rng.choice(numbers) for _ in range(beats - len(numbers))]),
        "wdata": random_words(rng, beats),
        "wgt_addr": np.array([rng.randrange(weights) for _ in range(beats)]),
    }
    if entries > NNRF_WEIGHTS:
        columns["act_addr"] = np.array([rng.randrange(NNRF_ACTIVATIONS + pairs) for _ in range(beats)])
    if pairs:
        columns["act2_addr"] = np.array([rng.randrange(2) for _ in range(beats)])
    return columns


def nn_words_read(entries: int, columns: Columns, *, pairs: bool = False) -> dict[str, list[int]]:
    """Words read per beat: activations and weights after the write of the same beat, parameters and second activations
    of pairs before it."""
    words = [0] * NNRF_WORDS
    first_weight = min(entries - NNRF_WEIGHTS, NNRF_ACTIVATIONS)
    parameters = _PARAMETERS[: max(entries - FIRST_PARAMETER, 0)]
    reads: dict[str, list[int]] = {"wgt": []} | ({"act": []} if first_weight else {})
    reads |= {name: [] for name in (*parameters, *(("act2",) if pairs else ()))}
    for beat in range(len(columns["we"])):
        for number, name in enumerate(parameters):
            reads[name].append(words[FIRST_PARAMETER + number])
        if pairs:
            reads["act2"].append(words[SECOND_PAIR * columns["act2_addr"][beat] + 1])
        if columns["we"][beat]:
            words[columns["waddr"][beat]] = int(columns["wdata"][beat])
        reads["wgt"].append(words[first_weight + columns["wgt_addr"][beat]])
        if first_weight:
            pair, place = divmod(int(columns["act_addr"][beat]), NNRF_ACTIVATIONS)
            reads["act"].append(words[SECOND_PAIR * pair + place])
    return reads
