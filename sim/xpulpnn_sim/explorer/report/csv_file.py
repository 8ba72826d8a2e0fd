"""Flat CSV file of a run, for spreadsheets and scripts."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from xpulpnn_sim.explorer.report import comparison
from xpulpnn_sim.explorer.results import FlowResult, PointResult
from xpulpnn_sim.files import write_text

_Value = str | float | int | None

_SETTINGS_SEPARATOR = ";"


def write_csv(path: Path, points: Sequence[PointResult]) -> None:
    """Write one row per point and flow, in one step.

    A point without any flow result has one row with empty flow columns. Columns of kernels and energies repeat in each
    row of a point; their headings name kernel or workload and unit. Missing figures are empty.
    """
    rows = [_row(points, point, flow) for point in points for flow in (point.flows or [None])]
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
        "settings": _SETTINGS_SEPARATOR.join(f"{key}={value}" for key, value in point.settings.items()),
        "folder": point.folder,
        "error": point.error,
    }
    return row | _flow_columns(flow) | _kernel_columns(points, point) | _energy_columns(points, point)


def _flow_columns(flow: FlowResult | None) -> dict[str, _Value]:
    clocks = flow.fmax_mhz if flow is not None else []
    names = ("flow", "script", "area_um2", "area_kge", "cells", "flip_flops", "delay_ps", "delay_fo4")
    row: dict[str, _Value] = {name: getattr(flow, name, None) for name in (*names, "luts", "dsps", "brams")}
    row["fmax_mhz_min"] = min(clocks, default=None)
    row["fmax_mhz_median"] = median(clocks) if clocks else None
    row["fmax_mhz_max"] = max(clocks, default=None)
    row["path_start"] = flow.path.start if flow is not None and flow.path is not None else None
    row["path_end"] = flow.path.end if flow is not None and flow.path is not None else None
    row["wall_s"] = flow.wall_s if flow is not None else None
    return row


def _kernel_columns(points: Sequence[PointResult], point: PointResult) -> dict[str, _Value]:
    row: dict[str, _Value] = {}
    for name in comparison.kernel_names(points):
        record = comparison.best_record(point, name) or {}
        for figure in ("variant", "cycles", "cycles_per_sdotp", "macs_per_cycle", "mismatches"):
            row[f"{name}: {figure}"] = record.get(figure)
    return row


def _energy_columns(points: Sequence[PointResult], point: PointResult) -> dict[str, _Value]:
    row: dict[str, _Value] = {}
    for name in comparison.workload_names(points):
        energy = comparison.best_energy(point, name)
        row[f"{name}: energy_per_cycle_fj"] = energy and energy.energy_per_cycle_fj
        row[f"{name}: energy_per_mac_fj"] = energy and energy.energy_per_mac_fj
    return row
