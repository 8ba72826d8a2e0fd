"""Multiplier (guide, "RV32M" and "Multiplication")."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum

from xpulpnn.arith.carry_save import booth_rows, carry_save
from xpulpnn.arith.prefix_adder import PrefixAdder
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import Multiplier
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.table import Insn


class MultOp(enum.Enum, shape=2):
    """Operation of the multiplier.

    ``WORD``: low word of 32 x 32 bit (mul, mac, msu). ``HALF``: 16 x 16 bit, rounded and shifted (the N and NR forms).
    ``HIGH``: high word of 32 x 32 bit (mulh, mulhsu, mulhu).
    """

    WORD, HALF, HIGH = range(3)


class MultCtrl(data.Struct):
    op: MultOp  #: Type of multiplication.
    #: a_signed, b_signed: Signs of op_a / op_b with ``HIGH``, of the half-words with ``HALF`` (both equal); with
    #:   ``WORD`` both are set for a requantisation with a product of 64 bits.
    a_signed: 1
    b_signed: 1
    upper: 1  #: With ``HALF``: the factors are the upper half-words.
    accumulate: 1  #: Adds op_c; with ``WORD`` and ``HALF``.
    subtract: 1  #: Subtracts the product from op_c (msu); with ``WORD`` and ``accumulate``.
    round: 1  #: With ``HALF``: adds half of the lowest bit that remains after the shift.


_HALF_WORD = re.compile(r"(?P<kind>mul|mac)(?P<upper>hh)?(?P<sign>[us])N(?P<round>R)?")
_HIGH_SIGNS = {"mulh": (True, True), "mulhsu": (True, False), "mulhu": (False, False)}
_WORD_ACCUMULATE = {"mul": False, "mac": True, "msu": True}


def mult_control(insn: Insn) -> dict[str, MultOp | bool] | None:
    """Return the fields of :class:`MultCtrl` for ``insn``, without zeros; None if it does not use the multiplier."""
    if insn.op in _WORD_ACCUMULATE:
        return {"op": MultOp.WORD, "accumulate": _WORD_ACCUMULATE[insn.op], "subtract": insn.op == "msu"}
    if insn.requantises:
        return {"op": MultOp.WORD, "a_signed": insn.is_exact, "b_signed": insn.is_exact}
    if insn.op in _HIGH_SIGNS:
        a_signed, b_signed = _HIGH_SIGNS[insn.op]
        return {"op": MultOp.HIGH, "a_signed": a_signed, "b_signed": b_signed}
    if parts := _HALF_WORD.fullmatch(insn.op):
        signed = parts["sign"] == "s"
        return {
            "op": MultOp.HALF,
            "a_signed": signed,
            "b_signed": signed,
            "upper": parts["upper"] is not None,
            "accumulate": parts["kind"] == "mac",
            "round": parts["round"] is not None,
        }
    return None


HALF = XLEN // 2


class _Step(enum.Enum, shape=3):
    """State of ``MultOp.HIGH``: waiting, then the current product, named by the halves of op_a and op_b.

    Bit 1 selects the upper half of op_a, bit 0 the upper half of op_b.
    """

    IDLE = 0
    LOW_LOW, LOW_HIGH, HIGH_LOW, HIGH_HIGH = range(4, 8)


def _extend(half: Value, signed: Value) -> Value:
    return Cat(half, (half[-1] & signed).replicate(HALF))


def registered(m: Module, mult: Any, made: Value, total: Value, half_total: Value) -> tuple[Value, Value, Value]:
    """Register the sums of a multiplier; return the valid signal of the registers, and the registered sums."""
    ready = Signal(name="ready")
    m.d.sync += ready.eq(made & ~mult.take)
    sums: dict[int, Signal] = {}
    for name, word in (("total", total), ("half_total", half_total)):
        if id(word) not in sums:
            sums[id(word)] = Signal.like(word, name=f"late_{name}")
            m.d.sync += sums[id(word)].eq(word)
    return mult.start & ready, sums[id(total)], sums[id(half_total)]


def booth_sums(m: Module, rows: Sequence[Value], addends: Iterable[Value], adder: str) -> tuple[Value, Value]:
    """Return the sum of Booth rows, those of a product, and addends, and an earlier sum of one word.

    The earlier sum is equal if the recoded factor is a half-word. ``adder`` names the adder of the whole sum.
    """
    *rows, negative = rows
    width = len(negative)
    # an unsigned half-word needs one more row than a signed one: its sign is the bit above
    split = XLEN // 4 + 1
    place = 2 * split
    lower = carry_save(m, [*rows[:split], negative[:place], *addends], width, "lower")
    upper = carry_save(m, [*rows[split:], Cat(Const(0, place), negative[place:])], width, "upper")
    whole = carry_save(m, [*lower, *upper], width, "whole")
    m.submodules.half_adder = half_adder = PrefixAdder(XLEN)
    m.submodules[adder] = whole_adder = PrefixAdder(width)
    for part, ((_, x), (_, y)) in ((half_adder, lower), (whole_adder, whole)):
        m.d.comb += [part.a.eq(x[: part.width]), part.b.eq(y[: part.width])]
    return whole_adder.result, half_adder.result


class Mult(Component):
    """Scalar multiplication, multiply-accumulate and fixed-point multiplication on one 32 x 32 -> 32 bit multiplier.

    By ``ctrl.op``, everything modulo 2**32:

    * ``WORD``: ``op_a * op_b``; with ``accumulate`` ``op_c + op_a * op_b``; with ``subtract`` as well
      ``op_c - op_a * op_b``.
    * ``HALF``: ``T >> shamt`` with ``T = a * b + (accumulate ? op_c : 0) + r`` wrapped to 32 bits before the shift,
      which is arithmetic if the factors are signed. a and b are the half-words chosen by ``upper``;
      ``r = 2**(shamt - 1)`` with ``round`` and ``shamt > 0``, else 0.
    * ``HIGH``: the upper word of the 64-bit product.

    ``WORD`` and ``HALF`` are done in the cycle they start (``done == start``), one per cycle. ``HIGH`` takes 5 cycles
    of ``start``: one that leaves the idle state and four with a 16 x 16 bit product each. Each product and its addends
    fit 32 bits, so the same multiplier and two half-word registers suffice. ``done`` stays until ``take`` or until
    ``start`` falls. Reset is to the idle state.

    Subtraction complements ``op_c`` and the sum: ``c - p == ~(~c + p)``. With ``multiplier`` ``inferred`` the product,
    ``op_c`` and the rounding constant are one sum, left to synthesis. With ``booth`` a carry-save tree adds the
    Booth-recoded partial products. Those that ``HALF`` and ``HIGH`` need have a separate adder, so that the shift waits
    for a sum of 12 words, not of 19.

    Parameters
    ----------
    multiplier : "booth" or "inferred"
        Structure.
    requantises : bool
        The port ``requantise`` exists.
    """

    def __init__(self, multiplier: Multiplier = "booth", *, requantises: bool = False, late: bool = False) -> None:
        self.multiplier = multiplier
        self.requantises = requantises
        self.late = late  # products are registered before the sum: every operation takes one more cycle
        ports = {
            "ctrl": In(MultCtrl),  #: Operation; stable while ``start`` is high.
            "op_a": In(XLEN),  #: First factor, or the word with its half-word; stable while ``start`` is high.
            "op_b": In(XLEN),  #: Second factor, or the word with its half-word; stable while ``start`` is high.
            "op_c": In(XLEN),  #: Addend of accumulating operations; stable while ``start`` is high.
            "shamt": In(range(XLEN)),  #: Amount of the final right shift, with ``HALF``.
            "start": In(1),  #: An operation is in EX. Low resets to the idle state, even during an operation.
            "take": In(1),  #: EX advances in this cycle: with ``done`` the multiplier becomes idle in the next.
            "done": Out(1),  #: ``result`` is valid: the operation is complete.
            "result": Out(XLEN),  #: Low word of the operation's result, high word with ``HIGH``; valid with ``done``.
        }
        if requantises:
            #: requantise: With ``start`` of a ``WORD`` operation that does not accumulate: the result is ``nn_kappa *
            #:   op_b + nn_lambda``, the first half of a requantisation. Only if the multiplier requantises.
            #: nn_kappa: Factor of the requantisation, in place of ``op_a``.
            #: nn_lambda: Summand of the requantisation.
            ports |= {"requantise": In(1), "nn_kappa": In(XLEN), "nn_lambda": In(XLEN)}
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        ctrl = self.ctrl
        step = Signal(_Step)
        carried, carried_signed = signals(HALF, "carried carried_signed")
        word, high = ctrl.op == MultOp.WORD, ctrl.op == MultOp.HIGH
        made = self.start & (~high | (step == _Step.HIGH_HIGH))
        if not self.late:
            m.d.comb += self.done.eq(made)

        factor_a = self.factor(m, "a", step.as_value()[1])
        # a second factor of 0 keeps all product rows constant, whatever the first one does
        active_b = Signal(XLEN)
        m.d.comb += active_b.eq(self.factor(m, "b", step.as_value()[0]) & self.start.replicate(XLEN))
        summand = self.op_c & ctrl.accumulate.replicate(XLEN)
        if self.requantises:
            # the first factor, since the Booth recoding makes the path of the second one longer
            from_nnrf = self.requantise.replicate(XLEN)
            active_a = Signal(XLEN)
            m.d.comb += active_a.eq((factor_a & ~from_nnrf) | (self.nn_kappa & from_nnrf))
            factor_a = active_a
            summand |= self.nn_lambda & from_nnrf
        addend, rounding = signals(XLEN, "addend rounding")
        added = step
        if self.late:
            added = Signal(_Step, name="added")
            m.d.sync += added.eq(step)
        last = added.as_value()[1] & added.as_value()[0]
        with m.If(high):
            m.d.comb += [
                addend.eq(_extend(carried, ctrl.a_signed & last)),
                rounding.eq(_extend(carried_signed, ctrl.b_signed) & last.replicate(XLEN)),
            ]
        with m.Else():
            m.d.comb += [
                addend.eq(summand ^ ctrl.subtract.replicate(XLEN)),
                rounding.eq(((Const(1) << self.shamt) >> 1) & ctrl.round.replicate(XLEN)),
            ]
        if self.late:
            # addends are added to the registered product
            none = Const(0, XLEN)
            made, *products = registered(m, self, made, *self._sums(m, factor_a, active_b, none, none))
            m.d.comb += self.done.eq(made)
            total, half_total = signals(XLEN, "total half_total")
            for signal, product in zip((total, half_total), products, strict=True):
                m.d.comb += signal.eq(product + addend + rounding)
        else:
            total, half_total = self._sums(m, factor_a, active_b, addend, rounding)

        places = self.shamt & (ctrl.op == MultOp.HALF).replicate(len(self.shamt))
        filled = Cat(half_total, (half_total[-1] & ctrl.a_signed).replicate(XLEN))
        shifted = (filled >> places)[:XLEN]
        m.d.comb += self.result.eq(Mux(word, total ^ ctrl.subtract.replicate(XLEN), shifted))
        self.add_steps(m, step, added, half_total, carried, carried_signed)
        return m

    def factor(self, m: Module, name: str, step_upper: Value) -> Signal:
        ctrl = self.ctrl
        operand, signed = getattr(self, f"op_{name}"), getattr(ctrl, f"{name}_signed")
        factor = Signal(XLEN, name=f"factor_{name}")
        upper = Signal(name=f"{name}_upper")
        half = Signal(HALF, name=f"half_{name}")
        m.d.comb += [
            upper.eq(ctrl.upper | step_upper),
            half.eq(Mux(upper, operand[HALF:], operand[:HALF])),
            factor.eq(_extend(half, signed & (upper | (ctrl.op != MultOp.HIGH)))),
        ]
        with m.If(ctrl.op == MultOp.WORD):
            m.d.comb += factor[HALF:].eq(operand[HALF:])
        return factor

    def _sums(self, m: Module, a: Value, b: Value, addend: Value, rounding: Value) -> tuple[Value, Value]:
        """Return the sum for ``WORD``, and the sum for ``HALF`` and ``HIGH``."""
        if self.multiplier == "booth":
            return booth_sums(m, booth_rows(m, a, b), (addend, rounding), "word_adder")
        total = Signal(XLEN, name="total")
        m.d.comb += total.eq(a * b + addend + rounding)
        return total, total

    def add_steps(
        self, m: Module, step: Any, added: Any, total: Value, carried: Signal, carried_signed: Signal
    ) -> None:
        """Sequence the four products of ``MultOp.HIGH`` and store the addends of the next product.

        ``added`` is the step whose product is summed: ``step``, or the one before it if products are registered.
        ``carried`` is added at weight 1 of the following product. ``carried_signed``, the upper half of the first mixed
        product, waits for the last product.
        """
        low, high = total[:HALF], total[HALF:]
        keeps = {
            _Step.IDLE: [carried.eq(0)],
            _Step.LOW_LOW: [carried.eq(high)],
            _Step.LOW_HIGH: [carried.eq(low), carried_signed.eq(high)],
            _Step.HIGH_LOW: [carried.eq(high)],
        }
        if self.late:
            with m.Switch(added):
                for state, statements in keeps.items():
                    with m.Case(state):
                        m.d.sync += statements
        with m.If(~self.start | (self.ctrl.op != MultOp.HIGH)):
            m.d.sync += step.eq(_Step.IDLE)
        with m.Else(), m.Switch(step):
            for current, following in pairwise((*keeps, _Step.HIGH_HIGH)):
                with m.Case(current):
                    m.d.sync += [step.eq(following), *([] if self.late else keeps[current])]
            with m.Case(_Step.HIGH_HIGH), m.If(self.take):
                m.d.sync += step.eq(_Step.IDLE)
