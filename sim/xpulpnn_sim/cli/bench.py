"""``xpulpnn bench``: the papers' tables measured on the RTL beside published figures."""

from pathlib import Path
from typing import Annotated, Any

from xpulpnn_sim.cli.common import finish, pick, progress_bar, tell, typed_command
from xpulpnn_sim.cli.options import Check, Jobs, Json, OldFile, Report, arguments, command, listed
from xpulpnn_sim.publishing.papers import measure
from xpulpnn_sim.publishing.papers.measure import TABLE_NAMES, measure_tables, named_table
from xpulpnn_sim.publishing.papers.table import MeasuredTable, RowVerdict, measured
from xpulpnn_sim.tools.named_table import TerminalTable


@arguments
class BenchOptions(Jobs, Report, Json):
    check: Check = "all"
    """Comparison: nothing, results alone, or all retired instructions too."""
    table: Annotated[
        tuple[str, ...], listed(TABLE_NAMES, "Tables; repeatable (default all, as far as files are given)")
    ] = ()
    models: Path | None = None
    """Folder with the models of MLPerf Tiny, for the table mlperf-tiny."""
    liberty: OldFile | None = None
    """Cell library for energies in that table: pieces of layers at gate level on one core, as in net run."""
    quick: bool = False
    """Leave out the rows that take long, and compare the results only."""

    @property
    def checks_instructions(self) -> bool:
        return not self.quick and self.check == "all"


@command("bench")
def bench_command(options: BenchOptions) -> int:
    """
    xpulpnn bench --report build/papers.html  # all tables of the papers, and a page with plots
    xpulpnn bench --table xpulpnn --quick  # the rows of one table that take seconds
    """
    tables = measure.tables_of(options.table, options.models, options.liberty)
    runs = measure.runs_of(tables, quick=options.quick)
    with progress_bar("runs", len(runs)) as bar:
        records = dict(bar.each(measure_tables(runs, check=options.checks_instructions, jobs=options.jobs)))
    measured_tables = [measured(table, records, quick=options.quick) for table in tables]
    for table in measured_tables:
        tell(TerminalTable(named_table(table)), "")
    tell(*(f"* {line}" for line in _conditions(options)))
    if options.report is not None:
        how = {"command": typed_command(), "conditions": _conditions(options)}
        measure.write_papers_page(options.report, measured_tables, **how)
    wrong = any(table.count(RowVerdict.WRONG) for table in measured_tables)
    return finish(options.json, [row for table in measured_tables for row in _rows(table)], good=not wrong)


def _conditions(options: BenchOptions) -> list[str]:
    instructions = (
        ", every retired instruction with the instruction-set simulator" if options.checks_instructions else ""
    )
    return [
        f"Every figure is of the RTL; all results are compared with numpy{instructions}.",
        "Equal: the same within the last digit printed. Whether more or less is better, the verdict says.",
    ]


def _rows(table: MeasuredTable) -> list[dict[str, Any]]:
    return [
        {
            "table": table.table.name,
            "figure": row.row.figure,
            "unit": row.row.metric.unit,
            "paper": row.row.published and row.row.published.value,
            "where": row.row.published and row.row.published.where,
            **pick(row, "ours", "ratio"),
            "verdict": row.verdict.value,
            "mismatches": row.mismatches,
            "commands": list(row.row.commands),
        }
        for row in table.rows
    ]
