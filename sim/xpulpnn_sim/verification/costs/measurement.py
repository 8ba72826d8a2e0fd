"""Measure cycle costs of the core: one program contains all measurements, and stalls are summed by cause."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.csr import PERFORMANCE_EVENTS
from xpulpnn.isa.machine import HALF_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.reference.bare.program import ProgramBlock, RandomProgram
from xpulpnn_sim.reference.programs.elf import Executable

FREE: Mapping[WaitCause, int] = {}  # No waits


@dataclass(frozen=True, slots=True)
class CostRow:
    group: str  # line of the printed table
    name: str  # the variation
    code: str  # lines between the markers
    waits: Mapping[WaitCause, int] | None  # cycles promised beyond one per instruction; None where nothing is
    setup: str = ""  # lines before the first marker
    # the figure counts cycles on top of one per instruction, not the cycles of the one instruction meant
    is_extra: bool = False

    @property
    def documented(self) -> int | None:
        return None if self.waits is None else sum(self.waits.values()) + (0 if self.is_extra else 1)


def overhead(group: str, name: str, code: str, waits: Mapping[WaitCause, int], setup: str) -> CostRow:
    """Return a measurement whose cost is the number of cycles minus one per instruction."""
    return CostRow(group, name, code, waits, setup, is_extra=True)


_NOP = "addi zero, zero, 0"
_DRAIN = (_NOP,) * 8  # instructions after which nothing of the setup is under way and the prefetch buffer is full


@dataclass(frozen=True, slots=True)
class Measured:
    row: CostRow  # what was measured
    waits: Mapping[WaitCause, int]  # cycles without a retirement

    @property
    def cycles(self) -> int:
        """Measured cost, to be compared with ``row.documented``."""
        return sum(self.waits.values()) + (0 if self.row.is_extra else 1)

    @property
    def ok(self) -> bool:
        """Return whether the stalls by cause are those of the documentation; True if it promises nothing."""
        return self.row.waits is None or self.waits == self.row.waits


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the printed table, with the measurements of one group."""

    group: str  # what the rows have in common
    measured: tuple[Measured, ...]

    @property
    def wrong(self) -> list[Measured]:
        return [case for case in self.measured if not case.ok]

    @property
    def documented(self) -> str:
        return _range(case.row.documented for case in self.measured if case.row.documented is not None)

    @property
    def observed(self) -> str:
        return _range(case.cycles for case in self.measured)


def _range(values: Iterable[int]) -> str:
    distinct = sorted(set(values))
    if not distinct:
        return "-"
    return str(distinct[0]) if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"


def cost_program(rows: Sequence[CostRow], *, counted: bool = False) -> RandomProgram:
    """Return a program with every row's code between the labels ``from`` and ``to`` with the row's number; if
    ``counted``, it enables the performance counters, and reads them before and after each row."""
    blocks = [ProgramBlock("counters", ("addi t1, zero, -1", "csrrw zero, pcer, t1"))] if counted else []
    reads = [f"csrrs t0, pccr{event}, zero" for event in range(len(PERFORMANCE_EVENTS))] if counted else []
    for number, row in enumerate(rows):
        lines = [*reads, *row.setup.splitlines(), *_DRAIN, f"from{number}: {_NOP}", *row.code.splitlines()]
        lines += [f"to{number}: {_NOP}", *reads]
        stripped = [line.strip() for line in lines]
        odd = sum(line.rpartition(": ")[2].startswith("c.") for line in stripped) % 2
        blocks.append(ProgramBlock(row.name, (*stripped, *["c.nop"] * odd)))
    return RandomProgram(tuple(blocks), name="cycle costs")


def measure(rows: Sequence[CostRow], executable: Executable, account: NDArray[np.uint64], base: int) -> list[Measured]:
    """Return the stalls of every row, taken from ``account``: stall cycles by address and cause, from ``base`` on."""
    measured: list[Measured] = []
    for number, row in enumerate(rows):
        start, end = ((executable.symbols[f"{label}{number}"] - base) // HALF_BYTES for label in ("from", "to"))
        counts = account[start + 1 : end + 1].sum(axis=0)
        measured.append(Measured(row, {cause: int(counts[cause]) for cause in WaitCause if cause and counts[cause]}))
    return measured


def lines_of(measured: Sequence[Measured]) -> list[Line]:
    """Group measurements into lines of the printed table, in the order in which the groups first appear."""
    order = {case.row.group: position for position, case in reversed(list(enumerate(measured)))}
    ordered = sorted(measured, key=lambda case: order[case.row.group])
    return [Line(group, tuple(rows)) for group, rows in groupby(ordered, key=lambda case: case.row.group)]
