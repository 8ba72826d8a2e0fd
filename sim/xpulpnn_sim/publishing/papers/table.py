"""Tables of the papers: rows of printed figures and of the runs that are put beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

Record = Mapping[str, Any]


class Run(Protocol):
    """Something that runs on the RTL; equal ones are run once, and ``repr`` tells different ones apart."""

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        ...

    def measure(self, *, check: bool) -> Record:
        """Run it and compare its results, with ``check`` every retired instruction too.

        The record is that of ``cosim --json``; its ``mismatches`` are 0 if all is right.
        """
        ...


_Key = TypeVar("_Key")


class RowVerdict(StrEnum):
    """Comparison of our figure with the printed one."""

    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"
    DIFFERENT = "different"
    """Neither way is better."""
    NONE = "-"
    """Nothing is printed to compare with."""
    WRONG = "wrong results"
    """A run's results or instructions differ from the references."""


class Published(NamedTuple):
    """A printed figure, kept as text, because the digits printed tell how exact it is.

    1.65 stands for anything that rounds or is cut to it.
    """

    text: str  # as printed, in the unit of its row
    where: str  # section, table or figure

    @property
    def value(self) -> float:
        """The printed figure as a number."""
        return float(self.text)


def printed(where: str, figures: Mapping[_Key, str]) -> dict[_Key, Published]:
    """Figures that are printed in one place."""
    return {key: Published(text, where) for key, text in figures.items()}


_LISTS = ("--variant", "--cores", "--precision", "--popcount", "--bits")  # options that take several values


def joined_cells(first: str, second: str) -> str | None:
    """One command line for two that differ in one value of an option that takes several; None for any others."""
    words, others = first.split(), second.split()
    if len(words) != len(others):
        return None
    different = [place for place, (word, other) in enumerate(zip(words, others, strict=True)) if word != other]
    if len(different) != 1 or words[different[0] - 1] not in _LISTS:
        return None
    place = different[0]
    return " ".join([*words[:place], f"{words[place]},{others[place]}", *words[place + 1 :]])


class Bar(NamedTuple):
    """A bar in a chart."""

    chart: str  # title of the chart, which tells the unit
    series: str  # bars of the same colour
    group: str  # bars beside each other along the axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A figure of a record."""

    unit: str = ""
    field: str = "cycles"  # name in the record; with dots a number within a part, as in `layers.conv2`
    per: float = 1.0  # what the number is divided by
    better: Literal["", "less", "more"] = "less"  # which figures are better; empty if neither are
    digits: int = 2  # decimals of ours

    def of(self, record: Record) -> float:
        """The number in a record."""
        number: Any = record
        for name in self.field.split("."):
            number = number[name]
        return float(number)


SPEED_UP = Metric(unit="x", better="more")
MACS_PER_CYCLE = Metric(unit="MAC/cycle", field="macs_per_cycle", better="more")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A printed figure and ours."""

    figure: str
    metric: Metric
    published: Published | None  # None: none is printed
    run: Run
    # what the run is compared with: the figure is how many times larger that of `over` is
    over: Run | None = field(default=None, kw_only=True)
    quick: bool = field(default=True, kw_only=True)  # takes seconds only
    bar: Bar | None = field(default=None, kw_only=True)  # shows it in a chart, besides the one of all ratios

    @property
    def runs(self) -> tuple[Run, ...]:
        """Runs that the figure needs, the one it is compared with first."""
        return (self.run,) if self.over is None else (self.over, self.run)

    def value(self, records: Mapping[Run, Record]) -> float:
        """Our figure."""
        number = self.metric.of(records[self.run])
        return (number if self.over is None else self.metric.of(records[self.over]) / number) / self.metric.per

    @property
    def commands(self) -> tuple[str, ...]:
        """The command lines that repeat it."""
        commands = [run.command for run in self.runs]
        both = joined_cells(*commands) if len(commands) > 1 else None
        return tuple(dict.fromkeys(commands)) if both is None else (both,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """Rows that belong together."""

    name: str  # what `--table` calls it
    title: str
    printed_by: str  # what the printed figures stand in
    rows: Sequence[TableRow]  # in the order shown
    notes: Sequence[str] = ()  # conditions of the printed figures and of ours
    reference: str = "paper"  # what the column of the printed figures is called


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """A row with our figure."""

    row: TableRow  # what was measured
    ours: float
    mismatches: int  # instructions and results that were wrong in its runs

    @property
    def ratio(self) -> float | None:
        """Ours over the printed figure; None if nothing is printed."""
        return None if self.row.published is None else self.ours / self.row.published.value

    @property
    def advantage(self) -> float | None:
        """Factor by which ours is better, below 1 if it is worse; None if nothing is printed or neither is better."""
        ratio = self.ratio
        if ratio is None or not self.row.metric.better:
            return None
        return 1 / ratio if self.row.metric.better == "less" else ratio

    @property
    def verdict(self) -> RowVerdict:
        """Comparison with the printed figure; a difference below its last digit counts as none."""
        if self.mismatches:
            return RowVerdict.WRONG
        published = self.row.published
        if published is None:
            return RowVerdict.NONE
        last_digit = 10.0 ** -len(published.text.partition(".")[2])
        if abs(self.ours - published.value) < last_digit:
            return RowVerdict.EQUAL
        if self.advantage is None:
            return RowVerdict.DIFFERENT
        return RowVerdict.BETTER if self.advantage > 1 else RowVerdict.WORSE


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """A table with our figures."""

    table: PaperTable  # what was measured
    rows: Sequence[MeasuredRow]  # without the rows that were left out

    def count(self, verdict: RowVerdict) -> int:
        """Rows with a verdict."""
        return sum(row.verdict is verdict for row in self.rows)

    @property
    def summary(self) -> str:
        """Number of rows of each verdict, and of those left out."""
        parts = [
            f"{self.count(verdict)} {verdict.value}"
            for verdict in RowVerdict
            if verdict is not RowVerdict.NONE and self.count(verdict)
        ]
        parts += [f"{self.count(RowVerdict.NONE)} without a printed figure"] if self.count(RowVerdict.NONE) else []
        left_out = len(self.table.rows) - len(self.rows)
        parts += [f"{left_out} left out"] if left_out else []
        return ", ".join(parts)


def measured(table: PaperTable, records: Mapping[Run, Record], *, quick: bool) -> MeasuredTable:
    """A table with the figures of its runs, which ``records`` holds; with ``quick`` only the rows that are."""
    rows = [
        MeasuredRow(
            row=row, ours=row.value(records), mismatches=sum(int(records[run]["mismatches"]) for run in row.runs)
        )
        for row in table.rows
        if row.quick or not quick
    ]
    return MeasuredTable(table=table, rows=rows)
