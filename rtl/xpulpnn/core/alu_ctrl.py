"""Control word of the ALU, and its value for an instruction of the table.

The decoder in ID resolves an instruction into this pre-decoded word, so that EX decodes no opcode. All zeros is a
32-bit addition.
"""

from functools import partial
from typing import Any

from amaranth.lib import data, enum

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import LOAD_OPS, STORE_OPS, Insn


class LaneFmt(enum.Enum, shape=4):
    """Partition of the 32-bit datapath: one word, or the lanes of a packed-SIMD format.

    A thermometer code, so that partitioning needs no decoding: bit k is set if lanes are at most ``16 >> k`` wide.
    """

    WORD = 0b0000
    H = 0b0001
    B = 0b0011
    N = 0b0111
    C = 0b1111

    @classmethod
    def of(cls, fmt: ElemFmt | None) -> "LaneFmt":
        """Return the partition for a SIMD format; without a format (scalar instructions) the word is one lane."""
        return cls.WORD if fmt is None else cls[fmt.name]


class AluResult(enum.Enum, shape=4):
    """Source of the result of the ALU."""

    ADD = 0  # Adder: ``op_a +/- op_b`` lane by lane.
    SHIFT = 1  # Shifter, including averages and normalised sums.
    AND = 2
    OR = 3
    XOR = 4
    FLAG = 5  # 1 if the comparison holds, else 0 (slt, slet).
    MASK = 6  # All ones in the lanes where the comparison holds (pv.cmp*).
    SELECT = 7  # ``op_a`` in the lanes where the comparison holds, ``op_b`` elsewhere (min, max).
    ABS = 8
    """``op_a`` in the lanes where it is positive, ``-op_a`` elsewhere (abs). ``op_b`` is 0: the rs2 field names x0.

    The subtraction has no carry-in here, so that it gives ``op_a - 1``, the complement of ``-op_a``.
    """
    CLIP = 9  # ``op_a`` limited to the range from ``-op_b - 1`` to ``op_b``; WORD only.
    CLIPU = 10  # ``op_a`` limited to the range from 0 to ``op_b``; WORD only.
    FIELD = 11  # Bit fields and lane extract/insert, see :class:`AluField`.
    COUNT = 12  # Bit counts, see :class:`AluCount`.
    MOVE = 13  # Lane moves, see :class:`AluMove`.


class AluCompare(enum.Enum, shape=3):
    """Relation of ``op_a`` to ``op_b``; needs ``subtract``.

    Bit 0 is 0 if equality satisfies the relation, bit 1 is 1 if less does. Bit 2 inverts the result of both.
    """

    EQ = 0b000
    LT = 0b011
    LE = 0b010
    NE = 0b100
    GE = 0b111
    GT = 0b110


class AluShift(enum.Enum, shape=3):
    RIGHT = 0  # ``op_a`` right by ``op_b``.
    LEFT = 1  # ``op_a`` left by ``op_b``.
    ROTATE = 2  # ``op_a`` right by ``op_b``, bit 0 entering at bit 31; WORD only.
    AVERAGE = 3  # Adder result right by one in every lane.
    NORMALISE = 4  # Adder result, rounded if ``rounding``, right by ``shamt``; WORD only.


class AluField(enum.Enum, shape=2):
    """Operation of the ALU on the bit field that ``op_b`` selects."""

    EXTRACT, INSERT, CLEAR, SET = range(4)


class AluFieldPlace(enum.Enum, shape=2):
    """Source of the position and width of the bit field."""

    OPERAND = 0  # ``op_b[9:5] + 1`` bits from bit ``op_b[4:0]``.
    HALF = 1  # 16 bits, half-word ``op_b[0]``.
    BYTE = 2  # 8 bits, byte ``op_b[1:0]``.


class AluCount(enum.Enum, shape=2):
    """Bit count of ``op_a``: lowest set bit, highest set bit, redundant sign bits, set bits."""

    FF1, FL1, CLB, CNT = range(4)


class AluMove(enum.Enum, shape=3):
    """Lane move: selection from ``op_a``, from ``op_a`` and ``op_c``, and the three packs."""

    SHUFFLE, SHUFFLE2, PACK, PACKHI, PACKLO = range(5)


class AluCtrl(data.Struct):
    fmt: LaneFmt  #: Partition of adder, comparator, shifter and lane moves.
    result: AluResult  #: Source of the result.
    subtract: 1  #: The adder subtracts ``op_b``; set for every comparison, minimum, maximum and clip.
    signed: 1  #: Signed comparison, arithmetic shift, sign extension of an extracted field.
    compare: AluCompare  #: Relation for ``comparison``, FLAG, MASK and SELECT.
    #: shift: Shifter operation for SHIFT; LEFT for an inserted field and for counts from the sign bit, else RIGHT.
    shift: AluShift
    rounding: 1  #: NORMALISE rounds: it adds half of the lowest remaining bit.
    #: field, place, count, move: Operation of FIELD (first two), COUNT and MOVE.
    field: AluField
    place: AluFieldPlace
    count: AluCount
    move: AluMove


