from collections.abc import Callable
from functools import reduce
from itertools import chain
from operator import add

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import Member

from xpulpnn.arith.carry_save import carry_save
from xpulpnn.arith.prefix_adder import GROUP, PrefixAdder
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import DotpConfig
from xpulpnn.dotp.ctrl import signed_offset
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN


def block_mask(fmt: ElemFmt, row: int, side: int) -> int:
    """Return the bits of the reversed factor a that row ``row`` of a ``side``-bit array multiplies in ``fmt``.

    The lanes of factor a are reversed, so that lane k from the top is multiplied with lane k of factor b.
    """
    lane = side // fmt.width - 1 - row // fmt.width
    return ((1 << fmt.width) - 1) << (lane * fmt.width)


Choice = tuple[Signal, Value]
"""A signal, and its value in one element format."""


class DotpShared(Component):
    """Sum of products on one set of multipliers for every configured format ("sum together").

    ``result = acc + sum(ea(a[i]) * eb(b[i]))`` modulo 2**32 over the lanes of ``fmt``, elements extended by sign or
    zero as in :class:`~xpulpnn.dotp.region.DotpRegion`.

    An array multiplies W by W bits, where W is the width of the widest format, and there is one array per W bits of the
    word. The lanes of factor a are reversed within each array: the products of a narrower format w then lie on the
    anti-diagonal of its blocks and all have weight 2**(W - w). The other blocks are masked at factor a, so that factor
    b, which changes more often in kernels, reaches the products without delay. The accumulator enters the same sum at
    that weight, so that one carry-save tree and one carry-propagate adder serve all formats: a single
    multiply-accumulate cell in Yosys with ``inferred`` adders, an explicit tree and a parallel-prefix adder with
    ``carry-save``. Signs are handled by inverted product bits and a constant row, as in ``DotpRegion``. Combinational,
    no state.
    """

    group = GROUP  # bits that the adder groups before its prefix network

    # config (DotpConfig): ``widths`` are the formats of the array, whose masks isolate.
    def __init__(self, config: DotpConfig) -> None:
        ports = {
            "fmt": In(ElemFmt),  #: Element format.
            #: a, b: Packed factors.
            "a": In(XLEN),
            "b": In(XLEN),
            #: a_signed, b_signed: Signs of the elements of ``a`` and ``b``.
            "a_signed": In(1),
            "b_signed": In(1),
            "acc": In(XLEN),  #: Addend.
            "result": Out(XLEN),  #: Low word of the sum.
        }
        super().__init__(config, self.ports(ports))

    def ports(self, ports: dict[str, Member]) -> dict[str, Member]:
        """Return the ports of the dot product; subclasses add and replace ports."""
        return ports

    @property
    def side(self) -> int:
        """Number of rows and columns of an array: the widest element width in bits."""
        return max(self.config.widths)

    def elaborate(self, platform):
        m = Module()
        side, digit = self.side, min(self.config.widths)
        total, addend, offset = signals(XLEN + side - digit, "total addend offset")
        count = len(self.signs(ElemFmt.B))
        groups = [f"{group}_" for group in range(count)] if count > 1 else [""]
        inverted = [[Signal(side, name=f"inverted_{group}{row}") for row in range(side)] for group in groups]

        def weight(fmt: ElemFmt) -> int:
            return side - fmt.width

        def inversions(fmt: ElemFmt) -> list[Choice]:
            choices: list[Choice] = []
            tops = sum(1 << position for position in range(fmt.width - 1, side, fmt.width))
            for (a_signed, b_signed), rows in zip(self.signs(fmt), inverted, strict=True):
                for row, invert in enumerate(rows):
                    mask = Const(block_mask(fmt, row, side), side)
                    by_a = a_signed.replicate(side) & tops
                    by_b = b_signed.replicate(side)
                    choices.append((invert, (by_a ^ by_b if tops >> row & 1 else by_a) & mask))
            return choices

        self.choose(m, lambda fmt: [(addend, self.acc << weight(fmt))])
        self.choose(m, lambda fmt: [(offset, signed_offset(fmt, *self.format_signs(fmt)) << weight(fmt))], signs=True)
        self.choose(m, lambda fmt: [(self.result, total[weight(fmt) : weight(fmt) + XLEN])])
        self.choose(m, inversions, signs=True)
        arrays: list[list[Value]] = []
        for group in range(XLEN // side):
            arrays.append([])
            for place, row in enumerate(self.product_rows(m, group)):
                signed_row = Signal(place + side, name=f"signed_row_{group}_{place}")
                m.d.comb += signed_row.eq((row ^ inverted[group % count][place]) << place)
                arrays[-1].append(signed_row)
        self.add_rows(m, arrays, offset, addend, total)
        return m

    def choose(self, m: Module, choices: Callable[[ElemFmt], list[Choice]], *, signs: bool = False) -> None:
        """Select the values of signals by format; with ``signs``, every value is 0 if the factors are unsigned."""
        with m.Switch(self.fmt):
            for fmt in self.config.formats:
                with m.Case(fmt):
                    m.d.comb += [target.eq(value) for target, value in choices(fmt)]

    def format_signs(self, fmt: ElemFmt) -> tuple[Value, Value]:
        return self.a_signed, self.b_signed

    def signs(self, fmt: ElemFmt) -> list[tuple[Value, Value]]:
        """Return the signs of both factors: one pair for all arrays, or one pair for each array."""
        return [self.format_signs(fmt)]

    def add_rows(self, m: Module, arrays: list[list[Value]], offset: Signal, addend: Signal, total: Signal) -> None:
        rows = [*chain(*arrays), offset, addend]
        if self.config.adders == "inferred":
            m.d.comb += total.eq(reduce(add, rows))
            return
        (_, partial), (_, carry) = carry_save(m, rows, len(total), "tree")
        self.add_words(m, partial, carry, total)

    def add_words(
        self, m: Module, partial: Value, carry: Value, total: Signal, complement: Value | None = None
    ) -> Signal:
        """Add two words; return a mask that clears bits above the width of the result."""
        m.submodules.adder = adder = PrefixAdder(len(total), group=self.group, complements=complement is not None)
        if complement is not None:
            m.d.comb += adder.complement.eq(complement)
        mask = Signal.like(total, name="wanted")
        self.choose(m, lambda fmt: [(mask, Const((1 << XLEN + self.side - fmt.width) - 1, len(mask)))])
        m.d.comb += [adder.a.eq(partial & mask), adder.b.eq(carry & mask), total.eq(adder.result)]
        return mask

    def product_rows(self, m: Module, group: int) -> list[Signal]:
        side, digit = self.side, min(self.config.widths)
        a, b = self.a.word_select(group, side), self.b.word_select(group, side)
        factors = [Signal(side, name=f"a_{group}_{number}") for number in range(side // digit)]

        def masked(fmt: ElemFmt) -> list[Choice]:
            lanes = [a.word_select(lane, fmt.width) for lane in range(side // fmt.width)]
            return [
                (factor, Cat(*reversed(lanes)) & block_mask(fmt, number * digit, side))
                for number, factor in enumerate(factors)
            ]

        self.choose(m, masked)
        rows: list[Signal] = []
        for position in range(side):
            row = Signal(side, name=f"row_{group}_{position}")
            m.d.comb += row.eq(factors[position // digit] & b[position].replicate(side))
            rows.append(row)
        return rows
