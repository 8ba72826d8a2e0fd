"""Scalar results as functions of plain integers, for speed; the golden models remain the reference of each.

A value function takes the old rs1, rs2 and rd and returns the new rd, all 32-bit patterns. The functions here make one
for an instruction word, its immediates bound.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import product

import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BITS, HALF_MASK, WORD_MASK, XLEN
from xpulpnn_sim.golden import fields
from xpulpnn_sim.golden.effects import U32

SIGN = 1 << 31
SHIFT = XLEN - 1
HALF_SIGN = 1 << HALF_BITS - 1
BYTE_MASK, BYTE_SIGN = 0xFF, 0x80

Value = Callable[[int, int, int], int]
"""(rs1, rs2, old rd) to the new rd."""


@lru_cache(1 << 14)
def immediate(extract: Callable[[U32], U32], word: int) -> int:
    """One immediate of one instruction word, as a 32-bit pattern."""
    return int(extract(np.array([word], np.uint32))[0])


def signed(value: int) -> int:
    """The pattern read as a two's complement number."""
    return (value ^ SIGN) - SIGN


def _div(a: int, b: int) -> int:
    x, y = signed(a), signed(b)
    if y == 0:
        return WORD_MASK
    quotient = abs(x) // abs(y)
    return (quotient if (x < 0) == (y < 0) else -quotient) & WORD_MASK


def _rem(a: int, b: int) -> int:
    x, y = signed(a), signed(b)
    if y == 0:
        return a
    remainder = abs(x) % abs(y)
    return (-remainder if x < 0 else remainder) & WORD_MASK


def _ror(a: int, b: int) -> int:
    return ((a << XLEN | a) >> (b & SHIFT)) & WORD_MASK


def _smaller(a: int, b: int) -> int:
    return a if a ^ SIGN < b ^ SIGN else b


def _larger(a: int, b: int) -> int:
    return b if a ^ SIGN < b ^ SIGN else a


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: (a + b) & WORD_MASK,
    "sub": lambda a, b: (a - b) & WORD_MASK,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "slt": lambda a, b: int(a ^ SIGN < b ^ SIGN),
    "sltu": lambda a, b: int(a < b),
    "slet": lambda a, b: int(a ^ SIGN <= b ^ SIGN),
    "sletu": lambda a, b: int(a <= b),
    "sll": lambda a, b: a << (b & SHIFT) & WORD_MASK,
    "srl": lambda a, b: a >> (b & SHIFT),
    "sra": lambda a, b: (signed(a) >> (b & SHIFT)) & WORD_MASK,
    "min": _smaller,
    "minu": lambda a, b: min(a, b),
    "max": _larger,
    "maxu": lambda a, b: max(a, b),
    "mul": lambda a, b: a * b & WORD_MASK,
    "mulh": lambda a, b: (signed(a) * signed(b) >> XLEN) & WORD_MASK,
    "mulhsu": lambda a, b: (signed(a) * b >> XLEN) & WORD_MASK,
    "mulhu": lambda a, b: a * b >> XLEN,
    "div": _div,
    "divu": lambda a, b: a // b if b else WORD_MASK,
    "rem": _rem,
    "remu": lambda a, b: a % b if b else a,
    "ror": _ror,
}
"""Operations of rs1 and a register or immediate."""


def _clb(a: int) -> int:
    if a == 0:
        return 0
    magnitude = a ^ WORD_MASK if a & SIGN else a
    return SHIFT - magnitude.bit_length()


UNARY: dict[str, Callable[[int], int]] = {
    "abs": lambda a: -a & WORD_MASK if a & SIGN else a,
    "exths": lambda a: ((a & HALF_MASK ^ HALF_SIGN) - HALF_SIGN) & WORD_MASK,
    "exthz": lambda a: a & HALF_MASK,
    "extbs": lambda a: ((a & BYTE_MASK ^ BYTE_SIGN) - BYTE_SIGN) & WORD_MASK,
    "extbz": lambda a: a & BYTE_MASK,
    "ff1": lambda a: (a & -a).bit_length() - 1 if a else XLEN,
    "fl1": lambda a: a.bit_length() - 1 if a else XLEN,
    "clb": _clb,
    "cnt": int.bit_count,
}
"""Operations of rs1 alone."""


def binary(insn: Insn, word: int) -> Value:
    """``rs1 op operand2``."""
    operate = BINARY[insn.op]
    token = insn.operands.rsplit(",", maxsplit=1)[-1]
    if token == "rs2":
        return lambda a, b, d: operate(a, b)
    constant = immediate(fields.IMMEDIATES[token], word)
    if insn.op == "add":
        return lambda a, b, d: (a + constant) & WORD_MASK
    return lambda a, b, d: operate(a, constant)


def unary(insn: Insn, word: int) -> Value:
    """``op rs1``."""
    operate = UNARY[insn.op]
    return lambda a, b, d: operate(a)


def multiply_accumulate(insn: Insn, word: int) -> Value:
    """mac and msu."""
    if insn.op == "mac":
        return lambda a, b, d: (d + a * b) & WORD_MASK
    return lambda a, b, d: (d - a * b) & WORD_MASK


