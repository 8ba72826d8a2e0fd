"""Two dot products and every multiplication of a core on the same arrays (guide, "Multiplication")."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, following, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core.mult import HALF, MultCtrl, MultOp
from xpulpnn.dotp.cross import CrossDotp
from xpulpnn.dotp.outer import OuterDotp
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN


class ProductForm(data.Struct):
    """What is multiplied, at most one of these; else the lanes of words."""

    word: 1  #: Two words.
    #: lower, upper: Two half-words, the lower or the upper ones.
    lower: 1
    upper: 1


class ProductUnit(Component):
    """The dot products of two pixels with one weight word, or an operation of :class:`~xpulpnn.core.mult.Mult`.

    Without a form ``first = op_c * dotp_accumulate + dot(dotp_a, dotp_b)``, with ``pair`` also ``second = op_b *
    dotp_accumulate + dot(act2, dotp_b)``. A word is two half-words, so the four 16 x 16 bit arrays of both units make a
    product of words: those of ``dotp`` its inner products, those of ``dotp2`` its outer ones, which then adds all four.
    With the form ``word`` ``result`` is that of ``WORD`` and ``upper`` that of ``HIGH``. With ``lower`` and ``upper``
    one array of ``dotp2`` is enough, and ``result`` is that of ``HALF``. A requantisation has the form ``word``:
    ``second`` and ``result`` are the lower word of ``dotp_a * dotp_b``, unless signed with ``nn_lambda`` added.

    Combinational, one operation per cycle. No product row changes while form, format, signs and factors stay.

    Parameters
    ----------
    config : CoreConfig
        Formats present, and whether there is a requantisation.
    """

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "dotp_form": In(ProductForm),  #: What is multiplied.
            #: dotp_fmt: Element format of a dot product; H with a form.
            "dotp_fmt": In(ElemFmt),
            #: dotp_a_signed, dotp_b_signed: Signs of the elements, or of words or half-words.
            "dotp_a_signed": In(1),
            "dotp_b_signed": In(1),
            #: dotp_a, dotp_b: Factors.
            "dotp_a": In(XLEN),
            "dotp_b": In(XLEN),
            "act2": In(XLEN),  #: First factor of the second dot product.
            "pair": In(1),  #: There is a second dot product.
            "dotp_accumulate": In(1),  #: The dot products are added to old sums.
            #: op_b: Old second sum.
            #: op_c: Old first sum, or addend of an accumulating multiplication.
            "op_b": In(XLEN),
            "op_c": In(XLEN),
            "ctrl": In(MultCtrl),  #: Multiplication; 0 with a dot product.
            "shamt": In(range(XLEN)),  #: Places of the final shift to the right, with ``HALF``.
            #: first, second: Dot products.
            "first": Out(XLEN),
            "second": Out(XLEN),
            "result": Out(XLEN),  #: Result of a multiplication but ``HIGH``.
            "upper": Out(XLEN),  #: Upper word of a product of words.
        }
        if config.requantise:
            #: requantise: The multiplication is a requantisation; only with it.
            #: nn_lambda: Summand of one without signs.
            ports |= {"requantise": In(1), "nn_lambda": In(XLEN)}
        super().__init__(config, ports)

    def _build(self, m):
        m.submodules.dotp = dotp = CrossDotp(self.config.dotp)
        m.submodules.dotp2 = dotp2 = OuterDotp(self.config.dotp)
        ctrl, form, a, b = self.ctrl, self.dotp_form, self.dotp_a, self.dotp_b
        lanes, words, both = signals(1, "lanes words both")
        lower_a, lower_b = signals(HALF, "lower_a lower_b")
        summand = self.op_c & ctrl.accumulate.replicate(XLEN)
        if self.config.requantise:
            summand |= self.nn_lambda & (self.requantise & ~ctrl.a_signed).replicate(XLEN)
        for unit in (dotp, dotp2):
            m.d.comb += [*following(unit, self, "fmt", "a_signed", "b_signed", of="dotp_"), unit.word.eq(form.word)]
        m.d.comb += [
            lanes.eq(~(form.word | form.lower | form.upper)),
            words.eq(form.word | form.lower),
            both.eq(self.pair | form.word),
            lower_a.eq(
                (self.act2[:HALF] & lanes.replicate(HALF))
                | (a[:HALF] & words.replicate(HALF))
                | (a[HALF:] & form.upper.replicate(HALF))
            ),
            lower_b.eq((b[:HALF] & (both | form.lower).replicate(HALF)) | (b[HALF:] & form.upper.replicate(HALF))),
            dotp.a.eq(a),
            dotp.b.eq(Mux(form.word, Cat(b[HALF:], b[:HALF]), b)),
            dotp.acc.eq(self.op_c & (self.dotp_accumulate & lanes).replicate(XLEN)),
            # without second factor and addends nothing moves there while the first unit works alone
            dotp2.a.eq(Cat(lower_a, Mux(lanes, self.act2[HALF:], a[HALF:]))),
            dotp2.b.eq(Cat(lower_b, b[HALF:] & both.replicate(HALF))),
            dotp2.acc.eq(
                (self.op_b & (self.dotp_accumulate & self.pair).replicate(XLEN))
                | (summand ^ ctrl.subtract.replicate(XLEN))
            ),
            dotp2.complement.eq(ctrl.subtract),
            dotp2.half.eq(ctrl.op.as_value()[0]),
            dotp2.rounding.eq(((Const(1) << self.shamt) >> 1) & ctrl.round.replicate(XLEN)),
            *following(dotp2, dotp, "partial", "carry"),
        ]
        shifted = self._shifted(m, dotp2.half_sum, dotp2.half_sum[-1] & ctrl.a_signed)
        m.d.comb += [
            self.first.eq(dotp.result),
            self.second.eq(dotp2.result),
            self.result.eq(shifted | (dotp2.product[:XLEN] & form.word.replicate(XLEN))),
            self.upper.eq(dotp2.product[XLEN:]),
        ]

    def _shifted(self, m: Module, word: Value, sign: Value) -> Value:
        """``word`` shifted by ``shamt`` in steps, which synthesis cannot share with another shift on a longer path.

        With the code that no instruction has the sum stays as it is, so that proofs can look at it.
        """
        places = self.shamt & (self.ctrl.op == MultOp.HALF).replicate(len(self.shamt))
        for bit in reversed(range(len(places))):
            step = 1 << bit
            kept = Signal(XLEN, name=f"shifted_{step}")
            m.d.comb += kept.eq(Mux(places[bit], Cat(word[step:], sign.replicate(step)), word))
            word = kept
        return word
