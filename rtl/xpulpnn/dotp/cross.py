from itertools import chain

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import Member

from xpulpnn.arith.carry_save import carry_save
from xpulpnn.arith.prefix_adder import DENSE_GROUP
from xpulpnn.component import In, Out
from xpulpnn.dotp.decoded import DecodedDotp
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import HALF_BITS, XLEN

CROSS_BITS = XLEN + 2  # bits of the sum of two products and the corrections for signs


class CrossDotp(DecodedDotp):
    """The sum of products of :class:`~xpulpnn.dotp.shared.DotpShared`, and the inner products of two words.

    ``result`` is the sum of products. With ``word``, which needs format H and ``acc`` 0, ``a`` is a word ``x``, and
    ``b`` is a word ``y`` with its halves exchanged. Then ``partial + carry`` is ``x[31:16] * y[15:0] + x[15:0] *
    y[31:16]``, where upper halves are signed if the factor is. Some constants for the signs are missing, which
    :class:`~xpulpnn.dotp.outer.OuterDotp` adds. Combinational, no state.
    """

    group = DENSE_GROUP

    def ports(self, ports: dict[str, Member]) -> dict[str, Member]:
        return {
            **super().ports(ports),
            "word": In(1),  #: The factors are words.
            #: partial, carry: Words whose sum has weight 2**16 in the product of the words.
            "partial": Out(CROSS_BITS),
            "carry": Out(CROSS_BITS),
        }

    def signs(self, fmt: ElemFmt) -> list[tuple[Value, Value]]:
        """Return the signs of both factors of each array. With ``word`` the lower half of each word is unsigned."""
        a_signed, b_signed = self.format_signs(fmt)
        if fmt is not ElemFmt.H:
            return [(a_signed, b_signed)] * 2
        return [(a_signed & ~self.word, b_signed), (a_signed, b_signed & ~self.word)]

    def add_rows(self, m: Module, arrays: list[list[Value]], offset: Signal, addend: Signal, total: Signal) -> None:
        with m.If(self.word):
            a_signed, b_signed = self.format_signs(ElemFmt.H)
            m.d.comb += offset.eq((a_signed ^ b_signed) << (HALF_BITS - 1))
        (_, partial), (_, carry) = carry_save(m, [*chain(*arrays), offset, addend], len(total), "tree")
        m.d.comb += [self.partial.eq(partial), self.carry.eq(carry)]
        self.add_words(m, partial, carry, total)
