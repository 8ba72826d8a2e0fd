"""Removes what earlier runs left in a folder of results, and nothing else."""

import json
from contextlib import suppress
from pathlib import Path

from xpulpnn_sim.exploration.finished_run import FILES
from xpulpnn_sim.exploration.task import POINTS, earlier_files


def remove_earlier(output: Path) -> None:
    """Remove the points and the tables of earlier runs in ``output``; files that no run has written stay."""
    for folder in sorted((output / POINTS).glob("*/")):
        for name in earlier_files(folder):
            (folder / name).unlink(missing_ok=True)
        for inner in sorted((path for path in folder.rglob("*/") if path != folder), reverse=True):
            _remove_empty(inner)
        _remove_empty(folder)
    _remove_empty(output / POINTS)
    if _is_record(output / FILES[0]):
        for name in FILES:
            (output / name).unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _is_record(path: Path) -> bool:
    """Return whether a file holds the results of a run."""
    try:
        record = json.loads(path.read_text())
        return "points" in record and str(record["command"]).startswith("xpulpnn explore")
    except (OSError, ValueError, TypeError, LookupError):
        return False
