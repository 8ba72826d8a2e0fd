"""Golden models of base and XpulpV2 instructions: arithmetic, bit manipulation, control transfer, loads and stores.

Semantics: guide, "Base instructions", "XpulpV2: scalar instructions" and "Loads and stores of XpulpV2". Results are
computed in 64 bits and truncated to 32.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_MASK, HALF_MASK, WORD_MASK, XLEN
from xpulpnn_sim.reference.golden.effects import I32, I64, U32, Bits, Effects, Sources, immediate, sign_extend

LOADS: dict[str, tuple[int, Callable[[U32], U32]]] = {
    "lb": (1, lambda word: sign_extend(word, 8)),
    "lbu": (1, lambda word: word & np.uint32(0xFF)),
    "lh": (2, lambda word: sign_extend(word, 16)),
    "lhu": (2, lambda word: word & np.uint32(0xFFFF)),
    "lw": (4, lambda word: word),
    "elw": (4, lambda word: word),
}
"""Number of bytes and extension of each load."""

STORES: dict[str, tuple[int, int]] = {"sb": (1, BYTE_MASK), "sh": (2, HALF_MASK), "sw": (4, WORD_MASK)}
"""Number of bytes and data mask of each store."""


def offset(insn: Insn, src: Sources) -> U32:
    """Return the offset of an access; rs3 is the register in the rd field."""
    token = insn.operands.split("(")[0].rsplit(",", maxsplit=1)[-1]
    return {"rs2": src.rs2, "rs3": src.rd}[token] if token.startswith("rs") else immediate(token, src.word)


def _access(insn: Insn, src: Sources, size: int) -> Effects:
    moved = src.rs1 + offset(insn, src)
    always = np.ones(len(src.word), np.bool_)
    if "!" in insn.operands:
        return Effects(base=moved, address=src.rs1, accessed=always, size=size)
    return Effects(address=moved, accessed=always, size=size)


def load(insn: Insn, src: Sources) -> Effects:
    size, extend = LOADS[insn.op]
    effects = _access(insn, src, size)
    effects.rd = extend(src.loaded)
    return effects


def store(insn: Insn, src: Sources) -> Effects:
    size, mask = STORES[insn.op]
    effects = _access(insn, src, size)
    effects.store = src.rs2 & np.uint32(mask)
    return effects


SHIFT_MASK = np.uint32(XLEN - 1)


def signed(value: U32) -> I32:
    """Interpret the pattern as a two's complement number."""
    return value.view(np.int32)


def exact(value: U32) -> I64:
    """Interpret the pattern as a two's complement number in 64 bits."""
    return value.view(np.int32).astype(np.int64)


def low_word(value: I64) -> U32:
    return value.astype(np.uint32)


def _div(a: U32, b: U32) -> U32:
    dividend, divisor = exact(a), exact(b)
    magnitude = np.abs(dividend) // np.maximum(np.abs(divisor), 1)
    quotient = np.where((dividend < 0) != (divisor < 0), -magnitude, magnitude)
    return low_word(np.where(divisor == 0, -1, quotient))


def _rem(a: U32, b: U32) -> U32:
    dividend, divisor = exact(a), exact(b)
    magnitude = np.abs(dividend) % np.maximum(np.abs(divisor), 1)
    remainder = np.where(dividend < 0, -magnitude, magnitude)
    return low_word(np.where(divisor == 0, dividend, remainder))


def _bit_matrix(value: U32) -> NDArray[np.bool_]:
    """Return bit j of value i at [i, j]."""
    return (value[:, None] >> np.arange(XLEN, dtype=np.uint32) & 1).astype(np.bool_)


def _first_set(bits: NDArray[np.bool_], otherwise: int) -> U32:
    return np.where(bits.any(axis=1), bits.argmax(axis=1), otherwise).astype(np.uint32)


def _fl1(value: U32) -> U32:
    from_top = _first_set(_bit_matrix(value)[:, ::-1], XLEN)
    return np.where(value == 0, np.uint32(XLEN), XLEN - 1 - from_top)


def _clb(value: U32) -> U32:
    bits = _bit_matrix(value)[:, ::-1]
    return np.where(value == 0, np.uint32(0), _first_set(bits[:, 1:] != bits[:, :1], XLEN - 1))


COMPARISONS: dict[str, Callable[[U32, U32], Bits]] = {
    "beq": lambda a, b: a == b,
    "bne": lambda a, b: a != b,
    "blt": lambda a, b: signed(a) < signed(b),
    "bge": lambda a, b: signed(a) >= signed(b),
    "bltu": lambda a, b: a < b,
    "bgeu": lambda a, b: a >= b,
}
"""Conditions of the branches by operation."""

