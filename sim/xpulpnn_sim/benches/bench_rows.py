"""Bench of the units of one step, ALU, dot products, requantiser: every row of the instruction table they execute.

Also executions of rows as vectors for other units of the EX stage. ID hands prepared operands to EX: immediates
extended, scalars replicated, bit-field forms unified. That is written here on numpy columns, independent of the gates.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt

from xpulpnn.isa.formats import Op2Mode
from xpulpnn.isa.insn import HALF_PRODUCT_OPS, Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.table import find
from xpulpnn_sim.benches.agents.base import Dut, start
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard, run_vectors
from xpulpnn_sim.benches.batches import Batch, with_latency
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.benches.row_operands import BIT_FIELDS, FIELD_WIDTH_LSB, NORMALISING_STEMS, executions
from xpulpnn_sim.reference.golden.dotp import widened
from xpulpnn_sim.reference.golden.effects import I64, IMMEDIATES, U32, Effects, Sources, immediate
from xpulpnn_sim.reference.golden.execute import execute, half_product_sum
from xpulpnn_sim.reference.golden.scalar import offset

_MAC_LOAD_STEP = 4
_SHIFT_MASK = np.uint32(31)
OperandColumns = dict[str, Any]  # Arrays by port, of words unless a port is wider


def replicate(value: U32, width: int) -> U32:
    """The low ``width`` bits of every word in all its lanes."""
    lanes = sum(1 << position for position in range(0, 32, width))
    return ((value.astype(np.uint64) & np.uint64((1 << width) - 1)) * np.uint64(lanes)).astype(np.uint32)


def _shuffle_selectors(insn: Insn, word: U32) -> U32:
    """Selector word of the immediate shuffles: one selector in the low bits of each lane."""
    selector = immediate("uimm6", word)
    if insn.op == "pv.shufflei":
        assert insn.entry is not None
        lanes = [selector & 3, selector >> 2 & 3, selector >> 4 & 3, np.full_like(word, insn.entry)]
    else:
        lanes = [selector & 1, selector >> 1 & 1]
    width = 32 // len(lanes)
    total = np.zeros_like(word)
    for lane, value in enumerate(lanes):
        total |= value << np.uint32(lane * width)
    return total


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
            return _shuffle_selectors(insn, src.word)
        case _ if insn.fmt is not None and insn.mode is Op2Mode.SCI:
            return replicate(immediate(last, src.word), insn.fmt.width)
        case _ if insn.fmt is not None and insn.mode is Op2Mode.SC:
            return replicate(src.rs2, insn.fmt.width)
        case _ if last in IMMEDIATES and not insn.is_branch:
            return immediate(last, src.word)
        case _ if insn.is_branch and "simm5" in insn.operands:
            return immediate("simm5", src.word)
        case _:
            # The rs2 field of one-operand instructions names x0.
            return src.rs2 if "rs2" in insn.operands else np.zeros_like(src.word)


def operands_of(insn: Insn, src: Sources) -> OperandColumns:
    """Operand columns of the N executions of ``insn`` in ``src``."""
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
    if insn.requantises and configuration().requantise_exact:
        # the exact form has the sum of rs1 and the summand, and what says shift and zero point
        exact = {"op_a": src.rs1 + src.wgt, "op_b": src.rs2}
        return operands | (exact if insn.is_exact else {"op_a": src.rs1, "op_b": src.rs1})
    if insn.requantises:
        # the multiplier takes the factor of the NN-RF in place of the first operand
        return operands | {"op_a": ~src.rs1, "op_b": src.rs1}
    if insn.is_load or insn.is_store:
        return operands | {"op_b": offset(insn, src)}
    if insn.op in NORMALISING_STEMS and "Is3" not in insn.operands:
        return operands | {"op_a": src.rd, "op_b": src.rs1, "shamt": src.rs2 & _SHIFT_MASK}
    return operands | {"op_b": _second(insn, src)}


def ports_of_row(insn: Insn, src: Sources) -> OperandColumns:
    """Everything that a unit of the EX stage may receive for ``insn``, its dot product included."""
    # `rs1 rs2 rd` of the dot-product unit are `dotp_a dotp_b op_c` of the stage: factors and accumulator, whatever they
    # come from
    operands = operands_of(insn, src)
    first, second = operands["op_a"], operands["op_b"]
    if insn.is_pair:
        # the factor that both products have is the second of each
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
    # where they mean nothing they are anything
    columns["nn_kappa"], columns["nn_lambda"] = (src.act, src.wgt) if insn.requantises else (src.loaded, ~src.loaded)
    factors = {"rs1": first, "rs2": second, "rd": src.rd, "dotp_a": first, "dotp_b": second}
    factors |= {"second_sum": src.rs2 if insn.is_pair else ~src.loaded}
    if insn.op in HALF_PRODUCT_OPS:
        factors["unshifted"] = half_product_sum(insn, src)
    factors["clip"] = _clip_choice(insn, first, second)
    factors |= {"word": src.wgt, "act2": src.act2, "later_pair": src.word >> np.uint32(20) & np.uint32(1)}
    return operands | columns | factors | _requantised(insn, src)


def _clip_choice(insn: Insn, number: U32, bound: U32) -> U32:
    """Words that say what to compare: bound inverted; then the number, the number and the bound."""
    if insn.op not in ("clip", "clipu"):
        return np.zeros_like(number)
    below, inverted = number.view(np.int32) < 0, bound.view(np.int32) < 0
    from_below = (below | inverted) & (insn.op == "clip")
    number_within = ~below & ~inverted
    number_beyond = below & ~inverted & (insn.op == "clip")
    # between a negative bound and 0 there is nothing
    bound_beyond = (~below | inverted) if insn.op == "clip" else ~below & ~(inverted & (number == 0))
    bits = np.array([from_below, number_within, number_beyond, bound_beyond], np.uint32)
    return (bits << np.arange(4, dtype=np.uint32)[:, np.newaxis]).sum(axis=0, dtype=np.uint32)


_SIGNS_AT = 4, 8  # bits of decoded formats of signed factors
_SCALAR_FORM, _WORD_FORM, _LOWER_FORM, _UPPER_FORM = 1, 2, 4, 8
_WHOLE_FORM = _SCALAR_FORM | _WORD_FORM | _LOWER_FORM | _UPPER_FORM
_HIGH_SIGNS = {"mulh": (True, True), "mulhsu": (True, False), "mulhu": (False, False)}


def _multiplied(insn: Insn) -> tuple[int, bool, bool]:
    """Form of a multiplication, 0 for others, and the signs of its factors."""
    if insn.requantises:
        return _WHOLE_FORM, insn.is_exact, insn.is_exact
    if insn.op in {"mul", "mac", "msu", *_HIGH_SIGNS}:
        return _WHOLE_FORM, *_HIGH_SIGNS.get(insn.op, (False, False))
    if half := re.fullmatch("(mul|mac)(hh)?([su])NR?", insn.op):
        return _SCALAR_FORM | (_UPPER_FORM if half[2] else _LOWER_FORM), half[3] == "s", half[3] == "s"
    return 0, False, False


def _signed(word: U32) -> I64:
    return word.view(np.int32).astype(np.int64)


def _requantised(insn: Insn, src: Sources) -> OperandColumns:
    """Ports of what requantises, multiplier and requantiser."""
    if insn.is_exact:
        assert insn.fmt is not None
        lane = (src.word >> np.uint32(27)) % np.uint32(insn.fmt.lanes)
        further = {"zero": src.rs2 >> np.uint32(8) & np.uint32(0xFF), "rounds": np.ones_like(src.rs2)}
        shift = {"sum": _signed(src.rs1 + src.wgt) * _signed(src.act), "places": src.rs2 & np.uint32(63), "lane": lane}
        return {**further, **shift, "old": src.rd}
    total = src.act * src.rs1 + src.wgt if insn.requantises else np.zeros_like(src.word)
    shift = {"sum": total, "places": src.rs2 & _SHIFT_MASK, "lane": src.word >> np.uint32(28), "old": src.rd}
    if not insn.requantises or not configuration().requantise_exact:
        return shift
    zero = np.zeros_like(total)
    return {**shift, "sum": _signed(total), "zero": zero, "rounds": zero}


def alu_expectation(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    """Outputs of the ALU for ``insn``: the branch condition, the new base or address, or the value of rd."""
    # bases and addresses are taken from `sum`, past the choice of the result
    if insn.is_branch:
        assert effects.taken is not None
        return {"comparison": effects.taken.astype(np.uint32)}
    if insn.is_mac_load or insn.writes_base:
        total = operands["op_a"] + operands["op_b"]
        return {"result": total if effects.base is None else effects.base, "sum": total}
    if insn.is_load or insn.is_store:
        assert effects.address is not None
        return {"result": effects.address, "sum": effects.address}
    assert effects.rd is not None
    return {"result": effects.rd}


def lanes_expectation(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    """Outputs of the part of the ALU that works on lanes, which only shows bit counts the word, in their order."""
    if insn.op not in ("ff1", "fl1", "clb", "cnt"):
        return alu_expectation(insn, effects, operands)
    word = operands["op_a"]
    if insn.op in ("fl1", "clb"):
        word = np.array([int(f"{number:032b}"[::-1], 2) for number in word.tolist()], np.uint32)
    return {"result": np.zeros_like(word), "oriented": word}


def unscaled(insn: Insn, operands: OperandColumns) -> dict[str, U32]:
    """The number that a requantisation shifts, and the word above it if it has one."""
    if not configuration().requantise_exact:
        return {"result": operands["nn_kappa"] * operands["op_b"] + operands["nn_lambda"]}
    total = operands["sum"].astype(np.int64)
    words = {"result": (total % (1 << XLEN)).astype(np.uint32)}
    return words | ({"upper": (total // (1 << XLEN)).astype(np.uint32)} if insn.is_exact else {})


def product_expectation(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    """Outputs of a multiplier without state: of a requantisation the product, else the value of rd."""
    return unscaled(insn, operands) if insn.requantises else value_of_rd(insn, effects, operands)


def array_expectation(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    """Outputs of arrays that make dot products and products of words."""
    if insn.is_pair:
        assert effects.rd is not None
        assert effects.rd2 is not None
        return {"first": effects.rd, "second": effects.rd2}
    words = product_expectation(insn, effects, operands)
    if insn.requantises:
        words["second"] = words["result"]
    if insn.multiplies_late:
        return late_product(insn, words, operands)
    return {"first": words["result"]} if insn.uses_dotp else words


def late_product(insn: Insn, words: dict[str, U32], operands: OperandColumns) -> dict[str, U32]:
    """Outputs for a product that WB writes: its upper word, or the sum that is shifted there."""
    return {"upper": words["result"]} if insn.multiplies_high else {"second": operands["unshifted"]}


Expectation = Callable[[Insn, Effects, OperandColumns], dict[str, U32]]
"""Expected output columns from the effects and the prepared operands of a row."""


ControlledInsn = tuple[Insn, dict[str, int]]  # a row and the values of the control ports for it


def rows_with_controls() -> list[ControlledInsn]:
    """The rows of the unit under test, from the launcher."""
    return [(find(mnemonic, operands), control) for mnemonic, operands, control in bench_data()["rows"]]


def value_of_rd(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    """Expectation of units whose output is the value of rd."""
    assert effects.rd is not None
    return {"result": effects.rd}


def weights_of_row(insn: Insn, _: Effects, operands: OperandColumns) -> dict[str, U32]:
    """Expectation of the unit whose output is the weights in the format of the activations."""
    return {"result": widened(insn, operands["word"])}


def batch_of_rows(
    rng: Random, expectation: Expectation = value_of_rd, rows: Iterable[ControlledInsn] | None = None
) -> Batch:
    """Executions of every row of the unit, or of some, in random order."""
    return batch_of(drawn_rows(rows_with_controls() if rows is None else rows, rng), rng, expectation)


def drawn_rows(rows: Iterable[ControlledInsn], rng: Random) -> list[tuple[Insn, dict[str, int], Sources]]:
    """Executions of rows, as many as ``vectors_per_row``, ``corners`` and ``places`` of the launcher's data say."""
    data = bench_data()
    corners, places = (data.get(name, 0) for name in ("corners", "places"))
    return [
        (insn, control, executions(insn, data["vectors_per_row"], rng, corners=corners, places=places))
        for insn, control in rows
    ]


