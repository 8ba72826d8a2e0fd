"""Instructions of the coprocessor behind CV-X-IF: accumulators, blocks of products, requantisation.

Their words are those of Mac&Load, which the coprocessor lacks, so they are no rows of the table of a core. A block has
four pixels (activations) and four filters (weights); accumulator ``4 * pixel + filter`` belongs to one of each.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

from xpulpnn.isa.formats import ElemFmt, Extension, Op2Mode
from xpulpnn.isa.insn import Insn, pattern
from xpulpnn.isa.xpulpnn import MAC_LOAD, SIGNS

B, N, C = ElemFmt.B, ElemFmt.N, ElemFmt.C
PIXELS = FILTERS = 4
ACCUMULATORS = PIXELS * FILTERS
FIRST_POINTER = 26  # words of the state for pa.rd: accumulators, then entries of the NN-RF, then two pointers
STEP_BITS = 10  # bits of the number of steps of pa.step

FORMS = {
    (B, B, 0): "0000",
    (N, N, 0): "0001",
    (C, C, 0): "0010",
    (B, N, 0): "0100",
    (B, N, 1): "0101",
    (N, C, 0): "0110",
    (N, C, 1): "0111",
    (B, C, 0): "1000",
    (B, C, 1): "1001",
    (B, C, 2): "1010",
    (B, C, 3): "1011",
}
"""Bits 28:25 of pa.blk and pa.step: format of the activations, format of the weights, and part of the weight word."""

_ZERO = "00000"
_XIF, _STEP, _RQ, _RQX = Extension.XIF, Extension.XIF_STEP, Extension.XIF_RQ, Extension.XIF_RQ_EXACT


def _row(name: str, operands: str, funct3: str, funct7: str, extension: Extension = _XIF, **others: Any) -> Insn:
    """Return a row whose register fields are 0 unless an operand names them."""
    fields = {field: "-----" if field in operands.split(",") else _ZERO for field in ("rd", "rs1", "rs2")}
    word = pattern(MAC_LOAD, funct3, funct7, **fields)
    op = str(others.pop("op", name))
    return Insn(name, word, operands, extension, op, **others)


def _products() -> Iterator[Insn]:
    """Yield products with one accumulator, with a block, and in steps of a block; the first sign is that of pixels."""
    for signs, signed in SIGNS.items():
        code = "".join("01"[signed.get(factor, False)] for factor in ("a_signed", "b_signed"))
        for number, fmt in enumerate((B, N, C)):
            kinds: dict[str, Any] = {"fmt": fmt, "mode": Op2Mode.VECTOR, "op": "pa.acc"} | signed
            yield _row(f"pa.acc{signs}.{fmt.suffix}", "k,rs1,rs2", f"{number:03b}", f"0----{code}", **kinds)
        for (fmt, weights, part), form in FORMS.items():
            narrow = {} if weights is fmt else {"wgt_fmt": weights, "entry": part}
            suffix = fmt.suffix if weights is fmt else f"{fmt.suffix}.{weights.suffix}"
            kinds: dict[str, Any] = {"fmt": fmt, **narrow} | signed
            number = "" if weights is fmt else part
            yield _row(f"pa.blk{signs}.{suffix}{number}", "h,rs1,rs2", "011", f"-{code}{form}", op="pa.blk", **kinds)
            if not part:
                yield _row(f"pa.step{signs}.{suffix}", "rs1", "100", f"0{code}{form}", _STEP, op="pa.step", **kinds)


def _requantisation(stem: str, extension: Extension) -> Iterator[Insn]:
    exact = int(extension is _RQX)
    for (letter, signed), fmt in product((("u", False), ("s", True)), (B, N, C)):
        name, funct7 = f"pa.{stem}{letter}", f"0{fmt.value:02b}{signed:d}{exact}--"
        yield _row(f"{name}.{fmt.suffix}", "f,rs1,rs2", "110", funct7, extension, op=name, fmt=fmt, a_signed=signed)


XIF_ROWS = (
    *_products(),
    _row("pa.rd", "rd,r", "101", "00-----"),
    _row("pa.wr", "r,rs1", "101", "01-----"),
    _row("pa.ld", "e,rs1,rs2", "101", "1000---"),
    _row("pa.clr", "", "101", "1100010"),
    _row("pa.ptr", "rs1,rs2", "101", "1100000", _STEP),
    _row("pa.sync", "rd", "101", "1100001", _STEP),
    *_requantisation("rq", _RQ),
    *_requantisation("rqx", _RQX),
)
