"""Tables as data (headings, rows and notes), and how they are shown in a terminal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap
from typing import Any, Literal, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

LESS, MORE = "\u2193", "\u2191"  # direction of improvement
_ARROWS = {"less": LESS, "more": MORE}
TableCell = str | float | int | None  # text, number, or empty
POINT = "point"  # column of point labels
MISSING = "-"  # shown for an empty cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    name: str
    unit: str = ""  # shown in the heading
    group: str = ""  # heading over neighbouring columns
    digits: int | None = None  # decimals of numbers; None for text
    signed: bool = False  # show a plus sign
    better: Literal["", "less", "more"] = ""  # direction of improvement; empty if neither
    grouped: bool = False  # separate thousands
    commands: bool = False  # each line of a cell is a command
    tones: Mapping[str, str] = field(default_factory=dict[str, str])  # `good` or `bad` for texts that a page highlights

    @property
    def heading(self) -> str:
        return f"{self.name} {_ARROWS[self.better]}" if self.better else self.name

    def show(self, cell: TableCell) -> str:
        if cell is None:
            return MISSING
        if isinstance(cell, str) or self.digits is None:
            return str(cell)
        return f"{cell:{'+' if self.signed else ''}{',' if self.grouped else ''}.{self.digits}f}"


def text_columns(*names: str) -> list[Column]:
    return [Column(name=name) for name in names]


def number_columns(*names: str, digits: int, unit: str = "", group: str = "") -> list[Column]:
    return [Column(name=name, digits=digits, unit=unit, group=group) for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[TableCell]]
    notes: Sequence[str] = ()  # conditions and remarks
    lead: int = 0  # number of columns that identify a row; 0: those before the first group, or one without groups
    marked: frozenset[int] = frozenset()  # bold rows, such as the baseline
    failed: frozenset[int] = frozenset()  # red rows


_Record = TypeVar("_Record")


def table_of(
    title: str,
    records: Sequence[_Record],
    columns: Sequence[tuple[Column, Callable[[_Record], TableCell]]],
    **more: Any,
) -> NamedTable:
    headings = [column for column, _ in columns]
    rows = [[value(record) for _, value in columns] for record in records]
    return NamedTable(title=title, columns=headings, rows=rows, **more)


_COMMAND_WIDTH = 40
_GROUP_WIDTH = 16
_WHOLE_WIDTH = 20
_GAP = 2  # in characters: line of a command, of a group's heading, text that may fold, space between columns


class TerminalTable:
    """A table for a rich console; columns that do not fit go to further tables below."""

    def __init__(self, table: NamedTable) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._table.title:
            yield Text(self._table.title, style="bold")
        for columns in blocks(self._table, options.max_width, _WHOLE_WIDTH):
            yield _block(self._table, columns)
        for note in self._table.notes:
            yield Text(f"* {note}")


def _headings(table: NamedTable, column: int) -> list[str]:
    lines = [table.columns[column].heading]
    if any(other.unit for other in table.columns):
        unit = table.columns[column].unit
        lines.append(f"[{unit}]" if unit else "")
    return lines


def _lines(text: str, width: int = _GROUP_WIDTH) -> list[str]:
    return wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _width(table: NamedTable, column: int, folded: int = 0) -> int:
    """Return the width of a column and of the gap after it; headings and texts wrap at ``folded`` characters."""
    heading = table.columns[column]
    cells = [heading.show(row[column]) for row in table.rows]
    folds = folded > 0 and heading.digits is None
    if heading.commands:
        cells = [cell[:_COMMAND_WIDTH] for cell in cells]
    elif folds:
        cells = [line for cell in cells for line in _lines(cell, folded)]
    above = [line for text in _headings(table, column) for line in (_lines(text) if folds else [text])]
    return max(map(len, [*above, *_lines(heading.group), *cells])) + _GAP


def blocks(table: NamedTable, width: int, folded: int = 0) -> list[list[int]]:
    """Split the columns into blocks of at most ``width`` characters, each with the columns that identify a row."""
    places = range(len(table.columns))
    parts = [list(members) for _, members in groupby(places, key=lambda i: table.columns[i].group)]
    lead: list[int] = []
    if not table.columns[0].group:
        count = table.lead or (len(parts[0]) if parts[1:] else 1)
        lead, parts[0] = parts[0][:count], parts[0][count:]
    tables = [list(lead)]

    def fits(columns: Sequence[int], more: Sequence[int]) -> bool:
        return sum(_width(table, column, folded) for column in (*columns, *more)) <= width

    for part in parts:
        for columns in [part] if fits(lead, part) else [[column] for column in part]:
            if not fits(tables[-1], columns) and len(tables[-1]) > len(lead):
                tables.append(list(lead))
            tables[-1] += columns
    return tables


def _block(table: NamedTable, columns: Sequence[int]) -> Table:
    shown = Table(box=None)
    above = max(len(_lines(table.columns[i].group)) for i in columns)
    previous = ""
    for i in columns:
        column = table.columns[i]
        group = _lines(column.group) if column.group != previous else []
        previous = column.group
        heading = Text("\n".join([*group, *[""] * (above - len(group)), *_headings(table, i)]))
        whole = column.digits is not None or _width(table, i) <= _WHOLE_WIDTH + _GAP
        shown.add_column(heading, justify="left" if column.digits is None else "right", no_wrap=whole, overflow="fold")
    for number, row in enumerate(table.rows):
        style = "bold" if number in table.marked else "red" if number in table.failed else ""
        shown.add_row(*(Text(table.columns[i].show(row[i])) for i in columns), style=style)
    return shown