def batch_of(
    drawn: Iterable[tuple[Insn, Mapping[str, int], Sources]], rng: Random, expectation: Expectation = value_of_rd
) -> Batch:
    """Given executions of rows, each with the values of its control ports, in random order."""
    insns: list[Insn] = []
    counts: list[int] = []
    stimuli: list[dict[str, npt.ArrayLike]] = []
    wanted: list[dict[str, U32]] = []
    for insn, control, src in drawn:
        operands = ports_of_row(insn, src)
        insns.append(insn)
        counts.append(len(src.word))
        stimuli.append({**control, **operands})
        wanted.append(expectation(insn, execute(insn, src), operands))
    order = list(range(sum(counts)))
    rng.shuffle(order)

    def column(parts: Iterator[npt.ArrayLike]) -> npt.NDArray[np.int64]:
        rows = zip(parts, counts, strict=True)
        return np.concatenate([np.broadcast_to(np.asarray(part).astype(np.int64), count) for part, count in rows])[
            order
        ]

    outputs = sorted({name for part in wanted for name in part})
    inputs = bench_data()["inputs"]
    return Batch(
        insns=tuple(insns),
        row=column(iter(range(len(insns)))),
        stimulus={port: column(part[port] for part in stimuli) for port in stimuli[0] if port in inputs},
        expected={name: column(part.get(name, 0) for part in wanted) for name in outputs},
        checked={name: column(name in part for part in wanted).astype(bool) for name in outputs},
    )


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def rows_match_golden(dut: Dut) -> None:
    """All rows interleaved, corner cases and random operands, so that every result follows one of another row."""
    rng, data = await start(dut), bench_data()
    special = {"oriented": lanes_expectation, "comparison": alu_expectation, "quarter": weights_of_row}
    special |= {"first": array_expectation, "upper": product_expectation}
    found = (expectation for port, expectation in special.items() if hasattr(dut, port))
    batch = batch_of_rows(rng, next(found, value_of_rd))
    if "enable" in data["inputs"]:
        batch = with_latency(batch, rng)
    if "valid" in data:
        # without that bit of the control word the result is 0 whatever the other inputs are
        invalid = [beat for beat in range(len(batch.row)) if rng.random() < 0.1]
        batch.stimulus["ctrl"][invalid] &= ~data["valid"]
        batch.expected["result"][invalid] = 0
    batch.check(Scoreboard(), await run_vectors(dut, batch.stimulus, list(batch.expected)))
