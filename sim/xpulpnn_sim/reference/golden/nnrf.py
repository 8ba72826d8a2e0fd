"""Golden model of the NN register file."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from xpulpnn.isa.machine import FIRST_PARAMETER, NNRF_ACTIVATIONS, NNRF_WEIGHTS, NNRF_WORDS, SECOND_PAIR

_PARAMETERS = ("nn_kappa", "nn_lambda")  # outputs of the entries after the weights


def nn_words_read(
    entries: int, columns: Mapping[str, npt.NDArray[np.integer[Any]]], *, pairs: bool = False
) -> dict[str, list[int]]:
    """Return the words at the read ports of an :class:`~xpulpnn.dotp.nnrf.NnRf` in every cycle after a reset.

    Parameters
    ----------
    entries : int
        Entries of the register file: 4, 6 or 8.
    columns : Mapping[str, ndarray]
        Values of the inputs by port name, shape (cycles,): ``we``, ``waddr``, ``wdata``, ``wgt_addr``, with more than
        four entries ``act_addr``, with ``pairs`` ``act2_addr``.
    pairs : bool
        Two more activations, the first of each pair at ``act`` and the second at ``act2``.

    Returns
    -------
    dict[str, list[int]]
        32-bit words by output port. ``wgt`` and ``act`` see the write of the same cycle, the other outputs see it one
        cycle later.
    """
    words = [0] * NNRF_WORDS
    first_weight = min(entries - NNRF_WEIGHTS, NNRF_ACTIVATIONS)
    parameters = _PARAMETERS[: max(entries - FIRST_PARAMETER, 0)]
    reads: dict[str, list[int]] = {"wgt": []} | ({"act": []} if first_weight else {})
    reads |= {name: [] for name in (*parameters, *(("act2",) if pairs else ()))}
    for beat in range(len(columns["we"])):
        for number, name in enumerate(parameters):
            reads[name].append(words[FIRST_PARAMETER + number])
        if pairs:
            reads["act2"].append(words[SECOND_PAIR * int(columns["act2_addr"][beat]) + 1])
        if columns["we"][beat]:
            words[int(columns["waddr"][beat])] = int(columns["wdata"][beat])
        reads["wgt"].append(words[first_weight + int(columns["wgt_addr"][beat])])
        if first_weight:
            pair, place = divmod(int(columns["act_addr"][beat]), NNRF_ACTIVATIONS)
            reads["act"].append(words[SECOND_PAIR * pair + place])
    return reads
