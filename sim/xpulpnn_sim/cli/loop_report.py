"""Report of the loop pass of ``xpulpnn cc``, for people and for machines."""

from dataclasses import asdict
from typing import Any

from rich.table import Table

from xpulpnn_sim.cli.common import output
from xpulpnn_sw.assembly.looppass.optimise import PassReport


def loop_record(report: PassReport) -> dict[str, Any]:
    """The report as JSON: loops in the order of the text, functions left alone, accesses changed."""
    return {
        "loops": [asdict(outcome) for outcome in report.loops],
        "hardware_loops": report.turned,
        "refusals": report.refusals(),
        "skipped_functions": dict(report.skipped),
        "increments": report.tally.increments,
        "sums": report.tally.sums,
    }


def show_loops(report: PassReport) -> None:
    """Print a line for every loop and function left alone, and the sums."""
    table = Table(title="loops of the C code", title_justify="left", box=None, pad_edge=False)
    for name in ("function", "place", "hardware loop", "because"):
        table.add_column(name, overflow="fold")
    for outcome in report.loops:
        level = "no" if outcome.level is None else str(outcome.level)
        table.add_row(outcome.function, outcome.source, level, outcome.reason)
    for function, reason in report.skipped.items():
        table.add_row(function, "", "no", reason)
    console = output()
    console.print(table)
    text = f"{report.turned} of {len(report.loops)} loops; accesses: {report.tally.increments} with increment, "
    console.print(text + f"{report.tally.sums} with a sum for their address", markup=False, soft_wrap=True)
