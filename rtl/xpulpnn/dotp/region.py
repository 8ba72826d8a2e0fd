from functools import reduce
from operator import add

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.utils import exact_log2

from xpulpnn.arith.carry_save import carry_save
from xpulpnn.component import Component, In, Out
from xpulpnn.config import Adders
from xpulpnn.dotp.ctrl import signed_offset
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN


class DotpRegion(Component):
    """Sum of the products of one element format.

    ``sum(ea(a[i]) * eb(b[i]))`` modulo 2**32 over the lanes of ``fmt``; ``ea`` and ``eb`` extend an element of w bits
    to w + 1 bits with its sign if ``a_signed`` / ``b_signed``, else with zero. With ``inferred`` adders the sum plus
    ``acc`` is ``result``; with ``carry-save`` adders it is the sum of ``partial`` and ``carry``.

    The extension bit is not multiplied as one more row and column. A product bit with the top bit of a signed element
    as one factor has negative weight; it is inverted instead, and one constant row corrects all lanes
    (:func:`~xpulpnn.dotp.ctrl.signed_offset`). All addends are then unsigned without sign extension up to bit 31, which
    reduces the area of plain (w + 1)-bit signed products by 14 % (16 bit) to 64 % (2 bit).

    An ``inferred`` sum is one n-ary sum: synthesis merges it into a single multiply-accumulate cell (``alumacc`` of
    Yosys), a carry-save tree with one carry-propagate adder at the end. A ``carry-save`` tree is as wide as the sum of
    unsigned products: 2w + log2(lanes) bits. The higher bits of the constant row become the higher bits of ``partial``.
    Combinational, no state.
    """

    def __init__(self, fmt: ElemFmt, *, registered: bool, adders: Adders, signed_products: bool = False) -> None:
        #: load: The factors are sampled at the end of this cycle; ``registered`` only.
        self.fmt = fmt
        self.module_variant = fmt.name.lower()
        # registered: Operand registers keep the multipliers quiet unless the region is loaded.
        self.registered = registered
        self.adders = adders
        # signed products, for an FPGA's multipliers; not for crumbs
        self.signed_products = signed_products and fmt is not ElemFmt.C
        #: a, b: Packed factors; with ``registered`` sampled when ``load`` is high, else combinational.
        #: a_signed, b_signed: Signs of the elements of ``a`` and ``b``, sampled with them.
        ports = {"a": In(XLEN), "b": In(XLEN), "a_signed": In(1), "b_signed": In(1)}
        if registered:
            ports["load"] = In(1)
        if adders == "inferred":
            #: acc: Addend, combinational to ``result``; ``inferred`` only.
            #: result: Low word of the sum; ``inferred`` only.
            ports |= {"acc": In(XLEN), "result": Out(XLEN)}
        else:
            #: partial, carry: Two words with that sum; ``carry-save`` only.
            ports |= {"partial": Out(XLEN), "carry": Out(XLEN)}
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        factors = (self.a, self.b, self.a_signed, self.b_signed)
        if self.registered:
            held = tuple(Signal.like(port, name=f"{port.name}_q") for port in factors)
            with m.If(self.load):
                m.d.sync += [register.eq(port) for register, port in zip(held, factors, strict=True)]
            factors = held
        if self.signed_products:
            self.add_signed_products(m, *factors)
        elif self.adders == "inferred":
            self.add_products(m, *factors)
        else:
            self.compress_products(m, *factors)
        return m

    def add_products(self, m: Module, a: Value, b: Value, a_signed: Value, b_signed: Value) -> None:
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
        # The accumulator comes last so that simulators add narrow words first; the order does not matter in gates.
        m.d.comb += self.result.eq(reduce(add, lanes) + signed_offset(self.fmt, a_signed, b_signed) + self.acc)

    def add_signed_products(self, m: Module, a: Value, b: Value, a_signed: Value, b_signed: Value) -> None:
        """Sum the products of signed factors, which synthesis maps to the multipliers of an FPGA.

        Addends must be unsigned, or synthesis builds a chain of adders: sign bits are inverted, which adds their weight
        once for every lane.
        """
        width = self.fmt.width
        lanes: list[Value] = []
        for lane in range(self.fmt.lanes):
            x, y = a.word_select(lane, width), b.word_select(lane, width)
            product = Signal(min(2 * width + 2, XLEN), name=f"product{lane}")
            m.d.comb += product.eq(Cat(x, x[-1] & a_signed).as_signed() * Cat(y, y[-1] & b_signed).as_signed())
            lanes.append(product)
        if (sign := len(lanes[0]) - 1) < XLEN - 1:
            lanes = [Cat(product[:sign], ~product[sign]) for product in lanes]
            lanes.append(Const(-(len(lanes) << sign) % (1 << XLEN), XLEN))
        m.d.comb += self.result.eq(reduce(add, lanes) + self.acc)

    def compress_products(self, m: Module, a: Value, b: Value, a_signed: Value, b_signed: Value) -> None:
        width = self.fmt.width
        used = min(2 * width + exact_log2(self.fmt.lanes), XLEN)
        rows: list[Value] = []
        for lane in range(self.fmt.lanes):
            x, y = a.word_select(lane, width), b.word_select(lane, width)
            for place in range(width):
                # bits with one top bit as a factor are inverted where that factor is signed
                last = place == width - 1
                inverted = Cat(Const(0, width - 1), a_signed)
                if last:
                    inverted ^= b_signed.replicate(width)
                row = Signal(place + width, name=f"row{lane}_{place}")
                m.d.comb += row.eq(((x & y[place].replicate(width)) ^ inverted) << place)
                rows.append(row)
        offset = signed_offset(self.fmt, a_signed, b_signed)
        (_, partial), (_, carry) = carry_save(m, [*rows, offset[:used]], used, "tree")
        m.d.comb += [self.partial.eq(Cat(partial, offset[used:])), self.carry.eq(carry)]
