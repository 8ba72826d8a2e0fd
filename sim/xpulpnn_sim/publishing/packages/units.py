"""Vectors of the units: dot product, NN-RF, packed-SIMD ALU, multiplier and EX stage.

An instruction of the table gives the control word; its statements say what must come out, not its control word.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.core.alu_ctrl import AluResult, AluShift
from xpulpnn.core.control import ImmSel, OpBSel, Unit, control_fields
from xpulpnn.core.mult import MultOp
from xpulpnn.core.product_unit import ProductForm
from xpulpnn.dotp.ctrl import ArrayFormat
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.formats import ElemFmt, Extension, Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import (
    FIRST_PARAMETER,
    NNRF_ACTIVATIONS,
    NNRF_WEIGHTS,
    NNRF_WORDS,
    SECOND_PAIR,
    WORD_BYTES,
    WORD_MASK,
    XLEN,
)
from xpulpnn.isa.table import enabled
from xpulpnn_sim.publishing.packages.core_checks import computes
from xpulpnn_sim.publishing.packages.design import Port
from xpulpnn_sim.publishing.packages.vectors import UnitVector, Vectors
from xpulpnn_sim.reference.statements.compiled import result
from xpulpnn_sim.reference.statements.text import sx, zx


def dot_product_vectors(fmt: ElemFmt, a: int, b: int, *, a_signed: bool, b_signed: bool, accumulator: int = 0) -> int:
    """Return the sum of the products of the elements and the accumulator, modulo 2**32."""
    first, second = (sx if a_signed else zx), (sx if b_signed else zx)
    lsbs = range(0, XLEN, fmt.width)
    return accumulator + sum(first(a >> lsb, fmt.width) * second(b >> lsb, fmt.width) for lsb in lsbs) & WORD_MASK


class NnRfModel:
    """Entries, all 0 after reset."""

    def __init__(self, config: CoreConfig, write: Sequence[str] = ("we", "waddr", "wdata"), read: str = "") -> None:
        """Clear the entries."""
        self._first, self._pairs = config.nnrf_entries, config.mac_load_pair
        self._numbers = [*range(self._first), *range(SECOND_PAIR, NNRF_WORDS if self._pairs else SECOND_PAIR)]
        self._entries = [0] * (self._numbers[-1] + 1)
        self._write, self._read = write, read

    @property
    def parameters(self) -> list[int]:
        """The entries of the requantisation."""
        return self._entries[FIRST_PARAMETER : self._first]

    def second_activation(self, pair: int) -> int:
        """Word of the second activation of a pair."""
        return self._entries[SECOND_PAIR * pair + 1]

    def cycle(self, vectors: Vectors) -> tuple[dict[str, int], dict[str, int]]:
        """A random write and random reads in one cycle: inputs and what the reads give, the written word included."""
        first = min(self._first - NNRF_WEIGHTS, NNRF_ACTIVATIONS)
        enable, place = vectors.random.getrandbits(1), vectors.random.choice(self._numbers)
        word = vectors.word()
        driven = dict(zip(self._write, (enable, place, word), strict=True))
        if enable:
            self._entries[place] = word
        weight = vectors.random.randrange(NNRF_WEIGHTS)
        driven[f"{self._read}wgt_addr"] = weight
        seen = {f"{self._read}wgt": self._entries[first + weight]}
        if first:
            activation = vectors.random.randrange(first + self._pairs)
            driven[f"{self._read}act_addr"] = activation
            seen[f"{self._read}act"] = self._entries[activation if activation < first else SECOND_PAIR]
        return driven, seen


_SEED = 20
_PER_CONTROL_WORD = 12  # vectors of every control word

_DIRECT_IMMEDIATES = frozenset({ImmSel.I_TYPE, ImmSel.SIMM5, ImmSel.IMM6_UNSIGNED})
"""Immediates that are operand b as they are; the others are a matter of ID."""

_REPLICATED = (Op2Mode.SC, Op2Mode.SCI)


def _rows_of(config: CoreConfig) -> Iterator[tuple[Insn, dict[str, Any]]]:
    """Rows of which EX sees registers or plain immediates, with their control fields."""
    for insn in enabled(config.extensions, config.widths):
        executes = computes(insn) or insn.is_branch or insn.is_mac_load or insn.extension is Extension.ZICSR
        if insn.size != WORD_BYTES or insn.alias or insn.mode in _REPLICATED or not executes:
            continue
        fields = control_fields(insn)
        immediate = fields.get("op_b") is OpBSel.IMM and fields.get("imm") not in _DIRECT_IMMEDIATES
        if not immediate or insn.is_mac_load:
            yield insn, fields


def _requantising_rows(config: CoreConfig) -> Iterator[Insn]:
    """The rows of pv.rq*."""
    return (insn for insn in enabled(config.extensions, config.widths) if insn.requantises)


def _under(fields: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The fields below ``prefix``, without it."""
    return {name.removeprefix(prefix): value for name, value in fields.items() if name.startswith(prefix)}


