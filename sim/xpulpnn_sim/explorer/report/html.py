"""The HTML report: one file that needs nothing but a browser."""

import base64
import gzip
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from xpulpnn.errors import ToolError
from xpulpnn_sim.explorer.report import comparison, tables
from xpulpnn_sim.explorer.report.headlines import best_table, headline_table
from xpulpnn_sim.explorer.report.named_table import ERROR, POINT, Column, NamedTable
from xpulpnn_sim.explorer.report.plot_data import report_data
from xpulpnn_sim.explorer.report.run_info import RunInfo
from xpulpnn_sim.explorer.results import PointResult
from xpulpnn_sim.files import write_text

_SECONDS_PER_MINUTE = 60


def write_report(
    path: Path, points: Sequence[PointResult], info: RunInfo, extra_tables: Sequence[NamedTable] = ()
) -> None:
    """Write the report in one step.

    The page holds all tables and plots, its style and its scripts, and asks for nothing else. ``extra_tables`` come
    first. Raises :class:`~xpulpnn.errors.ToolError` if the ``plotly`` package, which the drawing script comes from, is
    missing.
    """
    environment = page_environment()
    environment.filters["duration"] = _duration
    environment.filters |= {"consecutive": _consecutive, "split_errors": _split_errors, "zip": _zip}
    text = environment.get_template("report.html.j2").render(_context(points, info, extra_tables))
    write_text(path, text)


def page_environment(*packages: str) -> Environment:
    """What pages are made with: the templates and styles of ``packages`` and, where they have none, of the report."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "xpulpnn_sim.explorer.report")]),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def _context(points: Sequence[PointResult], info: RunInfo, extra_tables: Sequence[NamedTable]) -> dict[str, Any]:
    fpga = comparison.fpga_flows(points)
    flow_conditions = comparison.flow_conditions(points)
    return {
        "info": info,
        "points": points,
        "point_options": [
            (number, f"{number + 1} {point.label}{' (failed)' if point.error else ''}")
            for number, point in enumerate(points)
        ],
        "failed": [(number, point) for number, point in enumerate(points, 1) if point.error],
        "data": report_data(points),
        "extra_tables": extra_tables,
        "figures": tables.figure_table(points, info),
        "overheads": tables.overhead_table(points, info),
        "headlines": headline_table(points),
        "best": best_table(points),
        "kernels": tables.kernel_table(points),
        "energies": tables.energy_table(points),
        "fpga": tables.fpga_table(points),
        "configurations": tables.configuration_table(points),
        "flow_conditions": flow_conditions,
        "fpga_conditions": [entry for entry in flow_conditions if entry.name in fpga],
        "energy_conditions": comparison.energy_conditions(points),
        "plotly": plotly_script(),
    }


def _split_errors(table: NamedTable) -> tuple[NamedTable, list[str]]:
    """A table of points without its column of errors, and the error of each row, shown below the name of the point."""
    names = [column.name for column in table.columns]
    if not {ERROR, POINT} <= set(names):
        return table, [""] * len(table.rows)
    place = names.index(ERROR)
    kept = replace(
        table,
        columns=[*table.columns[:place], *table.columns[place + 1 :]],
        rows=[[*row[:place], *row[place + 1 :]] for row in table.rows],
    )
    return kept, [str(row[place] or "") for row in table.rows]


def _zip(first: Iterable[Any], second: Iterable[Any]) -> list[tuple[Any, Any]]:
    return list(zip(first, second, strict=True))


def _consecutive(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Group headings with the number of neighbouring columns under each."""
    return [(group, len(list(members))) for group, members in groupby(columns, key=lambda column: column.group)]


def _duration(seconds: float) -> str:
    if seconds < _SECONDS_PER_MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _SECONDS_PER_MINUTE)
    return f"{minutes} min {rest} s"


@cache
def plotly_script() -> str:
    """The drawing script, compressed and in base 64: a third of its size, unpacked by the browser.

    Raises :class:`~xpulpnn.errors.ToolError` if the ``plotly`` package is missing.
    """
    try:
        script = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        raise ToolError("plotly must be installed for the HTML report: pip install plotly") from None
    return base64.b64encode(gzip.compress(script, mtime=0)).decode()
