"""Golden models of all instructions: ``execute(insn, sources) -> effects``.

Functions are selected by ``Insn.op``, operand 2 by ``Insn.operands``. A compressed instruction is executed as the
instruction into which it expands, with ``Sources.length = 2``.
"""

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from xpulpnn.errors import EncodingError
from xpulpnn.isa.insn import DOT_PRODUCT_OPS, EXACT_OPS, NN_FORM_OPS, PAIR_OPS, REQUANTISE_OPS, Insn
from xpulpnn_sim.reference.golden import dotp, scalar, simd
from xpulpnn_sim.reference.golden.effects import I64, U32, Effects, Sources, immediate
from xpulpnn_sim.reference.golden.scalar import SHIFT_MASK, exact, low_word

HALF_WORD = 16


def _rounded(total: I64, amount: U32, *, rounds: bool) -> U32:
    """Return ``total`` plus half of ``2**amount`` if the operation rounds and the amount is not 0."""
    return low_word(total + ((np.int64(1) << amount.astype(np.int64)) >> 1) if rounds else total)


def _normalise(total: I64, amount: U32, *, is_signed: bool, rounds: bool) -> U32:
    wrapped = _rounded(total, amount, rounds=rounds)
    return low_word((exact(wrapped) if is_signed else wrapped.astype(np.int64)) >> amount.astype(np.int64))


def _add(insn: Insn, src: Sources, *, subtracts: bool, is_signed: bool, rounds: bool) -> Effects:
    if insn.operands.endswith("Is3"):
        first, second, amount = src.rs1, src.rs2, immediate("is3", src.word)
    else:
        first, second, amount = src.rd, src.rs1, src.rs2 & SHIFT_MASK
    total = exact(first) - exact(second) if subtracts else exact(first) + exact(second)
    return Effects(rd=_normalise(total, amount, is_signed=is_signed, rounds=rounds))


def _half(value: U32, *, high: bool, is_signed: bool) -> I64:
    at_top = value if high else value << np.uint32(HALF_WORD)
    return exact(at_top) >> HALF_WORD if is_signed else at_top.astype(np.int64) >> HALF_WORD


def _product(src: Sources, *, accumulates: bool, high: bool, is_signed: bool) -> I64:
    total = _half(src.rs1, high=high, is_signed=is_signed) * _half(src.rs2, high=high, is_signed=is_signed)
    return total + exact(src.rd) if accumulates else total


def _multiply(insn: Insn, src: Sources, *, accumulates: bool, high: bool, is_signed: bool, rounds: bool) -> Effects:
    total = _product(src, accumulates=accumulates, high=high, is_signed=is_signed)
    return Effects(rd=_normalise(total, immediate("is3", src.word), is_signed=is_signed, rounds=rounds))


ADDITIONS = {
    f"{stem}{'' if is_signed else 'u'}{'RN' if rounds else 'N'}": partial(
        _add, subtracts=stem == "sub", is_signed=is_signed, rounds=rounds
    )
    for stem, is_signed, rounds in product(("add", "sub"), (True, False), (True, False))
}
"""addN, subN, adduN, subuN and their rounding forms. Register forms take rd and rs1 as operands and rs2 as amount."""

MULTIPLICATIONS = {
    f"{stem}{'hh' if high else ''}{'s' if is_signed else 'u'}{'NR' if rounds else 'N'}": partial(
        _multiply, accumulates=stem == "mac", high=high, is_signed=is_signed, rounds=rounds
    )
    for stem, high, is_signed, rounds in product(("mul", "mac"), (False, True), (True, False), (True, False))
}
"""16-bit multiplications of the low or high half-words, with or without accumulator."""


def half_product_sum(insn: Insn, src: Sources) -> U32:
    """Return the rounded sum of a 16-bit multiplication before it is shifted."""
    keywords = dict(MULTIPLICATIONS[insn.op].keywords)
    rounds = keywords.pop("rounds")
    return _rounded(_product(src, **keywords), immediate("is3", src.word), rounds=rounds)


Handler = Callable[[Insn, Sources], Effects]

SEQUENCER_OPS = (
    *("fence", "fence.i", "ecall", "ebreak", "mret", "dret", "wfi", "csrrw", "csrrs", "csrrc"),
    *("lp.starti", "lp.endi", "lp.count", "lp.setup"),
)
"""Operations on CSRs, traps and hardware loops, which have no effect here; only the instruction-set simulator executes
them."""

HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(scalar.BINARY, scalar.binary),
    **dict.fromkeys(scalar.UNARY, scalar.unary),
    **dict.fromkeys(scalar.COMPARISONS, scalar.branch),
    **dict.fromkeys(("mac", "msu"), scalar.multiply_accumulate),
    **dict.fromkeys(("lui", "auipc"), scalar.upper_immediate),
    **dict.fromkeys(("jal", "jalr"), scalar.jump),
    **dict.fromkeys(("clip", "clipu"), scalar.clip),
    **dict.fromkeys(scalar.FIELD_OPERATIONS, scalar.bit_field),
    **ADDITIONS,
    **MULTIPLICATIONS,
    **dict.fromkeys(scalar.LOADS, scalar.load),
    **dict.fromkeys(scalar.STORES, scalar.store),
    **simd.HANDLERS,
    **dict.fromkeys(DOT_PRODUCT_OPS, dotp.dot_product),
    **dict.fromkeys(NN_FORM_OPS, dotp.mac_load_nn),
    **dict.fromkeys(PAIR_OPS, dotp.mac_load_pair),
    "pv.cusdot": dotp.mac_load_cu,
    "pv.rqld": dotp.load_parameter,
    **dict.fromkeys(REQUANTISE_OPS, dotp.requantise),
    **dict.fromkeys(EXACT_OPS, dotp.requantise_exactly),
    **dict.fromkeys(SEQUENCER_OPS, lambda insn, src: Effects()),
}
"""Golden model of each operation except ``pv.qnt``, which needs a memory: see :func:`dotp.quantise`."""


def execute(insn: Insn, src: Sources) -> Effects:
    """Return the effects of N executions of ``insn``."""
    handler = HANDLERS.get(insn.op)
    if handler is None:
        raise EncodingError(f"`insn.op` must be one of the reference operations, not `{insn.op}`")
    return handler(insn, src)
