"""Control word of the ALU and its derivation from a row of the instruction table.

The word is pre-decoded: the decoder in ID resolves an instruction into it, so that no opcode is decoded in EX. All
zeros is a 32-bit addition.
"""

from typing import Any

from amaranth.lib import data, enum

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.table import Insn


class LaneFmt(enum.Enum, shape=4):
    """Partition of the 32-bit datapath: one word, or the lanes of a packed-SIMD format.

    A thermometer code, so that partitioning costs no decoding: bit k tells that lanes are at most ``16 >> k`` wide.
    """

    WORD = 0b0000
    H = 0b0001
    B = 0b0011
    N = 0b0111
    C = 0b1111

    @classmethod
    def of(cls, fmt: ElemFmt | None) -> "LaneFmt":
        """The partition of a SIMD format, or the word for a scalar instruction."""
        return cls.WORD if fmt is None else cls[fmt.name]


class AluResult(enum.Enum, shape=4):
    """Source of the result."""

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
    """Relation of ``op_a`` to ``op_b``. Needs ``subtract``.

    Bit 0: being equal does not count; bit 1: being less counts; bit 2: the opposite.
    """

    EQ = 0b000
    LT = 0b011
    LE = 0b010
    NE = 0b100
    GE = 0b111
    GT = 0b110


class AluShift(enum.Enum, shape=3):
    """Operation of the shifter."""

    RIGHT = 0  # ``op_a`` right by ``op_b``.
    LEFT = 1  # ``op_a`` left by ``op_b``.
    ROTATE = 2  # ``op_a`` right by ``op_b``, bit 0 entering at bit 31; WORD only.
    AVERAGE = 3  # Adder result right by one in every lane.
    NORMALISE = 4  # Adder result, rounded if ``rounding``, right by ``shamt``; WORD only.


class AluField(enum.Enum, shape=2):
    """Operation on the bit field of ``op_b``."""

    EXTRACT, INSERT, CLEAR, SET = range(4)


class AluFieldPlace(enum.Enum, shape=2):
    """Place and width of the field."""

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
    """Control word of the ALU."""

    fmt: LaneFmt  #: Partition of adder, comparator, shifter and lane moves.
    result: AluResult  #: Source of the result.
    subtract: 1  #: The adder subtracts ``op_b``; set for every comparison, minimum, maximum and clip.
    signed: 1  #: Signed comparison, arithmetic shift, sign extension of an extracted field.
    compare: AluCompare  #: Relation for ``comparison``, FLAG, MASK and SELECT.
    #: shift: Shifter operation for SHIFT; LEFT for an inserted field and for counts from the sign bit, else RIGHT.
    shift: AluShift
    rounding: 1  #: NORMALISE adds half of the last place kept.
    #: field, place, count, move: Operation of FIELD (first two), COUNT and MOVE.
    field: AluField
    place: AluFieldPlace
    count: AluCount
    move: AluMove


def _relation(compare: AluCompare, *, signed: bool, result: AluResult = AluResult.FLAG) -> dict[str, Any]:
    return {"result": result, "subtract": 1, "signed": int(signed), "compare": compare}


def _shift(shift: AluShift, *, signed: bool = False, **fields: Any) -> dict[str, Any]:
    return {"result": AluResult.SHIFT, "shift": shift, "signed": int(signed), **fields}


def _extract(place: AluFieldPlace, *, signed: bool) -> dict[str, Any]:
    return {"result": AluResult.FIELD, "field": AluField.EXTRACT, "place": place, "signed": int(signed)}


def _insert(place: AluFieldPlace) -> dict[str, Any]:
    return {"result": AluResult.FIELD, "field": AluField.INSERT, "place": place, "shift": AluShift.LEFT}


def _count(count: AluCount, **fields: Any) -> dict[str, Any]:
    return {"result": AluResult.COUNT, "count": count, **fields}


def _normalised_sums() -> dict[str, dict[str, Any]]:
    return {
        f"{stem}{'' if signed else 'u'}{'RN' if rounding else 'N'}": _shift(
            AluShift.NORMALISE, signed=signed, subtract=subtract, rounding=rounding
        )
        for subtract, stem in enumerate(("add", "sub"))
        for signed in (False, True)
        for rounding in (0, 1)
    }


def _lane_wise() -> dict[str, dict[str, Any]]:
    """Operations present both for the word and for packed lanes, by the mnemonic they share."""
    return {
        "add": {},
        "sub": {"subtract": 1},
        "and": {"result": AluResult.AND},
        "or": {"result": AluResult.OR},
        "xor": {"result": AluResult.XOR},
        "sll": _shift(AluShift.LEFT),
        "srl": _shift(AluShift.RIGHT),
        "sra": _shift(AluShift.RIGHT, signed=True),
        "min": _relation(AluCompare.LT, signed=True, result=AluResult.SELECT),
        "minu": _relation(AluCompare.LT, signed=False, result=AluResult.SELECT),
        "max": _relation(AluCompare.GE, signed=True, result=AluResult.SELECT),
        "maxu": _relation(AluCompare.GE, signed=False, result=AluResult.SELECT),
        "abs": _relation(AluCompare.GE, signed=True, result=AluResult.ABS),
    }


