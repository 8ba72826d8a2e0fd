"""Golden models of lane-wise SIMD operations and lane moves (guide, "Lane-wise operations" and "Lane moves")."""

from collections.abc import Callable

import numpy as np

from xpulpnn.isa.formats import ElemFmt, Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn_sim.reference.golden.dotp import operand2_lanes, pack, unpack
from xpulpnn_sim.reference.golden.effects import I32, U32, Effects, Sources, immediate


def _average(a: I32, b: I32, width: int) -> I32:
    """Return half of the lane sum modulo the element width, by an arithmetic shift."""
    unused = 32 - width
    return ((a + b) << unused) >> (unused + 1)


LaneFunction = Callable[[I32, I32, int], I32]
"""Function that computes result lanes from both operands and the lane width; bits above the width do not matter."""


def _comparison(relation: np.ufunc) -> LaneFunction:
    """Return a function whose lanes are all ones where the relation holds, else 0."""
    return lambda a, b, width: -relation(a, b).astype(np.int32)


_ORDERS = {"gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
_RELATIONS = {"eq": np.equal, "ne": np.not_equal, **_ORDERS}

SIGNED_OPERATIONS: dict[str, LaneFunction] = {
    "pv.add": lambda a, b, width: a + b,
    "pv.sub": lambda a, b, width: a - b,
    "pv.avg": _average,
    "pv.min": lambda a, b, width: np.minimum(a, b),
    "pv.max": lambda a, b, width: np.maximum(a, b),
    "pv.sra": lambda a, b, width: a >> b % width,
    "pv.or": lambda a, b, width: a | b,
    "pv.xor": lambda a, b, width: a ^ b,
    "pv.and": lambda a, b, width: a & b,
    **{f"pv.cmp{name}": _comparison(relation) for name, relation in _RELATIONS.items()},
    "pv.abs": lambda a, b, width: np.abs(a),  # the most negative one stays
}
"""Functions on lanes read as two's complement numbers, by operation."""

UNSIGNED_OPERATIONS: dict[str, LaneFunction] = {
    "pv.avgu": lambda a, b, width: ((a + b) & ((1 << width) - 1)) >> 1,
    "pv.minu": lambda a, b, width: np.minimum(a, b),
    "pv.maxu": lambda a, b, width: np.maximum(a, b),
    "pv.srl": lambda a, b, width: a >> b % width,
    "pv.sll": lambda a, b, width: a << b % width,
    **{f"pv.cmp{name}u": _comparison(relation) for name, relation in _ORDERS.items()},
}
"""Functions on lanes read as unsigned numbers, by operation."""

OPERATIONS = SIGNED_OPERATIONS | UNSIGNED_OPERATIONS


def lane_wise(insn: Insn, src: Sources) -> Effects:
    """Compute ``rd[i] = rs1[i] op operand2[i]`` modulo two to the power of the element width."""
    fmt, is_signed = insn.elements, insn.op in SIGNED_OPERATIONS
    a = unpack(src.rs1, fmt, signed=is_signed)
    b = operand2_lanes(insn, src, fmt, signed=is_signed)
    return Effects(rd=pack(OPERATIONS[insn.op](a, b, fmt.width), fmt))


def extract(insn: Insn, src: Sources) -> Effects:
    """Return one lane of rs1, sign-extended (pv.extract) or zero-extended (pv.extractu)."""
    fmt = insn.elements
    lanes = unpack(src.rs1, fmt, signed=insn.op == "pv.extract")
    lane = immediate("uimm6", src.word) % fmt.lanes
    return Effects(rd=_pick(lanes, lane[None, :])[0].view(np.uint32))


def insert(insn: Insn, src: Sources) -> Effects:
    """Replace one lane of rd by the lowest lane of rs1."""
    fmt = insn.elements
    lanes = unpack(src.rd, fmt, signed=False)
    element = unpack(src.rs1, fmt, signed=False)[:1]
    chosen = np.arange(fmt.lanes)[:, None] == immediate("uimm6", src.word) % fmt.lanes
    return Effects(rd=pack(np.where(chosen, element, lanes), fmt))


def _pick(lanes: I32, numbers: U32) -> I32:
    """Return lane ``numbers[i, j]`` of word j for every i."""
    return np.take_along_axis(lanes, numbers.astype(np.intp), axis=0)


def selectors(insn: Insn, src: Sources, fmt: ElemFmt) -> U32:
    """Return, for each result lane of a shuffle with one source, the number of its source lane."""
    if insn.mode is not Op2Mode.SCI:
        return unpack(src.rs2, fmt, signed=False).view(np.uint32) % fmt.lanes
    index_bits = fmt.lanes.bit_length() - 1
    packed = immediate("uimm6", src.word)
    if insn.entry is not None:
        # shufflei0..3: six immediate bits select three lanes, the digit in the name selects the topmost.
        packed = packed | np.uint32(insn.entry << (index_bits * (fmt.lanes - 1)))
    lsbs = np.arange(fmt.lanes, dtype=np.uint32)[:, None] * index_bits
    return packed >> lsbs & np.uint32(fmt.lanes - 1)


def shuffle(insn: Insn, src: Sources) -> Effects:
    """Compute ``rd[i] = rs1[selector[i]]``."""
    fmt = insn.elements
    return Effects(rd=pack(_pick(unpack(src.rs1, fmt, signed=False), selectors(insn, src, fmt)), fmt))


def shuffle2(insn: Insn, src: Sources) -> Effects:
    """Shuffle the lanes of the old rd (low selectors) and of rs1 (high selectors)."""
    fmt = insn.elements
    both = np.concatenate([unpack(src.rd, fmt, signed=False), unpack(src.rs1, fmt, signed=False)])
    chosen = unpack(src.rs2, fmt, signed=False).view(np.uint32) % (2 * fmt.lanes)
    return Effects(rd=pack(_pick(both, chosen), fmt))


PACK_LANES = {"pv.pack": (1, 0), "pv.packhi": (3, 2), "pv.packlo": (1, 0)}
"""Lanes of rd that receive element 0 of rs1 and of rs2; the other lanes are unchanged."""


def pack_elements(insn: Insn, src: Sources) -> Effects:
    """Execute pv.pack.h, pv.packhi.b and pv.packlo.b."""
    fmt = insn.elements
    # pv.pack.h replaces both lanes and does not read rd
    lanes = unpack(src.rd if "rd" in insn.reads else src.rs1, fmt, signed=False)
    from_rs1, from_rs2 = PACK_LANES[insn.op]
    lanes[from_rs1] = unpack(src.rs1, fmt, signed=False)[0]
    lanes[from_rs2] = unpack(src.rs2, fmt, signed=False)[0]
    return Effects(rd=pack(lanes, fmt))


HANDLERS: dict[str, Callable[[Insn, Sources], Effects]] = {
    **dict.fromkeys(OPERATIONS, lane_wise),
    "pv.extract": extract,
    "pv.extractu": extract,
    "pv.insert": insert,
    "pv.shuffle": shuffle,
    "pv.shufflei": shuffle,
    "pv.shuffle2": shuffle2,
    **dict.fromkeys(PACK_LANES, pack_elements),
}
"""Golden model of each operation."""
