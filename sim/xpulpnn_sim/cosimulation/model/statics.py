"""Describes instructions for the compiled driver, from the instruction table."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.fields import WORD_FIELDS
from xpulpnn.isa.insn import InsnClass
from xpulpnn.isa.machine import REGISTERS, WORD_BYTES
from xpulpnn.isa.table import INSNS
from xpulpnn_sim.cosimulation.model.schema import STREAM_INSN

_FIELD_LSB = {name: WORD_FIELDS[name].parts[0][0] for name in ("rs1", "rs2", "rd")}
_MAJOR = 0x7F
_TRANSFERS = {
    insn.match & _MAJOR: insn.insn_class
    for insn in INSNS
    if insn.size == WORD_BYTES and insn.insn_class in (InsnClass.BRANCH, InsnClass.JUMP)
}


def register(word: int, name: str) -> int:
    return word >> _FIELD_LSB[name] & (REGISTERS - 1)


def stream_text(words: NDArray[np.uint32], pcs: NDArray[np.uint32]) -> NDArray[Any]:
    text = np.zeros(len(words), STREAM_INSN)
    text["word"], text["pc"] = words, pcs
    majors = text["word"] & _MAJOR
    for major, insn_class in _TRANSFERS.items():
        text["insn_class"][majors == major] = insn_class
    return text
