"""Measured tables as a page."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from xpulpnn_sim.publishing.papers.report.charts import charts
from xpulpnn_sim.publishing.papers.report.terminal import named_table
from xpulpnn_sim.publishing.papers.table import MeasuredTable
from xpulpnn_sim.tools.named_table import Column, NamedTable
from xpulpnn_sim.tools.pages import Page, Plot


def write_page(path: Path, tables: Sequence[MeasuredTable], *, command: str, conditions: Sequence[str]) -> None:
    """Write the page in one step: tables, plots, and for every row the commands that repeat it."""
    link = Markup('<a href="#{0}">{0}</a>')
    facts = [(link.format(one.table.name), one.summary) for one in tables]
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
        page.section(name, measured.table.title, page.grid(plots), _with_commands(measured))
    page.write(path)


def _with_commands(measured: MeasuredTable) -> NamedTable:
    """The table of the terminal with the commands that repeat each row."""
    shown = named_table(measured)
    rows = [[*cells, "\n".join(row.row.commands)] for cells, row in zip(shown.rows, measured.rows, strict=True)]
    return replace(shown, columns=[*shown.columns, Column(name="repeated by", commands=True)], rows=rows)