def _operands(vectors: Vectors, insn: Insn, fields: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    """Random ``op_a``, ``op_b``, ``op_c`` and ``shamt`` of an instruction, and its result."""
    kinds = (FieldKind.REGISTER, FieldKind.TARGET, FieldKind.CSR)
    values = {
        token.field.name: vectors.random.randrange(token.field.low, token.field.high + 1, token.field.step)
        for token in insn.tokens
        if token.field.kind not in kinds
    }
    a, b, c = vectors.word(), vectors.word(), vectors.word()
    if "rs2" not in insn.reads:
        # x0, or the immediate
        b = next((values[name] for name in ("imm12", "uimm5", "simm5", "uimm6") if name in values), 0) & WORD_MASK
    shamt = values.get("Is3", 0)
    if not fields.get("shamt_rs2"):
        return {"op_a": a, "op_b": b, "op_c": c, "shamt": shamt}, result(insn, values, a, b, c)
    # the register forms of the normalising sums add rd and rs1 and shift by rs2
    shamt = b % XLEN
    return {"op_a": c, "op_b": a, "op_c": c, "shamt": shamt}, result(insn, values, a, b, c)


def _dotp(config: CoreConfig, vectors: Vectors) -> None:
    """Every format, signs and accumulation; with operand registers also idle cycles between."""
    registered = "enable" in vectors.ports
    late: tuple[int, int, int, dict[str, Any]] | None = None
    cases = [
        {"fmt": fmt, "a_signed": bool(signs & 1), "b_signed": bool(signs & 2), "accumulate": accumulate}
        for fmt in config.dotp.formats
        for signs in range(4)
        for accumulate in (False, True)
    ]
    for case in (case for case in cases for _ in range(_PER_CONTROL_WORD)):
        a, b, rd = vectors.word(), vectors.word(), vectors.word()
        now = {"ctrl": vectors.control("ctrl", case), "rs1": a, "rs2": b, "rd": rd}
        if registered:
            # the factors taken are those of the last cycle with enable; the accumulator is this cycle's
            expected = {} if late is None else {"result": _dot(late[3], late[0], late[1], rd)}
            enable = int(late is None or vectors.random.random() < 3 / 4)
            vectors.add({**now, "enable": enable}, expected, f"{_case(case)}, enable {enable}")
            late = (a, b, rd, case) if enable else late
        else:
            vectors.add(now, {"result": _dot(case, a, b, rd)}, _case(case))


def _case(case: Mapping[str, Any]) -> str:
    signs = "".join("s" if case[name] else "u" for name in ("a_signed", "b_signed"))
    return f"{'sum of ' if case['accumulate'] else ''}dot product, {case['fmt'].width} bit, signs {signs}"


def _dot(case: Mapping[str, Any], a: int, b: int, rd: int) -> int:
    signs = {"a_signed": case["a_signed"], "b_signed": case["b_signed"]}
    return dot_product_vectors(case["fmt"], a, b, **signs, accumulator=rd if case["accumulate"] else 0)


_NNRF_CYCLES = 200


def _nnrf(config: CoreConfig, vectors: Vectors) -> None:
    """Random writes and reads, the ones of the same cycle among them; all entries are 0 after reset."""
    model = NnRfModel(config)
    for _ in range(_NNRF_CYCLES):
        # parameters and second activations are those of registers: a word written in this cycle is not yet seen
        registers: dict[str, int] = dict(zip(("nn_kappa", "nn_lambda"), model.parameters, strict=False))
        pair = dict[str, int]()
        if config.mac_load_pair:
            pair = {"act2_addr": vectors.random.randrange(2)}
            registers["act2"] = model.second_activation(pair["act2_addr"])
        inputs, expected = model.cycle(vectors)
        inputs, expected = inputs | pair, expected | registers
        vectors.add(inputs, expected, f"write {inputs['waddr']}" if inputs["we"] else "no write")


def _simd_alu(config: CoreConfig, vectors: Vectors) -> None:
    """Every instruction that the packed-SIMD ALU makes alone."""
    others = (AluResult.COUNT, AluResult.CLIP, AluResult.CLIPU)
    for insn, fields in _rows_of(config):
        alu = _under(fields, "ex.alu.")
        if fields["ex.unit"] is not Unit.ALU or alu.get("result") in others or (not alu and insn.op != "add"):
            continue
        for _ in range(_PER_CONTROL_WORD):
            inputs, value = _operands(vectors, insn, fields)
            reversed_a = int(f"{inputs['op_a']:0{XLEN}b}"[::-1], 2)
            expected = {"comparison" if insn.is_branch else "result": value}
            expected["oriented"] = reversed_a if alu.get("shift") is AluShift.LEFT else inputs["op_a"]
            vectors.add({**inputs, "ctrl": vectors.control("ctrl", alu)}, expected, insn.mnemonic)


def _mult(config: CoreConfig, vectors: Vectors) -> None:
    """Every multiplication, and cycles without one between."""
    enables = ("start", "take")
    for insn, fields in _rows_of(config):
        control = _under(fields, "ex.mult.")
        if fields["ex.unit"] is not Unit.MULT:
            continue
        for _ in range(_PER_CONTROL_WORD):
            inputs, value = _operands(vectors, insn, fields)
            inputs |= {"ctrl": vectors.control("ctrl", control), **_factors(config, vectors, control, inputs)}
            word = {name: inputs[name] for name in inputs.keys() & vectors.ports}
            high = control["op"] is MultOp.HIGH
            vectors.operation(enables, word, _multiplied(config, insn, inputs, value), insn.mnemonic, varies=high)
        if "done" in vectors.ports:
            vectors.add({"op_a": vectors.word(), "op_b": vectors.word()}, {"done": 0}, "idle")
    for insn in _requantising_rows(config):
        for _ in range(_PER_CONTROL_WORD):
            names = ("op_a", "op_b", "op_c", "nn_kappa", "nn_lambda")
            inputs = {name: vectors.word() for name in names}
            control = _under(control_fields(insn), "ex.mult.")
            given = {**inputs, "ctrl": vectors.control("ctrl", control), "requantise": 1}
            given |= _factors(config, vectors, control, {**inputs, "op_b": inputs["nn_kappa"]})
            word = {name: given[name] for name in given.keys() & vectors.ports}
            scaled = inputs["op_a" if config.requantise_exact else "op_b"]
            low, high = _scaled(insn, (inputs["nn_kappa"], inputs["nn_lambda"]), scaled)
            expected = {"result": low} | ({"upper": high} if insn.is_exact else {})
            vectors.operation(enables, word, expected, insn.mnemonic, varies=False)


def _factors(
    config: CoreConfig, vectors: Vectors, control: Mapping[str, Any], operands: Mapping[str, int]
) -> dict[str, int]:
    """Ports of arrays that make dot products too, for a multiplication of operands a and b."""
    if not config.multiplies_by_dotp:
        return {}
    form = vectors.control("dotp_form", ProductForm.fields(control, pair=False))
    signs = (bool(control.get(name)) for name in ("a_signed", "b_signed"))
    factors = {"dotp_a": operands["op_a"], "dotp_b": operands["op_b"]}
    return {"dotp_form": form, **_array_formats(vectors, ElemFmt.H, *signs), **factors}


def _array_formats(vectors: Vectors, fmt: ElemFmt, a_signed: bool, b_signed: bool) -> dict[str, int]:
    fields = ArrayFormat.fields(fmt, a_signed, b_signed)
    return {name: vectors.control(name, fields) for name in ("dotp_format", "dotp2_format")}


def _multiplied(config: CoreConfig, insn: Insn, operands: Mapping[str, int], value: int) -> dict[str, int]:
    """The output with the result of a multiplication: those arrays have an upper word at a port of its own, and the
    rounded sum that is shifted later."""
    if not (config.multiplies_by_dotp and insn.multiplies_late):
        return {"result": value}
    if insn.multiplies_high:
        return {"upper": value}
    total = result(insn, {"Is3": 0}, operands["op_a"], operands["op_b"], operands["op_c"])
    rounding = (1 << operands["shamt"]) >> 1 if insn.op.endswith("R") else 0
    return {"second": total + rounding & WORD_MASK}


def _scaled(insn: Insn, parameters: tuple[int, int], a: int) -> tuple[int, int]:
    """Return the first half of a requantisation, both words; in the exact form the summand is part of ``a``."""
    kappa, summand = parameters
    total = sx(kappa, XLEN) * sx(a, XLEN) if insn.is_exact else sx(kappa * a + summand, XLEN)
    return total & WORD_MASK, total >> XLEN & WORD_MASK


def _ex_stage(config: CoreConfig, vectors: Vectors) -> None:
    """Every instruction that EX executes, with the NN-RF written and read meanwhile."""
    write = ("wb_nn_we", "wb_nn_addr", "wb_nn_data")
    model = NnRfModel(config, write, read="id_nn_") if config.mac_load else None
    enables = ("valid", "advance")
    for insn, fields in _rows_of(config):
        for _ in range(_PER_CONTROL_WORD // 2):
            inputs, expected, varies = _execution(config, vectors, insn, fields, model)
            if model is not None:
                read, seen = model.cycle(vectors)
                inputs, expected = {**inputs, **read}, {**expected, **seen}
            if "id_dotp_a" in inputs:
                _issue(vectors, inputs)
            vectors.operation(enables, inputs, expected, insn.mnemonic, varies=varies)
    for insn in _requantising_rows(config):
        assert model is not None
        control = _under(control_fields(insn), "ex.")
        for _ in range(_PER_CONTROL_WORD):
            b, parameters = vectors.word(), model.parameters
            read, seen = model.cycle(vectors)
            scaled = "op_a" if config.requantise_exact else "op_b"
            factors = _factors(config, vectors, _under(control, "mult."), {"op_a": b, "op_b": parameters[0]})
            inputs = {**factors, "ctrl": vectors.control("ctrl", control), "requantise": 1, scaled: b, **read}
            low, high = _scaled(insn, (parameters[0], parameters[1]), b)
            expected = {**seen, "product": low}
            if config.requantise_exact:
                expected["upper"] = high if insn.is_exact else 0
            vectors.operation(enables, inputs, expected, insn.mnemonic, varies=False)


_VARYING = (Unit.DIV,)


def _execution(
    config: CoreConfig, vectors: Vectors, insn: Insn, fields: Mapping[str, Any], model: NnRfModel | None
) -> tuple[dict[str, int], dict[str, int], bool]:
    unit = fields["ex.unit"]
    control = _under(fields, "ex.")
    varies = unit in _VARYING or control.get("mult.op") is MultOp.HIGH
    if unit is Unit.CSR:
        old = vectors.word()
        inputs = {"csr_rdata": old, "op_a": vectors.word()}
        expected = {"result": old}
    elif insn.uses_dotp:
        inputs, expected = _dot_execution(config, vectors, insn, model)
    else:
        inputs, value = _operands(vectors, insn, fields)
        expected = {"comparison": value} if insn.is_branch else {"result": value}
        if unit is Unit.MULT:
            inputs |= _factors(config, vectors, _under(control, "mult."), inputs)
            expected = _multiplied(config, insn, inputs, value)
        if insn.op == "add":
            expected["sum"] = value
    if config.mac_load_pair and not insn.is_pair:
        expected = {**expected, "first": 0}
    return {**inputs, "ctrl": vectors.control("ctrl", control)}, expected, varies


def _dot_execution(
    config: CoreConfig, vectors: Vectors, insn: Insn, model: NnRfModel | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Dot product of factors on ports of their own; with a Mac&Load the ALU adds 4 to the base meanwhile. Of two
    products the weight is the second factor, and the NN-RF gives the first one of the second product itself."""
    assert insn.fmt is not None
    a, b, c = vectors.word(), vectors.word(), vectors.word()
    signed = (insn.b_signed, insn.a_signed) if insn.is_pair else (insn.a_signed, insn.b_signed)
    signs = dict(zip(("a_signed", "b_signed"), signed, strict=True))
    total = dot_product_vectors(insn.fmt, a, b, **signs, accumulator=c if insn.accumulates else 0)
    inputs, expected = {"op_c": c}, {"first" if insn.is_pair else "result": total}
    if insn.is_pair:
        assert model is not None
        later, old = vectors.random.randrange(2), vectors.word()
        other = model.second_activation(later)
        inputs |= {"pair": 1, "second_sum": old, "later_pair": later}
        if config.multiplies_by_dotp:
            inputs["dotp_form"] = vectors.control("dotp_form", ProductForm.fields(None, pair=True))
        expected["second"] = dot_product_vectors(
            insn.fmt, other, b, **signs, accumulator=old if insn.accumulates else 0
        )
    if insn.is_mac_load:
        base = vectors.word()
        inputs = {"op_a": base, "op_b": WORD_BYTES} | inputs
        expected["sum"] = base + WORD_BYTES & WORD_MASK
    if config.dotp_operands_in_id:
        inputs |= {"dotp_a": a, "dotp_b": b}
        if config.multiplies_by_dotp:
            inputs |= _array_formats(vectors, insn.fmt, *signed)
        else:
            inputs |= {"dotp_fmt": insn.fmt.value} | {f"dotp_{name}": int(value) for name, value in signs.items()}
    else:
        word = vectors.control("id_dotp_ctrl", {"fmt": insn.fmt, **signs, "accumulate": insn.accumulates})
        inputs |= {"id_dotp_enable": 1, "id_dotp_ctrl": word, "id_dotp_a": a, "id_dotp_b": b}
    return inputs, expected


def _issue(vectors: Vectors, inputs: dict[str, int]) -> None:
    """Move what ID gives to the dot-product unit to a cycle of its own before: it counts at the end of a cycle."""
    names = ("id_dotp_enable", "id_dotp_ctrl", "id_dotp_a", "id_dotp_b")
    issued = {name: inputs.pop(name) for name in names}
    if "later_pair" in inputs:
        issued["id_nn_act_addr"] = inputs["later_pair"] * NNRF_ACTIVATIONS
    vectors.add(issued, {}, "operands of the dot product that follows")


BUILDERS: Mapping[str, Callable[[CoreConfig, Vectors], None]] = {
    "dotp": _dotp,
    "nnrf": _nnrf,
    "simd-alu": _simd_alu,
    "mult": _mult,
    "ex-stage": _ex_stage,
}
"""Builders of the vectors by component."""


def unit_vectors(top: str, config: CoreConfig, ports: Mapping[str, Port]) -> list[UnitVector]:
    """The vectors of a component, one of :data:`BUILDERS`."""
    vectors = Vectors(ports, Random(_SEED))
    BUILDERS[top](config, vectors)
    return vectors.rows
