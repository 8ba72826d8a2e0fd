# amaranth: UnusedElaboratable=no
"""Multiplier with a product of 64 bits (guide, "Exact requantisation")."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from xpulpnn.arith.carry_save import product_rows
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import CoreConfig, Multiplier
from xpulpnn.core.mult import HALF, Mult, MultCtrl, MultOp, booth_sums, registered
from xpulpnn.core.product_unit import ProductUnit
from xpulpnn.isa.machine import XLEN

PRODUCT = 2 * XLEN


def multiplier_of(config: CoreConfig) -> "Mult | WideMult | ProductUnit":
    if config.multiplies_by_dotp:
        return ProductUnit(config)
    if config.requantise_exact:
        return WideMult(config.multiplier, late=config.late_results)
    return Mult(config.multiplier, requantises=config.requantise, late=config.late_results)


class WideMult(Component):
    """The operations of :class:`~xpulpnn.core.mult.Mult` on one 32 x 32 -> 64 bit multiplier, and both requantisations.

    ``WORD`` and ``HALF`` work as in ``Mult``; ``HIGH`` takes one cycle. ``requantise`` needs a ``WORD`` operation that
    does not accumulate. With unsigned factors ``result`` is then the lower word of ``nn_kappa * op_a + nn_lambda``.
    With signed factors ``result`` is the lower word of ``nn_kappa * op_a`` and ``upper`` the upper word.

    Combinational, one operation per cycle. Without ``start`` the second factor is 0, which keeps all partial products
    constant. With ``multiplier`` ``inferred`` product, addend and rounding constant are one sum, left to synthesis.
    With ``booth`` the second factor is Booth recoded, and a carry-save tree adds the signed partial products. The few
    that ``HALF`` needs have a separate adder, so that the shift of ``HALF`` waits for a sum of 12 words only.

    Parameters
    ----------
    multiplier : "booth" or "inferred"
        Structure.
    """

    ctrl: In(MultCtrl)  #: Operation; ``WORD`` takes the signs of ``HIGH`` too, which its ``upper`` word needs.
    op_a: In(XLEN)  #: First factor, or the word with its half-word.
    op_b: In(XLEN)  #: Second factor, or the word with its half-word.
    op_c: In(XLEN)  #: Addend of accumulating operations.
    shamt: In(range(XLEN))  #: Amount of the final right shift, with ``HALF``.
    start: In(1)  #: An operation is in EX.
    take: In(1)  #: EX advances in this cycle; ignored.
    done: Out(1)  #: ``result`` is valid: always with ``start``.
    requantise: In(1)  #: With ``start``: the operation is a requantisation.
    nn_kappa: In(XLEN)  #: Factor of a requantisation, instead of ``op_b``.
    nn_lambda: In(XLEN)  #: Summand of a requantisation without signs.
    result: Out(XLEN)  #: Result of the operation, in the cycle of the operands.
    upper: Out(XLEN)  #: Upper word of the product, whatever the operation; earlier.

    def __init__(self, multiplier: Multiplier = "booth", *, late: bool = False) -> None:
        self.multiplier = multiplier
        self.late = late  # sums are registered before the shift: every operation takes one more cycle
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        ctrl = self.ctrl
        from_nnrf, plain = self.requantise.replicate(XLEN), (self.start & ~self.requantise).replicate(XLEN)
        factor_b, addend, rounding = signals(XLEN, "factor_b addend rounding")
        factor_a = self._operand(m, "a")
        summand = self.nn_lambda & (self.requantise & ~ctrl.a_signed).replicate(XLEN)
        m.d.comb += [
            factor_b.eq((self._operand(m, "b") & plain) | (self.nn_kappa & from_nnrf)),
            addend.eq(((self.op_c & ctrl.accumulate.replicate(XLEN)) | summand) ^ ctrl.subtract.replicate(XLEN)),
            rounding.eq(((Const(1) << self.shamt) >> 1) & ctrl.round.replicate(XLEN)),
        ]
        signed_a = Cat(factor_a, factor_a[-1] & ctrl.a_signed)
        unsigned_top = factor_b[-1] & ~ctrl.b_signed
        if self.multiplier == "booth":
            rows = product_rows(m, signed_a, factor_b, unsigned_top)
            total, half_total = booth_sums(m, rows, (addend, rounding), "product_adder")
        else:
            total = half_total = Signal(PRODUCT, name="total")
            signed_b = Cat(factor_b, factor_b[-1] & ctrl.b_signed)
            m.d.comb += total.eq(signed_a.as_signed() * signed_b.as_signed() + addend + rounding)

        made = self.start
        if self.late:
            made, total, half_total = registered(m, self, made, total, half_total)
        filled = Cat(half_total[:XLEN], (half_total[XLEN - 1] & ctrl.a_signed).replicate(XLEN))
        places = self.shamt & (ctrl.op == MultOp.HALF).replicate(len(self.shamt))
        shifted = (filled >> places)[:XLEN]
        word = Mux(ctrl.op == MultOp.HIGH, total[XLEN:], total[:XLEN] ^ ctrl.subtract.replicate(XLEN))
        m.d.comb += [
            self.upper.eq(total[XLEN:]),
            self.result.eq(Mux(self._takes_halves, shifted, word)),
            self.done.eq(made),
        ]
        return m

    @property
    def _takes_halves(self) -> Value:
        """True if the factors are half-words: for ``HALF``, and for the unused code of the operation."""
        return self.ctrl.op.as_value()[0]

    def _operand(self, m: Module, name: str) -> Signal:
        ctrl = self.ctrl
        operand, signed = getattr(self, f"op_{name}"), getattr(ctrl, f"{name}_signed")
        factor = Signal(XLEN, name=f"operand_{name}")
        half = Signal(HALF, name=f"half_{name}")
        filled = (half[-1] & signed).replicate(HALF)
        m.d.comb += [
            half.eq(Mux(ctrl.upper, operand[HALF:], operand[:HALF])),
            factor.eq(Cat(half, Mux(self._takes_halves, filled, operand[HALF:]))),
        ]
        return factor
