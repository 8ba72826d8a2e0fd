from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import Member

from xpulpnn.arith.carry_save import carry_save
from xpulpnn.arith.prefix_adder import DENSE_GROUP
from xpulpnn.component import In, Out
from xpulpnn.dotp.cross import CROSS_BITS
from xpulpnn.dotp.decoded import DecodedDotp
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import HALF_BITS, XLEN

PRODUCT_BITS = 2 * XLEN


class OuterDotp(DecodedDotp):
    """The sum of products of :class:`~xpulpnn.dotp.shared.DotpShared`, and the product of two words.

    ``result`` is the sum of products, with ``rounding`` added in format H. With ``word``, which needs format H,
    ``product`` is ``a * b + acc``, where a word is signed if the factor is; unless ``acc`` is 0, only the lower word of
    ``product`` is right. The products of a lower with an upper half come as ``partial`` and ``carry`` from
    :class:`~xpulpnn.dotp.cross.CrossDotp`. A signed product of 32 bits needs the constant ``2**31 * (a_signed +
    b_signed) - 2**63 * (a_signed | b_signed)``: the 2**31 of one signed factor is added in ``CrossDotp``, the rest
    here. Combinational, no state.
    """

    group = DENSE_GROUP

    def ports(self, ports: dict[str, Member]) -> dict[str, Member]:
        return {
            **super().ports(ports),
            "word": In(1),  #: The factors are words.
            "rounding": In(XLEN),  #: Second addend, 0 but in format H.
            #: partial, carry: Words whose sum has weight 2**16 in the product of the words.
            "partial": In(CROSS_BITS),
            "carry": In(CROSS_BITS),
            "complement": In(1),  #: The product is complemented.
            "product": Out(PRODUCT_BITS),  #: Product of the words.
        }

    def signs(self, fmt: ElemFmt) -> list[tuple[Value, Value]]:
        """Return the signs of both factors of each array. With ``word`` the lower half of each word is unsigned."""
        a_signed, b_signed = self.format_signs(fmt)
        lower = (a_signed & ~self.word, b_signed & ~self.word) if fmt is ElemFmt.H else (a_signed, b_signed)
        return [lower, (a_signed, b_signed)]

    def add_rows(self, m: Module, arrays: list[list[Value]], offset: Signal, addend: Signal, total: Signal) -> None:
        """Add the rows of each array, then both sums; in a product of words, array 1 has the weight 2**32."""
        word = self.word
        with m.If(word):
            a_signed, b_signed = self.format_signs(ElemFmt.H)
            m.d.comb += offset.eq(Cat(a_signed & b_signed, Const(0, XLEN - 2), a_signed | b_signed))
        lower_rows, upper_rows = arrays
        lower = [value for _, value in carry_save(m, [*lower_rows, addend, self.rounding], len(total), "lower")]
        upper = [value for _, value in carry_save(m, [*upper_rows, offset], len(total), "upper")]
        words: list[Signal] = []
        for name, low, high, other in zip(("partial", "carry"), lower, upper, (self.partial, self.carry), strict=True):
            joined, moved = (Signal(PRODUCT_BITS, name=f"{name}_{end}") for end in ("joined", "moved"))
            m.d.comb += [
                joined.eq(low | Cat(Const(0, XLEN), high[:XLEN] & word.replicate(XLEN))),
                moved.eq(Mux(word, Cat(Const(0, HALF_BITS), other), high)),
            ]
            words += [joined, moved]
        (_, partial), (_, carry) = carry_save(m, words, PRODUCT_BITS, "whole")
        mask = self.add_words(m, partial, carry, self.product, self.complement)
        with m.If(word):
            m.d.comb += mask.eq(-1)
        m.d.comb += total.eq(self.product)
