"""Serial divider (guide, "RV32M")."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, enum

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.table import Insn


class DivCtrl(data.Struct):
    signed: 1  #: Both operands are signed (div, rem).
    remainder: 1  #: The result is the remainder instead of the quotient (rem, remu).


_CONTROL = {"div": (True, False), "divu": (False, False), "rem": (True, True), "remu": (False, True)}


def div_control(insn: Insn) -> dict[str, bool] | None:
    if insn.op not in _CONTROL:
        return None
    signed, remainder = _CONTROL[insn.op]
    return {"signed": signed, "remainder": remainder}


class _State(enum.Enum, shape=2):
    IDLE, DIVIDE, FINISH = range(3)


class Divider(Component):
    """Signed and unsigned division, one quotient bit per cycle.

    ``result = op_a / op_b`` rounded toward zero, or the remainder with the sign of ``op_a``. A divisor of 0 gives a
    quotient of all ones and the remainder ``op_a``; -2**31 / -1 gives -2**31, remainder 0.

    An operation takes ``shift + 3`` cycles of ``start``, the first ``done`` cycle included: one to normalise the
    divisor, ``shift + 1`` for the quotient bits, one to present the result. ``shift`` is the number of leading zeros of
    ``op_b``, or for a negative divisor of a signed division the number of leading ones less one. Examples are 3 cycles
    for an unsigned divisor from 2**31 on, 35 for 0, and 34 for 1 and -1; the dividend has no influence. One operation
    at a time; the algorithm is that of RI5CY's divider.
    """

    ctrl: In(DivCtrl)  #: Type of division; stable while ``start`` is high.
    #: op_a, op_b: Dividend and divisor; stable while ``start`` is high.
    op_a: In(XLEN)
    op_b: In(XLEN)
    start: In(1)  #: An operation is in EX. Low resets to the idle state, even during a division.
    take: In(1)  #: EX advances in this cycle: with ``done`` the divider becomes idle in the next.
    done: Out(1)  #: The result is valid, until ``take`` or until ``start`` falls.
    result: Out(XLEN)  #: Quotient or remainder, valid with ``done``.

    def elaborate(self, platform):
        """Build the normaliser, the subtract-and-shift loop and the state machine.

        Operands keep their signs: dividend and divisor are subtracted if the signs agree, else added, until the
        remainder would change its sign.
        """
        m = Module()
        a_negative = Signal()
        b_negative = Signal()
        m.d.comb += [a_negative.eq(self.ctrl.signed & self.op_a[-1]), b_negative.eq(self.ctrl.signed & self.op_b[-1])]
        # A one below the complement makes the count of leading ones one less.
        free = Mux(b_negative, Cat(Const(1, 1), ~self.op_b[:-1]), self.op_b)
        shift = self.leading_zeros(m, free)

        state = Signal(_State)
        steps_left = Signal(range(XLEN + 1))
        remainder, divisor, difference = signals(signed(XLEN + 1), "remainder divisor difference")
        quotient = Signal(XLEN)
        opposite, fits = signals(1, "opposite fits")
        m.d.comb += [
            opposite.eq(a_negative ^ b_negative),
            difference.eq(remainder + (divisor ^ ~opposite.replicate(XLEN + 1)) + ~opposite),
            fits.eq((difference[-1] == a_negative) | ~difference.any()),
        ]

        with m.If(~self.start):
            m.d.sync += state.eq(_State.IDLE)
        with m.Else(), m.Switch(state):
            with m.Case(_State.IDLE):
                m.d.sync += [
                    state.eq(_State.DIVIDE),
                    steps_left.eq(shift),
                    remainder.eq(Cat(self.op_a, a_negative)),
                    divisor.eq(Cat((self.op_b << shift[:-1])[:XLEN], b_negative)),
                    quotient.eq(0),
                ]
            with m.Case(_State.DIVIDE):
                m.d.sync += [steps_left.eq(steps_left - 1), divisor.eq(divisor >> 1), quotient.eq(Cat(fits, quotient))]
                with m.If(fits):
                    m.d.sync += remainder.eq(difference)
                with m.If(steps_left == 0):
                    m.d.sync += state.eq(_State.FINISH)
            with m.Case(_State.FINISH), m.If(self.take):
                m.d.sync += state.eq(_State.IDLE)

        # A zero divisor gives all ones whatever the sign of the dividend.
        negate = opposite & self.op_b.any()
        m.d.comb += [
            self.done.eq(self.start & (state == _State.FINISH)),
            self.result.eq(Mux(self.ctrl.remainder, remainder, Mux(negate, -quotient, quotient))),
        ]
        return m

    def leading_zeros(self, m: Module, word: Value) -> Signal:
        """Return the number of zeros above the highest set bit of ``word``, from 0 to 32, by binary search."""
        count = Signal(range(XLEN + 1))
        empty: list[Value] = []
        window = word
        while len(window) > 1:
            half = len(window) // 2
            upper_empty = Signal(name=f"upper_{half}_empty")
            chosen = Signal(half, name=f"window_{half}")
            m.d.comb += [
                upper_empty.eq(~window[half:].any()),
                chosen.eq(Mux(upper_empty, window[:half], window[half:])),
            ]
            empty.insert(0, upper_empty)
            window = chosen
        none_set = Signal()
        m.d.comb += [none_set.eq(Cat(*empty).all() & ~window), count.eq(Mux(none_set, XLEN, Cat(*empty)))]
        return count
