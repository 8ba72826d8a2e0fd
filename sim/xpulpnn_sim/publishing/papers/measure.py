"""The tables, and their runs, each once; records are kept, so that what was interrupted goes on where it was."""

from collections.abc import Iterator, Mapping, Sequence

from xpulpnn_sim.publishing.papers.runs import Record, Run
from xpulpnn_sim.publishing.papers.table import PaperTable
from xpulpnn_sim.publishing.papers.tables import classifier, pulp_nn, ulppack, xpulpnn
from xpulpnn_sim.tools import results
from xpulpnn_sim.tools.jobs import completed, executor
from xpulpnn_sim.tools.results import cached_results, digest

TABLES: Mapping[str, PaperTable] = {
    table.name: table
    for table in (xpulpnn.TABLE, pulp_nn.TABLE, pulp_nn.MIXED, ulppack.TABLE, classifier.TABLE, pulp_nn.CIFAR10)
}
"""All tables by name, in the order shown."""

_WITHOUT = frozenset(
    {"benches", "cli", "exploration", "guide", "packages", "proofs", "report", "tables", "verification"}
)
"""Folders of sources that no record depends on."""


def runs_of(tables: Sequence[PaperTable], *, quick: bool) -> list[Run]:
    """Runs that the tables need, each once; with ``quick`` those of quick rows only."""
    rows = [row for table in tables for row in table.rows if row.quick or not quick]
    return list(dict.fromkeys(run for row in rows for run in row.runs))


def measure_tables(runs: Sequence[Run], *, check: bool, jobs: int) -> Iterator[tuple[Run, Record]]:
    """Each run and its record, in the order they come; records in the cache come first."""
    kept = cached_results("papers")
    keys = {run: digest(results.sources_digest(_WITHOUT), repr(run), check) for run in runs}
    with executor(jobs) as pool:
        missing: list[Run] = []
        for run, key in keys.items():
            record = kept.find(key)
            if record is None:
                missing.append(run)
            else:
                yield run, record
        for run, record in completed(pool, _measured, missing, check):
            if not record["mismatches"]:
                kept.keep(keys[run], record)
            yield run, record


def _measured(run: Run, check: bool) -> Record:
    return run.measure(check=check)
