"""Functions of the units that are left out of a back end: definitions, which other proofs hold them to.

``xpulpnn prove units dotp`` and ``mult`` prove the gates of both units equal to these sums for all operands. Of the
divider only that it gets the operands, and which of its functions.
"""

from collections.abc import Mapping, Sequence

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.proofs.engine.gate_graph import FALSE
from xpulpnn_sim.proofs.instructions.backend import Frame
from xpulpnn_sim.proofs.instructions.integers import Integers, Number, constant, low, trimmed, unsigned

_HALF = 16
_WORD_OP, _HALF_OP, _HIGH_OP = 0, 1, 2  # kinds of multiplication in the multiplier's control word

Layout = Mapping[str, slice]  # bits of each field of a control word


def _extended(bits: Sequence[int], signed: int, z: Integers) -> Number:
    """Bits as a number, signed if the literal says so."""
    return trimmed([*bits, z.graph.and_(bits[-1], signed)])


def dot_product(frame: Frame, layout: Layout, z: Integers) -> list[int]:
    """``rd * accumulate + sum(rs1[i] * rs2[i])`` of the unit's inputs, for any control word."""
    rs1, rs2, rd = (frame.word(f"ex_stage.dotp.{name}") for name in ("rs1", "rs2", "rd"))
    ctrl = frame.word("ex_stage.dotp.ctrl")
    fmt = ctrl[layout["fmt"]]
    (a_signed,), (b_signed,), (accumulate,) = (ctrl[layout[name]] for name in ("a_signed", "b_signed", "accumulate"))
    old = z.choose(accumulate, unsigned(rd), constant(0))
    found = constant(0)
    for each in ElemFmt:
        here = z.equal(unsigned(fmt), constant(each.value))
        if here == FALSE:
            continue
        total = constant(0)
        for low_bit in range(0, XLEN, each.width):
            x, y = (word[low_bit : low_bit + each.width] for word in (rs1, rs2))
            total = z.add(total, z.multiply(_extended(x, a_signed, z), _extended(y, b_signed, z)))
        found = z.choose(here, z.add(old, total), found)
    return low(found, XLEN)


def product(frame: Frame, layout: Layout, z: Integers) -> list[int]:
    """Products of the multiplier by its control word."""
    pins = {name: frame.word(f"ex_stage.mult.{name}") for name in ("op_a", "op_b", "op_c", "shamt", "ctrl")}
    ctrl = {name: pins["ctrl"][where] for name, where in layout.items()}
    op_a, op_b, op_c = (unsigned(pins[name]) for name in ("op_a", "op_b", "op_c"))
    (upper,), (signed,), (rounds,) = (ctrl[name] for name in ("upper", "a_signed", "round"))
    (accumulate,), (subtract,), (other_signed,) = (ctrl[name] for name in ("accumulate", "subtract", "b_signed"))
    old = z.choose(accumulate, op_c, constant(0))

    def kind(code: int) -> int:
        return z.equal(unsigned(ctrl["op"]), constant(code))

    found = constant(0)
    if kind(_WORD_OP) != FALSE:
        whole = z.multiply(op_a, op_b)
        words = z.choose(subtract, z.subtract(old, whole), z.add(old, whole))
        if frame.has("ex_stage.mult.requantise"):
            kappa, summand = (unsigned(frame.word(f"ex_stage.mult.nn_{name}")) for name in ("kappa", "lambda"))
            scaled = z.add(z.multiply(kappa, op_b), summand)
            words = z.choose(frame.bit("ex_stage.mult.requantise"), scaled, words)
        found = z.choose(kind(_WORD_OP), words, found)
    if kind(_HALF_OP) != FALSE:
        halves = [z.choose(upper, z.right(one, constant(_HALF)), one) for one in (op_a, op_b)]
        x, y = (_extended(low(one, _HALF), signed, z) for one in halves)
        amount = unsigned(pins["shamt"])
        rounding = z.right(z.left(z.choose(rounds, constant(1), constant(0)), amount), constant(1))
        total = low(z.add(z.add(old, z.multiply(x, y)), rounding), XLEN)
        found = z.choose(kind(_HALF_OP), z.right(_extended(total, signed, z), amount), found)
    if kind(_HIGH_OP) != FALSE:
        exact = z.multiply(_extended(pins["op_a"], signed, z), _extended(pins["op_b"], other_signed, z))
        found = z.choose(kind(_HIGH_OP), z.right(exact, constant(XLEN)), found)
    return low(found, XLEN)


def division(frame: Frame, layout: Layout, z: Integers) -> list[int]:
    """Quotient or remainder of the divider, as functions that nothing is said of."""
    ctrl, op_a, op_b = (frame.word(f"ex_stage.div.{name}") for name in ("ctrl", "op_a", "op_b"))
    (signed,), (remainder,) = (ctrl[layout[name]] for name in ("signed", "remainder"))
    x, y = (_extended(word, signed, z) for word in (op_a, op_b))
    by_zero = z.is_true(op_b) ^ 1
    quotients = z.choose(by_zero, constant(-1), z.opaque("quotient", x, y))
    remainders = z.choose(by_zero, unsigned(op_a), z.opaque("remainder", x, y))
    return low(z.choose(remainder, remainders, quotients), XLEN)
