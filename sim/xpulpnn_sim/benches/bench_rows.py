"""Bench of single-cycle units (ALU, dot products, requantiser) with every instruction that they execute."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import numpy as np

from xpulpnn.isa.table import find
from xpulpnn_sim.benches.agents import Dut, Scoreboard, run_vectors, unit_test
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.benches.vectors import rows
from xpulpnn_sim.benches.vectors.operands import executions
from xpulpnn_sim.benches.vectors.rows import ControlledInsn, Executions, Expectation, RowVectors, value_of_rd
from xpulpnn_sim.reference.golden.dotp import widened


def controlled_rows() -> list[ControlledInsn]:
    return [(find(mnemonic, operands), control) for mnemonic, operands, control in bench_data()["rows"]]


def drawn_executions(insns: Iterable[ControlledInsn], rng: Random) -> list[Executions]:
    data = bench_data()
    counts = {name: data.get(name, 0) for name in ("corners", "places")}
    return [(insn, control, executions(insn, data["vectors_per_row"], rng, **counts)) for insn, control in insns]


def vectors_of(drawn: Iterable[Executions], rng: Random, expectation: Expectation = value_of_rd) -> RowVectors:
    exact = configuration().requantise_exact
    return rows.row_vectors(drawn, bench_data()["inputs"], rng, expectation, exact=exact)


def check_rows(board: Scoreboard, vectors: RowVectors, observed: Mapping[str, Any]) -> None:
    """Compare instruction by instruction, so that a failure names the instruction."""
    for name, checked in vectors.checked.items():
        column = np.array(observed[name], dtype=object)
        board.equal(len(column), len(vectors.row), f"number of values of {name}")
        for index, insn in enumerate(vectors.insns):
            places = np.flatnonzero(checked & (vectors.row == index))
            context = {port: values[places] for port, values in vectors.stimulus.items()}
            label = f"{insn.mnemonic} {insn.operands}"
            board.compare({name: vectors.expected[name][places]}, {name: column[places]}, context, label)


_EXPECTATIONS: Mapping[str, Expectation] = {
    "oriented": rows.lanes_expectation,
    "comparison": rows.alu_expectation,
    "quarter": lambda insn, _, operands: {"result": widened(insn, operands["word"])},
    "first": rows.array_expectation,
    "upper": rows.product_expectation,
}
"""Function for the expected outputs, by a port that only this unit has; other units compute the value of rd."""


@unit_test()
async def rows_match_golden(dut: Dut, rng: Random) -> None:
    """All instructions in random order, so that each result follows one of another instruction."""
    data = bench_data()
    expectation = next((function for port, function in _EXPECTATIONS.items() if hasattr(dut, port)), value_of_rd)
    vectors = vectors_of(drawn_executions(controlled_rows(), rng), rng, expectation)
    if "enable" in data["inputs"]:
        vectors = rows.with_latency(vectors, rng)
    if "valid" in data:
        # without the valid bit of the control word the result is 0
        invalid = [beat for beat in range(len(vectors.row)) if rng.random() < 0.1]
        vectors.stimulus["ctrl"][invalid] &= ~data["valid"]
        vectors.expected["result"][invalid] = 0
    check_rows(Scoreboard(), vectors, await run_vectors(dut, vectors.stimulus, list(vectors.expected)))
