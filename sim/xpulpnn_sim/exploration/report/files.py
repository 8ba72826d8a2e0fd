"""Write the files of a finished exploration: JSON record, CSV and HTML report."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from importlib import util
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.finished_run import FinishedRun
from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.results import OF_CORNERS, FlowResult, PointResult
from xpulpnn_sim.tools.files import write_text

REPORT = "report.html"
FILES = ("results.json", "results.csv", REPORT)
"""Files of an exploration next to the folders of its points; the first file shows that a folder has results."""


def require_report_packages() -> None:
    for name in ("markupsafe", "plotly"):
        if util.find_spec(name) is None:
            raise ToolError(f"{name} must be installed for the report, or no_report be set: pip install {name}")


def write_run(folder: Path, run: FinishedRun, *, report: bool) -> None:
    write_text(folder / FILES[0], json.dumps(run.record(), indent=2) + "\n")
    write_csv(folder / FILES[1], run.points, {"command": run.command, "date": run.date})
    if report:
        # slow import
        from xpulpnn_sim.exploration.report.html import write_report

        write_report(folder / REPORT, run)


_Value = str | float | int | None


def write_csv(path: Path, points: Sequence[PointResult], run: Mapping[str, str]) -> None:
    """Write a row per point and flow; ``run``, tools and conditions are in the first row to which they apply."""
    rows = [{**_row(points, point, flow), **run} for point in points for flow in (point.flows or [None])]
    written = set[tuple[str, _Value]]()
    for row in rows:
        for name in [name for name in row if name in run or name.endswith(("tools", "conditions"))]:
            if (name, row[name]) in written:
                row[name] = None
            written.add((name, row[name]))
    text = io.StringIO()
    if rows:
        columns = dict.fromkeys(name for row in rows for name in row)
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_text(path, text.getvalue())


def _row(points: Sequence[PointResult], point: PointResult, flow: FlowResult | None) -> dict[str, _Value]:
    row: dict[str, _Value] = {
        "label": point.label,
        "top": point.top,
        "preset": point.preset,
        **{key: point.settings.get(key) for key in dict.fromkeys(key for other in points for key in other.settings)},
        "folder": point.folder,
        "error": point.error,
    }
    return row | _flow_columns(flow) | _kernel_columns(points, point, flow) | _energy_columns(points, point)


def _flow_columns(flow: FlowResult | None) -> dict[str, _Value]:
    names = ("flow", "script", "area_um2", "area_kge", "cells", "flip_flops", "luts", "dsps", "brams", *OF_CORNERS)
    row: dict[str, _Value] = {name: getattr(flow, name, None) for name in (*names, "corner", "clock_ps", "slack_ps")}
    for other in flow.other_corners if flow else ():
        row |= {f"{other.corner}: {name}": getattr(other, name) for name in (*OF_CORNERS, "slack_ps")}
    runs = flow.runs if flow else []
    row["repeat"] = len(runs) or None
    several = {name: [value for run in runs if (value := getattr(run, name))] for name in ("area_kge", "delay_ps")}
    for name, known in {**several, "fmax_mhz": flow.fmax_mhz if flow else []}.items():
        row[f"{name}_min"], row[f"{name}_max"] = min(known, default=None), max(known, default=None)
    row["fmax_mhz_median"] = flow.fmax if flow else None
    path = flow.path if flow else None
    row |= {f"path_{name}": getattr(path, name, None) for name in ("start", "end", "delay_ps")}
    placed = ("width_um", "height_um", "utilisation", "wire_mm", "resized", "buffers", "wireless_ps", "unsized_ps")
    row |= {f"placement_{name}": getattr(flow.placement, name) for name in placed} if flow and flow.placement else {}
    row["wall_s"] = flow.wall_s if flow else None
    row["tools"] = _tools(flow.tools) if flow else None
    row["conditions"] = " ".join(flow.conditions) if flow else None
    return row


def _tools(tools: Mapping[str, str]) -> str:
    return ";".join(f"{name} {version}" for name, version in tools.items())


def _kernel_columns(points: Sequence[PointResult], point: PointResult, flow: FlowResult | None) -> dict[str, _Value]:
    row: dict[str, _Value] = {}
    rates = [rate for rate in comparison.kernel_rates([point]) if rate.flow is flow]
    for name in comparison.kernel_names(points):
        record = comparison.best_record(point, name) or {}
        for figure in ("variant", "cycles", "cycles_per_sdotp", "macs_per_cycle", "mismatches"):
            row[f"{name}: {figure}"] = record.get(figure)
        row[f"{name}: conditions"] = comparison.kernel_conditions(record) if record else None
        rate = next((rate for rate in rates if comparison.kernel_name(rate.record) == name), None)
        row[f"{name}: gmacs"] = rate and rate.gmacs
        row[f"{name}: gmacs_per_mm2"] = rate and rate.gmacs_per_mm2
    return row


def _energy_columns(points: Sequence[PointResult], point: PointResult) -> dict[str, _Value]:
    row: dict[str, _Value] = {}
    for name in comparison.workload_names(points):
        energy = comparison.best_energy(point, name)
        row[f"{name}: energy_per_cycle_fj"] = energy and energy.energy_per_cycle_fj
        row[f"{name}: energy_per_mac_fj"] = energy and energy.energy_per_mac_fj
        row[f"{name}: power_mw"] = comparison.power_mw(point, energy)
        row[f"{name}: netlist"] = energy and f"{comparison.netlist_of(energy)}, {energy.method}"
        row[f"{name}: tools"] = energy and _tools(energy.tools)
        row[f"{name}: conditions"] = energy and " ".join(energy.conditions)
    return row
