"""Accesses to the NN register file, and the words that its reads return."""

from collections.abc import Container
from dataclasses import replace
from random import Random

import numpy as np

from xpulpnn.isa.fields import WORD_FIELDS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_PARAMETER, NNRF_ACTIVATIONS, NNRF_WEIGHTS, NNRF_WORDS, SECOND_PAIR
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.nnrf import nn_words_read
from xpulpnn_sim.reference.stimuli import random_words

Columns = dict[str, np.ndarray]


def nn_accesses(entries: int, beats: int, rng: Random, *, pairs: bool = False, weights: int = NNRF_WEIGHTS) -> Columns:
    """Return random reads and writes; every entry is written and read back at least once in the first cycles.

    With ``pairs`` there are two more entries, for second activations. ``weights`` is the number of
    entries readable as weights.
    """
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


def ex_stage_accesses(entries: int, beats: int, rng: Random, *, pairs: bool) -> tuple[Columns, dict[str, list[int]]]:
    """Return inputs of the EX stage that write the NN-RF from WB and read it in ID, and the words read."""
    columns = nn_accesses(entries, beats, rng, pairs=pairs)
    words = nn_words_read(entries, columns, pairs=pairs)
    reads = [name for name in ("act", "wgt") if name in words]
    inputs = {f"wb_nn_{name}": columns[name if name == "we" else f"w{name}"] for name in ("we", "addr", "data")}
    inputs |= {f"id_nn_{name}_addr": columns[f"{name}_addr"] for name in reads}
    return inputs, {f"id_nn_{name}": words[name] for name in reads}


class NnEntries:
    """NN-RF entries that operations of the EX stage read: the second activations of both pairs, and the parameters."""

    def __init__(self, ports: Container[str], rng: Random) -> None:
        self._activations, self._parameters = random_words(rng, 2), random_words(rng, 2)
        self._in_stage = "wb_nn_we" in ports
        self._pairs, self._requantises = "pair" in ports, "requantise" in ports and self._in_stage

    def writes(self) -> list[dict[str, int]]:
        words: list[tuple[int, int]] = []
        if self._pairs:
            words += zip((1, SECOND_PAIR + 1), self._activations.tolist(), strict=True)
        if self._requantises:
            words += zip((FIRST_PARAMETER, FIRST_PARAMETER + 1), self._parameters.tolist(), strict=True)
        return [{"wb_nn_we": 1, "wb_nn_addr": entry, "wb_nn_data": word} for entry, word in words]

    def read_by(self, insn: Insn, src: Sources) -> Sources:
        if insn.requantises and self._in_stage:
            kappa, summand = (np.full_like(src.word, word) for word in self._parameters)
            return replace(src, act=kappa, wgt=summand)
        return replace(src, act2=self._activations[src.word >> WORD_FIELDS["p"].shift & 1])
