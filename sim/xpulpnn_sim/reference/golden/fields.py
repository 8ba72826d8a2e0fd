"""Immediates of instruction words, vectorised (guide, "Operand fields").

Written apart from ``xpulpnn.isa.fields`` on purpose: a wrong bit there must not be wrong here as well.
"""

from collections.abc import Callable

import numpy as np

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.reference.golden.effects import U32


def _bits(word: U32, high: int, low: int, to: int = 0) -> U32:
    """Bits ``high`` down to ``low`` of every word, moved to bit ``to``."""
    return ((word >> np.uint32(low)) & np.uint32((1 << (high - low + 1)) - 1)) << np.uint32(to)


def sign_extend(value: U32, width: int) -> U32:
    """``sx(value, width)`` as a 32-bit pattern."""
    unused = XLEN - width
    return ((value << np.uint32(unused)).view(np.int32) >> np.int32(unused)).view(np.uint32)


def imm12(word: U32) -> U32:
    """I-type immediate."""
    return sign_extend(_bits(word, 31, 20), 12)


def stimm12(word: U32) -> U32:
    """S-type immediate."""
    return sign_extend(_bits(word, 31, 25, to=5) | _bits(word, 11, 7), 12)


def uimm20(word: U32) -> U32:
    """U-type immediate, at its place in bits 31:12."""
    return _bits(word, 31, 12, to=12)


def boff13(word: U32) -> U32:
    """Branch offset in bytes."""
    high = _bits(word, 31, 31, to=12) | _bits(word, 7, 7, to=11)
    return sign_extend(high | _bits(word, 30, 25, to=5) | _bits(word, 11, 8, to=1), 13)


def joff21(word: U32) -> U32:
    """Jump offset in bytes."""
    high = _bits(word, 31, 31, to=20) | _bits(word, 19, 12, to=12)
    return sign_extend(high | _bits(word, 20, 20, to=11) | _bits(word, 30, 21, to=1), 21)


def uimm5(word: U32) -> U32:
    """Field [24:20], unsigned: shift amounts, ``Is2``, ``nnimm5``."""
    return _bits(word, 24, 20)


def simm5(word: U32) -> U32:
    """Field [24:20], signed."""
    return sign_extend(_bits(word, 24, 20), 5)


def is3(word: U32) -> U32:
    """Field [29:25], unsigned."""
    return _bits(word, 29, 25)


def uimm6(word: U32) -> U32:
    """SIMD immediate, zero-extended; instruction bit 25 is its least significant bit."""
    return _bits(word, 24, 20, to=1) | _bits(word, 25, 25)


def imm6(word: U32) -> U32:
    """SIMD immediate, sign-extended."""
    return sign_extend(uimm6(word), 6)


IMMEDIATES: dict[str, Callable[[U32], U32]] = {
    "imm12": imm12,
    "stimm12": stimm12,
    "uimm5": uimm5,
    "simm5": simm5,
    "imm6": imm6,
    "uimm6": uimm6,
}
"""Immediates that serve as an arithmetic operand, by operand token."""
