"""Packed elements of words, dot products and Mac&Load (guide, "Dot products" and "Mac&Load").

Elements are lane-major: lane i of word j is ``lanes[i, j]``.
"""

import numpy as np

from xpulpnn.isa.formats import ElemFmt, Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import (
    ACTIVATION_SELECT,
    FIRST_WEIGHT,
    INCREMENT,
    RELOADS_ACTIVATION,
    RELOADS_WEIGHT,
    WEIGHT_SELECT,
    WEIGHT_SELECT_LSB,
    XLEN,
)
from xpulpnn_sim.reference.golden.effects import I32, IMMEDIATES, U32, Bits, Effects, Sources, uimm5


def _lsbs(fmt: ElemFmt) -> U32:
    return np.arange(0, XLEN, fmt.width, dtype=np.uint32)[:, None]


def unpack(words: U32, fmt: ElemFmt, *, signed: bool) -> I32:
    """Elements of ``words``: shifted up against bit 31, then down again with or without their sign."""
    unused = XLEN - fmt.width
    at_top = words << (unused - _lsbs(fmt))
    return at_top.view(np.int32) >> unused if signed else (at_top >> unused).view(np.int32)


def pack(lanes: I32, fmt: ElemFmt) -> U32:
    """Words of the low bits of the elements; the inverse of :func:`unpack`."""
    elements = lanes.view(np.uint32) & np.uint32((1 << fmt.width) - 1)
    return np.bitwise_or.reduce(elements << _lsbs(fmt), axis=0)


def _sum_of_products(a: I32, b: I32) -> U32:
    """Sum over the lanes modulo 2**32; a single row in ``b`` meets every lane of ``a``."""
    return (a * b).sum(axis=0, dtype=np.int32).view(np.uint32)


def operand2_lanes(insn: Insn, src: Sources, fmt: ElemFmt, *, signed: bool) -> I32:
    """Lanes of the second SIMD operand; one row for all lanes in the ``.sc`` and ``.sci`` forms."""
    if insn.mode is Op2Mode.SCI:
        token = insn.operands.rsplit(",", maxsplit=1)[-1]
        return IMMEDIATES[token](src.word).view(np.int32)[None, :]
    lanes = unpack(src.rs2, fmt, signed=signed)
    return lanes[:1] if insn.mode is Op2Mode.SC else lanes


def dot_product(insn: Insn, src: Sources) -> Effects:
    """``rd = [rd +] sum(rs1[i] * B[i])``; ``a_signed`` belongs to rs1, ``b_signed`` to the second operand."""
    assert insn.fmt is not None
    a = unpack(src.rs1, insn.fmt, signed=insn.a_signed)
    total = _sum_of_products(a, operand2_lanes(insn, src, insn.fmt, signed=insn.b_signed))
    return Effects(rd=src.rd + total if insn.accumulates else total)


def _mac(insn: Insn, src: Sources, weight: U32, activation: U32) -> U32:
    assert insn.fmt is not None
    a = unpack(weight, insn.fmt, signed=insn.a_signed)
    total = _sum_of_products(a, unpack(activation, insn.fmt, signed=insn.b_signed))
    return src.rd + total if insn.accumulates else total


def mac_load_nn(insn: Insn, src: Sources) -> Effects:
    """Mac&Load with both operands from the NN-RF; the product uses the entries before the reload. With both update bits
    it is the activation not used that is reloaded."""
    selector = uimm5(src.word)
    reloads_activation = (selector & RELOADS_ACTIVATION) != 0
    reloads = (selector & (RELOADS_ACTIVATION | RELOADS_WEIGHT)) != 0
    other = reloads_activation & ((selector & RELOADS_WEIGHT) != 0)
    weight_index = FIRST_WEIGHT + (selector >> WEIGHT_SELECT_LSB & WEIGHT_SELECT)
    index = np.where(reloads_activation, (selector & ACTIVATION_SELECT) ^ other, weight_index)
    return reload(src, index, reloads, _mac(insn, src, src.wgt, src.act))


def reload(src: Sources, index: U32, happens: Bits | None = None, rd: U32 | None = None) -> Effects:
    """The word at the base goes to an entry of the NN-RF, everywhere unless told where; the base moves on."""
    happens = np.ones(len(src.word), np.bool_) if happens is None else happens
    return Effects(
        rd=rd,
        base=src.rs1 + INCREMENT,
        base_written=happens,
        address=src.rs1,
        accessed=happens,
        size=INCREMENT,
        nn_index=index,
        nn_written=happens,
    )


def mac_load_cu(insn: Insn, src: Sources) -> Effects:
    """Compute&Update Mac&Load: entry times rs2, then the entry is always reloaded. ``nn_index`` counts as in a core
    with both forms: entry i is weight i."""
    assert insn.entry is not None
    index = np.full(len(src.word), FIRST_WEIGHT + insn.entry, np.uint32)
    return reload(src, index, rd=_mac(insn, src, src.wgt, src.rs2))
