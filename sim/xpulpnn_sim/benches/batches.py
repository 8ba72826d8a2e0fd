"""Executions of rows of the instruction table as columns of vectors, checked row by row."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from xpulpnn.isa.insn import Insn
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard


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


def with_latency(batch: Batch, rng: Random) -> Batch:
    """The batch for a unit that samples factors and control word with ``enable``, one beat before ``rd``."""
    # some beats are idle: other factors and another control word without `enable`, which must change nothing
    count = len(batch.row)
    sampled: list[int] = []
    shown: list[int] = []
    enable: list[int] = []
    for vector in range(count):
        # The last result needs one beat more to appear.
        idle = int(rng.random() < 0.25 or vector == count - 1)
        sampled += [vector] + [rng.randrange(count)] * idle
        shown += [max(vector - 1, 0)] + [vector] * idle
        enable += [1] + [0] * idle
    accumulator = batch.stimulus["rd"][shown]
    stimulus = {name: column[sampled] for name, column in batch.stimulus.items()}
    first = np.arange(len(shown)) == 0
    return Batch(
        insns=batch.insns,
        row=batch.row[shown],
        stimulus=stimulus | {"rd": accumulator, "enable": np.array(enable)},
        expected={name: column[shown] for name, column in batch.expected.items()},
        checked={name: column[shown] & ~first for name, column in batch.checked.items()},
    )
