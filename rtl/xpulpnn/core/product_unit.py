"""Two dot products and all multiplications of a core on the same arrays (guide, "Multiplication")."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.config import CoreConfig
from xpulpnn.core.mult import HALF, MultCtrl, MultOp
from xpulpnn.dotp.cross import CrossDotp
from xpulpnn.dotp.ctrl import ArrayFormat
from xpulpnn.dotp.outer import OuterDotp
from xpulpnn.isa.machine import XLEN


class ProductForm(data.Struct):
    """Type of the factors of the second dot-product unit; all 0 for a single dot product."""

    scalar: 1  #: The factors belong to a multiplication; else to the second activations.
    word: 1  #: The factors are words.
    #: lower, upper: Half-words of the second factor that are used: lower, upper, or both.
    lower: 1
    upper: 1

    @staticmethod
    def fields(control: Mapping[str, MultOp | bool] | None, *, pair: bool) -> dict[str, bool]:
        """Return the fields for a multiplication, given its :class:`MultCtrl`, or for dot products."""
        if control is None:
            return {"scalar": False, "word": False, "lower": pair, "upper": pair}
        word, upper = control["op"] is not MultOp.HALF, bool(control.get("upper"))
        return {"scalar": True, "word": word, "lower": word or not upper, "upper": word or upper}


class ProductUnit(Component):
    """The dot products of two pixels with one weight word, or an operation of :class:`~xpulpnn.core.mult.Mult`.

    For dot products ``first = op_c * dotp_accumulate + dot(dotp_a, dotp_b)``, with ``pair`` also ``second = second_sum
    * dotp_accumulate + dot(act2, dotp_b)``. A word is two half-words, so the four 16 x 16 bit multiplier arrays of both
    units make a product of words: ``dotp`` multiplies lower by upper halves, ``dotp2`` lower by lower and upper by
    upper halves, and adds all four. With the form ``word``, ``result`` is the result of ``WORD`` and ``upper`` the
    result of ``HIGH``. A product of half-words is a dot product with 0 in the other half: ``second`` is the sum of
    ``HALF`` before its shift. A requantisation has the form ``word``: ``second`` and ``result`` are the lower word of
    ``dotp_a * dotp_b``, plus ``nn_lambda`` if unsigned.

    Combinational, one operation per cycle. No partial product changes while form, format, signs and factors are stable.

    Parameters
    ----------
    config : CoreConfig
        Formats present, and requantisation.
    """

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "dotp_form": In(ProductForm),  #: Type of the factors.
            #: dotp_format, dotp2_format: Element format and signs of each unit; H for a multiplication.
            "dotp_format": In(ArrayFormat),
            "dotp2_format": In(ArrayFormat),
            #: dotp_a, dotp_b: Factors.
            "dotp_a": In(XLEN),
            "dotp_b": In(XLEN),
            "act2": In(XLEN),  #: First factor of the second dot product.
            "pair": In(1),  #: The second dot product is used.
            "dotp_accumulate": In(1),  #: The dot products are added to old sums.
            #: second_sum: Old second sum.
            #: op_c: Old first sum, or addend of an accumulating multiplication.
            "second_sum": In(XLEN),
            "op_c": In(XLEN),
            "ctrl": In(MultCtrl),  #: Multiplication; 0 for a dot product.
            "shamt": In(range(XLEN)),  #: Amount of the shift that follows ``HALF``, for the rounding.
            #: first, second: Dot products.
            "first": Out(XLEN),
            "second": Out(XLEN),
            "result": Out(XLEN),  #: Lower word of a product of words; undefined for other forms.
            "upper": Out(XLEN),  #: Upper word of a product of words.
        }
        if config.requantise:
            #: requantise: The multiplication is a requantisation; only with ``requantise``.
            #: nn_lambda: Summand of an unsigned requantisation.
            ports |= {"requantise": In(1), "nn_lambda": In(XLEN)}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.dotp = dotp = CrossDotp(self.config.dotp)
        m.submodules.dotp2 = dotp2 = OuterDotp(self.config.dotp)
        ctrl, form, a, b = self.ctrl, self.dotp_form, self.dotp_a, self.dotp_b
        summand = self.op_c & ctrl.accumulate.replicate(XLEN)
        if self.config.requantise:
            summand |= self.nn_lambda & (self.requantise & ~ctrl.a_signed).replicate(XLEN)
        m.d.comb += [
            dotp.fmt.eq(self.dotp_format),
            dotp2.fmt.eq(self.dotp2_format),
            *(unit.word.eq(form.word) for unit in (dotp, dotp2)),
            dotp.a.eq(a),
            dotp.b.eq(Mux(form.word, Cat(b[HALF:], b[:HALF]), b)),
            dotp.acc.eq(self.op_c & self.dotp_accumulate.replicate(XLEN)),
            # zero second factor and addends keep the second unit quiet while the first one works alone
            dotp2.a.eq(Mux(form.scalar, a, self.act2)),
            dotp2.b.eq(b & Cat(form.lower.replicate(HALF), form.upper.replicate(HALF))),
            dotp2.acc.eq(
                (self.second_sum & (self.dotp_accumulate & self.pair).replicate(XLEN))
                | (summand ^ ctrl.subtract.replicate(XLEN))
            ),
            dotp2.complement.eq(ctrl.subtract),
            dotp2.rounding.eq(((Const(1) << self.shamt) >> 1) & ctrl.round.replicate(XLEN)),
            *assign_by_name(dotp2, dotp, "partial", "carry"),
        ]
        m.d.comb += [
            self.first.eq(dotp.result),
            self.second.eq(dotp2.result),
            self.result.eq(dotp2.product[:XLEN]),
            self.upper.eq(dotp2.product[XLEN:]),
        ]
        return m
