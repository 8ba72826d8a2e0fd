"""Tables of published figures, and the runs of this project that are compared with the figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol

Record = Mapping[str, Any]


class Run(Protocol):
    """A run on the RTL. Equal runs are measured once; ``repr`` is part of the key of the cached record."""

    @property
    def command(self) -> str: ...

    def measure(self, *, check: bool) -> Record:
        """Run and compare results, with ``check`` also every instruction; the record is like one of ``cosim
        --json``."""
        ...


class RowVerdict(StrEnum):
    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"
    DIFFERENT = "different"
    """Neither direction is better."""
    NONE = "-"
    """No published figure."""
    WRONG = "wrong results"
    """A run's results or instructions differ from the references."""


class Published(NamedTuple):
    """A published figure, as text because its digits give the precision: any value that rounds or truncates to 1.65
    is equal to 1.65."""

    text: str  # in the unit of its row
    where: str  # section, table or figure

    @property
    def value(self) -> float:
        return float(self.text)


_LISTS = ("--variant", "--cores", "--precision", "--popcount", "--bits")


def joined_cells(first: str, second: str) -> str | None:
    words, others = first.split(), second.split()
    if len(words) != len(others):
        return None
    different = [place for place, (word, other) in enumerate(zip(words, others, strict=True)) if word != other]
    if len(different) != 1 or words[different[0] - 1] not in _LISTS:
        return None
    place = different[0]
    return " ".join([*words[:place], f"{words[place]},{others[place]}", *words[place + 1 :]])


class Bar(NamedTuple):
    chart: str  # title of the chart, with the unit
    series: str  # legend entry (colour)
    group: str  # position on the axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    unit: str = ""
    field: str = "cycles"  # with dots for nested values, as in `layers.conv2`
    per: float = 1.0  # divisor
    better: Literal["", "less", "more"] = "less"  # direction of improvement; empty if neither is better
    digits: int = 2  # printed decimals

    def value_in(self, record: Record) -> float:
        number: Any = record
        for name in self.field.split("."):
            number = number[name]
        return float(number)


@dataclass(frozen=True, slots=True)
class TableRow:
    figure: str
    metric: Metric
    published: Published | None  # None if there is no published figure
    run: Run
    # baseline run: the figure is how many times larger the metric is there
    over: Run | None = field(default=None, kw_only=True)
    quick: bool = field(default=True, kw_only=True)  # if the run takes seconds only
    bar: Bar | None = field(default=None, kw_only=True)  # position in a bar chart, in addition to the chart of ratios

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.run,) if self.over is None else (self.over, self.run)

    def value(self, records: Mapping[Run, Record]) -> float:
        number = self.metric.value_in(records[self.run])
        return (number if self.over is None else self.metric.value_in(records[self.over]) / number) / self.metric.per

    @property
    def commands(self) -> tuple[str, ...]:
        commands = [run.command for run in self.runs]
        both = joined_cells(*commands) if len(commands) > 1 else None
        return tuple(dict.fromkeys(commands)) if both is None else (both,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    name: str  # name for `--table`
    title: str
    printed_by: str  # title of the paper
    rows: Sequence[TableRow]  # in the order shown
    notes: Sequence[str] = ()  # conditions of both figures
    reference: str = "paper"  # heading of the published figures


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    row: TableRow
    ours: float
    mismatches: int  # wrong instructions and results of its runs

    @property
    def ratio(self) -> float | None:
        return None if self.row.published is None else self.ours / self.row.published.value

    @property
    def advantage(self) -> float | None:
        """Return the factor by which our figure is better (below 1: worse); None if figures cannot be compared."""
        ratio = self.ratio
        if ratio is None or not self.row.metric.better:
            return None
        return 1 / ratio if self.row.metric.better == "less" else ratio

    @property
    def verdict(self) -> RowVerdict:
        """Return the result of the comparison; differences below the last published digit count as equal."""
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
    table: PaperTable
    rows: Sequence[MeasuredRow]  # without rows that were left out

    def count(self, verdict: RowVerdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)

    @property
    def summary(self) -> str:
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
    rows = [
        MeasuredRow(
            row=row, ours=row.value(records), mismatches=sum(int(records[run]["mismatches"]) for run in row.runs)
        )
        for row in table.rows
        if row.quick or not quick
    ]
    return MeasuredTable(table=table, rows=rows)
