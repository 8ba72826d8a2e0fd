from amaranth.hdl import Const, Module, Mux, Signal, Value

from xpulpnn.component import Component, In, Out, follow_case, signals
from xpulpnn.core.alu_ctrl import AluField, AluFieldPlace
from xpulpnn.core.lanes import ALL_ONES, XLEN
from xpulpnn.isa.formats import ElemFmt

INDEX_BITS = (XLEN - 1).bit_length()


def bits_below(index: Value) -> Value:
    return Const(ALL_ONES >> 1, XLEN) >> ~index


class BitField(Component):
    """Masks applied before and after the shifter for operations on one bit field.

    ``shifted`` is the output of the shifter: ``op_a`` shifted right by ``start`` for EXTRACT (arithmetically when
    ``signed``), left for INSERT. The field ``K`` has ``W`` bits from bit ``start``, at most up to bit 31. EXTRACT gives
    the low ``W`` bits of ``shifted`` extended by their sign or zero, INSERT ``(op_c & ~K) | (shifted & K)``, CLEAR
    ``op_a & ~K``, SET ``op_a | K``, all as ``(shifted & inside) | around``; the masks do not depend on the shifter.
    Combinational.
    """

    field: In(AluField)  #: Operation.
    place: In(AluFieldPlace)  #: Selects the width ``W``: a constant, or ``width_m1 + 1``.
    signed: In(1)  #: EXTRACT extends the sign.
    #: start, width_m1: Lowest bit of the field; its width minus one.
    start: In(INDEX_BITS)
    width_m1: In(INDEX_BITS)
    #: op_a, op_c: rs1 and the old rd.
    op_a: In(XLEN)
    op_c: In(XLEN)
    inside: Out(XLEN)  #: Bits that come from the shifted operand, for EXTRACT and INSERT; for CLEAR and SET the field.
    around: Out(XLEN)  #: The other bits of the result.

    def elaborate(self, platform):
        m = Module()
        width_m1 = Signal(INDEX_BITS)
        lanes = {AluFieldPlace.HALF: ElemFmt.H.width - 1, AluFieldPlace.BYTE: ElemFmt.B.width - 1}
        follow_case(m, width_m1, self.place, {AluFieldPlace.OPERAND: self.width_m1, **lanes})
        extract = self.field == AluField.EXTRACT
        first, end = signals(INDEX_BITS, "first end")
        last = Signal(INDEX_BITS + 1)
        sign = Signal()
        m.d.comb += [
            last.eq(self.start + width_m1),
            end.eq(last[:INDEX_BITS] | last[INDEX_BITS].replicate(INDEX_BITS)),
            # The sign is read before the shift, which moves an extracted field to bit 0.
            sign.eq(self.signed & self.op_a.bit_select(end, 1)),
            first.eq(Mux(extract, 0, self.start)),
            self.inside.eq((Const(ALL_ONES, XLEN) >> ~Mux(extract, width_m1, end)) & ~bits_below(first)),
        ]

        outer, filled = signals(XLEN, "outer filled")
        with m.Switch(self.field):
            with m.Case(AluField.EXTRACT):
                m.d.comb += outer.eq(sign.replicate(XLEN))
            with m.Case(AluField.INSERT):
                m.d.comb += outer.eq(self.op_c)
            with m.Case(AluField.CLEAR):
                m.d.comb += outer.eq(self.op_a)
            with m.Case(AluField.SET):
                m.d.comb += [outer.eq(self.op_a), filled.eq(self.inside)]
        m.d.comb += self.around.eq((outer & ~self.inside) | filled)
        return m
