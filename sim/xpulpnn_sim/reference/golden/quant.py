"""pv.qnt: threshold quantisation through a binary search in memory (guide, "Threshold quantisation")."""

from collections.abc import Callable

import numpy as np

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_PARAMETER
from xpulpnn_sim.reference.golden.dotp import reload
from xpulpnn_sim.reference.golden.effects import I32, I64, U32, Effects, Sources, sign_extend, uimm5

_HALF = 1 << 16
_WORD = 1 << 32
_SHIFTS = 32
_LANE_FIELD = 1 << 28  # Place value of the lane in an instruction word


def load_parameter(insn: Insn, src: Sources) -> Effects:
    """pv.rqld: the word at the base goes to the factor or the summand; the base moves on."""
    return reload(src, FIRST_PARAMETER + uimm5(src.word))


def _scaled(value: U32, factor: U32, summand: U32) -> I64:
    """``factor * value + summand`` modulo 2**32 as a signed number."""
    low, high = factor.astype(np.int64) % _HALF, factor.astype(np.int64) // _HALF
    # with an unsigned word each of the products is less than 2**48
    number = value.astype(np.int64)
    total = (high * number % _HALF * _HALF + low * number + summand.astype(np.int64)) % _WORD
    return total - np.where(total >= _WORD // 2, _WORD, 0)


def requantise(insn: Insn, src: Sources) -> Effects:
    """pv.rqu and pv.rqs; ``act`` is the factor, ``wgt`` the summand."""
    assert insn.fmt is not None
    levels = 1 << insn.fmt.width
    divisor = np.int64(1) << (src.rs2.astype(np.int64) % _SHIFTS)
    quotient = _scaled(src.rs1, src.act, src.wgt) // divisor
    least = -(levels // 2) if insn.a_signed else 0
    element = np.clip(quotient, least, least + levels - 1) % levels
    place = np.int64(levels) ** (src.word.astype(np.int64) // _LANE_FIELD)
    old = src.rd.astype(np.int64)
    return Effects(rd=(old + (element - old // place % levels) * place).astype(np.uint32))


ReadHalf = Callable[[U32], U32]  # Half-words in memory at the given byte addresses, zero-extended

PIXEL_DISTANCE = {ElemFmt.N: 32, ElemFmt.C: 8}  # bytes from the thresholds of pixel 0 to those of pixel 1

FIRST_STEP = {ElemFmt.N: 8, ElemFmt.C: 2}
"""Bytes from the middle threshold to that of the next level; each level halves it."""

SEARCH_BLOCK = 64  # steps of the search stay within an aligned block of this many bytes

HALF_WORD_BITS = 16


def _search(pixel: I32, middle: U32, fmt: ElemFmt, read_half: ReadHalf) -> U32:
    """Code of one pixel; the first of its bits is stored inverted."""
    block, address = middle // SEARCH_BLOCK * SEARCH_BLOCK, middle
    step, code = FIRST_STEP[fmt], np.zeros_like(middle)
    for _ in range(fmt.width):
        threshold = sign_extend(read_half(address), HALF_WORD_BITS).view(np.int32)
        above = pixel > threshold
        code = 2 * code + above
        address = block + np.where(above, address + step, address - step) % SEARCH_BLOCK
        step //= 2
    return code ^ np.uint32(1 << (fmt.width - 1))


def quantise(insn: Insn, src: Sources, read_half: ReadHalf) -> Effects:
    """``rd = {q1, q0}``: codes of the two 16-bit pixels in rs1, thresholds around rs2, of which bit 0 means nothing."""
    assert insn.fmt is not None
    low_half = np.uint32((1 << HALF_WORD_BITS) - 1)
    # Pixel 1's middle address: the distance is added to the low half of the address only.
    first = src.rs2 & ~np.uint32(1)
    middles = first, (first & ~low_half) | ((first + PIXEL_DISTANCE[insn.fmt]) & low_half)
    pixels = sign_extend(src.rs1, HALF_WORD_BITS).view(np.int32), src.rs1.view(np.int32) >> HALF_WORD_BITS
    q0, q1 = (_search(pixel, middle, insn.fmt, read_half) for pixel, middle in zip(pixels, middles, strict=True))
    return Effects(rd=(q1 << np.uint32(insn.fmt.width)) | q0)
