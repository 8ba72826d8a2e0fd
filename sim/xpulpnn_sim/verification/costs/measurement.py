"""Measure cycle costs of the core: one program contains all measurements, and stalls are summed by cause."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import PERFORMANCE_EVENTS
from xpulpnn.isa.machine import HALF_BYTES, Cost
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.reference.bare.program import ProgramBlock, RandomProgram, block_of, statement
from xpulpnn_sim.reference.programs.elf import Executable


@dataclass(frozen=True, slots=True)
class CostRow:
    group: str  # line of the printed table
    name: str  # the variation
    code: str  # instructions between the markers, separated by semicolons
    waits: Mapping[WaitCause, int]  # cycles promised beyond one per instruction
    setup: str = ""  # instructions before the first marker
    # the figure counts cycles on top of one per instruction, not the cycles of the one instruction meant
    is_extra: bool = False

    @property
    def documented(self) -> int:
        return sum(self.waits.values()) + (not self.is_extra)


class CostTable:
    """Collects measurements; their costs are texts such as ``TAKEN_BRANCH 2*LATE_FETCH``.

    The names are those of :class:`Cost`, or of :class:`WaitCause` for one cycle. Costs of late results (``LATE_...``)
    count with the option ``late_results`` only, and costs behind a ``~`` only without it.
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.rows: list[CostRow] = []

    def add(self, group: str, name: str, code: str, costs: str = "", setup: str = "") -> None:
        """Add a measurement; a group that begins with ``+`` shows the cycles in excess of one per instruction."""
        waits = Counter[WaitCause]()
        for word in costs.split():
            times, _, cost = word.rpartition("*")
            if not cost.startswith("~" if self.config.late_results else "LATE_"):
                cause, cycles = _COSTS[cost.removeprefix("~")]
                waits[cause] += int(times or 1) * cycles
        self.rows.append(CostRow(group.removeprefix("+ "), name, code, +waits, setup, group.startswith("+ ")))

    def table(self, text: str) -> None:
        """Add rows ``NAME | CODE`` below a head ``== GROUP => COSTS [FIELD]``; costs and the field of the configuration
        that must be true may be missing. A line ``@ CODE`` is the setup of the rows behind it."""
        group = costs = setup = field = ""
        for line in text.strip().splitlines():
            start, rest = line[:2], line[2:].strip()
            if start == "@ ":
                setup = rest
            elif start == "==":
                head, _, field = rest.removesuffix("]").partition(" [")
                group, _, costs = head.partition(" => ")
            elif not field or getattr(self.config, field):
                name, _, code = line.partition(" | ")
                self.add(group, name, code, costs, setup)


_COSTS = {cause.name: (cause, 1) for cause in WaitCause} | {cost.name: (cost.cause, cost.cycles) for cost in Cost}
_NOP = "addi zero, zero, 0"
_DRAIN = "; ".join([_NOP] * 8)  # instructions after which the setup is done and the prefetch buffer full


@dataclass(frozen=True, slots=True)
class Measured:
    row: CostRow  # what was measured
    waits: Mapping[WaitCause, int]  # cycles without a retirement

    @property
    def cycles(self) -> int:
        return sum(self.waits.values()) + (not self.row.is_extra)

    @property
    def ok(self) -> bool:
        return self.waits == self.row.waits


@dataclass(frozen=True, slots=True)
class Line:
    group: str  # what the rows have in common
    measured: tuple[Measured, ...]

    @property
    def wrong(self) -> list[Measured]:
        return [case for case in self.measured if not case.ok]

    @property
    def documented(self) -> str:
        return _range(case.row.documented for case in self.measured)

    @property
    def observed(self) -> str:
        return _range(case.cycles for case in self.measured)


def _range(values: Iterable[int]) -> str:
    distinct = sorted(set(values))
    return str(distinct[0]) if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"


def cost_program(rows: Sequence[CostRow], *, counted: bool = False) -> RandomProgram:
    """Return a program with every row's code between the labels ``from`` and ``to`` with the row's number; if
    ``counted``, it enables the performance counters, and reads them before and after each row."""
    blocks = [ProgramBlock("counters", ("addi t1, zero, -1", "csrrw zero, pcer, t1"))] if counted else []
    reads = [f"csrrs t0, pccr{event}, zero" for event in range(len(PERFORMANCE_EVENTS))] if counted else []
    for number, row in enumerate(rows):
        block = block_of(row.name, f"{row.setup}; {_DRAIN}; from{number}: {_NOP}; {row.code}; to{number}: {_NOP}")
        odd = sum(statement(line).startswith("c.") for line in block.head) % 2
        blocks.append(replace(block, head=(*reads, *block.head, *reads, *["c.nop"] * odd)))
    return RandomProgram(tuple(blocks), name="cycle costs")


def cycles_of_row(number: int, executable: Executable, account: NDArray[np.uint64], base: int) -> NDArray[np.uint64]:
    """Return the cycles by cause from the first marker of a row to its second, out of ``account``: cycles by address,
    from ``base`` on, and cause."""
    start, end = ((executable.symbols[f"{label}{number}"] - base) // HALF_BYTES for label in ("from", "to"))
    return account[start + 1 : end + 1].sum(axis=0)


def measure(rows: Sequence[CostRow], executable: Executable, account: NDArray[np.uint64], base: int) -> list[Measured]:
    measured: list[Measured] = []
    for number, row in enumerate(rows):
        counts = cycles_of_row(number, executable, account, base)
        measured.append(Measured(row, {cause: int(counts[cause]) for cause in WaitCause if cause and counts[cause]}))
    return measured


def lines_of(measured: Sequence[Measured]) -> list[Line]:
    """Group measurements into lines of the printed table, in the order in which the groups first appear."""
    order = {case.row.group: position for position, case in reversed(list(enumerate(measured)))}
    ordered = sorted(measured, key=lambda case: order[case.row.group])
    return [Line(group, tuple(rows)) for group, rows in groupby(ordered, key=lambda case: case.row.group)]
