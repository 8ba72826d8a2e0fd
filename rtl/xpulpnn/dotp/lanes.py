"""Arithmetic of signed elements that both structures of the dot-product unit share."""

from amaranth.hdl import Cat, Const, Value
from amaranth.utils import exact_log2

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN

"""Bits of a packed factor and of the accumulator."""


def signed_offset(fmt: ElemFmt, a_signed: Value, b_signed: Value) -> Value:
    """The -1 of every inverted product bit of a word, all lanes of ``fmt`` together.

    A product bit with the top bit of a signed element as one factor has negative weight; ``-p == ~p - 1`` lets it be
    added inverted. With n lanes of w bits the missing constants are ``n * 2**(w - 1)``, a power of two, times
    ``a_signed + b_signed - 2**w * (a_signed | b_signed)``. Returned modulo 2**32.
    """
    position = fmt.width - 1 + exact_log2(fmt.lanes)
    minus = a_signed | b_signed
    row = Cat(
        Const(0, position),
        a_signed ^ b_signed,
        a_signed & b_signed,
        *[Const(0, 1)] * (fmt.width - 2),
        minus.replicate(XLEN),
    )
    return row[:XLEN]