def _relations(
    prefix: str, names: str, *, signed: bool = True, result: AluResult = AluResult.FLAG
) -> dict[str, dict[str, Any]]:
    return {
        f"{prefix}{name}": {
            "result": result,
            "subtract": 1,
            "signed": int(signed and name[-1] != "u"),
            "compare": AluCompare[name[:2].upper()],
        }
        for name in names.split()
    }


_shift = partial(dict, result=AluResult.SHIFT)
_select = partial(dict, result=AluResult.SELECT, subtract=1)
_clip = partial(dict, subtract=1, signed=1, compare=AluCompare.LE)
_field = partial(dict, result=AluResult.FIELD)
_extract = partial(_field, field=AluField.EXTRACT)
_insert = partial(_field, field=AluField.INSERT, shift=AluShift.LEFT)
_count = partial(dict, result=AluResult.COUNT)
_move = partial(dict, result=AluResult.MOVE)
_OPERAND, _HALF, _BYTE = AluFieldPlace

_LANE_WISE: dict[str, dict[str, Any]] = {
    "add": {},
    "sub": {"subtract": 1},
    "and": {"result": AluResult.AND},
    "or": {"result": AluResult.OR},
    "xor": {"result": AluResult.XOR},
    "sll": _shift(shift=AluShift.LEFT),
    "srl": _shift(shift=AluShift.RIGHT),
    "sra": _shift(shift=AluShift.RIGHT, signed=1),
    "min": _select(compare=AluCompare.LT, signed=1),
    "minu": _select(compare=AluCompare.LT),
    "max": _select(compare=AluCompare.GE, signed=1),
    "maxu": _select(compare=AluCompare.GE),
    "abs": {"result": AluResult.ABS, "subtract": 1, "signed": 1, "compare": AluCompare.GE},
}
"""Operations on the word and on packed lanes, by the mnemonic that both have in common."""

_SCALAR: dict[str, dict[str, Any]] = {
    **_LANE_WISE,
    **_relations("s", "lt ltu let letu"),
    **_relations("b", "lt ge ltu geu"),
    **_relations("b", "eq ne", signed=False),
    **{
        f"{stem}{letter}{rounds}N": _shift(
            shift=AluShift.NORMALISE, signed=int(not letter), subtract=subtract, rounding=len(rounds)
        )
        for subtract, stem in enumerate(("add", "sub"))
        for letter in ("", "u")
        for rounds in ("", "R")
    },
    "clip": _clip(result=AluResult.CLIP),
    "clipu": _clip(result=AluResult.CLIPU),
    "ror": _shift(shift=AluShift.ROTATE),
    "exths": _extract(place=_HALF, signed=1),
    "exthz": _extract(place=_HALF),
    "extbs": _extract(place=_BYTE, signed=1),
    "extbz": _extract(place=_BYTE),
    "extract": _extract(place=_OPERAND, signed=1),
    "extractu": _extract(place=_OPERAND),
    "insert": _insert(place=_OPERAND),
    "bclr": _field(field=AluField.CLEAR, place=_OPERAND),
    "bset": _field(field=AluField.SET, place=_OPERAND),
    "ff1": _count(count=AluCount.FF1),
    "fl1": _count(count=AluCount.FL1, shift=AluShift.LEFT),
    "clb": _count(count=AluCount.CLB, shift=AluShift.LEFT),
    "cnt": _count(count=AluCount.CNT),
    **{op: {} for op in ("lui", "auipc", "jal", "jalr", *LOAD_OPS, *STORE_OPS, "pv.mlsdot", "pv.cusdot")},
}
_PACKED = {
    **{f"pv.{op}": fields for op, fields in _LANE_WISE.items()},
    **_relations("pv.cmp", "eq ne gt ge lt le gtu geu ltu leu", result=AluResult.MASK),
    "pv.avg": _shift(shift=AluShift.AVERAGE, signed=1),
    "pv.avgu": _shift(shift=AluShift.AVERAGE),
    "pv.shuffle": _move(move=AluMove.SHUFFLE),
    "pv.shufflei": _move(move=AluMove.SHUFFLE),
    "pv.shuffle2": _move(move=AluMove.SHUFFLE2),
    "pv.pack": _move(move=AluMove.PACK),
    "pv.packhi": _move(move=AluMove.PACKHI),
    "pv.packlo": _move(move=AluMove.PACKLO),
}
_LANE_FIELDS = {"pv.extract": _extract(signed=1), "pv.extractu": _extract(), "pv.insert": _insert()}
_LANE_PLACES = {ElemFmt.H: _HALF, ElemFmt.B: _BYTE}


def alu_control(insn: Insn) -> dict[str, Any] | None:
    """Return the fields of :class:`AluCtrl` that execute ``insn``, without zeros; None if it does not use the ALU.

    Loads, stores, post-increments, Mac&Load, ``lui``, ``auipc`` and links are 32-bit additions of the operands that ID
    prepares; branches set up their comparison. Lane extraction and insertion are bit fields at a multiple of the
    lane width, so they run on the whole word.
    """
    if insn.op in _LANE_FIELDS:
        return {**_LANE_FIELDS[insn.op], "place": _LANE_PLACES[insn.fmt]}
    if insn.op in _PACKED:
        return {"fmt": LaneFmt.of(insn.fmt), **_PACKED[insn.op]}
    return dict(_SCALAR[insn.op]) if insn.op in _SCALAR else None
