"""Instructions as vectors of the units of the EX stage, with their expected results.

ID hands prepared operands to EX: immediates extended, scalars replicated, bit-field forms unified. This module does the
same on numpy columns, independently of the gates.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from xpulpnn.isa.formats import Op2Mode
from xpulpnn.isa.insn import HALF_PRODUCT_OPS, Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.benches.vectors.operands import BIT_FIELDS, FIELD_WIDTH_LSB, NORMALISING_STEMS
from xpulpnn_sim.reference.golden.dotp import operand2_lanes, pack
from xpulpnn_sim.reference.golden.effects import IMMEDIATES, U32, Effects, Sources, immediate
from xpulpnn_sim.reference.golden.execute import execute, half_product_sum
from xpulpnn_sim.reference.golden.scalar import exact as wide
from xpulpnn_sim.reference.golden.scalar import offset
from xpulpnn_sim.reference.golden.simd import selectors

OperandColumns = dict[str, Any]  # arrays by port, of words unless a port is wider


@dataclass(frozen=True, slots=True)
class RowVectors:
    insns: tuple[Insn, ...]
    row: npt.NDArray[np.int64]  # position in `insns` of every vector
    stimulus: dict[str, npt.NDArray[np.int64]]  # by port
    expected: dict[str, npt.NDArray[np.int64]]  # by port
    checked: dict[str, npt.NDArray[np.bool_]]  # where a column of `expected` applies


_MAC_LOAD_STEP = 4
_SHIFT_MASK = np.uint32(31)


def _second(insn: Insn, src: Sources) -> U32:
    last = insn.operands.rsplit(",", maxsplit=1)[-1].strip("()!")
    is2 = immediate("uimm5", src.word)
    match insn.op:
        case op if op in BIT_FIELDS and "Is3" in insn.operands:
            return immediate("is3", src.word) << np.uint32(FIELD_WIDTH_LSB) | is2
        case "clip" | "clipu" if "Is2" in insn.operands:
            return np.where(is2 == 0, 0, (1 << (np.maximum(is2, 1) - 1).astype(np.int64)) - 1).astype(np.uint32)
        case "pv.extract" | "pv.extractu" | "pv.insert":
            return immediate("uimm6", src.word)
        case "pv.shuffle" | "pv.shufflei" if last == "uimm6":
            return pack(selectors(insn, src, insn.elements).view(np.int32), insn.elements)
        case _ if insn.fmt is not None and insn.mode in (Op2Mode.SC, Op2Mode.SCI):
            scalar = operand2_lanes(insn, src, insn.fmt, signed=False)
            return pack(np.repeat(scalar, insn.fmt.lanes, axis=0), insn.fmt)
        case _ if last in IMMEDIATES and not insn.is_branch:
            return immediate(last, src.word)
        case _ if insn.is_branch and "simm5" in insn.operands:
            return immediate("simm5", src.word)
        case _:
            # The rs2 field of one-operand instructions names x0.
            return src.rs2 if "rs2" in insn.operands else np.zeros_like(src.word)


def operands_of(insn: Insn, src: Sources, *, exact: bool = False) -> OperandColumns:
    zero = np.zeros_like(src.word)
    operands = {"op_a": src.rs1, "op_b": zero, "op_c": src.rd, "shamt": immediate("is3", src.word)}
    if insn.op == "lui":
        return operands | {"op_a": zero, "op_b": immediate("uimm20", src.word)}
    if insn.op == "auipc":
        return operands | {"op_a": src.pc, "op_b": immediate("uimm20", src.word)}
    if insn.is_jump:
        return operands | {"op_a": src.pc, "op_b": np.full_like(src.word, src.length)}
    if insn.is_mac_load:
        return operands | {"op_b": np.full_like(src.word, _MAC_LOAD_STEP)}
    if insn.requantises and exact:
        # the exact form multiplies the sum of rs1 and the summand; rs2 holds shift and zero point
        scaled = {"op_a": src.rs1 + src.wgt, "op_b": src.rs2}
        return operands | (scaled if insn.is_exact else {"op_a": src.rs1, "op_b": src.rs1})
    if insn.requantises:
        # the multiplier uses the factor of the NN-RF instead of the first operand
        return operands | {"op_a": ~src.rs1, "op_b": src.rs1}
    if insn.is_load or insn.is_store:
        return operands | {"op_b": offset(insn, src)}
    if insn.op in NORMALISING_STEMS and "Is3" not in insn.operands:
        return operands | {"op_a": src.rd, "op_b": src.rs1, "shamt": src.rs2 & _SHIFT_MASK}
    return operands | {"op_b": _second(insn, src)}


def ports_of_row(insn: Insn, src: Sources, *, exact: bool = False) -> OperandColumns:
    # factors and accumulator are `rs1 rs2 rd` of the dot-product unit, and `dotp_a dotp_b op_c` of the EX stage
    operands = operands_of(insn, src, exact=exact)
    first, second = operands["op_a"], operands["op_b"]
    if insn.is_pair:
        # the weight, which both products share, is the second factor
        first, second = src.act, src.wgt
    elif insn.requantises:
        first, second = src.rs1 + src.wgt if insn.is_exact else src.rs1, src.act
    elif insn.is_mac_load:
        first, second = src.wgt, src.act if insn.op == "pv.mlsdot" else src.rs2
    form, a_signed, b_signed = _multiplied(insn)
    if insn.is_pair:
        form = _LOWER_FORM | _UPPER_FORM
    fmt = insn.fmt.value if insn.uses_dotp and insn.fmt is not None else 0
    if insn.uses_dotp:
        a_signed, b_signed = (insn.b_signed, insn.a_signed) if insn.is_pair else (insn.a_signed, insn.b_signed)
    decoded = (1 | a_signed << _SIGNS_AT[0] | b_signed << _SIGNS_AT[1]) << fmt
    held = {
        "dotp_form": form,
        "dotp_format": decoded,
        "dotp2_format": decoded if form else 0,
        "dotp_fmt": fmt,
        "dotp_a_signed": a_signed,
        "dotp_b_signed": b_signed,
        "pair": insn.is_pair,
    }
    columns = {name: np.full_like(src.word, value) for name, value in held.items()}
    # noise for instructions that do not use them
    columns["nn_kappa"], columns["nn_lambda"] = (src.act, src.wgt) if insn.requantises else (src.loaded, ~src.loaded)
    factors = {"rs1": first, "rs2": second, "rd": src.rd, "dotp_a": first, "dotp_b": second}
    factors |= {"second_sum": src.rs2 if insn.is_pair else ~src.loaded}
    if insn.op in HALF_PRODUCT_OPS:
        factors["unshifted"] = half_product_sum(insn, src)
    factors["clip"] = _clip_choice(insn, first, second)
    factors |= {"word": src.wgt, "act2": src.act2, "later_pair": src.word >> np.uint32(20) & np.uint32(1)}
    return operands | columns | factors | _requantised(insn, src, exact=exact)


def _clip_choice(insn: Insn, number: U32, bound: U32) -> U32:
    if insn.op not in ("clip", "clipu"):
        return np.zeros_like(number)
    below, inverted = number.view(np.int32) < 0, bound.view(np.int32) < 0
    from_below = (below | inverted) & (insn.op == "clip")
    number_within = ~below & ~inverted
    number_beyond = below & ~inverted & (insn.op == "clip")
    # no number lies between a negative bound and 0
    bound_beyond = (~below | inverted) if insn.op == "clip" else ~below & ~(inverted & (number == 0))
    bits = np.array([from_below, number_within, number_beyond, bound_beyond], np.uint32)
    return (bits << np.arange(4, dtype=np.uint32)[:, np.newaxis]).sum(axis=0, dtype=np.uint32)


_SIGNS_AT = 4, 8  # offsets of the formats of signed factors in a decoded format
_SCALAR_FORM, _WORD_FORM, _LOWER_FORM, _UPPER_FORM = 1, 2, 4, 8
_WHOLE_FORM = _SCALAR_FORM | _WORD_FORM | _LOWER_FORM | _UPPER_FORM
_HIGH_SIGNS = {"mulh": (True, True), "mulhsu": (True, False), "mulhu": (False, False)}


def _multiplied(insn: Insn) -> tuple[int, bool, bool]:
    """Return the ``ProductForm`` of a multiplication, 0 for other instructions, and the signs of its factors."""
    if insn.requantises:
        return _WHOLE_FORM, insn.is_exact, insn.is_exact
    if insn.op in {"mul", "mac", "msu", *_HIGH_SIGNS}:
        return _WHOLE_FORM, *_HIGH_SIGNS.get(insn.op, (False, False))
    if half := re.fullmatch("(mul|mac)(hh)?([su])NR?", insn.op):
        return _SCALAR_FORM | (_UPPER_FORM if half[2] else _LOWER_FORM), half[3] == "s", half[3] == "s"
    return 0, False, False


def _requantised(insn: Insn, src: Sources, *, exact: bool) -> OperandColumns:
    if insn.is_exact:
        lane = (src.word >> np.uint32(27)) % np.uint32(insn.elements.lanes)
        further = {"zero": src.rs2 >> np.uint32(8) & np.uint32(0xFF), "rounds": np.ones_like(src.rs2)}
        shift = {"sum": wide(src.rs1 + src.wgt) * wide(src.act), "places": src.rs2 & np.uint32(63), "lane": lane}
        return {**further, **shift, "old": src.rd}
    total = src.act * src.rs1 + src.wgt if insn.requantises else np.zeros_like(src.word)
    shift = {"sum": total, "places": src.rs2 & _SHIFT_MASK, "lane": src.word >> np.uint32(28), "old": src.rd}
    if not insn.requantises or not exact:
        return shift
    zero = np.zeros_like(total)
    return {**shift, "sum": wide(total), "zero": zero, "rounds": zero}


def alu_expectation(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    # bases and addresses come from `sum`, before the result multiplexer
    if effects.taken is not None and insn.is_branch:
        return {"comparison": effects.taken.astype(np.uint32)}
    if insn.is_mac_load or insn.writes_base:
        total = operands["op_a"] + operands["op_b"]
        return {"result": total if effects.base is None else effects.base, "sum": total}
    if effects.address is not None:
        return {"result": effects.address, "sum": effects.address}
    return value_of_rd(insn, effects, operands)


def lanes_expectation(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    if insn.op not in ("ff1", "fl1", "clb", "cnt"):
        return alu_expectation(insn, effects, operands)
    word = operands["op_a"]
    if insn.op in ("fl1", "clb"):
        word = np.array([int(f"{number:032b}"[::-1], 2) for number in word.tolist()], np.uint32)
    return {"result": np.zeros_like(word), "oriented": word}


def unscaled(insn: Insn, operands: OperandColumns) -> dict[str, U32]:
    if "rounds" not in operands:
        return {"result": operands["nn_kappa"] * operands["op_b"] + operands["nn_lambda"]}
    total = operands["sum"].astype(np.int64)
    words = {"result": (total % (1 << XLEN)).astype(np.uint32)}
    return words | ({"upper": (total // (1 << XLEN)).astype(np.uint32)} if insn.is_exact else {})


def product_expectation(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    return unscaled(insn, operands) if insn.requantises else value_of_rd(insn, effects, operands)


def array_expectation(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    """Return the expected outputs of a unit that computes both dot products and products of words."""
    if insn.is_pair:
        return _both_sums(effects)
    words = product_expectation(insn, effects, operands)
    if insn.requantises:
        words["second"] = words["result"]
    if insn.multiplies_late:
        return late_product(insn, words, operands)
    return {"first": words["result"]} if insn.uses_dotp else words


def _both_sums(effects: Effects) -> dict[str, U32]:
    assert effects.rd is not None
    assert effects.rd2 is not None
    return {"first": effects.rd, "second": effects.rd2}


def late_product(insn: Insn, words: dict[str, U32], operands: OperandColumns) -> dict[str, U32]:
    return {"upper": words["result"]} if insn.multiplies_high else {"second": operands["unshifted"]}


def operation_result(
    insn: Insn, effects: Effects, operands: OperandColumns, *, pairs: bool, late: bool, product: str = "result"
) -> dict[str, U32]:
    """Return the outputs of a multi-cycle unit: the value of rd, or the unclipped ``product`` of a requantisation.

    With ``pairs`` the outputs include both sums of a Mac&Load of two products; the first is 0 for other instructions.
    With ``late``, products have outputs of their own, from which WB writes rd.
    """
    if insn.is_pair:
        base = {} if effects.base is None or not insn.writes_base else {"result": effects.base}
        return _both_sums(effects) | base
    sums = {"first": np.zeros_like(operands["op_a"])} if pairs else {}
    if insn.is_branch or insn.is_load or insn.is_store:
        words = alu_expectation(insn, effects, operands)
        return sums | {name: words[name] for name in ("comparison", "sum") if name in words}
    if insn.is_mac_load:
        sums |= {"sum": operands["op_a"] + operands["op_b"]}
    if insn.requantises:
        words = unscaled(insn, operands)
        return sums | {product if name == "result" else name: word for name, word in words.items()}
    words = value_of_rd(insn, effects, operands)
    return sums | (late_product(insn, words, operands) if late and insn.multiplies_late else words)


ControlledInsn = tuple[Insn, dict[str, int]]  # an instruction and the values of its control ports
Executions = tuple[Insn, Mapping[str, int], Sources]
"""An instruction, the values of its control ports, and its operands."""

Expectation = Callable[[Insn, Effects, OperandColumns], dict[str, U32]]
"""Function that returns the expected outputs from the effects and the prepared operands of an instruction."""


def value_of_rd(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    assert effects.rd is not None
    return {"result": effects.rd}


def row_vectors(
    executions: Iterable[Executions],
    inputs: Container[str],
    rng: Random,
    expectation: Expectation = value_of_rd,
    *,
    exact: bool = False,
) -> RowVectors:
    """Return executions of several instructions in random order; ``inputs`` are the ports of the unit."""
    insns: list[Insn] = []
    counts: list[int] = []
    stimuli: list[dict[str, npt.ArrayLike]] = []
    results: list[dict[str, U32]] = []
    for insn, control, src in executions:
        operands = ports_of_row(insn, src, exact=exact)
        insns.append(insn)
        counts.append(len(src.word))
        stimuli.append({**control, **operands})
        results.append(expectation(insn, execute(insn, src), operands))
    order = rng.sample(range(sum(counts)), sum(counts))

    def column(parts: Iterable[npt.ArrayLike]) -> npt.NDArray[np.int64]:
        pairs = zip(parts, counts, strict=True)
        return np.concatenate([np.broadcast_to(np.asarray(part).astype(np.int64), count) for part, count in pairs])[
            order
        ]

    outputs = sorted({name for part in results for name in part})
    return RowVectors(
        insns=tuple(insns),
        row=column(range(len(insns))),
        stimulus={port: column(part[port] for part in stimuli) for port in stimuli[0] if port in inputs},
        expected={name: column(part.get(name, 0) for part in results) for name in outputs},
        checked={name: column(name in part for part in results).astype(bool) for name in outputs},
    )


def with_latency(vectors: RowVectors, rng: Random) -> RowVectors:
    """Return the vectors for a unit that samples factors and control word (with ``enable``) a cycle before ``rd``."""
    # some cycles are idle: factors and control word of another vector without `enable` must change nothing
    count = len(vectors.row)
    rows: list[tuple[int, int, int]] = []  # vector sampled, vector whose result appears, enable
    for vector in range(count):
        rows.append((vector, max(vector - 1, 0), 1))
        # the last result appears one cycle later
        if rng.random() < 0.25 or vector == count - 1:
            rows.append((rng.randrange(count), vector, 0))
    sampled, shown, enable = np.array(rows).T
    stimulus = {name: column[sampled] for name, column in vectors.stimulus.items()}
    return RowVectors(
        insns=vectors.insns,
        row=vectors.row[shown],
        stimulus=stimulus | {"rd": vectors.stimulus["rd"][shown], "enable": enable},
        expected={name: column[shown] for name, column in vectors.expected.items()},
        checked={name: column[shown] & (np.arange(len(shown)) > 0) for name, column in vectors.checked.items()},
    )
