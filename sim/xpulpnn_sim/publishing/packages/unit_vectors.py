"""Test vectors of packaged units, drawn like the stimuli of the units' benches."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.core.control import ExCtrl, Unit
from xpulpnn.dotp.ctrl import DotpCtrl
from xpulpnn.errors import ConfigError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import NNRF_ACTIVATIONS
from xpulpnn_sim.benches.vectors import controls
from xpulpnn_sim.benches.vectors.controls import RowsOf, control_port
from xpulpnn_sim.benches.vectors.operands import executions
from xpulpnn_sim.benches.vectors.register_files import NnEntries, ex_stage_accesses, nn_accesses
from xpulpnn_sim.benches.vectors.rows import (
    Executions,
    Expectation,
    array_expectation,
    lanes_expectation,
    operation_result,
    row_vectors,
    value_of_rd,
    with_latency,
)
from xpulpnn_sim.reference.golden.nnrf import nn_words_read
from xpulpnn_sim.reference.stimuli import random_words

_SEED = 20
_NNRF_CYCLES = 200
_IDLE = 0.1  # probability of an idle cycle after an operation
Values = Mapping[str, int]  # by port


@dataclass(frozen=True, slots=True)
class UnitVector:
    inputs: Values  # unnamed inputs are 0
    expected: Values  # outputs at the end of the cycle; unnamed outputs are not checked
    text: str
    waits: bool = False  # if the cycle repeats until the output `done` is high


def _draw(config: CoreConfig, rows: RowsOf, count: int, rng: Random) -> list[Executions]:
    return [(insn, control, executions(insn, count, rng, corners=0, places=0)) for insn, control in rows(config)]


def _operations(
    drawn: list[Executions], config: CoreConfig, ports: set[str], rng: Random, expectation: Expectation
) -> Iterator[tuple[Insn, UnitVector]]:
    vectors = row_vectors(drawn, ports, rng, expectation, exact=config.requantise_exact)
    vectors = with_latency(vectors, rng) if "enable" in ports else vectors
    for at, row in enumerate(vectors.row.tolist()):
        insn = vectors.insns[row]
        inputs = {port: int(column[at]) for port, column in vectors.stimulus.items()}
        expected = {name: int(column[at]) for name, column in vectors.expected.items() if vectors.checked[name][at]}
        yield insn, UnitVector(inputs, expected, f"{insn.mnemonic} {insn.operands}")


def _rows(
    config: CoreConfig, ports: set[str], rng: Random, *, rows: RowsOf, expectation: Expectation = value_of_rd
) -> Iterator[UnitVector]:
    for _, vector in _operations(_draw(config, rows, 12, rng), config, ports, rng, expectation):
        yield vector


def _nnrf(config: CoreConfig, ports: set[str], rng: Random) -> Iterator[UnitVector]:
    """Yield random writes and reads of the NN-RF, some of the same entry in one cycle; entries are 0 after reset."""
    entries, pairs = config.nnrf_entries, config.mac_load_pair
    columns = nn_accesses(entries, _NNRF_CYCLES, rng, pairs=pairs)
    yield from _nn_vectors(columns, nn_words_read(entries, columns, pairs=pairs))


def _nn_vectors(inputs: Mapping[str, Any], words: Mapping[str, Any]) -> Iterator[UnitVector]:
    for at in range(_NNRF_CYCLES):
        driven, read = ({name: int(column[at]) for name, column in columns.items()} for columns in (inputs, words))
        yield UnitVector(driven, read, "access to the NN register file")


def _operation_cycles(vector: UnitVector, start: str, take: str, rng: Random) -> Iterator[UnitVector]:
    """Yield vectors of a multi-cycle operation: until it is done, its last cycle, and sometimes an idle cycle."""
    inputs, expected, text = {**vector.inputs, start: 1}, {**vector.expected, "done": 1}, vector.text
    yield UnitVector(inputs, expected, f"{text}: until it is done", waits=True)
    yield UnitVector({**inputs, take: 1}, expected, text)
    if rng.random() < _IDLE:
        yield UnitVector(vector.inputs, {}, "idle")


def _mult(config: CoreConfig, ports: set[str], rng: Random) -> Iterator[UnitVector]:
    if config.multiplies_by_dotp:
        yield from _rows(config, ports, rng, rows=controls.product_rows, expectation=array_expectation)
        return
    expectation = partial(operation_result, pairs=False, late=False)
    for _, vector in _operations(_draw(config, controls.mult_rows, 12, rng), config, ports, rng, expectation):
        if "done" in ports:
            yield from _operation_cycles(vector, "start", "take", rng)
        else:
            yield replace(vector, inputs={**vector.inputs, "start": 1})


def _ex_stage(config: CoreConfig, ports: set[str], rng: Random) -> Iterator[UnitVector]:
    if config.mac_load:
        yield from _nn_vectors(*ex_stage_accesses(config.nnrf_entries, _NNRF_CYCLES, rng, pairs=config.mac_load_pair))
    entries = NnEntries(ports, rng)
    for write in entries.writes():
        yield UnitVector(write, {}, f"write of NN-RF entry {write['wb_nn_addr']}")
    drawn = [
        (insn, control, entries.read_by(insn, src)) for insn, control, src in _draw(config, controls.ex_rows, 4, rng)
    ]
    options = {"pairs": config.mac_load_pair, "late": config.multiplies_by_dotp}
    expectation = partial(operation_result, **options, product="product" if config.requantise else "result")
    for insn, vector in _operations(drawn, config, ports | _ISSUED.keys(), rng, expectation):
        if "id_dotp_enable" in ports and insn.uses_dotp:
            yield UnitVector(_issue(insn, vector.inputs, ports), {}, f"{vector.text}: factors from ID")
        inputs = {port: value for port, value in vector.inputs.items() if port in ports}
        yield from _operation_cycles(replace(vector, inputs=inputs), "valid", "advance", rng)
    csr = control_port(ExCtrl, {"unit": Unit.CSR}) | {"valid": 1}
    for word, operand in zip(random_words(rng, 4).tolist(), random_words(rng, 4).tolist(), strict=True):
        yield UnitVector({**csr, "csr_rdata": word, "op_a": operand}, {"result": word}, "CSR instruction")


_ISSUED = {"dotp_a": "id_dotp_a", "dotp_b": "id_dotp_b"}
"""Ports that carry factors to the operand registers of EX, by name of the port in an EX stage without them."""


def _issue(insn: Insn, given: Values, ports: set[str]) -> Values:
    """Return the inputs of the cycle before an operation, in which ID loads the operand registers with its factors."""
    signs = (insn.b_signed, insn.a_signed) if insn.is_pair else (insn.a_signed, insn.b_signed)
    fields = {"fmt": insn.elements, "a_signed": signs[0], "b_signed": signs[1], "accumulate": insn.accumulates}
    issued = {port: given[name] for name, port in _ISSUED.items()} | {"id_dotp_enable": 1}
    if "later_pair" in ports:
        issued["id_nn_act_addr"] = given["later_pair"] * NNRF_ACTIVATIONS
    return issued | control_port(DotpCtrl, fields, "id_dotp_ctrl")


VECTORS: Mapping[str, Callable[[CoreConfig, set[str], Random], Iterator[UnitVector]]] = {
    "dotp": partial(_rows, rows=controls.dotp_rows),
    "nnrf": _nnrf,
    "simd-alu": partial(_rows, rows=controls.alu_rows, expectation=lanes_expectation),
    "mult": _mult,
    "ex-stage": _ex_stage,
}
"""Functions that yield the test vectors of a component, by its name."""


def unit_vectors(top: str, config: CoreConfig, ports: set[str]) -> list[UnitVector]:
    if top in ("dotp", "simd-alu") and not config.xpulpv2:
        raise ConfigError(f"xpulpv2 must be true for a package of {top}, not false")
    return list(VECTORS[top](config, ports, Random(_SEED)))
