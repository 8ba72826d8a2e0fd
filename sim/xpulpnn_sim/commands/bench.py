"""``xpulpnn bench``: the papers' tables on the RTL, printed figures beside ours."""

import argparse
from pathlib import Path
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_json,
    comma_list,
    output,
    progress_bar,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.papers.catalogue import TABLES
from xpulpnn_sim.papers.measure import measure, runs_of
from xpulpnn_sim.papers.report.page import write_page
from xpulpnn_sim.papers.report.terminal import named_table
from xpulpnn_sim.papers.table import MeasuredTable, Verdict, measured
from xpulpnn_sim.tools.terminal_table import TerminalTable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument(
        "--table", action="append", metavar="LIST", help=f"out of {','.join(TABLES)}; repeatable (default all)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="leave out the rows that take long, and compare the results only",
    )
    parser.add_argument("--no-check", action="store_true", help="compare the results only, not every instruction")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    add_json(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with the tables, plots and commands")


def run(arguments: argparse.Namespace) -> int:
    """Measure the tables; fails if a run's results are wrong."""
    names = comma_list(",".join(arguments.table or TABLES), tuple(TABLES), "--table")
    require_writable(arguments.json)
    if arguments.jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {arguments.jobs}")
    if arguments.html is not None:
        if arguments.html.is_dir():
            raise InputError(f"--html must be a file, not the folder {arguments.html}")
        require_folder(arguments.html.parent, "--html")
    tables, quick, checked = [TABLES[name] for name in names], arguments.quick, _checked(arguments)
    runs = runs_of(tables, quick=quick)
    records: dict[Any, Any] = {}
    with progress_bar("runs", len(runs)) as (progress, task):
        for one, record in measure(runs, check=checked, jobs=arguments.jobs):
            records[one] = record
            progress.advance(task)
    found = [measured(table, records, quick=quick) for table in tables]
    console = output()
    for table in found:
        console.print(TerminalTable(named_table(table)))
        console.print()
    for line in _conditions(arguments):
        console.print(f"* {line}", markup=False)
    if arguments.html is not None:
        write_page(arguments.html, found, command=_command(arguments), conditions=_conditions(arguments))
    write_json(arguments.json, [row for table in found for row in _rows(table)])
    return FAILED if any(table.count(Verdict.WRONG) for table in found) else OK


def _command(arguments: argparse.Namespace) -> str:
    """What was typed, without the files to write."""
    words = ["xpulpnn bench", *(f"--table {names}" for names in arguments.table or ())]
    flags = {"--quick": arguments.quick, "--no-check": arguments.no_check}
    return " ".join([*words, *(flag for flag, is_set in flags.items() if is_set)])


def _checked(arguments: argparse.Namespace) -> bool:
    """Whether every retired instruction is compared."""
    return not (arguments.quick or arguments.no_check)


def _conditions(arguments: argparse.Namespace) -> list[str]:
    """What holds for all figures."""
    instructions = ", every retired instruction with the instruction-set simulator" if _checked(arguments) else ""
    return [
        f"Every figure is of the RTL; all results are compared with numpy{instructions}.",
        "Equal: the same within the last digit printed. Whether more or less is better, the verdict says.",
    ]


def _rows(table: MeasuredTable) -> list[dict[str, Any]]:
    """The rows as JSON types."""
    return [
        {
            "table": table.table.name,
            "figure": row.row.figure,
            "unit": row.row.unit,
            "paper": None if row.row.published is None else row.row.published.value,
            "where": None if row.row.published is None else row.row.published.where,
            "ours": row.ours,
            "ratio": row.ratio,
            "verdict": row.verdict.value,
            "mismatches": row.mismatches,
            "commands": list(row.row.commands),
        }
        for row in table.rows
    ]
