"""Static instructions as the profile of a program sees them, from their raw words."""

from enum import IntEnum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.compressed import EXPANSIONS
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn_sim.harness.abi import STATIC_INSN
from xpulpnn_sim.harness.statics import VectorProgram, register, static_table
from xpulpnn_sim.trace import decode


class Kind(IntEnum):
    """What is special about the timing of an instruction."""

    PLAIN = 0
    JALR = auto()
    CSR_WRITE = auto()
    FENCE_I = auto()
    MRET = auto()
    WFI = auto()
    HIGH_WORD = auto()
    DIVISION = auto()
    DIVISION_SIGNED = auto()


STATIC = np.dtype([*STATIC_INSN.descr, ("raw", "<u4"), ("kind", "u1"), ("loop_reach", "<u2")])
"""Properties of the 32-bit form, ``length`` of the raw one; ``loop_reach``: distance of the loop end that it sets."""

_KINDS = {
    "jalr": Kind.JALR,
    "fence.i": Kind.FENCE_I,
    "mret": Kind.MRET,
    "wfi": Kind.WFI,
    "mulh": Kind.HIGH_WORD,
    "mulhsu": Kind.HIGH_WORD,
    "mulhu": Kind.HIGH_WORD,
    "divu": Kind.DIVISION,
    "remu": Kind.DIVISION,
    "div": Kind.DIVISION_SIGNED,
    "rem": Kind.DIVISION_SIGNED,
}
_CSR_OPS = frozenset({"csrrw", "csrrs", "csrrc"})
_LOOP_END_ROWS = frozenset({"lp.setup", "lp.setupi", "lp.endi"})
_SHORT, _LONG = 2, 4
_LENGTH_BITS = 0b11


def expanded(raw: int) -> tuple[int, Insn] | None:
    """The 32-bit word that does what a raw word does, and its row; None if the raw word is illegal."""
    insn = decode(raw)
    if insn is None:
        return None
    if insn.size == _LONG:
        return raw, insn
    expansion = EXPANSIONS[insn.mnemonic]
    return expansion.word(insn.decode(raw)), expansion.insn


def describe(raws: NDArray[np.uint32]) -> NDArray[Any]:
    """Array of :data:`STATIC` for raw words; illegal ones have no properties."""
    table = np.zeros(len(raws), STATIC)
    table["raw"] = raws
    table["length"] = np.where((raws & _LENGTH_BITS) == _LENGTH_BITS, _LONG, _SHORT)
    found = {place: pair for place, raw in enumerate(raws.tolist()) if (pair := expanded(raw)) is not None}
    if not found:
        return table
    places = list(found)
    words, insns = zip(*found.values(), strict=True)
    count = len(found)
    program = VectorProgram(
        words=np.array(words, np.uint32),
        pcs=np.zeros(count, np.uint32),
        insns=insns,
        regions=("",) * count,
        hwloop_end=np.zeros(count, np.bool_),
    )
    plain = static_table(program)
    for name in STATIC_INSN.names or ():
        if name != "length":
            table[name][places] = plain[name]
    for place, (word, insn) in found.items():
        table["kind"][place] = _kind(insn, word)
        if insn.mnemonic in _LOOP_END_ROWS:
            table["loop_reach"][place] = _reach(insn, word)
    return table


def _kind(insn: Insn, word: int) -> Kind:
    if insn.op in _CSR_OPS:
        # set and clear of nothing only read
        writes = insn.op == "csrrw" or register(word, "rs1") != 0
        return Kind.CSR_WRITE if writes else Kind.PLAIN
    return _KINDS.get(insn.op, Kind.PLAIN)


def _reach(insn: Insn, word: int) -> int:
    """Distance from the instruction to the last one of the loop."""
    values = insn.decode(word)
    return next(values[token.field.name] for token in insn.tokens if token.field.kind is FieldKind.TARGET)
