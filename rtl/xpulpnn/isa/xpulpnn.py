"""Packed SIMD of XpulpV2 and XpulpNN, Mac&Load, quantisation (guide, "Packed SIMD and dot products", "Mac&Load").

A row here is a family, which expands over the element formats and the forms of the second operand.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from xpulpnn.isa.formats import ElemFmt, Extension, Op2Mode
from xpulpnn.isa.insn import Insn, pattern

SIMD, MAC_LOAD = "1010111", "1110111"

H, B, N, C = ElemFmt
VECTOR, SC, SCI = Op2Mode
_CU, _RQ, _RQX = Extension.XPULPML_CU, Extension.XPULPRQ, Extension.XPULPRQ_EXACT

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
"""funct3 in the SIMD opcode for each existing combination of element format and source of the second operand."""

_BIT25 = {H: "-", B: "-", N: "0", C: "1"}
"""Bit 25: selects nibbles or crumbs; in the wider formats it is the low bit of imm6, or ignored."""

_V2_FORMATS, _NN_FORMATS = (H, B), (N, C)

SIGNS: dict[str, dict[str, Any]] = {
    "up": {},
    "usp": {"b_signed": True},
    "sup": {"a_signed": True},
    "sp": {"a_signed": True, "b_signed": True},
}
"""Signs of the factors of a product, by their letters in a mnemonic."""


def _in_twos(first: int, names: str) -> dict[str, str]:
    return {name: f"{first + 2 * row:06b}" for row, name in enumerate(names.split())}


_LANE_WISE = _in_twos(0b000000, "add sub avg avgu min minu max maxu srl sra sll or xor and")
_COMPARES = _in_twos(0b000001, "cmpeq cmpne cmpgt cmpge cmplt cmple cmpgtu cmpgeu cmpltu cmpleu")
_DOTS = {
    f"{letter}dot{signs}": f"10{bit}{code}"
    for letter, bit in (("", "0"), ("s", "1"))
    for signs, code in (("up", "000"), ("usp", "010"), ("sp", "110"))
}

_SELECTOR = "rd,rs1,uimm6"
_REGISTERS = "rd,rs1,rs2"
_UPDATE = "rd~,rs1,rs2"

_MOVES = (
    ("extract", "011110", _SELECTOR, (H, B), SCI, None, "-"),
    ("extractu", "100100", _SELECTOR, (H, B), SCI, None, "-"),
    ("insert", "101100", "rd~,rs1,uimm6", (H, B), SCI, None, "-"),
    ("shuffle", "110000", _REGISTERS, (H, B), VECTOR, None, "-"),
    ("shuffle", "110000", _SELECTOR, (H,), SCI, None, "-"),
    ("shufflei", "110000", _SELECTOR, (B,), SCI, 0, "-"),
    ("shufflei", "111010", _SELECTOR, (B,), SCI, 1, "-"),
    ("shufflei", "111100", _SELECTOR, (B,), SCI, 2, "-"),
    ("shufflei", "111110", _SELECTOR, (B,), SCI, 3, "-"),
    ("shuffle2", "110010", _UPDATE, (H, B), VECTOR, None, "-"),
    ("pack", "110100", _REGISTERS, (H,), VECTOR, None, "0"),
    ("packhi", "110110", _UPDATE, (B,), VECTOR, None, "-"),
    ("packlo", "111000", _UPDATE, (B,), VECTOR, None, "-"),
)
"""Lane moves: name, funct6, operands, formats, operand source for funct3, number in the name, bit 25."""

_NN_FORM = (
    ("mlsdotup", "1110000", "up"),
    ("mlsdotusp", "1110100", "usp"),
    ("mlsdotsup", "1101100", "sup"),
    ("mlsdotsp", "1111100", "sp"),
)
"""Mac&Load of the nn form in every format: name, funct7, signs."""

# the paper's names; its usp has signed weights
_NN_ALIASES = (("nnsdotup", "1110000", "up"), ("nnsdotusp", "1101100", "sup"), ("nnsdotsp", "1111100", "sp"))

# bit 25 disables the accumulation
_NN_PRODUCT = tuple((name.replace("mls", "ml"), f"{code[:-1]}1", signs) for name, code, signs in _NN_FORM)

_CU_FORM = (("cusdotup", "10100", "up"), ("cusdotusp", "10101", "sup"), ("cusdotsp", "10111", "sp"))


def _extension(fmt: ElemFmt) -> Extension:
    return Extension.XPULPV2 if fmt in _V2_FORMATS else Extension.XPULPNN


def _lanes(families: dict[str, str], formats: tuple[ElemFmt, ...]) -> Iterator[Insn]:
    """Yield lane-wise operations or dot products for every source of the second operand."""
    for op, funct6 in families.items():
        immediate = "uimm6" if op.endswith(("u", "up")) else "imm6"
        registers = "rd~,rs1" if op.startswith("sdot") else "rd,rs1"
        kinds = SIGNS.get(op.rpartition("dot")[2], {})
        for fmt in formats:
            for mode in (mode for mode in Op2Mode if (fmt, mode) in _FUNCT3):
                name = f"pv.{op}{mode.suffix}.{fmt.suffix}"
                word = pattern(SIMD, _FUNCT3[fmt, mode], funct6 + _BIT25[fmt])
                operands = f"{registers},{immediate if mode is SCI else 'rs2'}"
                yield Insn(name, word, operands, _extension(fmt), f"pv.{op}", fmt=fmt, mode=mode, **kinds)


def _absolute(formats: tuple[ElemFmt, ...]) -> Iterator[Insn]:
    for fmt in formats:
        funct7 = f"011100{_BIT25[fmt].replace('-', '0')}"
        word = pattern(SIMD, _FUNCT3[fmt, VECTOR], funct7, rs2="00000")
        yield Insn(f"pv.abs.{fmt.suffix}", word, "rd,rs1", _extension(fmt), "pv.abs", fmt=fmt, mode=VECTOR)


def _moves() -> Iterator[Insn]:
    for op, funct6, operands, formats, form, entry, bit25 in _MOVES:
        # the immediate of these names one lane: their mnemonics carry no ``.sci``
        mode = None if op in ("extract", "extractu", "insert") else form
        name = f"pv.{op}{'' if entry is None else entry}{'' if mode is None else mode.suffix}"
        kinds: dict[str, Any] = {"mode": mode, "entry": entry}
        for fmt in formats:
            word = pattern(SIMD, _FUNCT3[fmt, form], funct6 + bit25)
            yield Insn(f"{name}.{fmt.suffix}", word, operands, Extension.XPULPV2, f"pv.{op}", fmt=fmt, **kinds)


def _nn_form(families: Iterable[tuple[str, str, str]], operands: str, extension: Extension, op: str) -> Iterator[Insn]:
    for name, code, signs in families:
        kinds: dict[str, Any] = SIGNS[signs] | {"alias": name.startswith("nn")}
        for fmt in ElemFmt:
            word = pattern(MAC_LOAD, f"{fmt.value:03b}", code)
            yield Insn(f"pv.{name}.{fmt.suffix}", word, operands, extension, op, fmt=fmt, **kinds)


def _cross(row: Insn) -> Insn:
    return replace(
        row,
        pattern=row.pattern.replace("-----", "11---", 1),
        operands=f"{row.operands}'",
        extension=Extension.XPULPML_CROSS,
        second_extension=Extension.XPULPML_DOT if row.extension is Extension.XPULPML_DOT else None,
    )


_PAIR_LOADS = (("--", "-----", "(rs1!),w,p,t"), ("11", "00000", "w,p"))
"""Mac&Load of two products with and without load: bits of the entry number, base, operands after the sums."""


def _pairs() -> Iterator[Insn]:
    """Yield the Mac&Load of two products: weights as wide as the activations, then weights of half or a quarter."""
    for fmt in ElemFmt:
        yield from _pair_forms(fmt, f"{fmt.value:03b}", ("0", "0"), ("00", "01"), {"extension": Extension.XPULPML_PAIR})
    for fmt, ratio in ((H, 1), (H, 2), (B, 1), (B, 2), (N, 1)):
        for part in range(1 << ratio):
            kinds = {"extension": Extension.XPULPML_MIXED, "wgt_fmt": ElemFmt(fmt + ratio), "entry": part}
            # half: bit 25 alone; quarter: bit 26, with the upper bit of the slice number in bit 25
            bits = "01" if ratio == 1 else f"1{part >> 1}"
            fields = (f"1{fmt.value}{part & 1}", ("0", "1"), (bits, bits))
            yield from _pair_forms(fmt, *((f"01{part}", ("0", "0"), ("10", "11")) if fmt is N else fields), kinds)


def _pair_forms(
    fmt: ElemFmt, funct3: str, bit31: tuple[str, str], bits26: tuple[str, str], kinds: dict[str, Any]
) -> Iterator[Insn]:
    """Yield the Mac&Load of two products for a format; ``bit31`` and ``bits26`` begin with the accumulating rows."""
    suffix = fmt.suffix if kinds.get("wgt_fmt") is None else f"{fmt.suffix}.{kinds['wgt_fmt'].suffix}{kinds['entry']}"
    for number, (name, sums) in enumerate((("mlsduo", "rd2~"), ("mlduo", "rd2"))):
        for (signs, signed), (bits, base, operands) in product(SIGNS.items(), _PAIR_LOADS):
            low, high = ("01"[signed.get(factor, False)] for factor in ("a_signed", "b_signed"))
            word = pattern(
                MAC_LOAD,
                funct3,
                f"{bit31[number]}{bits}{low}{high}{bits26[number]}",
                rs2=f"{bits}---",
                rs1=base,
                rd="----0",
            )
            yield Insn(
                f"pv.{name}{signs}.{suffix}", word, f"{sums},{operands}", op=f"pv.{name}", fmt=fmt, **signed, **kinds
            )


def _compute_and_update() -> Iterator[Insn]:
    for name, code, signs in _CU_FORM:
        for fmt, entry in product(ElemFmt, range(4)):
            word = pattern(MAC_LOAD, f"{fmt.value:03b}", f"{code}{entry:02b}")
            kinds: dict[str, Any] = SIGNS[signs] | {"fmt": fmt, "entry": entry}
            yield Insn(f"pv.{name}.{fmt.suffix}.{entry}", word, "rd~,(rs1!),rs2", _CU, "pv.cusdot", **kinds)


def _quantisation() -> Iterator[Insn]:
    for fmt in _NN_FORMATS:
        word = pattern(SIMD, _FUNCT3[fmt, VECTOR], f"111000{_BIT25[fmt]}")
        yield Insn(f"pv.qnt.{fmt.suffix}", word, "rd,rs1,(rs2)", Extension.XPULPQNT, "pv.qnt", fmt=fmt)


_REQUANTISED = {
    _RQ: {B: ("101", "00--{}00"), N: ("110", "0---{}00"), C: ("111", "----{}00")},
    _RQX: {B: ("001", "010--1{}"), N: ("001", "00---1{}"), C: ("000", "0----1{}")},
}
"""funct3 and funct7 of requantisations; the brackets stand for the sign of the result, and the lane is free."""


def _requantisation(stem: str, extension: Extension) -> Iterator[Insn]:
    for letter, (fmt, (funct3, funct7)) in product("us", _REQUANTISED[extension].items()):
        word = pattern(MAC_LOAD, funct3, funct7.format(int(letter == "s")))
        name, lane = f"pv.{stem}{letter}", f"lane{funct7.count('-')}" + "'" * (extension is _RQX)
        operands = f"rd~,rs1,rs2,{lane}"
        yield Insn(f"{name}.{fmt.suffix}", word, operands, extension, name, fmt=fmt, a_signed=letter == "s")


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
_NN_ROWS = tuple(_nn_form(_NN_FORM, "rd~,(rs1!),nnimm5", Extension.XPULPML_NN, "pv.mlsdot"))
_NN_PRODUCT_ROWS = tuple(_nn_form(_NN_PRODUCT, "rd,(rs1!),nnimm5", Extension.XPULPML_DOT, "pv.mldot"))

MAC_LOAD_ROWS = (
    *_NN_ROWS,
    *_nn_form(_NN_ALIASES, "rd~,(rs1!),nnimm5", Extension.XPULPML_NN, "pv.mlsdot"),
    *_compute_and_update(),
)
QUANTISATION_ROWS = tuple(_quantisation())  # pv.qnt.

XPULPNN2_ROWS = (
    *(_cross(row) for row in _NN_ROWS),
    *_NN_PRODUCT_ROWS,
    *(_cross(row) for row in _NN_PRODUCT_ROWS),
    Insn("pv.rqld", pattern(MAC_LOAD, "100", "0000000", rs2="0000-", rd="00000"), "uimm1,(rs1!)", _RQ, "pv.rqld"),
    *_requantisation("rq", _RQ),
)
XPULPNN3_ROWS = (*_pairs(), *_requantisation("rqx", _RQX))
