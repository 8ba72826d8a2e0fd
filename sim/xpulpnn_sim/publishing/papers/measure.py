"""Measure the runs of the papers' tables, each run only once and cached, and write the page of the tables."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import methodcaller
from pathlib import Path
from typing import Any

from markupsafe import Markup

from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.papers import mlperf_tiny
from xpulpnn_sim.publishing.papers.published import TABLES
from xpulpnn_sim.publishing.papers.table import MeasuredRow, MeasuredTable, PaperTable, Record, RowVerdict, Run
from xpulpnn_sim.tools import results
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.named_table import Column, NamedTable, table_of
from xpulpnn_sim.tools.pages import INK, PALETTE, Page, Plot, bar, dots, figure
from xpulpnn_sim.tools.pool import completed
from xpulpnn_sim.tools.results import cached_results, digest

_TONES = {"better": "good", "worse": "bad", RowVerdict.WRONG.value: "bad"}


def named_table(measured: MeasuredTable) -> NamedTable:
    reference = measured.table.reference
    return table_of(
        measured.table.title,
        measured.rows,
        [
            (Column(name="figure"), lambda row: row.row.figure),
            (Column(name="unit"), lambda row: row.row.metric.unit),
            (Column(name=reference, digits=2), lambda row: row.row.published and row.row.published.text),
            (Column(name="ours", digits=2), lambda row: f"{row.ours:.{row.row.metric.digits}f}"),
            (Column(name=f"ours / {reference}", digits=2), lambda row: row.ratio),
            (Column(name="verdict", tones=_TONES), lambda row: row.verdict.value),
            (Column(name=f"of the {reference}"), lambda row: row.row.published and row.row.published.where),
        ],
        notes=[
            f"{measured.summary}.",
            *measured.table.notes,
            f"{reference.capitalize()}: {measured.table.printed_by}.",
        ],
        failed=frozenset(number for number, row in enumerate(measured.rows) if row.verdict is RowVerdict.WRONG),
    )


_PRINTED = "#9aa3ae"
_FAINT = 0.4  # opacity of printed bars beside ours in the same colour
_VERDICTS: Mapping[RowVerdict, tuple[str, str]] = {
    RowVerdict.BETTER: ("#0072b2", "circle"),
    RowVerdict.EQUAL: ("#5b5b5b", "square"),
    RowVerdict.WORSE: ("#d55e00", "diamond"),
    RowVerdict.WRONG: ("#a3260b", "x"),
}
_ROW_HEIGHT, _FRAME, _BARS_HEIGHT = 24, 120, 400
_NARROWEST = 1.25  # minimum range of the ratio axis, the same to both sides
_MARGIN = 1.05
_TICKS = (0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 4, 6, 8)


def charts(measured: MeasuredTable) -> list[dict[str, Any]]:
    titles = dict.fromkeys(row.row.bar.chart for row in measured.rows if row.row.bar is not None)
    bar_charts = [_bars(measured, title) for title in titles]
    compared = [row for row in measured.rows if row.advantage is not None]
    return [*bar_charts, _advantages(compared)] if compared else bar_charts


def _bars(measured: MeasuredTable, title: str) -> dict[str, Any]:
    """Plot groups of bars; a published figure that several series share is drawn once."""
    ours = _series(measured.rows, title, lambda row: row.ours)
    printed = _series(measured.rows, title, lambda row: row.row.published and row.row.published.value)
    reference = measured.table.reference
    pairs = [pair for values in printed.values() for pair in values.items()]
    common = dict(pairs) if len(set(pairs)) == len(dict(pairs)) else {}
    hover = "%{x}: %{y:.4g}"
    traces = [bar(reference, common, common.values(), _PRINTED, hover)] if common else []
    for number, (name, values) in enumerate(ours.items()):
        colour = PALETTE[number % len(PALETTE)]
        if not common and name in printed:
            own = printed[name]
            traces.append(bar(f"{name}, {reference}", own, own.values(), colour, hover, opacity=_FAINT))
        traces.append(bar(name, values, values.values(), colour, hover))
    axes = {"x": {"type": "category"}, "y": {"rangemode": "tozero"}}
    return figure(traces, title, _BARS_HEIGHT, **axes, barmode="group", showlegend=True)


def _series(
    rows: Sequence[MeasuredRow], title: str, value: Callable[[MeasuredRow], float | None]
) -> dict[str, dict[str, float]]:
    series: dict[str, dict[str, float]] = {}
    for row in rows:
        place, number = row.row.bar, value(row)
        if place is not None and place.chart == title and number is not None:
            series.setdefault(place.series, {})[place.group] = number
    return series


def _advantages(rows: Sequence[MeasuredRow]) -> dict[str, Any]:
    """Plot the ratio of our figures to published ones; to the right of 1, ours are better."""
    traces: list[dict[str, Any]] = []
    for verdict, (colour, symbol) in _VERDICTS.items():
        shown = [row for row in rows if row.verdict is verdict]
        if shown:
            x, y = [row.advantage for row in shown], [row.row.figure for row in shown]
            marker = {"color": colour, "symbol": symbol, "size": 10}
            traces.append(dots(verdict.value, x, y, "%{y}: %{x:.2f} times as good", marker=marker))
    ends = [*(row.advantage for row in rows if row.advantage), _NARROWEST, 1 / _NARROWEST]
    x = {"range": [math.log10(min(ends) / _MARGIN), math.log10(max(ends) * _MARGIN)], "type": "log"}
    x |= {"tickvals": list(_TICKS), "ticktext": [f"{tick:g}" for tick in _TICKS]}
    names = [row.row.figure for row in rows]
    y = {"type": "category", "categoryarray": names[::-1], "automargin": True}
    y |= {"range": [-0.7, len(rows) - 0.3], "tickfont": {"size": 11}}
    line = {"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": INK, "width": 1}}
    legend = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0}
    title, height = "how many times as good ours is; to the right of 1 it is better", _FRAME + _ROW_HEIGHT * len(rows)
    shown = figure(traces, title, height, x=x, y=y, showlegend=True, legend=legend, shapes=[line])
    shown["layout"]["title"] |= {"yref": "container", "y": 0.98, "yanchor": "top"}
    return shown


def write_papers_page(path: Path, tables: Sequence[MeasuredTable], *, command: str, conditions: Sequence[str]) -> None:
    link = Markup('<a href="#{0}">{0}</a>')
    facts = [(link.format(measured.table.name), measured.summary) for measured in tables]
    page = Page(
        title="Papers' tables",
        heading="The papers' tables, measured",
        command=command,
        writer="xpulpnn bench",
        facts=[("Date", datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")), *facts],
        notes=conditions,
    )
    for number, measured in enumerate(tables):
        name = measured.table.name
        plots = [Plot(name=f"{number}-{place}", variants={(): chart}) for place, chart in enumerate(charts(measured))]
        shown = named_table(measured)
        rows = [[*cells, "\n".join(row.row.commands)] for cells, row in zip(shown.rows, measured.rows, strict=True)]
        columns = [*shown.columns, Column(name="repeated by", commands=True)]
        page.section(name, measured.table.title, page.grid(plots), replace(shown, columns=columns, rows=rows))
    page.write(path)


TABLE_NAMES = (*TABLES, mlperf_tiny.NAME)


def tables_of(names: Sequence[str], models: Path | None, liberty: Path | None) -> list[PaperTable]:
    """Return the named tables, or all tables; MLPerf Tiny needs the folder ``models`` and, if no tables are named,
    is left out without it."""
    if not names:
        names = tuple(TABLES) if models is None else TABLE_NAMES
    if models is None and mlperf_tiny.NAME in names:
        raise InputError(f"models of {mlperf_tiny.NAME} must be in a folder that is named, not left out")
    own = {} if models is None else {mlperf_tiny.NAME: mlperf_tiny.mlperf_tiny(models, liberty)}
    return [{**TABLES, **own}[name] for name in names]


_WITHOUT = frozenset(
    {"benches", "cli", "exploration", "guide", "measure.py", "packages", "proofs", "published.py", "tables"}
    | {"verification"}
)
"""Source folders whose changes do not make cached records outdated."""


def runs_of(tables: Sequence[PaperTable], *, quick: bool) -> list[Run]:
    rows = [row for table in tables for row in table.rows if row.quick or not quick]
    return list(dict.fromkeys(run for row in rows for run in row.runs))


def measure_tables(runs: Sequence[Run], *, check: bool, jobs: int) -> Iterator[tuple[Run, Record]]:
    cache = cached_results("papers")
    keys = {run: digest(results.sources_digest(_WITHOUT), repr(run), check) for run in runs}
    with executor(jobs) as pool:
        missing: list[Run] = []
        for run, key in keys.items():
            record = cache.find(key)
            if record is None:
                missing.append(run)
            else:
                yield run, record
        for run, record in completed(pool, methodcaller("measure", check=check), missing):
            if not record["mismatches"]:
                cache.store(keys[run], record)
            yield run, record
