"""Dot products of one or two pixels with a word of weights, and products of words."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data

from xpulpnn.component import Component, In, Out
from xpulpnn.core.mult import MultOp
from xpulpnn.core.product_unit import ProductUnit
from xpulpnn.dotp.ctrl import DotpCtrl
from xpulpnn.dotp.unit import DotpUnit
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN
from xpulpnn.xif.config import XifConfig


class Products(Component):
    """``sums[u] = olds[u] * ctrl.accumulate + dot(activations[u], weights)`` for each dot-product unit.

    With requantisation the arrays of both units also make the product of two words. Combinational.
    """

    def __init__(self, config: XifConfig) -> None:
        self.units = int(config.dots)
        words = data.ArrayLayout(XLEN, self.units)
        ports = {
            "ctrl": In(DotpCtrl),  #: Format, signs of activations (a) and weights (b), and whether to accumulate.
            "activations": In(words),  #: Words of the pixels.
            "weights": In(XLEN),  #: Word of the filter.
            "olds": In(words),  #: Old sums.
            "sums": Out(words),  #: New sums, in the same cycle.
        }
        if config.requantise != "none":
            #: multiply: The units multiply words instead, and ``sums`` is undefined; only with requantisation.
            #: exact: The factors are signed and the product has 64 bits; else 32, and the summand is added; only with
            #:   requantisation.
            #: factor, scaled, summand: ``product = scaled * factor + summand``; only with requantisation.
            #: product: Product, in the same cycle; only with requantisation.
            ports |= {"multiply": In(1), "exact": In(1), "factor": In(XLEN), "scaled": In(XLEN), "summand": In(XLEN)}
            ports["product"] = Out(2 * XLEN)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        if self.config.requantise != "none":
            self._with_multiplications(m)
            return m
        for number in range(self.units):
            m.submodules[f"dotp_{number}"] = unit = DotpUnit(self.config.core.dotp)
            m.d.comb += [
                unit.ctrl.eq(self.ctrl),
                unit.rs1.eq(self.activations[number]),
                unit.rs2.eq(self.weights),
                unit.rd.eq(self.olds[number]),
                self.sums[number].eq(unit.result),
            ]
        return m

    def _with_multiplications(self, m):
        m.submodules.units = units = ProductUnit(self.config.core)
        chosen = [(self.ctrl.fmt == fmt) & ~self.multiply for fmt in ElemFmt]
        chosen[ElemFmt.H] |= self.multiply
        a_signed = (self.ctrl.a_signed & ~self.multiply) | (self.exact & self.multiply)
        b_signed = (self.ctrl.b_signed & ~self.multiply) | (self.exact & self.multiply)
        fields = (Cat(chosen), Cat(bit & a_signed for bit in chosen), Cat(bit & b_signed for bit in chosen))
        word = units.dotp_form
        m.d.comb += [
            *(each.eq(Cat(fields)) for each in (units.dotp_format.as_value(), units.dotp2_format.as_value())),
            *(bit.eq(self.multiply) for bit in (word.scalar, word.word)),
            *(bit.eq(1) for bit in (word.lower, word.upper, units.pair)),
            *(bit.eq(self.exact & self.multiply) for bit in (units.ctrl.a_signed, units.ctrl.b_signed)),
            units.ctrl.op.eq(MultOp.WORD),
            units.requantise.eq(self.multiply),
            units.nn_lambda.eq(self.summand),
            units.dotp_a.eq(self.activations[0]),
            units.act2.eq(self.activations[1]),
            units.dotp_b.eq(self.weights),
            units.dotp_accumulate.eq(self.ctrl.accumulate & ~self.multiply),
            units.op_c.eq(self.olds[0]),
            units.second_sum.eq(self.olds[1]),
            Cat(self.sums[0], self.sums[1]).eq(Cat(units.first, units.second)),
            self.product.eq(Cat(units.result, units.upper)),
        ]
        with m.If(self.multiply):
            m.d.comb += [units.dotp_a.eq(self.scaled), units.dotp_b.eq(self.factor)]
        return m
