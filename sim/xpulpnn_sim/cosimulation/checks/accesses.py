"""Bytes that instructions load and store."""

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BYTES, QUANTISED_PIXELS, WORD_BYTES
from xpulpnn_sw.kernels.program import Program

_BYTES = {"b": 1, "h": HALF_BYTES, "w": WORD_BYTES}
_RELOADS = 0b11000  # bits of the selector of a Mac&Load of which one loads an entry


def access_bytes(program: Program) -> NDArray[np.int64]:
    """Bytes that each static instruction loads and stores whenever it is executed, ``[instruction][0 or 1]``."""
    widths = [_widths(insn, int(word)) for insn, word in zip(program.insns, program.words, strict=True)]
    return np.array(widths, np.int64).reshape(-1, 2)


def _widths(insn: Insn, word: int) -> tuple[int, int]:
    if insn.is_store:
        return 0, _BYTES[insn.op[1]]
    if insn.is_load:
        return _BYTES["w" if insn.op == "elw" else insn.op[1]], 0
    if insn.op == "pv.qnt" and insn.fmt is not None:
        return HALF_BYTES * QUANTISED_PIXELS * insn.fmt.width, 0
    if insn.is_nn_form and not insn.reloads_other:
        return (WORD_BYTES if insn.decode(word)["nnimm5"] & _RELOADS else 0), 0
    return (WORD_BYTES if insn.is_mac_load or insn.loads_parameter else 0), 0
