"""Executions of table rows as vectors for a unit of the EX stage.

The launcher tells which rows the unit executes and their control words (data ``rows``); the bench makes the operands,
asks the reference model, and interleaves the rows, so that every vector follows one of another format or operation.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import find
from xpulpnn_sim.bench.operands import Operands, prepare
from xpulpnn_sim.bench.parts import Scoreboard, bench_data
from xpulpnn_sim.golden.effects import U32, Effects, Sources
from xpulpnn_sim.golden.execute import execute
from xpulpnn_sim.stimuli import element_width, instruction_words, operand_columns, random_words

Expectation = Callable[[Insn, Effects, Operands], dict[str, U32]]
"""Expected output columns from the effects and the prepared operands of a row."""


@dataclass(frozen=True, slots=True)
class RowVectors:
    """Executions of one row: stimulus columns by port, expected columns by port."""

    insn: Insn
    stimulus: dict[str, npt.NDArray[Any]]
    expected: dict[str, U32]

    @property
    def count(self) -> int:
        """Number of executions."""
        return len(next(iter(self.stimulus.values())))


@dataclass(frozen=True, slots=True)
class Batch:
    """Executions of many rows in one order.

    Members
    -------
    insns : tuple of Insn
        The rows.
    row : int array
        Position in ``insns`` of every vector.
    stimulus, expected : dict of arrays
        Columns by port.
    checked : dict of bool arrays
        Where a column of ``expected`` applies.
    """

    insns: tuple[Insn, ...]
    row: npt.NDArray[np.int64]
    stimulus: dict[str, npt.NDArray[np.int64]]
    expected: dict[str, npt.NDArray[np.int64]]
    checked: dict[str, npt.NDArray[np.bool_]]

    def check(self, board: Scoreboard, observed: Mapping[str, npt.NDArray[np.int64]]) -> None:
        """Compare row by row, so that a failure names the instruction."""
        for name, checked in self.checked.items():
            for index, insn in enumerate(self.insns):
                mine = np.flatnonzero(checked & (self.row == index))
                board.compare(
                    {name: self.expected[name][mine]},
                    {name: observed[name][mine]},
                    {port: column[mine] for port, column in self.stimulus.items()},
                    f"{insn.mnemonic} {insn.operands}",
                )


def rows_with_controls() -> Iterator[tuple[Insn, dict[str, int]]]:
    """The rows of the unit under test and the values of its control ports, from the launcher."""
    for mnemonic, operands, control in bench_data()["rows"]:
        yield find(mnemonic, operands), control


def sources(insn: Insn, count: int, rng: Random) -> Sources:
    """``count`` executions of a row: corner cases of its element format, then random operands and fields."""
    rs1, rs2, rd = operand_columns(element_width(insn), count, rng)
    return Sources(
        word=instruction_words(insn, count, rng),
        rs1=rs1,
        rs2=rs2,
        rd=rd,
        pc=random_words(rng, count) & np.uint32(0xFFFF_FFFE),
        loaded=random_words(rng, count),
        act=rs2,
        wgt=rs1,
    )


def row_vectors(
    insn: Insn,
    control: Mapping[str, int],
    count: int,
    rng: Random,
    expectation: Expectation,
    preparation: Callable[[Insn, Sources], Operands] = prepare,
) -> RowVectors:
    """Operands, control ports and expected outputs of ``count`` executions of ``insn``."""
    src = sources(insn, count, rng)
    operands = preparation(insn, src)
    wanted = expectation(insn, execute(insn, src), operands)
    controls = {port: np.full(count, value, dtype=np.int64) for port, value in control.items()}
    return RowVectors(insn, {**controls, **operands}, wanted)


def batch_of_rows(
    rng: Random, expectation: Expectation, preparation: Callable[[Insn, Sources], Operands] = prepare
) -> Batch:
    """``vectors_per_row`` executions (launcher's data) of every row of the unit, in random order."""
    count = bench_data()["vectors_per_row"]
    parts = [row_vectors(insn, ctrl, count, rng, expectation, preparation) for insn, ctrl in rows_with_controls()]
    order = list(range(sum(part.count for part in parts)))
    rng.shuffle(order)
    ports = [port for port in parts[0].stimulus if port in bench_data()["inputs"]]
    outputs = sorted({name for part in parts for name in part.expected})

    def column(values: Callable[[RowVectors], npt.ArrayLike]) -> np.ndarray:
        return np.concatenate([np.broadcast_to(values(part), part.count) for part in parts])[order]

    return Batch(
        insns=tuple(part.insn for part in parts),
        row=np.repeat(np.arange(len(parts)), count)[order],
        stimulus={port: column(lambda part, port=port: part.stimulus[port].astype(np.int64)) for port in ports},
        expected={name: column(lambda part, name=name: part.expected.get(name, 0)) for name in outputs},
        checked={name: column(lambda part, name=name: name in part.expected) for name in outputs},
    )


def value_of_rd(insn: Insn, effects: Effects, operands: Operands) -> dict[str, U32]:
    """Expectation of units whose output is the value of rd."""
    assert effects.rd is not None
    return {"result": effects.rd}