def _scalar() -> dict[str, dict[str, Any]]:
    clip = {"subtract": 1, "signed": 1, "compare": AluCompare.LE}
    operand = AluFieldPlace.OPERAND
    return {
        **_lane_wise(),
        **_normalised_sums(),
        "slt": _relation(AluCompare.LT, signed=True),
        "sltu": _relation(AluCompare.LT, signed=False),
        "slet": _relation(AluCompare.LE, signed=True),
        "sletu": _relation(AluCompare.LE, signed=False),
        "beq": _relation(AluCompare.EQ, signed=False),
        "bne": _relation(AluCompare.NE, signed=False),
        "blt": _relation(AluCompare.LT, signed=True),
        "bge": _relation(AluCompare.GE, signed=True),
        "bltu": _relation(AluCompare.LT, signed=False),
        "bgeu": _relation(AluCompare.GE, signed=False),
        "clip": {"result": AluResult.CLIP, **clip},
        "clipu": {"result": AluResult.CLIPU, **clip},
        "ror": _shift(AluShift.ROTATE),
        "exths": _extract(AluFieldPlace.HALF, signed=True),
        "exthz": _extract(AluFieldPlace.HALF, signed=False),
        "extbs": _extract(AluFieldPlace.BYTE, signed=True),
        "extbz": _extract(AluFieldPlace.BYTE, signed=False),
        "extract": _extract(operand, signed=True),
        "extractu": _extract(operand, signed=False),
        "insert": _insert(operand),
        "bclr": {"result": AluResult.FIELD, "field": AluField.CLEAR, "place": operand},
        "bset": {"result": AluResult.FIELD, "field": AluField.SET, "place": operand},
        "ff1": _count(AluCount.FF1),
        "fl1": _count(AluCount.FL1, shift=AluShift.LEFT),
        "clb": _count(AluCount.CLB, shift=AluShift.LEFT),
        "cnt": _count(AluCount.CNT),
    }


_ADDRESS_OPS = ("lui", "auipc", "jal", "jalr", "lb", "lh", "lw", "lbu", "lhu", "elw", "sb", "sh", "sw")
_MAC_LOAD_OPS = ("pv.mlsdot", "pv.cusdot")
_LANE_COMPARES = {
    f"cmp{compare.name.lower()}{suffix}": _relation(compare, signed=not suffix, result=AluResult.MASK)
    for compare in AluCompare
    for suffix in (("",) if compare in (AluCompare.EQ, AluCompare.NE) else ("", "u"))
}
_PACKED = {
    f"pv.{op}": fields
    for op, fields in {
        **_lane_wise(),
        **_LANE_COMPARES,
        "avg": _shift(AluShift.AVERAGE, signed=True),
        "avgu": _shift(AluShift.AVERAGE),
        "shuffle": {"result": AluResult.MOVE, "move": AluMove.SHUFFLE},
        "shufflei": {"result": AluResult.MOVE, "move": AluMove.SHUFFLE},
        "shuffle2": {"result": AluResult.MOVE, "move": AluMove.SHUFFLE2},
        "pack": {"result": AluResult.MOVE, "move": AluMove.PACK},
        "packhi": {"result": AluResult.MOVE, "move": AluMove.PACKHI},
        "packlo": {"result": AluResult.MOVE, "move": AluMove.PACKLO},
    }.items()
}
_SCALAR = _scalar() | {op: {} for op in (*_ADDRESS_OPS, *_MAC_LOAD_OPS)}
_LANE_PLACES = {ElemFmt.H: AluFieldPlace.HALF, ElemFmt.B: AluFieldPlace.BYTE}


def alu_control(insn: Insn) -> dict[str, Any] | None:
    """Fields of :class:`AluCtrl` that execute ``insn``; those left out are 0. ``None`` if it does not use the ALU.

    Loads, stores, post-increments, Mac&Load, ``lui``, ``auipc`` and links are 32-bit additions of the operands that ID
    prepares; branches set up their comparison. Lane extraction and insertion are bit fields at a multiple of the
    lane width, so they run on the whole word.
    """
    match insn.op:
        case "pv.extract" | "pv.extractu":
            return _extract(_LANE_PLACES[insn.fmt], signed=insn.op == "pv.extract")
        case "pv.insert":
            return _insert(_LANE_PLACES[insn.fmt])
        case op if op in _PACKED:
            return {"fmt": LaneFmt.of(insn.fmt), **_PACKED[op]}
        case op if op in _SCALAR:
            return dict(_SCALAR[op])
        case _:
            return None
