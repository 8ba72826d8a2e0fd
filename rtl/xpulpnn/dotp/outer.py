"""Dot product whose array also multiplies halves of two words in the same place, and adds the whole product."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from xpulpnn.arith.carry_save import carry_save
from xpulpnn.arith.prefix_adder import DENSE_GROUP, PrefixAdder
from xpulpnn.component import In, Out
from xpulpnn.dotp.cross import CROSS_BITS
from xpulpnn.dotp.shared import DotpShared
from xpulpnn.isa.machine import HALF_BITS, XLEN

PRODUCT_BITS = 2 * XLEN


class OuterDotp(DotpShared):
    """The sum of products of :class:`~xpulpnn.dotp.shared.DotpShared`, the product of two words, or of two half-words.

    ``result`` as there. With ``word``, in format H, ``product`` is ``a * b + acc``, the words signed as ``a_signed``
    and ``b_signed`` say; with an addend only its lower word is right. The inner products come as ``partial`` and
    ``carry`` from :class:`~xpulpnn.dotp.cross.CrossDotp`. A signed product of 32 bits needs the constant ``2**31 *
    (a_signed + b_signed) - 2**63 * (a_signed | b_signed)``: the 2**31 of one signed factor is added there, the rest
    here.
    With ``half``, in format H, ``half_sum`` is ``a[15:0] * b[15:0] + acc + rounding``, both or none signed; else 0.
    It has an adder of its own, since a shift follows. Combinational, no state.
    """

    word: In(1)  #: The factors are words.
    half: In(1)  #: The factors are the lower half-words, and the upper half of ``b`` is 0.
    rounding: In(XLEN)  #: Second addend with ``half``, else 0.
    #: partial, carry: Words whose sum, of weight 2**16, belongs to the product of the words.
    partial: In(CROSS_BITS)
    carry: In(CROSS_BITS)
    complement: In(1)  #: The product is complemented.
    product: Out(PRODUCT_BITS)  #: Product of the words.
    half_sum: Out(XLEN)  #: Product of the half-words and addends.

    group = DENSE_GROUP

    def signs(self) -> list[tuple[Value, Value]]:
        """Signs of the two factors of each array: a lower half of a word has none."""
        return [(self.a_signed & ~self.word, self.b_signed & ~self.word), (self.a_signed, self.b_signed)]

    def add_rows(self, m: Module, arrays: list[list[Value]], offset: Signal, addend: Signal, total: Signal) -> None:
        """Add the rows of each array, then both sums; of words that of the upper one in front of the other."""
        word = self.word
        with m.If(word):
            m.d.comb += offset.eq(Cat(self.a_signed & self.b_signed, Const(0, XLEN - 2), self.a_signed | self.b_signed))
        lower_rows, upper_rows = arrays
        # the constant of one product of signed half-words, where the first row has no bits
        constant = (self.half & self.a_signed) & Const(1)
        gap = Const(0, HALF_BITS - 2)
        lower_rows = [Cat(lower_rows[0], constant, gap, constant), *lower_rows[1:], addend, self.rounding]
        lower = [value for _, value in carry_save(m, lower_rows, len(total), "lower")]
        upper = [value for _, value in carry_save(m, [*upper_rows, offset], len(total), "upper")]
        self._add_half(m, lower)
        words: list[Signal] = []
        for name, low, high, other in zip(("partial", "carry"), lower, upper, (self.partial, self.carry), strict=True):
            joined, moved = (Signal(PRODUCT_BITS, name=f"{name}_{end}") for end in ("joined", "moved"))
            m.d.comb += [
                joined.eq(low | Cat(Const(0, XLEN), high[:XLEN] & word.replicate(XLEN))),
                moved.eq(Mux(word, Cat(Const(0, HALF_BITS), other), high)),
            ]
            words += [joined, moved]
        (_, partial), (_, carry) = carry_save(m, words, PRODUCT_BITS, "whole")
        wanted = self.add_words(m, partial, carry, self.product, self.complement)
        with m.If(word):
            m.d.comb += wanted.eq(-1)
        m.d.comb += total.eq(self.product)

    def _add_half(self, m: Module, words: list[Value]) -> None:
        m.submodules.half_adder = adder = PrefixAdder(XLEN, group=self.group)
        partial, carry = (word & self.half.replicate(XLEN) for word in words)
        m.d.comb += [adder.a.eq(partial), adder.b.eq(carry), self.half_sum.eq(adder.result)]
