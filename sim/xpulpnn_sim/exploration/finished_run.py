"""Results of a finished exploration, as JSON types and as printed."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from xpulpnn.user_cache import cache_place
from xpulpnn_sim.exploration.report import comparison, tables
from xpulpnn_sim.exploration.results import PointResult
from xpulpnn_sim.exploration.space import Skipped
from xpulpnn_sim.tools.named_table import NamedTable, TerminalTable

_NAMED = 3  # cached results that are named; of more, the number is printed
_MOST_ROWS = 24  # rows of paths and of rates that are printed; files have all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    title: str  # heading of the report
    command: str  # the command line that repeats the run
    date: str  # as printed
    baseline: str = ""  # label of the point that overheads are relative to, or empty
    tools: Mapping[str, str] = field(default_factory=dict[str, str])  # version of each tool, by name
    wall_s: float = 0.0  # seconds the run took
    known: tuple[str, ...] = ()  # point and step of cached results
    points: tuple[PointResult, ...] = ()  # results, failed ones included
    skipped: tuple[Skipped, ...] = ()  # combinations that cannot be built
    # labels of the points that break each constraint
    outside: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    notes: tuple[str, ...] = ()  # such as kernels that a point cannot run
    extra: tuple[NamedTable, ...] = ()  # tables to show first
    interrupted: str = ""  # how far an interrupted run came, else empty
    lost: str = ""  # how workers were lost

    def record(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "date": self.date,
            "baseline": self.baseline,
            "wall_s": round(self.wall_s, 3),
            "cached": len(self.known),
            "complete": not self.interrupted,
            "skipped": [{"label": skipped.label, "rule": skipped.rule} for skipped in self.skipped],
            "notes": list(self.notes),
            "constraints": dict(self.outside),
            "clocks": comparison.clock_verdicts(self.points),
            "tables": [_table_record(table) for table in (*self.extra, *self._results()) if table is not None],
            "points": [asdict(point) for point in self.points],
        }

    def _results(self) -> tuple[NamedTable | None, ...]:
        paths, rates = tables.path_table(self.points), tables.rate_table(self.points)
        placements = tables.placement_table(self.points)
        return placements, paths, rates, tables.best_table(self.points, self.outside)

    def printed_parts(self) -> Iterator[TerminalTable | str]:
        overheads = tables.overhead_table(self.points, self.baseline)
        *long, best = self._results()
        for number, table in enumerate(long):
            if table is not None and len(table.rows) > _MOST_ROWS:
                long[number] = replace(table, rows=[], notes=[f"{len(table.rows)} rows: see results.json."])
        for table in (*self.extra, tables.figure_table(self.points, self.baseline), *long, best, overheads):
            if table is not None:
                yield from (TerminalTable(table), "")
        if self.interrupted:
            yield f"INCOMPLETE: {self.interrupted}; the next run goes on from here unless it is to start afresh"
            yield "The step that was running begins again then."
        yield from self._footer()

    def _footer(self) -> list[str]:
        lines: list[str] = []
        for conditions in comparison.conditions(self.points):
            lines.append(f"{conditions.name}: {'; '.join(conditions.tools)}".rstrip())
            lines += [f"  {sentence}" for sentence in conditions.sentences]
        lines += self.notes
        lines += [f"{text}: broken by {', '.join(labels) or 'no point'}" for text, labels in self.outside.items()]
        lines += [f"not possible: {skipped.label} ({skipped.rule})" for skipped in self.skipped]
        lines += [f"failed: {point.label}: {point.error}" for point in self.points if point.failed]
        known = f"{len(self.known)} result{'' if len(self.known) == 1 else 's'} known already"
        if self.known:
            known += f", in this folder or in the cache {cache_place()[0]}"
        if 0 < len(self.known) <= _NAMED:
            known += f": {', '.join(self.known)}"
        lines.append(f"{self.wall_s:.1f} s, {known}")
        return lines


def _table_record(table: NamedTable) -> dict[str, Any]:
    names = [" ".join(filter(None, (column.group, column.name, column.unit))) for column in table.columns]
    return {
        "title": table.title,
        "rows": [dict(zip(names, row, strict=True)) for row in table.rows],
        "notes": list(table.notes),
    }