def _clip(value: int, lowest: int, bound: int) -> int:
    return lowest if value <= lowest else min(value, bound)


def clip(insn: Insn, word: int) -> Value:
    """clip and clipu, bound from an immediate or rs2."""
    two_sided = insn.op == "clip"
    if insn.operands.endswith("Is2"):
        bits = immediate(fields.uimm5, word)
        bound = max((1 << bits >> 1) - 1, 0)
        lowest = -bound - 1 if two_sided else 0
        return lambda a, b, d: _clip(signed(a), lowest, bound) & WORD_MASK
    if two_sided:
        return lambda a, b, d: _clip(signed(a), -signed(b) - 1, signed(b)) & WORD_MASK
    return lambda a, b, d: _clip(signed(a), 0, signed(b)) & WORD_MASK


def _extract(a: int, start: int, width: int, d: int) -> int:
    sign = 1 << (width - 1)
    return (((signed(a) >> start & (2 * sign - 1)) ^ sign) - sign) & WORD_MASK


def _field_mask(start: int, width: int) -> int:
    return ((1 << width) - 1) << start & WORD_MASK


def _insert(a: int, start: int, width: int, d: int) -> int:
    mask = _field_mask(start, width)
    return (d & ~mask) | (a << start & mask)


FIELD_OPERATIONS: dict[str, Callable[[int, int, int, int], int]] = {
    "extract": _extract,
    "extractu": lambda a, start, width, d: a >> start & ((1 << width) - 1),
    "insert": _insert,
    "bclr": lambda a, start, width, d: a & ~_field_mask(start, width),
    "bset": lambda a, start, width, d: a | _field_mask(start, width),
}
"""Bit-field operations of (rs1, start, width, old rd)."""

_WIDTH_LSB = 5


def bit_field(insn: Insn, word: int) -> Value:
    """extract, extractu, insert, bclr, bset."""
    operate = FIELD_OPERATIONS[insn.op]
    if insn.operands.endswith("Is2"):
        start, width = immediate(fields.uimm5, word), immediate(fields.is3, word) + 1
        return lambda a, b, d: operate(a, start, width, d)
    return lambda a, b, d: operate(a, b & SHIFT, (b >> _WIDTH_LSB & SHIFT) + 1, d)


def _normalise(total: int, amount: int, *, is_signed: bool, rounds: bool) -> int:
    if rounds:
        total += 1 << amount >> 1
    total &= WORD_MASK
    return signed(total) >> amount & WORD_MASK if is_signed else total >> amount


_ADDITIONS = {
    f"{stem}{'' if is_signed else 'u'}{'RN' if rounds else 'N'}": (-1 if stem == "sub" else 1, is_signed, rounds)
    for stem, is_signed, rounds in product(("add", "sub"), (True, False), (True, False))
}


def normalising_add(insn: Insn, word: int) -> Value:
    """addN, subN and their unsigned and rounding forms."""
    factor, is_signed, rounds = _ADDITIONS[insn.op]
    if insn.operands.endswith("Is3"):
        amount = immediate(fields.is3, word)
        return lambda a, b, d: _normalise(a + factor * b, amount, is_signed=is_signed, rounds=rounds)
    return lambda a, b, d: _normalise(d + factor * a, b & SHIFT, is_signed=is_signed, rounds=rounds)


_MULTIPLICATIONS = {
    f"{stem}{'hh' if high else ''}{'s' if is_signed else 'u'}{'NR' if rounds else 'N'}": (
        stem == "mac",
        HALF_BITS if high else 0,
        is_signed,
        rounds,
    )
    for stem, high, is_signed, rounds in product(("mul", "mac"), (False, True), (True, False), (True, False))
}


def half_multiply(insn: Insn, word: int) -> Value:
    """Products of half-words, with or without accumulator."""
    accumulates, lsb, is_signed, rounds = _MULTIPLICATIONS[insn.op]
    sign = HALF_SIGN if is_signed else 0
    amount = immediate(fields.is3, word)

    def value(a: int, b: int, d: int) -> int:
        x = (a >> lsb & HALF_MASK ^ sign) - sign
        y = (b >> lsb & HALF_MASK ^ sign) - sign
        return _normalise(x * y + (d if accumulates else 0), amount, is_signed=is_signed, rounds=rounds)

    return value


def load_upper(insn: Insn, word: int) -> Value:
    """lui."""
    constant = immediate(fields.uimm20, word)
    return lambda a, b, d: constant


Maker = Callable[[Insn, int], Value]

MAKERS: dict[str, Maker] = {
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(("mac", "msu"), multiply_accumulate),
    **dict.fromkeys(("clip", "clipu"), clip),
    **dict.fromkeys(FIELD_OPERATIONS, bit_field),
    **dict.fromkeys(_ADDITIONS, normalising_add),
    **dict.fromkeys(_MULTIPLICATIONS, half_multiply),
    "lui": load_upper,
}
"""Maker of the value function of each operation."""
