"""Sums and products with normalisation (guide, "Addition with normalisation and rounding" and "Multiplication").

Every result is ``(exact value + rounding)`` cut to 32 bits **before** the shift.
"""

from functools import partial
from itertools import product

import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn_sim.reference.golden import fields
from xpulpnn_sim.reference.golden.effects import I64, U32, Effects, Sources
from xpulpnn_sim.reference.golden.scalar import SHIFT_MASK, exact, low_word

HALF_WORD = 16


def _normalise(total: I64, amount: U32, *, is_signed: bool, rounds: bool) -> U32:
    """``(total + 2**(amount-1)) >> amount``; nothing is added when the amount is 0 or the operation does not round."""
    places = amount.astype(np.int64)
    if rounds:
        total = total + ((np.int64(1) << places) >> 1)
    wrapped = low_word(total)
    return low_word((exact(wrapped) if is_signed else wrapped.astype(np.int64)) >> places)


def _add(insn: Insn, src: Sources, *, subtracts: bool, is_signed: bool, rounds: bool) -> Effects:
    if insn.operands.endswith("Is3"):
        first, second, amount = src.rs1, src.rs2, fields.is3(src.word)
    else:
        first, second, amount = src.rd, src.rs1, src.rs2 & SHIFT_MASK
    total = exact(first) - exact(second) if subtracts else exact(first) + exact(second)
    return Effects(rd=_normalise(total, amount, is_signed=is_signed, rounds=rounds))


def _half(value: U32, *, high: bool, is_signed: bool) -> I64:
    at_top = value if high else value << np.uint32(HALF_WORD)
    return exact(at_top) >> HALF_WORD if is_signed else at_top.astype(np.int64) >> HALF_WORD


def _multiply(insn: Insn, src: Sources, *, accumulates: bool, high: bool, is_signed: bool, rounds: bool) -> Effects:
    total = _half(src.rs1, high=high, is_signed=is_signed) * _half(src.rs2, high=high, is_signed=is_signed)
    if accumulates:
        total = total + exact(src.rd)
    return Effects(rd=_normalise(total, fields.is3(src.word), is_signed=is_signed, rounds=rounds))


ADDITIONS = {
    f"{stem}{'' if is_signed else 'u'}{'RN' if rounds else 'N'}": partial(
        _add, subtracts=stem == "sub", is_signed=is_signed, rounds=rounds
    )
    for stem, is_signed, rounds in product(("add", "sub"), (True, False), (True, False))
}
"""addN subN adduN subuN and their rounding forms; register forms take rd and rs1 as operands and rs2 as amount."""

MULTIPLICATIONS = {
    f"{stem}{'hh' if high else ''}{'s' if is_signed else 'u'}{'NR' if rounds else 'N'}": partial(
        _multiply, accumulates=stem == "mac", high=high, is_signed=is_signed, rounds=rounds
    )
    for stem, high, is_signed, rounds in product(("mul", "mac"), (False, True), (True, False), (True, False))
}
"""16-bit multiplications of the low or high half-words, with or without accumulator."""
