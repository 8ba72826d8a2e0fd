"""Output of a finished run: table, JSON, CSV and HTML report."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import util
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn.user_cache import cache_place
from xpulpnn_sim.exploration.report import comparison, tables
from xpulpnn_sim.exploration.report.headlines import best_table, headline_table, headlines, netlist_of
from xpulpnn_sim.exploration.results import FlowResult, PointResult
from xpulpnn_sim.exploration.space import Skipped
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.named_table import NamedTable, TerminalTable

_Value = str | float | int | None

_SEPARATOR = ";"


def write_csv(path: Path, points: Sequence[PointResult], run: Mapping[str, str]) -> None:
    """Write one row per point and flow, in one step; what is known of the ``run`` ends the first.

    Every setting that some point has is a column. A point without any flow result has one row with empty flow columns.
    Columns of kernels and energies repeat in each row of a point; their headings name kernel or workload and unit.
    Missing figures are empty. Tools and conditions stand in the first row that they hold for, and not again.
    """
    rows = [{**_row(points, point, flow), **run} for point in points for flow in (point.flows or [None])]
    told = set[tuple[str, _Value]]()
    for row in rows:
        for name in [name for name in row if name in run or name.endswith(("tools", "conditions"))]:
            if (name, row[name]) in told:
                row[name] = None
            told.add((name, row[name]))
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_text(path, text.getvalue())


def _row(points: Sequence[PointResult], point: PointResult, flow: FlowResult | None) -> dict[str, _Value]:
    row: dict[str, _Value] = {
        "label": point.label,
        "top": point.top,
        "preset": point.preset,
        **{key: point.settings.get(key) for key in dict.fromkeys(key for one in points for key in one.settings)},
        "folder": point.folder,
        "error": point.error,
    }
    return row | _flow_columns(flow) | _kernel_columns(points, point, flow) | _energy_columns(points, point)


def _flow_columns(flow: FlowResult | None) -> dict[str, _Value]:
    names = ("flow", "script", "area_um2", "area_kge", "cells", "flip_flops", "delay_ps", "delay_fo4")
    row: dict[str, _Value] = {name: getattr(flow, name, None) for name in (*names, "luts", "dsps", "brams")}
    runs = flow.runs if flow else []
    row["repeat"] = len(runs) or None
    for name in ("area_kge", "delay_ps"):
        known = [value for run in runs if (value := getattr(run, name)) is not None]
        row[f"{name}_min"], row[f"{name}_max"] = min(known, default=None), max(known, default=None)
    clocks = flow.fmax_mhz if flow else []
    row["fmax_mhz_min"] = min(clocks, default=None)
    row["fmax_mhz_median"] = flow.fmax if flow else None
    row["fmax_mhz_max"] = max(clocks, default=None)
    row |= {name: getattr(flow, name, None) for name in ("clock_ps", "slack_ps")}
    path = flow.path if flow else None
    row |= {f"path_{name}": getattr(path, name, None) for name in ("start", "end", "delay_ps")}
    row["wall_s"] = flow.wall_s if flow else None
    row["tools"] = _tools(flow.tools) if flow else None
    row["conditions"] = " ".join(flow.conditions) if flow else None
    return row


def _tools(tools: Mapping[str, str]) -> str:
    return _SEPARATOR.join(f"{name} {version}" for name, version in tools.items())


def _kernel_columns(points: Sequence[PointResult], point: PointResult, flow: FlowResult | None) -> dict[str, _Value]:
    row: dict[str, _Value] = {}
    reached = [one for one in headlines([point]) if one.flow is flow]
    for name in comparison.kernel_names(points):
        record = comparison.best_record(point, name) or {}
        for figure in ("variant", "cycles", "cycles_per_sdotp", "macs_per_cycle", "mismatches"):
            row[f"{name}: {figure}"] = record.get(figure)
        row[f"{name}: conditions"] = comparison.kernel_conditions(record) if record else None
        known = [one for one in reached if comparison.kernel_name(one.record) == name]
        row[f"{name}: gmacs"] = known[0].gmacs if known else None
        row[f"{name}: gmacs_per_mm2"] = known[0].gmacs_per_mm2 if known else None
    return row


def _energy_columns(points: Sequence[PointResult], point: PointResult) -> dict[str, _Value]:
    row: dict[str, _Value] = {}
    for name in comparison.workload_names(points):
        energy = comparison.best_energy(point, name)
        row[f"{name}: energy_per_cycle_fj"] = energy and energy.energy_per_cycle_fj
        row[f"{name}: energy_per_mac_fj"] = energy and energy.energy_per_mac_fj
        row[f"{name}: netlist"] = energy and f"{netlist_of(energy)}, {energy.method}"
        row[f"{name}: tools"] = energy and _tools(energy.tools)
        row[f"{name}: conditions"] = energy and " ".join(energy.conditions)
    return row


REPORT = "report.html"
FILES = ("results.json", "results.csv", REPORT)
"""Files of a run beside the folders of its points; the first one tells whose they are."""

_NAMED = 3  # results known already that are named; of more there is the number
_SHOWN_RATES = 24  # rows of rates that are printed; files have all of them


def require_report_packages() -> None:
    """Raise :class:`ToolError` naming the first package that the HTML report needs and that is missing."""
    for name in ("markupsafe", "plotly"):
        if util.find_spec(name) is None:
            raise ToolError(f"{name} must be installed for the report, or no_report be set: pip install {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A finished run, or what there is of one that was interrupted."""

    title: str  # heading of the report
    command: str  # the command line that repeats the run
    date: str  # as it is to be printed
    baseline: str = ""  # label of the point that overheads are relative to; empty for none
    tools: Mapping[str, str] = field(default_factory=dict[str, str])  # version of each tool, by name
    wall_s: float = 0.0  # seconds the run took
    known: tuple[str, ...] = ()  # results that were not made anew, each as its point and step
    points: tuple[PointResult, ...] = ()  # results, failed ones included
    skipped: tuple[Skipped, ...] = ()  # combinations that cannot be built
    notes: tuple[str, ...] = ()  # remarks on what the points could not do
    extra: tuple[NamedTable, ...] = ()  # tables to show before all others
    interrupted: str = ""  # how far the run came before it was interrupted; empty if it was not
    lost: str = ""  # what was lost, if that was the interruption

    def record(self) -> dict[str, Any]:
        """The run as JSON types."""
        return {
            "command": self.command,
            "date": self.date,
            "baseline": self.baseline,
            "wall_s": round(self.wall_s, 3),
            "cached": len(self.known),
            "complete": not self.interrupted,
            "skipped": [{"label": one.label, "rule": one.rule} for one in self.skipped],
            "notes": list(self.notes),
            "tables": [_table_record(table) for table in (*self.extra, *self._results()) if table is not None],
            "points": [asdict(point) for point in self.points],
        }

    def _results(self) -> tuple[NamedTable | None, NamedTable | None]:
        return headline_table(self.points), best_table(self.points)

    def write(self, folder: Path, *, report: bool) -> None:
        """Write the files of the run into its folder."""
        write_text(folder / FILES[0], json.dumps(self.record(), indent=2) + "\n")
        write_csv(folder / FILES[1], self.points, {"command": self.command, "date": self.date})
        if report:
            # its packages take a while to import
            from xpulpnn_sim.exploration.report.html import write_report

            write_report(folder / REPORT, self)

    def shown(self) -> Iterator[TerminalTable | str]:
        """Tables, conditions, and what went wrong."""
        overheads = tables.overhead_table(self.points, self.baseline)
        rates, best = self._results()
        if rates is not None and len(rates.rows) > _SHOWN_RATES:
            rates = replace(rates, rows=[], notes=[f"{len(rates.rows)} rows: see results.json or the report."])
        for table in (*self.extra, tables.figure_table(self.points, self.baseline), rates, best, overheads):
            if table is not None:
                yield from (TerminalTable(table), "")
        if self.interrupted:
            yield f"INCOMPLETE: {self.interrupted}; the next run goes on from here unless it is to start afresh"
            yield "The step that was running begins again then."
        yield from self._below()

    def _below(self) -> list[str]:
        lines: list[str] = []
        for conditions in comparison.conditions(self.points):
            lines.append(f"{conditions.name}: {'; '.join(conditions.tools)}".rstrip())
            lines += [f"  {sentence}" for sentence in conditions.sentences]
        lines += self.notes
        lines += [f"not possible: {one.label} ({one.rule})" for one in self.skipped]
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
