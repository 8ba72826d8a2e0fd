"""Running what tables need, each run once; records are kept, so that what was interrupted goes on where it was."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim import sources
from xpulpnn_sim.explorer.cache import content_key
from xpulpnn_sim.papers.runs import Record, Run
from xpulpnn_sim.papers.table import Table
from xpulpnn_sim.user_cache import cache_directory, counts, store

_FOLDER = "papers"
"""Of the records in the cache."""

_WITHOUT = frozenset(
    {"bench", "commands", "cprograms", "explorer", "farm", "faulty", "formal", "guide", "multihart"}
    | {"package", "properties", "report", "tables", "verify"}
)
"""Folders of sources that no record depends on."""


def runs_of(tables: Sequence[Table], *, quick: bool) -> list[Run]:
    """What the tables need, each once; with ``quick`` for the rows that are."""
    rows = [row for table in tables for row in table.rows if row.quick or not quick]
    return list(dict.fromkeys(run for row in rows for run in row.ours.runs))


def measure(runs: Sequence[Run], *, check: bool, jobs: int) -> Iterator[tuple[Run, Record]]:
    """Each run and its record, in the order they come; records in the cache come first."""
    if jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {jobs}")
    missing: list[Run] = []
    for run in runs:
        record = _kept(_entry(run, check=check))
        if record is None:
            missing.append(run)
        else:
            yield run, record
    if jobs == 1 or len(missing) < 2:
        for run in missing:
            yield run, _measured(run, check=check)
        return
    # a fresh interpreter for each process: threads of the caller must not be forked
    with ProcessPoolExecutor(min(jobs, len(missing)), mp_context=get_context("spawn")) as pool:
        pending = {pool.submit(_measured, run, check=check): run for run in missing}
        try:
            for done in as_completed(pending):
                yield pending[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _measured(run: Run, *, check: bool) -> Record:
    """Run it and keep the record, unless something is wrong."""
    record = run.measure(check=check)
    if not record["mismatches"]:
        store(_entry(run, check=check), json.dumps(record))
    return record


def _entry(run: Run, *, check: bool) -> Path:
    key = content_key([sources.sources_digest(_WITHOUT), repr(run), check])
    return cache_directory() / _FOLDER / f"{key}.json"


def _kept(entry: Path) -> Record | None:
    if counts(entry):
        with suppress(OSError, ValueError):
            return json.loads(entry.read_text())
    return None
