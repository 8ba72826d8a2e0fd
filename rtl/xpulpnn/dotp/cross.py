"""Dot product whose array also multiplies each half of a word by the other half of another."""

from itertools import chain

from amaranth.hdl import Module, Signal, Value

from xpulpnn.arith.carry_save import carry_save
from xpulpnn.arith.prefix_adder import DENSE_GROUP
from xpulpnn.component import In, Out
from xpulpnn.dotp.shared import DotpShared
from xpulpnn.isa.machine import HALF_BITS, XLEN

CROSS_BITS = XLEN + 2  # bits of the sum of two products and what signs add


class CrossDotp(DotpShared):
    """The sum of products of :class:`~xpulpnn.dotp.shared.DotpShared`, and the inner products of two words.

    ``result`` as there. With ``word``, in format H and without addend, ``a`` is a word ``x`` and ``b`` a word ``y``
    with its halves exchanged: ``partial + carry`` is ``x[31:16] * y[15:0] + x[15:0] * y[31:16]``, upper halves signed
    as ``a_signed`` and ``b_signed`` say, but for constants of which :class:`~xpulpnn.dotp.outer.OuterDotp` tells.
    Combinational, no state.
    """

    word: In(1)  #: The factors are words.
    #: partial, carry: Words whose sum, of weight 2**16, belongs to the product of the words.
    partial: Out(CROSS_BITS)
    carry: Out(CROSS_BITS)

    group = DENSE_GROUP

    def signs(self) -> list[tuple[Value, Value]]:
        """Signs of the two factors of each array: a lower half has none."""
        return [(self.a_signed & ~self.word, self.b_signed), (self.a_signed, self.b_signed & ~self.word)]

    def add_rows(self, m: Module, arrays: list[list[Value]], offset: Signal, addend: Signal, total: Signal) -> None:
        """Add the rows of both arrays and two more."""
        with m.If(self.word):
            m.d.comb += offset.eq((self.a_signed ^ self.b_signed) << (HALF_BITS - 1))
        (_, partial), (_, carry) = carry_save(m, [*chain(*arrays), offset, addend], len(total), "tree")
        m.d.comb += [self.partial.eq(partial), self.carry.eq(carry)]
        self.add_words(m, partial, carry, total)
