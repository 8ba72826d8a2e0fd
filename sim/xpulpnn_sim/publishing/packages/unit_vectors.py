"""Test vectors of packaged units, drawn like the stimuli of the units' benches."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.core.control import ExCtrl, Unit
from xpulpnn.dotp.ctrl import DotpCtrl
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import NNRF_ACTIVATIONS
from xpulpnn.isa.table import find
from xpulpnn_sim.benches.vectors import controls
from xpulpnn_sim.benches.vectors.controls import RowsOf, control_port
from xpulpnn_sim.benches.vectors.operands import executions
from xpulpnn_sim.benches.vectors.register_files import NnEntries, ex_stage_accesses, nn_accesses, nn_words_read
from xpulpnn_sim.benches.vectors.rows import (
    Executions,
    Expectation,
    RowVectors,
    lanes_expectation,
    operation_result,
    row_vectors,
    value_of_rd,
    with_latency,
)
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


@dataclass(frozen=True, slots=True)
class _Operation:
    insn: Insn
    inputs: Values
    expected: Values

    @property
    def text(self) -> str:
        return f"{self.insn.mnemonic} {self.insn.operands}"


def _drawn(config: CoreConfig, rows: RowsOf, count: int, rng: Random) -> list[Executions]:
    insns = ((find(mnemonic, operands), control) for mnemonic, operands, control in rows(config))
    return [(insn, control, executions(insn, count, rng, corners=0, places=0)) for insn, control in insns]


def _operations(vectors: RowVectors) -> Iterator[_Operation]:
    for at, row in enumerate(vectors.row.tolist()):
        inputs = {port: int(column[at]) for port, column in vectors.stimulus.items()}
        checked = [name for name, column in vectors.checked.items() if column[at]]
        yield _Operation(vectors.insns[row], inputs, {name: int(vectors.expected[name][at]) for name in checked})


def _rows(
    config: CoreConfig, ports: set[str], rng: Random, *, rows: RowsOf, expectation: Expectation = value_of_rd
) -> Iterator[UnitVector]:
    """Yield vectors of the operations of a unit that has no port ``done``."""
    drawn, exact = _drawn(config, rows, 12, rng), config.requantise_exact
    vectors = row_vectors(drawn, ports, rng, expectation, exact=exact)
    vectors = with_latency(vectors, rng) if "enable" in ports else vectors
    for operation in _operations(vectors):
        yield UnitVector(operation.inputs, operation.expected, operation.text)


def _nnrf(config: CoreConfig, ports: set[str], rng: Random) -> Iterator[UnitVector]:
    """Yield random writes and reads of the NN-RF, some of one entry in one cycle; entries are 0 after reset."""
    entries, pairs = config.nnrf_entries, config.mac_load_pair
    columns = nn_accesses(entries, _NNRF_CYCLES, rng, pairs=pairs)
    yield from _nn_vectors(columns, nn_words_read(entries, columns, pairs=pairs))


def _nn_vectors(inputs: Mapping[str, Any], words: Mapping[str, Any]) -> Iterator[UnitVector]:
    for at in range(_NNRF_CYCLES):
        driven, read = ({name: int(column[at]) for name, column in columns.items()} for columns in (inputs, words))
        yield UnitVector(driven, read, "access to the NN register file")


def _taken(operation: _Operation, handshake: tuple[str, str], rng: Random) -> Iterator[UnitVector]:
    """Yield a vector that waits until an operation is done, the operation's last cycle, and sometimes an idle cycle."""
    start, take = handshake
    expected = {**operation.expected, "done": 1}
    yield UnitVector({**operation.inputs, start: 1}, expected, f"{operation.text}: until it is done", waits=True)
    yield UnitVector({**operation.inputs, start: 1, take: 1}, expected, operation.text)
    if rng.random() < _IDLE:
        yield UnitVector(operation.inputs, {}, "idle")


def _mult(config: CoreConfig, ports: set[str], rng: Random) -> Iterator[UnitVector]:
    """Yield vectors of every multiplication, for multi-cycle and single-cycle multipliers."""
    pairs, late = False, config.multiplies_by_dotp
    expectation = partial(operation_result, pairs=pairs, late=late)
    drawn = _drawn(config, controls.mult_rows, 12, rng)
    vectors = row_vectors(drawn, ports, rng, expectation, exact=config.requantise_exact)
    for operation in _operations(vectors):
        if "done" in ports:
            yield from _taken(operation, ("start", "take"), rng)
        else:
            yield UnitVector({**operation.inputs, "start": 1}, operation.expected, operation.text)


def _ex_stage(config: CoreConfig, ports: set[str], rng: Random) -> Iterator[UnitVector]:
    """Yield vectors of NN-RF accesses, of every instruction that EX executes, and of CSR instructions."""
    if config.mac_load:
        accesses = ex_stage_accesses(config.nnrf_entries, _NNRF_CYCLES, rng, pairs=config.mac_load_pair)
        yield from _nn_vectors(*accesses)
    entries = NnEntries(ports, rng)
    for write in entries.writes():
        yield UnitVector(write, {}, f"write of NN-RF entry {write['wb_nn_addr']}")
    drawn = [
        (insn, control, entries.read_by(insn, src)) for insn, control, src in _drawn(config, controls.ex_rows, 4, rng)
    ]
    expectation = partial(
        operation_result,
        pairs=config.mac_load_pair,
        late=config.multiplies_by_dotp,
        product="product" if config.requantise else "result",
    )
    vectors = row_vectors(drawn, ports | _ISSUED.keys(), rng, expectation, exact=config.requantise_exact)
    for operation in _operations(vectors):
        if "id_dotp_enable" in ports and operation.insn.uses_dotp:
            yield UnitVector(_issue(operation, ports), {}, f"{operation.text}: factors from ID")
        inputs = {port: value for port, value in operation.inputs.items() if port in ports}
        yield from _taken(replace(operation, inputs=inputs), ("valid", "advance"), rng)
    csr = control_port(ExCtrl, {"unit": Unit.CSR}) | {"valid": 1}
    for word, operand in zip(random_words(rng, 4).tolist(), random_words(rng, 4).tolist(), strict=True):
        yield UnitVector({**csr, "csr_rdata": word, "op_a": operand}, {"result": word}, "CSR instruction")


_ISSUED = {"dotp_a": "id_dotp_a", "dotp_b": "id_dotp_b"}
"""Ports by which ID passes the factors if EX has operand registers, by the port's name without such registers."""


def _issue(operation: _Operation, ports: set[str]) -> Values:
    """Return the inputs of the cycle before an operation whose factors are registered."""
    insn, given = operation.insn, operation.inputs
    assert insn.fmt is not None
    signs = (insn.b_signed, insn.a_signed) if insn.is_pair else (insn.a_signed, insn.b_signed)
    fields = {"fmt": insn.fmt, "a_signed": signs[0], "b_signed": signs[1], "accumulate": insn.accumulates}
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
    return list(VECTORS[top](config, ports, Random(_SEED)))
