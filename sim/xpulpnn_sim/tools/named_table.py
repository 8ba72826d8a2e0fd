"""Tables as data: headings, rows and remarks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

LESS, MORE = "\u2193", "\u2191"  # tell which way is better

_ARROWS = {"less": LESS, "more": MORE}

TableCell = str | float | int | None  # text, a number that its column formats, or nothing

POINT, ERROR = "point", "error"  # names of the columns of labels, and of the reasons why points failed

MISSING = "-"  # Shown where there is no figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Heading of a column."""

    name: str  # what the column holds
    unit: str = ""  # unit of its numbers, shown in the heading
    group: str = ""  # heading over neighbouring columns of the same group
    digits: int | None = None  # decimals of its numbers; None for a column of text
    signed: bool = False  # show the sign of positive numbers too
    better: Literal["", "less", "more"] = ""  # `less` or `more`: which numbers are better; empty if neither is
    grouped: bool = False  # show thousands apart
    commands: bool = False  # each line of a cell is a command
    # how texts are set off on a page: `good` or `bad`
    tones: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def heading(self) -> str:
        """The name, with an arrow in the direction that is better."""
        return f"{self.name} {_ARROWS[self.better]}" if self.better else self.name

    def show(self, cell: TableCell) -> str:
        """``cell`` as text."""
        if cell is None:
            return MISSING
        if isinstance(cell, str) or self.digits is None:
            return str(cell)
        return f"{cell:{'+' if self.signed else ''}{',' if self.grouped else ''}.{self.digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """A table, shown the same in the terminal and in the HTML report."""

    title: str  # heading of the table
    columns: Sequence[Column]
    rows: Sequence[Sequence[TableCell]]  # as many cells as columns in each
    notes: Sequence[str] = ()  # conditions and remarks, printed with the table
    marked: frozenset[int] = frozenset()  # rows to set off: the baseline, and points that failed
    failed: frozenset[int] = frozenset()  # rows to set off: the baseline, and points that failed
