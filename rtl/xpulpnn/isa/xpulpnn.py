"""Packed SIMD of XpulpV2 and XpulpNN, Mac&Load, quantisation (guide, "Packed SIMD and dot products", "Mac&Load").

A family is one row here; it expands over the element formats and the forms of the second operand.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from xpulpnn.isa.formats import ElemFmt, Extension, Op2Mode
from xpulpnn.isa.insn import Insn, pattern

SIMD, MAC_LOAD = "1010111", "1110111"

H, B, N, C = ElemFmt
VECTOR, SC, SCI = Op2Mode

_FUNCT3 = {
    (H, VECTOR): "000",
    (H, SC): "100",
    (H, SCI): "110",
    (B, VECTOR): "001",
    (B, SC): "101",
    (B, SCI): "111",
    (N, VECTOR): "010",
    (N, SC): "011",
    (C, VECTOR): "010",
    (C, SC): "011",
}
"""The combinations of format and second-operand form that exist, with their funct3 in the SIMD opcode."""

_BIT25 = {H: "-", B: "-", N: "0", C: "1"}
"""Tells nibbles from crumbs; in the wider formats the low bit of imm6, or ignored."""

_V2_FORMATS, _NN_FORMATS = (H, B), (N, C)


class _Lanes(NamedTuple):
    """Operations lane by lane, or a dot product, in every form."""

    op: str
    funct6: str
    immediate: str = "imm6"
    rd: str = "rd"
    a_signed: bool = False
    b_signed: bool = False


def _in_twos(first: int, names: str) -> tuple[_Lanes, ...]:
    """Operations whose funct6 goes up by two; the immediate of those that end in ``u`` is unsigned."""
    rows = enumerate(names.split())
    return tuple(_Lanes(op, f"{first + 2 * row:06b}", "uimm6" if op.endswith("u") else "imm6") for row, op in rows)


_LANE_WISE = _in_twos(0b000000, "add sub avg avgu min minu max maxu srl sra sll or xor and")
_COMPARES = _in_twos(0b000001, "cmpeq cmpne cmpgt cmpge cmplt cmple cmpgtu cmpgeu cmpltu cmpleu")
_DOTS = (
    _Lanes("dotup", "100000", "uimm6"),
    _Lanes("dotusp", "100010", b_signed=True),
    _Lanes("dotsp", "100110", a_signed=True, b_signed=True),
    _Lanes("sdotup", "101000", "uimm6", rd="rd~"),
    _Lanes("sdotusp", "101010", rd="rd~", b_signed=True),
    _Lanes("sdotsp", "101110", rd="rd~", a_signed=True, b_signed=True),
)

_ABS = "011100"
_SELECTOR = "rd,rs1,uimm6"
_REGISTERS = "rd,rs1,rs2"
_UPDATE = "rd~,rs1,rs2"


class _Move(NamedTuple):
    """A lane move in the formats it exists in; ``funct3`` is that of ``mode``."""

    op: str
    funct6: str
    operands: str
    formats: tuple[ElemFmt, ...]
    mode: Op2Mode
    entry: int | None = None
    bit25: str = "-"


_MOVES = (
    _Move("extract", "011110", _SELECTOR, (H, B), SCI),
    _Move("extractu", "100100", _SELECTOR, (H, B), SCI),
    _Move("insert", "101100", "rd~,rs1,uimm6", (H, B), SCI),
    _Move("shuffle", "110000", _REGISTERS, (H, B), VECTOR),
    _Move("shuffle", "110000", _SELECTOR, (H,), SCI),
    _Move("shufflei", "110000", _SELECTOR, (B,), SCI, entry=0),
    _Move("shufflei", "111010", _SELECTOR, (B,), SCI, entry=1),
    _Move("shufflei", "111100", _SELECTOR, (B,), SCI, entry=2),
    _Move("shufflei", "111110", _SELECTOR, (B,), SCI, entry=3),
    _Move("shuffle2", "110010", _UPDATE, (H, B), VECTOR),
    _Move("pack", "110100", _REGISTERS, (H,), VECTOR, bit25="0"),
    _Move("packhi", "110110", _UPDATE, (B,), VECTOR),
    _Move("packlo", "111000", _UPDATE, (B,), VECTOR),
)

_BARE_SELECTOR = frozenset({"extract", "extractu", "insert"})
"""Moves whose immediate names one lane; their mnemonics carry no ``.sci``."""


class _MacLoad(NamedTuple):
    """A Mac&Load in every format; the code fills the top of the word."""

    name: str
    code: str
    a_signed: bool
    b_signed: bool
    alias: bool = False
    op: str = "pv.mlsdot"


_NN_FORM = (
    _MacLoad("mlsdotup", "1110000", a_signed=False, b_signed=False),
    _MacLoad("mlsdotusp", "1110100", a_signed=False, b_signed=True),
    _MacLoad("mlsdotsup", "1101100", a_signed=True, b_signed=False),
    _MacLoad("mlsdotsp", "1111100", a_signed=True, b_signed=True),
    # the paper's names; its usp has signed weights
    _MacLoad("nnsdotup", "1110000", a_signed=False, b_signed=False, alias=True),
    _MacLoad("nnsdotusp", "1101100", a_signed=True, b_signed=False, alias=True),
    _MacLoad("nnsdotsp", "1111100", a_signed=True, b_signed=True, alias=True),
)

# bit 25 leaves out the accumulation
_NN_PRODUCT = tuple(
    family._replace(name=family.name.replace("mls", "ml"), code=f"{family.code[:-1]}1", op="pv.mldot")
    for family in _NN_FORM
    if not family.alias
)

_CU_FORM = (
    _MacLoad("cusdotup", "10100", a_signed=False, b_signed=False),
    _MacLoad("cusdotusp", "10101", a_signed=True, b_signed=False),
    _MacLoad("cusdotsp", "10111", a_signed=True, b_signed=True),
)

_CU_ENTRIES = range(4)


def _extension(fmt: ElemFmt) -> Extension:
    return Extension.XPULPV2 if fmt in _V2_FORMATS else Extension.XPULPNN


def _lanes(families: Iterable[_Lanes], formats: tuple[ElemFmt, ...]) -> Iterator[Insn]:
    for family in families:
        for fmt in formats:
            for mode in (mode for mode in Op2Mode if (fmt, mode) in _FUNCT3):
                source = family.immediate if mode is SCI else "rs2"
                yield Insn(
                    f"pv.{family.op}{mode.suffix}.{fmt.suffix}",
                    pattern(SIMD, _FUNCT3[fmt, mode], family.funct6 + _BIT25[fmt]),
                    f"{family.rd},rs1,{source}",
                    _extension(fmt),
                    f"pv.{family.op}",
                    fmt=fmt,
                    mode=mode,
                    a_signed=family.a_signed,
                    b_signed=family.b_signed,
                )


def _absolute(formats: tuple[ElemFmt, ...]) -> Iterator[Insn]:
    for fmt in formats:
        funct7 = _ABS + _BIT25[fmt].replace("-", "0")
        word = pattern(SIMD, _FUNCT3[fmt, VECTOR], funct7, rs2="00000")
        yield Insn(f"pv.abs.{fmt.suffix}", word, "rd,rs1", _extension(fmt), "pv.abs", fmt=fmt, mode=VECTOR)


def _moves() -> Iterator[Insn]:
    for move in _MOVES:
        mode = None if move.op in _BARE_SELECTOR else move.mode
        digit = "" if move.entry is None else str(move.entry)
        form = "" if mode is None else mode.suffix
        for fmt in move.formats:
            yield Insn(
                f"pv.{move.op}{digit}{form}.{fmt.suffix}",
                pattern(SIMD, _FUNCT3[fmt, move.mode], move.funct6 + move.bit25),
                move.operands,
                Extension.XPULPV2,
                f"pv.{move.op}",
                fmt=fmt,
                mode=mode,
                entry=move.entry,
            )


def _nn_form(family: _MacLoad, fmt: ElemFmt) -> Insn:
    return Insn(
        f"pv.{family.name}.{fmt.suffix}",
        pattern(MAC_LOAD, f"{fmt.value:03b}", family.code),
        f"{'rd~' if family.op == 'pv.mlsdot' else 'rd'},(rs1!),nnimm5",
        Extension.XPULPML_NN if family.op == "pv.mlsdot" else Extension.XPULPML_DOT,
        family.op,
        alias=family.alias,
        fmt=fmt,
        a_signed=family.a_signed,
        b_signed=family.b_signed,
    )


def _cross(row: Insn) -> Insn:
    """``row`` with both update bits in its pattern."""
    return replace(
        row,
        pattern=row.pattern.replace("-----", "11---", 1),
        operands=f"{row.operands}'",
        extension=Extension.XPULPML_CROSS,
        also=Extension.XPULPML_DOT if row.extension is Extension.XPULPML_DOT else None,
    )


def _compute_and_update(family: _MacLoad, fmt: ElemFmt, entry: int) -> Insn:
    return Insn(
        f"pv.{family.name}.{fmt.suffix}.{entry}",
        pattern(MAC_LOAD, f"{fmt.value:03b}", f"{family.code}{entry:02b}"),
        "rd~,(rs1!),rs2",
        Extension.XPULPML_CU,
        "pv.cusdot",
        fmt=fmt,
        a_signed=family.a_signed,
        b_signed=family.b_signed,
        entry=entry,
    )


def _quantisation() -> Iterator[Insn]:
    for fmt in _NN_FORMATS:
        word = pattern(SIMD, _FUNCT3[fmt, VECTOR], f"111000{_BIT25[fmt]}")
        yield Insn(f"pv.qnt.{fmt.suffix}", word, "rd,rs1,(rs2)", Extension.XPULPQNT, "pv.qnt", fmt=fmt)


_LANE_BITS = {B: 2, N: 3, C: 4}  # Bits of the number of a lane, in the formats of the requantisation.

_LANE_FIELD = 4
_REQUANTISE_FUNCT3 = {B: "101", N: "110", C: "111"}


def _requantisation() -> Iterator[Insn]:
    word = pattern(MAC_LOAD, "100", "0000000", rs2="0000-", rd="00000")
    yield Insn("pv.rqld", word, "uimm1,(rs1!)", Extension.XPULPRQ, "pv.rqld")
    for name, sign in (("rqu", "0"), ("rqs", "1")):
        for fmt, bits in _LANE_BITS.items():
            lane = "0" * (_LANE_FIELD - bits) + "-" * bits
            yield Insn(
                f"pv.{name}.{fmt.suffix}",
                pattern(MAC_LOAD, _REQUANTISE_FUNCT3[fmt], f"{lane}{sign}00"),
                f"rd~,rs1,rs2,lane{bits}",
                Extension.XPULPRQ,
                f"pv.{name}",
                fmt=fmt,
                a_signed=sign == "1",
            )


SIMD_ROWS = (
    *_lanes(_LANE_WISE, _V2_FORMATS),
    *_absolute(_V2_FORMATS),
    *_lanes(_COMPARES, _V2_FORMATS),
    *_moves(),
    *_lanes(_DOTS, _V2_FORMATS),
    *_lanes(_LANE_WISE, _NN_FORMATS),
    *_absolute(_NN_FORMATS),
    *_lanes(_COMPARES, _NN_FORMATS),
    *_lanes(_DOTS, _NN_FORMATS),
)
"""Packed SIMD: XpulpV2 on half-words and bytes, then XpulpNN on nibbles and crumbs."""

_NN_ROWS = tuple(_nn_form(family, fmt) for family in _NN_FORM for fmt in ElemFmt)
_NN_PRODUCT_ROWS = tuple(_nn_form(family, fmt) for family in _NN_PRODUCT for fmt in ElemFmt)

MAC_LOAD_ROWS = (
    *_NN_ROWS,
    *(_compute_and_update(family, fmt, entry) for family in _CU_FORM for fmt in ElemFmt for entry in _CU_ENTRIES),
)
"""Mac&Load of the paper: the nn form with its aliases, then Compute&Update."""

QUANTISATION_ROWS = tuple(_quantisation())  # pv.qnt.

XPULPNN2_ROWS = (
    *(_cross(row) for row in _NN_ROWS if not row.alias),
    *_NN_PRODUCT_ROWS,
    *(_cross(row) for row in _NN_PRODUCT_ROWS),
    *_requantisation(),
)
"""Reload of the other activation, products without accumulation with either selector, requantisation."""
