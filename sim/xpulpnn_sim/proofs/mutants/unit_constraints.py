"""Constraints on the inputs of a unit while the core executes instructions, and the outputs observed then."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from amaranth.hdl import Const
from amaranth.lib import data

from xpulpnn.config import CoreConfig
from xpulpnn.core.alu_ctrl import AluCtrl, AluResult
from xpulpnn.core.control import LsuCtrl, OpBSel, Unit, control_fields
from xpulpnn.core.div import DivCtrl
from xpulpnn.core.mult import MultCtrl, mult_control
from xpulpnn.core.product_unit import ProductForm
from xpulpnn.core.requantiser import RequantiseCtrl
from xpulpnn.dotp.ctrl import ArrayFormat, DotpCtrl
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import NNRF_ACTIVATIONS, NNRF_WEIGHTS, NNRF_WORDS, SECOND_PAIR, WORD_BYTES
from xpulpnn.isa.table import enabled
from xpulpnn_sim.proofs.mutants.mutant_comparison import Handshake, InputCase, InputConstraints, StableInputs, Values

_NO_REGISTER = 0x1F << 20  # mask of the field rs2

_SHIFT_LSB = 25
_SHIFT = 0x1F << _SHIFT_LSB  # mask of the shift amount

_LANE_SELECTS = ("pv.extract", "pv.extractu", "pv.insert")


def _rows(config: CoreConfig) -> Iterator[tuple[Insn, Mapping[str, Any]]]:
    for insn in enabled(config.extensions, config.widths):
        if insn.size == WORD_BYTES and not insn.alias:
            yield insn, control_fields(insn)


def _word(shape: type[data.Struct], fields: Mapping[str, Any], prefix: str) -> int:
    part = {name.removeprefix(prefix): value for name, value in fields.items() if name.startswith(prefix)}
    return Const.cast(shape.const(part)).value


def _second_operands(insn: Insn, fields: Mapping[str, Any]) -> frozenset[int] | None:
    """Return the values that operand b can have for an instruction; None for any value."""
    if fields.get("op_b") == OpBSel.RS2 and insn.mask & _NO_REGISTER == _NO_REGISTER and not insn.match & _NO_REGISTER:
        return frozenset({0})
    if insn.op in _LANE_SELECTS:
        (lane,) = (token for token in insn.tokens if token.field.name == "uimm6")
        return frozenset(number for number in range(1 << 6) if lane.accepts(number))
    return None


def _alu(config: CoreConfig, *, lanes: bool = False) -> InputConstraints:
    words: dict[tuple[frozenset[int] | None, bool, str], set[int]] = defaultdict(set)
    for insn, fields in _rows(config):
        word, second = _word(AluCtrl, fields, "ex.alu."), _second_operands(insn, fields)
        result = fields.get("ex.alu.result")
        # clip instructions have a control word of their own for the lane unit
        plain = lanes and result not in (AluResult.CLIP, AluResult.CLIPU)
        outputs: set[str] = {"oriented"} if lanes and result is AluResult.COUNT else set()
        if fields.get("branch"):
            outputs.add("comparison")
        elif fields["ex.unit"] is Unit.ALU and insn.writes_rd | insn.writes_base:
            outputs.add("result")
        if any(name.startswith("lsu.") for name in fields):
            outputs.add("sum")
        for output in outputs:
            words[second, plain, output].add(word)
    cases: list[InputCase] = []
    for (second, plain, output), controls in words.items():
        values: Values = {"ctrl": controls} | ({"op_b": second} if second else {}) | ({"clip": {0}} if plain else {})
        cases.append(InputCase(values, (output,)))
    return InputConstraints(cases)


def _serial(controls: Collection[Values], *held: str) -> InputConstraints:
    """Return constraints of a multi-cycle unit with ``start``, ``done`` and ``take`` and one of the ``controls``."""
    idle = InputCase({"start": {0}, "take": {0, 1}}, ())
    running = [InputCase({"start": {1}, "done": {0}, "take": {0}, **control}, ("done",)) for control in controls]
    ending = [InputCase({"start": {1}, "done": {1}, **control}, ("done", "result")) for control in controls]
    stable = StableInputs(("ctrl", "op_a", "op_b", *held), "start", ("done", "take"))
    return InputConstraints([idle, *running, *ending], stable=[stable])


def _array_outputs(insn: Insn) -> tuple[str, ...]:
    if insn.requantises:
        return ("second", "upper") if insn.is_exact else ("second",)
    if insn.uses_dotp:
        return ("first", "second") if insn.is_pair else ("first",)
    return ("upper" if insn.multiplies_high else "second" if insn.multiplies_late else "result",)


def _products(config: CoreConfig) -> InputConstraints:
    words: dict[tuple[tuple[str, ...], frozenset[int] | None, tuple[tuple[str, int], ...]], set[int]]
    words = defaultdict(set)
    for insn, fields in _rows(config):
        if not insn.uses_dotp and fields["ex.unit"] is not Unit.MULT:
            continue
        multiplied = None if insn.uses_dotp else mult_control(insn)
        prefix = "ex.dotp." if insn.uses_dotp else "ex.mult."
        signs = [int(fields.get(f"{prefix}{name}", 0)) for name in ("a_signed", "b_signed")]
        a_signed, b_signed = reversed(signs) if insn.is_mac_load else signs
        fmt = insn.fmt if insn.uses_dotp and insn.fmt is not None else ElemFmt.H
        word = Const.cast(ArrayFormat.const(ArrayFormat.fields(fmt, bool(a_signed), bool(b_signed)))).value
        form = Const.cast(ProductForm.const(ProductForm.fields(multiplied, pair=insn.is_pair))).value
        inputs = {"dotp_form": form, "dotp_format": word}
        inputs |= {"dotp2_format": word} if insn.is_pair or not insn.uses_dotp else {}
        inputs |= {"dotp_accumulate": int(insn.uses_dotp and insn.accumulates)}
        inputs |= {"pair": int(insn.is_pair), "requantise": int(insn.requantises)}
        places = None if insn.uses_dotp or insn.requantises else _shift_amounts(insn, fields)
        words[_array_outputs(insn), places, tuple(inputs.items())].add(_word(MultCtrl, fields, "ex.mult."))
    cases: list[InputCase] = []
    for (outputs, places, inputs), controls in words.items():
        values: Values = {"ctrl": controls, **{name: {value} for name, value in inputs}}
        cases.append(InputCase(values | ({} if places is None else {"shamt": places}), outputs))
    return InputConstraints(cases)


def _mult(config: CoreConfig) -> InputConstraints:
    if config.multiplies_by_dotp:
        return _products(config)
    words: dict[tuple[bool, bool, frozenset[int] | None], set[int]] = defaultdict(set)
    for insn, fields in _rows(config):
        if fields["ex.unit"] is Unit.MULT:
            words[insn.requantises, insn.is_exact, _shift_amounts(insn, fields)].add(
                _word(MultCtrl, fields, "ex.mult.")
            )
    controls: dict[bool, list[Values]] = {False: [], True: []}
    exact: list[InputCase] = []
    for (requantises, is_exact, places), controls_of_places in words.items():
        values: Values = {"ctrl": controls_of_places} | ({} if places is None else {"shamt": places})
        controls[requantises].append(values)
        # the exact form is done at once, and has an upper word
        outputs = ("done", "result", "upper") if is_exact else ("done", "result")
        exact.append(InputCase({"start": {1}, "requantise": {int(requantises)}, **values}, outputs))
    if config.requantise_exact:
        return InputConstraints(exact)
    plain = _serial(controls[False], "op_c", "shamt")
    if not config.requantise:
        return plain
    cases = [InputCase({**values, "requantise": {0}}, outputs) for values, outputs in plain.cases]
    cases += [InputCase({"start": {1}, "requantise": {1}, **control}) for control in controls[True]]
    return InputConstraints(cases, stable=plain.stable)


def _shift_amounts(insn: Insn, fields: Mapping[str, Any]) -> frozenset[int] | None:
    """Return the values that the shift amount of an instruction can have; None for any value."""
    if fields.get("shamt_rs2") or insn.mask & _SHIFT != _SHIFT:
        return None
    return frozenset({(insn.match & _SHIFT) >> _SHIFT_LSB})


def _div(config: CoreConfig) -> InputConstraints:
    controls = {_word(DivCtrl, fields, "ex.div.") for _, fields in _rows(config) if fields["ex.unit"] is Unit.DIV}
    return _serial([{"ctrl": controls}])


def _dotp(config: CoreConfig) -> InputConstraints:
    controls = {_word(DotpCtrl, fields, "ex.dotp.") for insn, fields in _rows(config) if insn.uses_dotp}
    return InputConstraints([InputCase({"ctrl": controls})])


def _lsu(config: CoreConfig) -> InputConstraints:
    # Mac&Load and pv.qnt decide if there is an access; the other fields are constant
    controls = {
        _word(LsuCtrl, {**fields, "lsu.valid": valid}, "lsu.")
        for _, fields in _rows(config)
        if any(name.startswith("lsu.") for name in fields)
        for valid in (False, True)
    }
    valid = f"ex_ctrl[{_word(LsuCtrl, {'valid': True}, '').bit_length() - 1}]"
    always = ("ex_address", "ex_done", "wb_done", "ex_granted", "fault__valid", "fault__store", "data__req")
    cases = [
        InputCase({}, always),
        InputCase({"data__req": {1}}, ("data__addr", "data__we", "data__be")),
        InputCase({"data__req": {1}, "data__we": {1}}, ("data__wdata",)),
        InputCase({"wb_busy": {1}, "wb_done": {1}}, ("wb_rdata",)),
    ]
    return InputConstraints(
        [InputCase({**values, "ex_ctrl": controls | {0}}, outputs) for values, outputs in cases],
        stable=[StableInputs(("ex_ctrl", "ex_base", "ex_sum", "ex_wdata"), valid, ("ex_done",))],
        # an access is not aborted between its two requests
        always=[({"second": {0}}, {valid: {1}})],
        answered=[Handshake("data__req", "data__gnt", "data__rvalid")],
    )


def _requantiser(config: CoreConfig) -> InputConstraints:
    rows = [(insn, _word(RequantiseCtrl, fields, "requantise.")) for insn, fields in _rows(config)]
    formats = {word: insn.fmt for insn, word in rows if insn.requantises}
    cases = [InputCase({"ctrl": {word for insn, word in rows if not insn.requantises}})]
    cases += [InputCase({"ctrl": {word}, "lane": set(range(fmt.lanes))}) for word, fmt in formats.items() if fmt]
    return InputConstraints(cases)


def _widener(config: CoreConfig) -> InputConstraints:
    ports = {"fmt": "ex.dotp.fmt", "half": "pair.half", "quarter": "pair.quarter"}
    pairs = [fields for insn, fields in _rows(config) if insn.is_pair]
    combinations = {tuple(int(fields.get(field, 0)) for field in ports.values()) for fields in pairs}
    cases = [{port: {value} for port, value in zip(ports, each, strict=True)} for each in sorted(combinations)]
    return InputConstraints(list(map(InputCase, cases)))


def _nnrf(config: CoreConfig) -> InputConstraints:
    pairs = config.mac_load_pair
    entries = {*range(config.nnrf_entries), *range(SECOND_PAIR, NNRF_WORDS * pairs)}
    # read addresses are instruction fields, which may mean something else
    reads: list[tuple[Values, tuple[str, ...]]] = [
        ({}, ("act2", "nn_kappa", "nn_lambda")),
        ({"wgt_addr": range(NNRF_WEIGHTS + config.reads_factor)}, ("wgt",)),
        ({"act_addr": range(NNRF_ACTIVATIONS + pairs)}, ("act",)),
    ]
    writes: list[Values] = [{"we": {0}}, {"we": {1}, "waddr": entries}]
    return InputConstraints([InputCase({**write, **at}, outputs) for write in writes for at, outputs in reads])


_IN_STAGE = {"ctrl": "ctrl.mult", "dotp_accumulate": "ctrl.dotp.accumulate"}
_DIVIDES_IN_STAGE = {"start": "valid", "take": "advance", "ctrl": "ctrl.div"}
_SUMS = ("first", "upper")  # 0 for instructions that do not compute them


def _ex_stage(config: CoreConfig) -> InputConstraints:
    """Return constraints for an EX stage whose dot products and multiplications share the multiplier arrays."""

    def of_unit(unit: Unit, values: Values, outputs: Collection[str]) -> InputCase:
        others = {"valid": {1}, "ctrl.mult": {0}, "pair": {0}}
        return InputCase({**others, **values, "ctrl.unit": {unit.value}}, ("done", *_SUMS, *outputs))

    cases = [InputCase({"valid": {0}}, ()), InputCase({}, ("id_nn_act", "id_nn_wgt"))]
    cases.append(of_unit(Unit.CSR, {}, ("result",)))
    for case, outputs in _alu(config).cases:
        values = {"ctrl.alu" if name == "ctrl" else name: numbers for name, numbers in case.items()}
        if outputs == ("result",):
            cases.append(of_unit(Unit.ALU, values, outputs or ()))
        else:
            # a Mac&Load uses the adder while another unit makes the result
            cases.append(InputCase({"valid": {1}, **values}, outputs))
    for case, outputs in _products(config).cases:
        values = {_IN_STAGE.get(name, name): numbers for name, numbers in case.items() if name != "requantise"}
        unit = Unit.MULT if case["dotp_form"] != {0} else Unit.DOTP
        seen = ["result" if name == "first" else name for name in outputs or ()]
        if case["pair"] == {1}:
            unit, seen = Unit.ALU, ["second"]
        cases.append(of_unit(unit, values, seen))
    for case, outputs in _div(config).cases[1:]:
        values = {_DIVIDES_IN_STAGE.get(name, name): numbers for name, numbers in case.items()}
        cases.append(of_unit(Unit.DIV, values, outputs or ()))
    return InputConstraints(cases, stable=[StableInputs(("ctrl", "op_a", "op_b"), "valid", ("done", "advance"))])


CONSTRAINTS: Mapping[str, Callable[[CoreConfig], InputConstraints]] = {
    "alu": _alu,
    "simd-alu": partial(_alu, lanes=True),
    "mult": _mult,
    "div": _div,
    "dotp": _dotp,
    "lsu": _lsu,
    "requantiser": _requantiser,
    "widener": _widener,
    "nnrf": _nnrf,
    "ex-stage": _ex_stage,
}
"""Functions that return the constraints for a unit, by name of the unit."""
