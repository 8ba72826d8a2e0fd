"""Measured tables as a page: one file that needs nothing but a browser."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from xpulpnn_sim.explorer.report.html import page_environment, plotly_script
from xpulpnn_sim.files import write_text
from xpulpnn_sim.papers.report.charts import charts
from xpulpnn_sim.papers.report.terminal import our_text
from xpulpnn_sim.papers.table import MeasuredTable


def write_page(path: Path, tables: Sequence[MeasuredTable], *, command: str, conditions: Sequence[str]) -> None:
    """Write the page in one step: tables, plots, and for every row the commands that repeat it."""
    environment = page_environment("xpulpnn_sim.papers.report")
    environment.filters["our_text"] = our_text
    plots = [charts(table) for table in tables]
    text = environment.get_template("papers.html.j2").render(
        command=command,
        conditions=conditions,
        date=datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"),
        tables=list(zip(tables, plots, strict=True)),
        plots=plots,
        plotly=plotly_script(),
    )
    write_text(path, text)
