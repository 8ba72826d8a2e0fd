"""Multiplier (ISA.md sections 3.2 and 4.6)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.core.mult_ctrl import MultCtrl, MultOp

XLEN = 32
HALF = XLEN // 2


class _Step(enum.Enum, shape=3):
    """State of ``MultOp.HIGH``: waiting, then the product under way, named by the halves of op_a and op_b."""

    IDLE = 0
    LOW_LOW = 1
    LOW_HIGH = 2
    HIGH_LOW = 3
    HIGH_HIGH = 4


def _extend(half: Value, signed: Value) -> Value:
    """``half`` extended to a word by its sign if ``signed``, else by zero."""
    return Cat(half, (half[-1] & signed).replicate(HALF))


class Mult(wiring.Component):
    """Scalar multiplication, multiply-accumulate and fixed-point multiplication on one 32 x 32 -> 32 bit multiplier.

    By ``ctrl.op``, everything modulo 2**32:

    * ``WORD``: ``op_a * op_b``; with ``accumulate`` ``op_c + op_a * op_b``; with ``subtract`` as well
      ``op_c - op_a * op_b``.
    * ``HALF``: ``T >> shamt`` with ``T = a * b + (accumulate ? op_c : 0) + r`` wrapped to 32 bits before the shift,
      which is arithmetic if the factors are signed. a and b are the half-words chosen by ``upper``;
      ``r = 2**(shamt - 1)`` with ``round`` and ``shamt > 0``, else 0.
    * ``HIGH``: the upper word of the 64-bit product.

    ``WORD`` and ``HALF`` are done in the cycle they start (``done == start``), one per cycle. ``HIGH`` takes 5 cycles
    of ``start``: one that leaves the idle state and four with a 16 x 16 bit product each. Their sums fit 32 bits, so
    the same multiplier and two half-word registers suffice. ``done`` stays until ``take`` or until ``start`` falls.
    Reset is to the idle state.

    The product, ``op_c`` and the rounding constant are one sum, which synthesis keeps in carry-save form up to one
    carry-propagate adder. Subtraction complements ``op_c`` and the sum: ``c - p == ~(~c + p)``.

    Members
    -------
    ctrl : In(MultCtrl)
        Operation; stable while ``start`` is high.
    op_a, op_b, op_c : In(32)
        Factors and addend; stable while ``start`` is high.
    shamt : In(5)
        Places of the final shift to the right, with ``HALF``.
    start : In(1)
        An operation is in EX. Low resets to the idle state, also in the middle of an operation.
    take : In(1)
        EX advances in this cycle: with ``done`` the multiplier becomes idle at its end.
    done : Out(1)
        The result is valid.
    result : Out(32)
        Valid with ``done``.
    """

    ctrl: In(MultCtrl)
    op_a: In(XLEN)
    op_b: In(XLEN)
    op_c: In(XLEN)
    shamt: In(range(XLEN))
    start: In(1)
    take: In(1)
    done: Out(1)
    result: Out(XLEN)

    def elaborate(self, platform: object) -> Module:
        """Build the factor selection, the sum, the shifter and the step counter."""
        m = Module()
        ctrl = self.ctrl
        step = Signal(_Step)
        carried = Signal(HALF)
        carried_signed = Signal(HALF)
        m.d.comb += self.done.eq(self.start & ((ctrl.op != MultOp.HIGH) | (step == _Step.HIGH_HIGH)))

        factor_a, factor_b = Signal(XLEN), Signal(XLEN)
        addend, rounding = Signal(XLEN), Signal(XLEN)
        total = Signal(XLEN)
        a_low, a_high = self.op_a[:HALF], self.op_a[HALF:]
        b_low, b_high = self.op_b[:HALF], self.op_b[HALF:]
        a_top, b_top = Signal(), Signal()
        with m.Switch(ctrl.op):
            with m.Case(MultOp.HALF):
                m.d.comb += [a_top.eq(ctrl.upper), b_top.eq(ctrl.upper)]
            with m.Case(MultOp.HIGH):
                m.d.comb += [
                    a_top.eq((step == _Step.HIGH_LOW) | (step == _Step.HIGH_HIGH)),
                    b_top.eq((step == _Step.LOW_HIGH) | (step == _Step.HIGH_HIGH)),
                ]
        high = ctrl.op == MultOp.HIGH
        half_a = _extend(Mux(a_top, a_high, a_low), ctrl.a_signed & (a_top | ~high))
        half_b = _extend(Mux(b_top, b_high, b_low), ctrl.b_signed & (b_top | ~high))
        m.d.comb += [
            factor_a.eq(Mux(ctrl.op == MultOp.WORD, self.op_a, half_a)),
            factor_b.eq(Mux(ctrl.op == MultOp.WORD, self.op_b, half_b)),
        ]
        last = high & (step == _Step.HIGH_HIGH)
        with m.If(high):
            m.d.comb += [
                addend.eq(_extend(carried, ctrl.a_signed & last)),
                rounding.eq(_extend(carried_signed, ctrl.b_signed) & last.replicate(XLEN)),
            ]
        with m.Else():
            m.d.comb += [
                addend.eq((self.op_c & ctrl.accumulate.replicate(XLEN)) ^ ctrl.subtract.replicate(XLEN)),
                rounding.eq(((Const(1) << self.shamt) >> 1) & ctrl.round.replicate(XLEN)),
            ]
        m.d.comb += total.eq(factor_a * factor_b + addend + rounding)

        places = self.shamt & (ctrl.op == MultOp.HALF).replicate(len(self.shamt))
        filled = Cat(total, (total[-1] & ctrl.a_signed).replicate(XLEN))
        shifted = (filled >> places)[:XLEN]
        m.d.comb += self.result.eq(Mux(ctrl.op == MultOp.HALF, shifted, total ^ ctrl.subtract.replicate(XLEN)))
        self.add_steps(m, step, total, carried, carried_signed)
        return m

    def add_steps(self, m: Module, step: Signal, total: Signal, carried: Signal, carried_signed: Signal) -> None:
        """Sequence the four products of ``MultOp.HIGH`` and keep what the next one adds.

        ``carried`` is added at weight 1 of the following product. ``carried_signed``, the upper half of the first mixed
        product, waits for the last one.
        """
        low, high = total[:HALF], total[HALF:]
        with m.If(~self.start | (self.ctrl.op != MultOp.HIGH)):
            m.d.sync += step.eq(_Step.IDLE)
        with m.Else(), m.Switch(step):
            with m.Case(_Step.IDLE):
                m.d.sync += [step.eq(_Step.LOW_LOW), carried.eq(0)]
            with m.Case(_Step.LOW_LOW):
                m.d.sync += [step.eq(_Step.LOW_HIGH), carried.eq(high)]
            with m.Case(_Step.LOW_HIGH):
                m.d.sync += [step.eq(_Step.HIGH_LOW), carried.eq(low), carried_signed.eq(high)]
            with m.Case(_Step.HIGH_LOW):
                m.d.sync += [step.eq(_Step.HIGH_HIGH), carried.eq(high)]
            with m.Case(_Step.HIGH_HIGH), m.If(self.take):
                m.d.sync += step.eq(_Step.IDLE)
