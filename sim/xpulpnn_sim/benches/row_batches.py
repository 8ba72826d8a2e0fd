"""Executions of table rows as vectors for a unit of the EX stage.

The launcher tells which rows the unit executes and their control words (data ``rows``); the bench makes the operands,
asks the reference model, and interleaves the rows, so that every vector follows one of another format or operation.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import find
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.operands import OperandColumns, ports_of_row
from xpulpnn_sim.benches.scoreboard import Scoreboard
from xpulpnn_sim.reference.golden.effects import U32, Effects, Sources
from xpulpnn_sim.reference.golden.execute import execute
from xpulpnn_sim.reference.stimuli import element_width, instruction_words, operand_columns, random_words

Expectation = Callable[[Insn, Effects, OperandColumns], dict[str, U32]]
"""Expected output columns from the effects and the prepared operands of a row."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Executions of many rows in one order."""

    insns: tuple[Insn, ...]
    row: npt.NDArray[np.int64]  # position in `insns` of every vector
    stimulus: dict[str, npt.NDArray[np.int64]]  # OperandColumns by port
    expected: dict[str, npt.NDArray[np.int64]]  # OperandColumns by port
    checked: dict[str, npt.NDArray[np.bool_]]  # where a column of `expected` applies

    def check(self, board: Scoreboard, observed: Mapping[str, Any]) -> None:
        """Compare row by row, so that a failure names the instruction."""
        for name, checked in self.checked.items():
            column = np.array(observed[name], dtype=object)
            board.equal(len(column), len(self.row), f"number of values of {name}")
            for index, insn in enumerate(self.insns):
                mine = np.flatnonzero(checked & (self.row == index))
                context = {port: values[mine] for port, values in self.stimulus.items()}
                label = f"{insn.mnemonic} {insn.operands}"
                board.compare({name: self.expected[name][mine]}, {name: column[mine]}, context, label)


ControlledInsn = tuple[Insn, dict[str, int]]  # a row and the values of the control ports for it


def rows_with_controls() -> list[ControlledInsn]:
    """The rows of the unit under test, from the launcher."""
    return [(find(mnemonic, operands), control) for mnemonic, operands, control in bench_data()["rows"]]


def sources(insn: Insn, count: int, rng: Random) -> Sources:
    """``count`` executions of a row: corner cases of its element format, then random operands and fields."""
    rs1, rs2, rd = operand_columns(element_width(insn), count, rng)
    # both parameters of a requantisation meet other operands, whose place they must not take
    activation, weight = (random_words(rng, count), random_words(rng, count)) if insn.requantises else (rs2, rs1)
    return Sources(
        word=instruction_words(insn, count, rng),
        rs1=rs1,
        rs2=rs2,
        rd=rd,
        pc=random_words(rng, count) & np.uint32(0xFFFF_FFFE),
        loaded=random_words(rng, count),
        act=activation,
        wgt=weight,
    )


def value_of_rd(insn: Insn, effects: Effects, operands: OperandColumns) -> dict[str, U32]:
    """Expectation of units whose output is the value of rd."""
    assert effects.rd is not None
    return {"result": effects.rd}


def batch_of_rows(
    rng: Random, expectation: Expectation = value_of_rd, rows: Iterable[ControlledInsn] | None = None
) -> Batch:
    """``vectors_per_row`` executions (launcher's data) of every row of the unit, or of some, in random order."""
    count = bench_data()["vectors_per_row"]
    chosen = rows_with_controls() if rows is None else rows
    drawn = [(insn, control, sources(insn, count, rng)) for insn, control in chosen]
    return batch_of(drawn, rng, expectation)


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