BINARY: dict[str, Callable[[U32, U32], U32]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "slt": lambda a, b: (signed(a) < signed(b)).astype(np.uint32),
    "sltu": lambda a, b: (a < b).astype(np.uint32),
    "slet": lambda a, b: (signed(a) <= signed(b)).astype(np.uint32),
    "sletu": lambda a, b: (a <= b).astype(np.uint32),
    "sll": lambda a, b: a << (b & SHIFT_MASK),
    "srl": lambda a, b: a >> (b & SHIFT_MASK),
    "sra": lambda a, b: (signed(a) >> (b & SHIFT_MASK).view(np.int32)).view(np.uint32),
    "min": lambda a, b: np.minimum(signed(a), signed(b)).view(np.uint32),
    "minu": lambda a, b: np.minimum(a, b),
    "max": lambda a, b: np.maximum(signed(a), signed(b)).view(np.uint32),
    "maxu": lambda a, b: np.maximum(a, b),
    "mul": lambda a, b: a * b,
    "mulh": lambda a, b: low_word((exact(a) * exact(b)) >> XLEN),
    "mulhsu": lambda a, b: low_word((exact(a) * b.astype(np.int64)) >> XLEN),
    "mulhu": lambda a, b: ((a.astype(np.uint64) * b) >> XLEN).astype(np.uint32),
    "div": _div,
    "divu": lambda a, b: np.where(b == 0, np.uint32(WORD_MASK), a // np.maximum(b, 1)),
    "rem": _rem,
    "remu": lambda a, b: np.where(b == 0, a, a % np.maximum(b, 1)),
    "ror": lambda a, b: a >> (b & SHIFT_MASK) | a << (-b & SHIFT_MASK),
}
"""Functions of rs1 and a second register or an immediate, by operation."""

UNARY: dict[str, Callable[[U32], U32]] = {
    "abs": lambda a: low_word(np.abs(exact(a))),
    "exths": lambda a: sign_extend(a, 16),
    "exthz": lambda a: a & np.uint32(0xFFFF),
    "extbs": lambda a: sign_extend(a, 8),
    "extbz": lambda a: a & np.uint32(0xFF),
    "ff1": lambda a: _first_set(_bit_matrix(a), XLEN),
    "fl1": _fl1,
    "clb": _clb,
    "cnt": lambda a: _bit_matrix(a).sum(axis=1, dtype=np.uint32),
}
"""Functions of rs1 alone, by operation."""


def binary(insn: Insn, src: Sources) -> Effects:
    """Compute ``rd = rs1 op operand2``; operand 2 is the last one in assembler order."""
    token = insn.operands.rsplit(",", maxsplit=1)[-1]
    operand2 = src.rs2 if token == "rs2" else immediate(token, src.word)
    return Effects(rd=BINARY[insn.op](src.rs1, operand2))


def unary(insn: Insn, src: Sources) -> Effects:
    return Effects(rd=UNARY[insn.op](src.rs1))


def multiply_accumulate(insn: Insn, src: Sources) -> Effects:
    """Compute ``rd = rd + rs1 * rs2`` (mac) or ``rd - rs1 * rs2`` (msu)."""
    product = src.rs1 * src.rs2
    return Effects(rd=src.rd + product if insn.op == "mac" else src.rd - product)


def upper_immediate(insn: Insn, src: Sources) -> Effects:
    """Compute ``rd = imm << 12`` (lui) or ``pc + (imm << 12)`` (auipc)."""
    value = immediate("uimm20", src.word)
    return Effects(rd=value if insn.op == "lui" else src.pc + value)


def branch(insn: Insn, src: Sources) -> Effects:
    """Compare rs1 with rs2 or with a signed 5-bit immediate, and branch."""
    other = src.rs2 if insn.operands.startswith("rs1,rs2") else immediate("simm5", src.word)
    return Effects(taken=COMPARISONS[insn.op](src.rs1, other), target=src.pc + immediate("boff13", src.word))


def jump(insn: Insn, src: Sources) -> Effects:
    """Jump and link; the link is the address after the instruction, which has 2 bytes if compressed."""
    if insn.op == "jal":
        effects = Effects(target=src.pc + immediate("joff21", src.word))
    else:
        effects = Effects(target=(src.rs1 + immediate("imm12", src.word)) & ~np.uint32(1))
    effects.rd, effects.taken = src.pc + src.length, np.ones(len(src.word), np.bool_)
    return effects


WIDTH_LSB = 5  # position of the width in the register operand of a bit field; the start is below it


def clip(insn: Insn, src: Sources) -> Effects:
    """Clip to [-B-1, B] or [0, B]. The lower bound is tested first, which only matters for a negative B."""
    if insn.operands.endswith("Is2"):
        bound = ((np.int64(1) << immediate("uimm5", src.word).astype(np.int64)) >> 1) - 1
        bound = np.maximum(bound, 0)
    else:
        bound = exact(src.rs2)
    value = exact(src.rs1)
    lowest = -bound - 1 if insn.op == "clip" else np.zeros_like(bound)
    return Effects(rd=low_word(np.where(value <= lowest, lowest, np.minimum(value, bound))))


def _extract(value: U32, start: I64, width: I64, old: U32) -> U32:
    shifted = exact(value) >> start
    sign = np.int64(1) << (width - 1)
    return low_word(((shifted & (2 * sign - 1)) ^ sign) - sign)


def _extractu(value: U32, start: I64, width: I64, old: U32) -> U32:
    return low_word((value.astype(np.int64) >> start) & ((np.int64(1) << width) - 1))


def _mask(start: I64, width: I64) -> U32:
    return low_word(((np.int64(1) << width) - 1) << start)


def _insert(value: U32, start: I64, width: I64, old: U32) -> U32:
    mask = _mask(start, width)
    return (old & ~mask) | (low_word(value.astype(np.int64) << start) & mask)


FIELD_OPERATIONS: dict[str, Callable[[U32, I64, I64, U32], U32]] = {
    "extract": _extract,
    "extractu": _extractu,
    "insert": _insert,
    "bclr": lambda value, start, width, old: value & ~_mask(start, width),
    "bset": lambda value, start, width, old: value | _mask(start, width),
}
"""Functions of bit-field operations with the arguments rs1, start, width and old rd."""


def bit_field(insn: Insn, src: Sources) -> Effects:
    """Execute a bit-field operation. Start and width minus one are two immediates, or both packed in rs2."""
    if insn.operands.endswith("Is2"):
        start, stored_width = immediate("uimm5", src.word), immediate("is3", src.word)
    else:
        start, stored_width = src.rs2 & SHIFT_MASK, src.rs2 >> WIDTH_LSB & SHIFT_MASK
    width = stored_width.astype(np.int64) + 1
    return Effects(rd=FIELD_OPERATIONS[insn.op](src.rs1, start.astype(np.int64), width, src.rd))
