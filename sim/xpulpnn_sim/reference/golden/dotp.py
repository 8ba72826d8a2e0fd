"""Golden models of dot products, Mac&Load, pv.qnt and requantisation.

Arrays of elements are lane-major: lane i of word j is ``lanes[i, j]``.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from xpulpnn.isa.formats import ElemFmt, Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import (
    ACTIVATION_SELECT,
    FIRST_PARAMETER,
    FIRST_WEIGHT,
    INCREMENT,
    RELOADS_ACTIVATION,
    RELOADS_WEIGHT,
    WEIGHT_SELECT,
    WEIGHT_SELECT_LSB,
    XLEN,
)
from xpulpnn_sim.reference.golden.effects import I32, I64, U32, Bits, Effects, Sources, immediate, sign_extend


def _lsbs(fmt: ElemFmt) -> U32:
    return np.arange(0, XLEN, fmt.width, dtype=np.uint32)[:, None]


def unpack(words: U32, fmt: ElemFmt, *, signed: bool) -> I32:
    """Return the sign- or zero-extended elements of words, ``[lane][word]``."""
    unused = XLEN - fmt.width
    at_top = words << (unused - _lsbs(fmt))
    return at_top.view(np.int32) >> unused if signed else (at_top >> unused).view(np.int32)


def pack(lanes: I32, fmt: ElemFmt) -> U32:
    """Return the words that consist of the low bits of the elements; the inverse of :func:`unpack`."""
    elements = lanes.view(np.uint32) & np.uint32((1 << fmt.width) - 1)
    return np.bitwise_or.reduce(elements << _lsbs(fmt), axis=0)


def operand2_lanes(insn: Insn, src: Sources, fmt: ElemFmt, *, signed: bool) -> I32:
    """Return the elements of the second SIMD operand, ``[lane][word]``; the ``.sc[i]`` forms have a single lane."""
    if insn.mode is Op2Mode.SCI:
        token = insn.operands.rsplit(",", maxsplit=1)[-1]
        return immediate(token, src.word).view(np.int32)[None, :]
    lanes = unpack(src.rs2, fmt, signed=signed)
    return lanes[:1] if insn.mode is Op2Mode.SC else lanes


def dot_product(insn: Insn, src: Sources) -> Effects:
    """Compute ``rd = [rd +] sum(rs1[i] * b[i])`` with the second operand b; ``a_signed`` refers to rs1."""
    return Effects(rd=_mac(insn, src, src.rs1, operand2_lanes(insn, src, insn.elements, signed=insn.b_signed)))


def _mac(insn: Insn, src: Sources, factors: U32, lanes: I32, old: U32 | None = None) -> U32:
    """Return the sum of products modulo 2**32, plus ``old`` (default rd) if the instruction accumulates."""
    total = (unpack(factors, insn.elements, signed=insn.a_signed) * lanes).sum(axis=0, dtype=np.int32).view(np.uint32)
    return (src.rd if old is None else old) + total if insn.accumulates else total


def mac_load_nn(insn: Insn, src: Sources) -> Effects:
    """Multiply NN-RF entries, then load one; with both update bits set, load the activation that is not multiplied."""
    selector = immediate("uimm5", src.word)
    reloads_activation = (selector & RELOADS_ACTIVATION) != 0
    reloads = (selector & (RELOADS_ACTIVATION | RELOADS_WEIGHT)) != 0
    other = reloads_activation & ((selector & RELOADS_WEIGHT) != 0)
    weight_index = FIRST_WEIGHT + (selector >> WEIGHT_SELECT_LSB & WEIGHT_SELECT)
    index = np.where(reloads_activation, (selector & ACTIVATION_SELECT) ^ other, weight_index)
    return reload(src, index, reloads, _mac(insn, src, src.wgt, unpack(src.act, insn.elements, signed=insn.b_signed)))


def reload(src: Sources, index: U32, happens: Bits | None = None, rd: U32 | None = None) -> Effects:
    """Load NN-RF entries from the base addresses and increment these, in all executions or in those marked in
    ``happens``."""
    happens = np.ones(len(src.word), np.bool_) if happens is None else happens
    base = src.rs1 + INCREMENT
    return Effects(rd=rd, base=base, address=src.rs1, accessed=happens, size=INCREMENT, nn_index=index)


def widened(insn: Insn, words: U32) -> U32:
    """Extend one slice of words of narrower weights to the width of the activations; return other words unchanged."""
    if insn.wgt_fmt is None:
        return words
    assert insn.entry is not None
    elements = unpack(words, insn.wgt_fmt, signed=insn.a_signed)
    return pack(elements.reshape(-1, insn.elements.lanes, len(words))[insn.entry], insn.elements)


def mac_load_pair(insn: Insn, src: Sources) -> Effects:
    """Execute Mac&Load of a weight with two activations. The second sum, in the register after rd, is ``src.rs2``."""
    first, second = (unpack(words, insn.elements, signed=insn.b_signed) for words in (src.act, src.act2))
    weights = widened(insn, src.wgt)
    sums = _mac(insn, src, weights, first), _mac(insn, src, weights, second, src.rs2)
    if not insn.writes_base:
        return Effects(rd=sums[0], rd2=sums[1])
    return replace(reload(src, immediate("t", src.word), rd=sums[0]), rd2=sums[1])


def mac_load_cu(insn: Insn, src: Sources) -> Effects:
    """Multiply an NN-RF entry and rs2, then load the entry; entry i is numbered as weight i."""
    assert insn.entry is not None
    index = np.full(len(src.word), FIRST_WEIGHT + insn.entry, np.uint32)
    return reload(src, index, rd=_mac(insn, src, src.wgt, unpack(src.rs2, insn.elements, signed=insn.b_signed)))


_HALF = 1 << 16
_WORD = 1 << XLEN
_SHIFTS = 32
_LANE_FIELD = 1 << 28  # Place value of the lane in an instruction word
_EXACT_SHIFTS, _EXACT_LANE_FIELD = 64, 1 << 27
_BYTE_PLACE = 1 << 8


def load_parameter(insn: Insn, src: Sources) -> Effects:
    """Execute pv.rqld: load the factor or the summand from the base address and increment the base."""
    return reload(src, FIRST_PARAMETER + immediate("uimm5", src.word))


def _scaled(value: U32, factor: U32, summand: U32) -> I64:
    """Return ``factor * value + summand`` modulo 2**32 as a signed number."""
    low, high = factor.astype(np.int64) % _HALF, factor.astype(np.int64) // _HALF
    # with an unsigned word each of the products is less than 2**48
    number = value.astype(np.int64)
    total = (high * number % _HALF * _HALF + low * number + summand.astype(np.int64)) % _WORD
    return total - np.where(total >= _WORD // 2, _WORD, 0)


def requantise(insn: Insn, src: Sources) -> Effects:
    """Execute pv.rqu and pv.rqs; ``act`` is the factor, ``wgt`` the summand."""
    divisor = np.int64(1) << (src.rs2.astype(np.int64) % _SHIFTS)
    quotient = _scaled(src.rs1, src.act, src.wgt) // divisor
    return Effects(rd=_with_element(insn, src, quotient, src.word.astype(np.int64) // _LANE_FIELD))


def requantise_exactly(insn: Insn, src: Sources) -> Effects:
    """Execute pv.rqxu and pv.rqxs with unbounded integers; ``act`` is the factor, ``wgt`` the summand."""
    rows = zip(*(column.tolist() for column in (src.rs1, src.wgt, src.act, src.rs2)), strict=True)
    # values beyond the bounds of all formats are clipped so that they fit the array
    quotient = [min(max(rounded(*row), -_WORD), _WORD) for row in rows]
    lane = src.word.astype(np.int64) // _EXACT_LANE_FIELD % insn.elements.lanes
    return Effects(rd=_with_element(insn, src, np.array(quotient, np.int64), lane))


def rounded(value: int, summand: int, factor: int, scale: int) -> int:
    """Return the scaled value rounded to the nearest integer, halves up, plus the zero point."""
    number, by = as_signed((value + summand) % _WORD, _WORD), as_signed(factor, _WORD)
    divisor = 2 ** (scale % _EXACT_SHIFTS)
    zero_point = as_signed(scale // _BYTE_PLACE % _BYTE_PLACE, _BYTE_PLACE)
    return (2 * number * by + divisor) // (2 * divisor) + zero_point


def as_signed(number: int, modulus: int) -> int:
    return number - modulus if 2 * number >= modulus else number


def _with_element(insn: Insn, src: Sources, value: I64, lane: I64) -> U32:
    """Return rd with the clipped value in the element ``lane``."""
    levels = 1 << insn.elements.width
    least = -(levels // 2) if insn.a_signed else 0
    element = np.clip(value, least, least + levels - 1) % levels
    place = np.int64(levels) ** lane
    old = src.rd.astype(np.int64)
    return (old + (element - old // place % levels) * place).astype(np.uint32)


ReadHalf = Callable[[U32], U32]  # Half-words in memory at the given byte addresses, zero-extended

PIXEL_DISTANCE = {ElemFmt.N: 32, ElemFmt.C: 8}  # bytes from the thresholds of pixel 0 to those of pixel 1

FIRST_STEP = {ElemFmt.N: 8, ElemFmt.C: 2}
"""Distance in bytes from the middle threshold to the next ones of the binary search; each step halves it."""

SEARCH_BLOCK = 64  # steps of the search stay within an aligned block of this many bytes

HALF_WORD_BITS = 16


def _search(pixel: I32, middle: U32, fmt: ElemFmt, read_half: ReadHalf) -> U32:
    """Return the code that pv.qnt finds for a pixel; its most significant bit is stored inverted."""
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
    """Execute pv.qnt: return the codes of both 16-bit pixels in rs1, found in thresholds around the address rs2, whose
    bit 0 is ignored."""
    low_half = np.uint32((1 << HALF_WORD_BITS) - 1)
    # Pixel 1's middle address: the distance is added to the low half of the address only.
    first = src.rs2 & ~np.uint32(1)
    middles = first, (first & ~low_half) | ((first + PIXEL_DISTANCE[insn.elements]) & low_half)
    pixels = sign_extend(src.rs1, HALF_WORD_BITS).view(np.int32), src.rs1.view(np.int32) >> HALF_WORD_BITS
    q0, q1 = (_search(pixel, middle, insn.elements, read_half) for pixel, middle in zip(pixels, middles, strict=True))
    return Effects(rd=(q1 << np.uint32(insn.elements.width)) | q0)
