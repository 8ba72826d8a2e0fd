"""pv.qnt: threshold quantisation through a binary search in memory (guide, "Threshold quantisation")."""

from collections.abc import Callable

import numpy as np

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn_sim.reference.golden import fields
from xpulpnn_sim.reference.golden.effects import I32, U32, Effects, Sources

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
        threshold = fields.sign_extend(read_half(address), HALF_WORD_BITS).view(np.int32)
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
    pixels = fields.sign_extend(src.rs1, HALF_WORD_BITS).view(np.int32), src.rs1.view(np.int32) >> HALF_WORD_BITS
    q0, q1 = (_search(pixel, middle, insn.fmt, read_half) for pixel, middle in zip(pixels, middles, strict=True))
    return Effects(rd=(q1 << np.uint32(insn.fmt.width)) | q0)
