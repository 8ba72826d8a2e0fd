"""Packed-SIMD results as functions of plain integers, for speed; the golden models remain the reference of each."""

from collections.abc import Callable
from operator import mul
from struct import Struct

from xpulpnn.isa.formats import ElemFmt, Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_PARAMETER, WORD_BYTES, WORD_MASK
from xpulpnn_sim.golden import fields
from xpulpnn_sim.iss.scalar import SIGN, Maker, Value, immediate

Lanes = tuple[int, ...]
Unpack = Callable[[int], Lanes]

_BYTES = 256
_SHIFT_MASK = 31
_STRUCTS = {
    (ElemFmt.H, False): Struct("<2H"),
    (ElemFmt.H, True): Struct("<2h"),
    (ElemFmt.B, False): Struct("<4B"),
    (ElemFmt.B, True): Struct("<4b"),
}


def _byte_table(fmt: ElemFmt, *, is_signed: bool) -> list[Lanes]:
    """Elements of every byte, for elements smaller than it."""
    width = fmt.width
    sign = 1 << (width - 1) if is_signed else 0
    mask = (1 << width) - 1
    return [tuple((byte >> lsb & mask ^ sign) - sign for lsb in range(0, 8, width)) for byte in range(_BYTES)]


def _small_unpack(fmt: ElemFmt, *, is_signed: bool) -> Unpack:
    table = _byte_table(fmt, is_signed=is_signed)
    return lambda word: table[word & 255] + table[word >> 8 & 255] + table[word >> 16 & 255] + table[word >> 24]


def _large_unpack(layout: Struct) -> Unpack:
    return lambda word: layout.unpack(word.to_bytes(WORD_BYTES, "little"))


UNPACK: dict[tuple[ElemFmt, bool], Unpack] = {key: _large_unpack(layout) for key, layout in _STRUCTS.items()} | {
    (fmt, is_signed): _small_unpack(fmt, is_signed=is_signed)
    for fmt in (ElemFmt.N, ElemFmt.C)
    for is_signed in (False, True)
}
"""Elements of a word, lane 0 first, by format and whether they are signed."""


def pack(lanes: Lanes | list[int], width: int) -> int:
    """The word of the low ``width`` bits of each lane."""
    mask, word = (1 << width) - 1, 0
    for lane in reversed(lanes):
        word = word << width | lane & mask
    return word


def _format(insn: Insn) -> ElemFmt:
    assert insn.fmt is not None
    return insn.fmt


def _constant(insn: Insn, word: int) -> int:
    """The immediate operand of a .sci form as a number."""
    pattern = immediate(fields.IMMEDIATES[insn.operands.rsplit(",", maxsplit=1)[-1]], word)
    return pattern - (1 << 32) if pattern >> 31 else pattern


def sum_of_products(fmt: ElemFmt, *, a_signed: bool, b_signed: bool) -> Callable[[int, int], int]:
    """Dot product of two words, exact."""
    first, second = UNPACK[fmt, a_signed], UNPACK[fmt, b_signed]
    return lambda a, b: sum(map(mul, first(a), second(b)))


def dot_product(insn: Insn, word: int) -> Value:
    """pv.dot* and pv.sdot*."""
    fmt = _format(insn)
    keep = WORD_MASK if insn.accumulates else 0
    first, second = UNPACK[fmt, insn.a_signed], UNPACK[fmt, insn.b_signed]
    if insn.mode is Op2Mode.SCI:
        factor = _constant(insn, word)
        return lambda a, b, d: ((d & keep) + factor * sum(first(a))) & WORD_MASK
    if insn.mode is Op2Mode.SC:
        return lambda a, b, d: ((d & keep) + second(b)[0] * sum(first(a))) & WORD_MASK
    return lambda a, b, d: ((d & keep) + sum(map(mul, first(a), second(b)))) & WORD_MASK


Lane = Callable[[int, int, int], int]
"""Result lane from (a, b, lane width); bits above the width do not matter."""


def _average(a: int, b: int, width: int) -> int:
    total, sign = (a + b) & ((1 << width) - 1), 1 << (width - 1)
    return ((total ^ sign) - sign) >> 1


SIGNED: dict[str, Lane] = {
    "pv.add": lambda a, b, width: a + b,
    "pv.sub": lambda a, b, width: a - b,
    "pv.avg": _average,
    "pv.min": lambda a, b, width: min(a, b),
    "pv.max": lambda a, b, width: max(a, b),
    "pv.sra": lambda a, b, width: a >> b % width,
    "pv.or": lambda a, b, width: a | b,
    "pv.xor": lambda a, b, width: a ^ b,
    "pv.and": lambda a, b, width: a & b,
    "pv.cmpeq": lambda a, b, width: -(a == b),
    "pv.cmpne": lambda a, b, width: -(a != b),
    "pv.cmpgt": lambda a, b, width: -(a > b),
    "pv.cmpge": lambda a, b, width: -(a >= b),
    "pv.cmplt": lambda a, b, width: -(a < b),
    "pv.cmple": lambda a, b, width: -(a <= b),
    "pv.abs": lambda a, b, width: abs(a),
}
"""Operations on lanes read as two's complement numbers."""

