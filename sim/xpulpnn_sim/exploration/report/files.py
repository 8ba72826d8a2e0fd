"""Write the files of a finished exploration: JSON record, CSV and HTML report."""

import json
from importlib import util
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.finished_run import FinishedRun
from xpulpnn_sim.exploration.report.csv_file import write_csv
from xpulpnn_sim.tools.files import write_text

REPORT = "report.html"
FILES = ("results.json", "results.csv", REPORT)
"""Files of an exploration next to the folders of its points; the first file shows that a folder has results."""


def require_report_packages() -> None:
    """Raise :class:`ToolError` naming the first missing package of the HTML report."""
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
