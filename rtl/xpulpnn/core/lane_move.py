from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core.alu_ctrl import AluMove, LaneFmt
from xpulpnn.core.lanes import XLEN
from xpulpnn.isa.formats import ElemFmt

BYTE = ElemFmt.B.width
BYTES = ElemFmt.B.lanes
INDEX_BITS = (BYTES - 1).bit_length()


def move_formats(config: CoreConfig) -> tuple[ElemFmt, ...]:
    return tuple(fmt for fmt in (ElemFmt.H, ElemFmt.B) if fmt.width in config.widths)


class LaneMove(Component):
    """Byte crossbar for ``pv.shuffle``, ``pv.shuffle2``, ``pv.pack``, ``pv.packhi`` and ``pv.packlo``.

    Every result byte is one byte of ``op_a`` or ``op_c``, chosen by the low bits of the selector lane in ``op_b``; the
    packs are fixed selections into which the low lanes of ``op_b`` are placed. Combinational.
    """

    fmt: In(LaneFmt)  #: H or B.
    move: In(AluMove)  #: Operation; PACK on half-words, PACKHI and PACKLO on bytes.
    #: op_a, op_c: Sources: rs1 and the old rd.
    op_a: In(XLEN)
    op_b: In(XLEN)  #: Selectors, or the other source of the packs.
    op_c: In(XLEN)
    moved: Out(XLEN)  #: Result.

    def __init__(self, config: CoreConfig) -> None:
        self._formats = move_formats(config)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        places = [Signal(range(BYTES), name=f"place_{byte}") for byte in range(BYTES)]
        from_a, from_b = signals(BYTES, "from_a from_b")
        for byte, place in enumerate(places):
            selector = Signal(INDEX_BITS + 1, name=f"selector_{byte}")
            m.d.comb += [selector.eq(self._selector(byte)), Cat(place, from_a[byte]).eq(selector)]
        with m.Switch(self.move):
            with m.Case(AluMove.SHUFFLE):
                m.d.comb += from_a.eq(~0)
            if ElemFmt.H in self._formats:
                with m.Case(AluMove.PACK):
                    self._pack(m, places, from_a, from_b, ElemFmt.H, upper=1)
            if ElemFmt.B in self._formats:
                with m.Case(AluMove.PACKHI):
                    self._pack(m, places, from_a, from_b, ElemFmt.B, upper=BYTES - 1)
                with m.Case(AluMove.PACKLO):
                    self._pack(m, places, from_a, from_b, ElemFmt.B, upper=1)
        for byte, place in enumerate(places):
            source = Signal(XLEN, name=f"source_{byte}")
            half = Signal(XLEN // 2, name=f"half_{byte}")
            m.d.comb += [
                source.eq(Mux(from_a[byte], self.op_a, self.op_c)),
                half.eq(Mux(place[1], source[XLEN // 2 :], source[: XLEN // 2])),
            ]
            chosen = Mux(place[0], half[BYTE:], half[:BYTE])
            # A pack places the low lane of op_b at an even byte or half-word, so the byte order in the lane stays.
            packed = self.op_b.word_select(byte % (self._formats[0].width // BYTE), BYTE)
            m.d.comb += self.moved.word_select(byte, BYTE).eq(Mux(from_b[byte], packed, chosen))
        return m

    @staticmethod
    def _pack(m: Module, places: list[Signal], from_a: Signal, from_b: Signal, fmt: ElemFmt, upper: int) -> None:
        """Select lane 0 of ``op_a`` for lane ``upper``, lane 0 of ``op_b`` for the lane below, ``op_c`` elsewhere."""
        size = fmt.width // BYTE
        for byte, place in enumerate(places):
            lane, offset = divmod(byte, size)
            m.d.comb += [
                from_a[byte].eq(lane == upper),
                from_b[byte].eq(lane == upper - 1),
                place.eq(offset if lane == upper else byte),
            ]

    def _selector(self, byte: int) -> Value:
        """Return the selector of a result byte: the source byte's number, and a bit above it that selects ``op_a``."""
        half, offset = divmod(byte, 2)
        chosen = {
            ElemFmt.H: Cat(Const(offset, 1), self.op_b.word_select(half, ElemFmt.H.width)[:INDEX_BITS]),
            ElemFmt.B: self.op_b.word_select(byte, BYTE)[: INDEX_BITS + 1],
        }
        if len(self._formats) == 1:
            return chosen[self._formats[0]]
        return Mux(Value.cast(self.fmt)[ElemFmt.B], chosen[ElemFmt.B], chosen[ElemFmt.H])
