from amaranth.hdl import Cat, Module, Mux, Signal, Value

from xpulpnn.component import Component, In, Out
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN


class WeightWidener(Component):
    """Extends weights of half or a quarter of a format's width by sign or zeros, one for each lane of the format.

    With ``half`` the weights are taken from the half of the word with number ``part[0]``, with ``quarter`` from the
    quarter with number ``part``; otherwise the word passes unchanged. Halves of H, B and N and quarters of H and B are
    supported; other results are undefined. Combinational.
    """

    word: In(XLEN)  #: Word of weights.
    fmt: In(ElemFmt)  #: Format of the activations.
    half: In(1)  #: The weights have half the width of the format.
    quarter: In(1)  #: The weights have a quarter of the width of the format.
    part: In(2)  #: Number of the half or quarter that holds the weights.
    is_signed: In(1)  #: The weights are signed.
    result: Out(XLEN)  #: Word of the format, in the same cycle.

    def elaborate(self, platform):
        m = Module()
        half = Signal(XLEN // 2)
        quarter = Signal(XLEN // 4)
        low = Mux(self.quarter, self.part[1], self.part[0])
        m.d.comb += [
            half.eq(Mux(low, self.word[XLEN // 2 :], self.word[: XLEN // 2])),
            quarter.eq(Mux(self.part[0], half[XLEN // 4 :], half[: XLEN // 4])),
            self.result.eq(self.word),
        ]
        for narrow, source, formats in (
            (self.half, half, (ElemFmt.H, ElemFmt.B, ElemFmt.N)),
            (self.quarter, quarter, (ElemFmt.H, ElemFmt.B)),
        ):
            with m.If(narrow), m.Switch(self.fmt):
                for fmt in formats:
                    with m.Case(fmt):
                        m.d.comb += self.result.eq(self._extended(source, fmt))
        return m

    def _extended(self, source: Value, fmt: ElemFmt) -> Value:
        width = len(source) // fmt.lanes
        lanes = (source.word_select(lane, width) for lane in range(fmt.lanes))
        return Cat(Cat(lane, (lane[-1] & self.is_signed).replicate(fmt.width - width)) for lane in lanes)
