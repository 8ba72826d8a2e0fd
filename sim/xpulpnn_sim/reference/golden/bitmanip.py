"""Bit fields, counting, rotation and clipping of XpulpV2 (guide, "Scalar arithmetic and bit manipulation")."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.reference.golden.effects import I64, U32, Effects, Sources, is3, uimm5
from xpulpnn_sim.reference.golden.scalar import SHIFT_MASK, exact, low_word

WIDTH_LSB = 5  # position of the width field in the register that describes a bit field; the start is below it


def _bit_matrix(value: U32) -> NDArray[np.bool_]:
    """Bit j of value i at [i, j]."""
    return (value[:, None] >> np.arange(XLEN, dtype=np.uint32) & 1).astype(np.bool_)


def _first_set(bits: NDArray[np.bool_], otherwise: int) -> U32:
    """Column of the first true element of each row, ``otherwise`` if there is none."""
    return np.where(bits.any(axis=1), bits.argmax(axis=1), otherwise).astype(np.uint32)


def _ff1(value: U32) -> U32:
    return _first_set(_bit_matrix(value), XLEN)


def _fl1(value: U32) -> U32:
    from_top = _first_set(_bit_matrix(value)[:, ::-1], XLEN)
    return np.where(value == 0, np.uint32(XLEN), XLEN - 1 - from_top)


def _clb(value: U32) -> U32:
    bits = _bit_matrix(value)[:, ::-1]
    return np.where(value == 0, np.uint32(0), _first_set(bits[:, 1:] != bits[:, :1], XLEN - 1))


def _cnt(value: U32) -> U32:
    return _bit_matrix(value).sum(axis=1, dtype=np.uint32)


COUNTS: dict[str, Callable[[U32], U32]] = {"ff1": _ff1, "fl1": _fl1, "clb": _clb, "cnt": _cnt}
"""Searches and counts over the bits of rs1."""


def count(insn: Insn, src: Sources) -> Effects:
    """ff1, fl1, clb, cnt."""
    return Effects(rd=COUNTS[insn.op](src.rs1))


def rotate(insn: Insn, src: Sources) -> Effects:
    """``rs1`` rotated right by ``rs2[4:0]``."""
    doubled = src.rs1.astype(np.uint64)
    doubled |= doubled << XLEN
    return Effects(rd=(doubled >> (src.rs2 & SHIFT_MASK)).astype(np.uint32))


def clip(insn: Insn, src: Sources) -> Effects:
    """Clip to [-B-1, B] or [0, B]; the lower bound is tested first, which matters for a negative B only."""
    if insn.operands.endswith("Is2"):
        bound = ((np.int64(1) << uimm5(src.word).astype(np.int64)) >> 1) - 1
        bound = np.maximum(bound, 0)
    else:
        bound = exact(src.rs2)
    value = exact(src.rs1)
    lowest = -bound - 1 if insn.op == "clip" else np.zeros_like(bound)
    return Effects(rd=low_word(np.where(value <= lowest, lowest, np.minimum(value, bound))))


def _extract(value: U32, start: I64, width: I64, old: U32) -> U32:
    shifted = exact(value) >> start
    sign = np.int64(1) << (width - 1)
    return low_word(((shifted & (2 * sign - 1)) ^ sign) - sign)


def _extractu(value: U32, start: I64, width: I64, old: U32) -> U32:
    return low_word((value.astype(np.int64) >> start) & ((np.int64(1) << width) - 1))


def _mask(start: I64, width: I64) -> U32:
    return low_word(((np.int64(1) << width) - 1) << start)


def _insert(value: U32, start: I64, width: I64, old: U32) -> U32:
    mask = _mask(start, width)
    return (old & ~mask) | (low_word(value.astype(np.int64) << start) & mask)


FIELD_OPERATIONS: dict[str, Callable[[U32, I64, I64, U32], U32]] = {
    "extract": _extract,
    "extractu": _extractu,
    "insert": _insert,
    "bclr": lambda value, start, width, old: value & ~_mask(start, width),
    "bset": lambda value, start, width, old: value | _mask(start, width),
}
"""Bit-field operations of (rs1, start, width, old rd)."""


def bit_field(insn: Insn, src: Sources) -> Effects:
    """Field of ``width`` bits from ``start``: two immediates, or both packed in rs2. The width is stored minus one."""
    if insn.operands.endswith("Is2"):
        start, stored_width = uimm5(src.word), is3(src.word)
    else:
        start, stored_width = src.rs2 & SHIFT_MASK, src.rs2 >> WIDTH_LSB & SHIFT_MASK
    width = stored_width.astype(np.int64) + 1
    return Effects(rd=FIELD_OPERATIONS[insn.op](src.rs1, start.astype(np.int64), width, src.rd))