UNSIGNED: dict[str, Lane] = {
    "pv.avgu": lambda a, b, width: ((a + b) & ((1 << width) - 1)) >> 1,
    "pv.minu": lambda a, b, width: min(a, b),
    "pv.maxu": lambda a, b, width: max(a, b),
    "pv.srl": lambda a, b, width: a >> b % width,
    "pv.sll": lambda a, b, width: a << b % width,
    "pv.cmpgtu": lambda a, b, width: -(a > b),
    "pv.cmpgeu": lambda a, b, width: -(a >= b),
    "pv.cmpltu": lambda a, b, width: -(a < b),
    "pv.cmpleu": lambda a, b, width: -(a <= b),
}
"""Operations on lanes read as unsigned numbers."""


def lane_wise(insn: Insn, word: int) -> Value:
    """``rd[i] = a[i] op B[i]``."""
    fmt, is_signed = _format(insn), insn.op in SIGNED
    operate = SIGNED[insn.op] if is_signed else UNSIGNED[insn.op]
    unpack, width, count = UNPACK[fmt, is_signed], fmt.width, fmt.lanes
    if insn.mode is Op2Mode.SCI:
        constants = [_constant(insn, word)] * count
        return lambda a, b, d: pack([operate(x, y, width) for x, y in zip(unpack(a), constants, strict=True)], width)
    if insn.mode is Op2Mode.SC:

        def replicated(a: int, b: int, d: int) -> int:
            y = unpack(b)[0]
            return pack([operate(x, y, width) for x in unpack(a)], width)

        return replicated
    return lambda a, b, d: pack([operate(x, y, width) for x, y in zip(unpack(a), unpack(b), strict=True)], width)


def extract(insn: Insn, word: int) -> Value:
    """pv.extract and pv.extractu."""
    fmt = _format(insn)
    unpack, lane = UNPACK[fmt, insn.op == "pv.extract"], immediate(fields.uimm6, word) % fmt.lanes
    return lambda a, b, d: unpack(a)[lane] & WORD_MASK


def insert(insn: Insn, word: int) -> Value:
    """pv.insert."""
    fmt = _format(insn)
    low, lsb = (1 << fmt.width) - 1, fmt.width * (immediate(fields.uimm6, word) % fmt.lanes)
    return lambda a, b, d: (d & ~(low << lsb)) | (a & low) << lsb


def shuffle(insn: Insn, word: int) -> Value:
    """pv.shuffle and the pv.shufflei forms."""
    fmt = _format(insn)
    unpack, width, last = UNPACK[fmt, False], fmt.width, fmt.lanes - 1
    if insn.mode is not Op2Mode.SCI:

        def shuffled(a: int, b: int, d: int) -> int:
            lanes = unpack(a)
            return pack([lanes[selector & last] for selector in unpack(b)], width)

        return shuffled
    index_bits = last.bit_length()
    packed = immediate(fields.uimm6, word)
    if insn.entry is not None:
        packed |= insn.entry << index_bits * last
    selectors = [packed >> index_bits * lane & last for lane in range(fmt.lanes)]

    def picked(a: int, b: int, d: int) -> int:
        lanes = unpack(a)
        return pack([lanes[selector] for selector in selectors], width)

    return picked


def shuffle2(insn: Insn, word: int) -> Value:
    """pv.shuffle2."""
    fmt = _format(insn)
    unpack, width, last = UNPACK[fmt, False], fmt.width, 2 * fmt.lanes - 1

    def shuffled(a: int, b: int, d: int) -> int:
        lanes = unpack(d) + unpack(a)
        return pack([lanes[selector & last] for selector in unpack(b)], width)

    return shuffled


_PACKED_LSB = {"pv.pack": 0, "pv.packlo": 0, "pv.packhi": 16}
"""Where the element of rs2 goes; that of rs1 goes above it."""


def pack_elements(insn: Insn, word: int) -> Value:
    """pv.pack.h, pv.packhi.b, pv.packlo.b."""
    width, lsb = _format(insn).width, _PACKED_LSB[insn.op]
    low = (1 << width) - 1
    keep = WORD_MASK & ~(((1 << 2 * width) - 1) << lsb)
    return lambda a, b, d: (d & keep) | ((a & low) << width | b & low) << lsb


_LANE_LSB = 28


def requantise(insn: Insn, word: int, nn: list[int]) -> Value:
    """pv.rqu and pv.rqs, with the parameters that are in the NN-RF when it executes."""
    width = _format(insn).width
    mask = (1 << width) - 1
    least = -(1 << (width - 1)) if insn.a_signed else 0
    most, lsb = least + mask, (word >> _LANE_LSB) * width
    keep = WORD_MASK & ~(mask << lsb)
    factor, summand = FIRST_PARAMETER, FIRST_PARAMETER + 1

    def requantised(a: int, b: int, d: int) -> int:
        total = (nn[factor] * a + nn[summand]) & WORD_MASK
        number = ((total ^ SIGN) - SIGN) >> (b & _SHIFT_MASK)
        return (d & keep) | (min(max(number, least), most) & mask) << lsb

    return requantised


MAKERS: dict[str, Maker] = {
    **dict.fromkeys(SIGNED, lane_wise),
    **dict.fromkeys(UNSIGNED, lane_wise),
    **dict.fromkeys((f"pv.{s}dot{signs}" for s in ("", "s") for signs in ("up", "usp", "sp")), dot_product),
    **dict.fromkeys(("pv.extract", "pv.extractu"), extract),
    **dict.fromkeys(("pv.shuffle", "pv.shufflei"), shuffle),
    **dict.fromkeys(_PACKED_LSB, pack_elements),
    "pv.insert": insert,
    "pv.shuffle2": shuffle2,
}
"""Maker of the value function of each operation."""
