"""Dot product of one element format: the multipliers and the adder tree of one bit-width region."""

from functools import reduce
from operator import add

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.dotp.lanes import WORD, signed_offset
from xpulpnn.isa.formats import ElemFmt


class DotpRegion(wiring.Component):
    """Sum of the products of one element format, plus an accumulator.

    ``result = acc + sum(ea(a[i]) * eb(b[i]))`` modulo 2**32 over the lanes of ``fmt``; ``ea`` and ``eb`` extend an
    element of w bits to w + 1 bits with its sign if ``a_signed`` / ``b_signed``, else with zero.

    The extension bit is not multiplied as one more row and column. A product bit with the top bit of a signed element
    as one factor has negative weight; it is inverted instead, and one constant row makes up for all lanes
    (:func:`~xpulpnn.dotp.lanes.signed_offset`). All addends are then unsigned and none carries sign-extension bits up
    to bit 31, which takes 14 % (16 bit) to 64 % (2 bit) off the area of plain (w + 1)-bit signed products.

    Everything is one n-ary sum: synthesis merges it into a single multiply-accumulate cell (``alumacc`` of Yosys),
    a carry-save tree with one carry-propagate adder at the end. Combinational, no state.

    Parameters
    ----------
    fmt : ElemFmt
        The element format.
    registered : bool
        Puts an operand register in front of the multipliers, so that the region is quiet unless it is loaded.

    Members
    -------
    a, b : In(32)
        Packed factors; with ``registered`` sampled when ``load`` is high, else combinational.
    a_signed, b_signed : In(1)
        Signs of the elements of ``a`` and ``b``, sampled with them.
    load : In(1)
        The factors are sampled at the end of this cycle; ``registered`` only.
    acc : In(32)
        Addend, combinational to ``result``.
    result : Out(32)
        Low word of the sum.
    """

    def __init__(self, fmt: ElemFmt, *, registered: bool) -> None:
        """Declare the ports, ``load`` only with the register."""
        self.fmt = fmt
        self.registered = registered
        ports = {
            "a": In(WORD),
            "b": In(WORD),
            "a_signed": In(1),
            "b_signed": In(1),
            "acc": In(WORD),
            "result": Out(WORD),
        }
        if registered:
            ports["load"] = In(1)
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        """Build the operand register, the product rows and the sum."""
        m = Module()
        factors = (self.a, self.b, self.a_signed, self.b_signed)
        if self.registered:
            held = tuple(Signal.like(port, name=f"{port.name}_q") for port in factors)
            with m.If(self.load):
                m.d.sync += [register.eq(port) for register, port in zip(held, factors, strict=True)]
            factors = held
        a, b, a_signed, b_signed = factors
        top = self.fmt.width - 1
        lanes: list[Value] = []
        for lane in range(self.fmt.lanes):
            x, y = a.word_select(lane, self.fmt.width), b.word_select(lane, self.fmt.width)
            by_x = (y[:top] & x[top].replicate(top)) ^ a_signed.replicate(top)
            by_y = (x[:top] & y[top].replicate(top)) ^ b_signed.replicate(top)
            corner = (x[top] & y[top]) ^ a_signed ^ b_signed
            rows = x[:top] * y[:top] + Cat(Const(0, top), by_x, corner) + Cat(Const(0, top), by_y)
            product = Signal(len(rows), name=f"product{lane}")
            m.d.comb += product.eq(rows)
            lanes.append(product)
        # The accumulator comes last so that simulators add narrow words up to there; in gates the order is immaterial.
        m.d.comb += self.result.eq(reduce(add, lanes) + signed_offset(self.fmt, a_signed, b_signed) + self.acc)
        return m
