"""Output of a finished run: table, JSON, CSV and HTML report."""

from dataclasses import dataclass, replace
from importlib import util
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.report import comparison, tables
from xpulpnn_sim.exploration.report.headlines import best_table, headline_table
from xpulpnn_sim.exploration.report.run_info import RunInfo
from xpulpnn_sim.exploration.results import PointResult, to_json
from xpulpnn_sim.exploration.runner import UNFINISHED
from xpulpnn_sim.exploration.space import Skipped
from xpulpnn_sim.tools.named_table import NamedTable
from xpulpnn_sim.tools.terminal_table import TerminalTable

REPORT = "report.html"
FILES = ("results.json", "results.csv", REPORT)
"""Files of a run beside the folders of its points; the first one tells whose they are."""

_SHOWN_RATES = 24  # rows of rates that are printed; files have all of them

_REPORT_PACKAGES = ("markupsafe", "plotly")


def require_report_packages() -> None:
    """Raise :class:`ToolError` naming the first package that the HTML report needs and that is missing."""
    for name in _REPORT_PACKAGES:
        if util.find_spec(name) is None:
            raise ToolError(f"{name} must be installed for the report, or --no-report be given: pip install {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A finished run, or what there is of one that was interrupted.

    Parameters
    ----------
    info : RunInfo
        Circumstances.
    points : tuple of PointResult
        Results, failed ones included.
    skipped : tuple of Skipped
        Combinations that cannot be built.
    notes : tuple of str
        Remarks on what the points could not do.
    extra : tuple of NamedTable
        Tables to show before all others.
    interrupted : str
        How far the run came before it was interrupted; empty if it was not.
    lost : str
        What was lost, if that was the interruption.
    """

    info: RunInfo
    points: tuple[PointResult, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...] = ()
    extra: tuple[NamedTable, ...] = ()
    interrupted: str = ""
    lost: str = ""

    def record(self) -> dict[str, Any]:
        """The run as JSON types."""
        return {
            "command": self.info.command,
            "date": self.info.date,
            "baseline": self.info.baseline,
            "wall_s": round(self.info.wall_s, 3),
            "cached": self.info.cached,
            "complete": not self.interrupted,
            "skipped": [{"label": one.label, "rule": one.rule} for one in self.skipped],
            "notes": list(self.notes),
            "tables": [_table_record(table) for table in (*self.extra, *self._results())],
            "points": [to_json(point) for point in self.points],
        }

    def write_report(self, folder: Path) -> None:
        """Write the HTML report into ``folder``."""
        # its packages take a while to import
        from xpulpnn_sim.exploration.report.html import write_report

        write_report(folder / REPORT, self.points, self.info, self.extra)

    def show(self, console: Console) -> None:
        """Print tables, conditions, and what went wrong."""
        overheads = tables.overhead_table(self.points, self.info)
        rates, best = headline_table(self.points), best_table(self.points)
        if rates is not None and len(rates.rows) > _SHOWN_RATES:
            rates = replace(rates, rows=[], notes=[f"{len(rates.rows)} rows: see results.json or the report."])
        for table in (*self.extra, tables.figure_table(self.points, self.info), rates, best, overheads):
            if table is not None:
                console.print(TerminalTable(table))
                console.print()
        if self.interrupted:
            console.print(Text(f"INCOMPLETE: {self.interrupted}; without --fresh it goes on from here"), soft_wrap=True)
        for line in self._below():
            console.print(Text(line), soft_wrap=True)

    def _below(self) -> list[str]:
        lines: list[str] = []
        for conditions in (*comparison.flow_conditions(self.points), *comparison.energy_conditions(self.points)):
            lines.append(f"{conditions.name}: {'; '.join(conditions.tools)}")
            lines += [f"  {sentence}" for sentence in conditions.sentences]
        lines += self._kernels()
        lines += self.notes
        lines += [f"not possible: {one.label} ({one.rule})" for one in self.skipped]
        lines += [f"failed: {point.label}: {point.error}" for point in self.points if _failed(point)]
        lines.append(f"{self.info.wall_s:.1f} s, {self.info.cached} results known from earlier runs")
        return lines

    def _results(self) -> list[NamedTable]:
        return [table for table in (headline_table(self.points), best_table(self.points)) if table is not None]

    def _kernels(self) -> list[str]:
        told = [
            "{kernel} {layer}, {bits} bit, {variant}".format(**record) + f": {comparison.kernel_conditions(record)}"
            for point in self.points
            for record in point.kernels
        ]
        return list(dict.fromkeys(told))


def _failed(point: PointResult) -> bool:
    """Return whether a point has an error of its own, not that of the interrupted run."""
    return bool(point.error) and not point.error.startswith(UNFINISHED)


def _table_record(table: NamedTable) -> dict[str, Any]:
    names = [" ".join(filter(None, (column.group, column.name, column.unit))) for column in table.columns]
    return {
        "title": table.title,
        "rows": [dict(zip(names, row, strict=True)) for row in table.rows],
        "notes": list(table.notes),
    }
