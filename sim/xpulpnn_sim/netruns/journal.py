"""What interrupted runs have found so far: a line for each image, so that the same command goes on from there.

A journal is called after a hash of all that results depend on, and its lines after one of the input; a line that was
cut short by whatever ended the run does not count.
"""

import hashlib
import json
import os
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from xpulpnn_sim.netruns.job import Item, Job, Outcome
from xpulpnn_sim.sources import sources_digest
from xpulpnn_sim.user_cache import cache_directory

FOLDER = "runs"


class Journal:
    """Results of the runs of a job, kept on disk until all of them are there."""

    def __init__(self, job: Job, *, fresh: bool = False) -> None:
        self._job = job
        self._paths = {
            (task, target): cache_directory() / FOLDER / f"{_key(job, task, target)}.jsonl"
            for task in range(len(job.tasks))
            for target in range(len(job.targets))
        }
        if fresh:
            self.remove()

    def known(self) -> dict[Item, Outcome]:
        """Runs that need not be done again."""
        read = {at: _read(path) for at, path in self._paths.items()}
        found: dict[Item, Outcome] = {}
        for item in self._job.items:
            name = self._name(item)
            if name in read[item.task, item.target]:
                found[item] = Outcome(**read[item.task, item.target][name])
        return found

    def add(self, item: Item, outcome: Outcome) -> None:
        """Keep what came of a run."""
        path = self._paths[item.task, item.target]
        path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"input": self._name(item), "outcome": asdict(outcome)}) + "\n"
        # in one piece behind whatever is there; on a line of its own even if the last one was cut short
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(handle).st_size
            is_cut = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            os.write(handle, ("\n" * is_cut + line).encode())
        finally:
            os.close(handle)

    def remove(self) -> None:
        """Forget everything."""
        for path in self._paths.values():
            path.unlink(missing_ok=True)

    def _name(self, item: Item) -> str:
        image = self._job.tasks[item.task].inputs[item.image]
        content = np.ascontiguousarray(image, "<i8").tobytes()
        return hashlib.sha256(content).hexdigest()[:24] + "c" * self._job.is_checked(item)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Outcomes by input; an unreadable line is as if it were not there."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, dict[str, Any]] = {}
    names = {item.name for item in fields(Outcome)}
    for line in lines:
        try:
            entry = json.loads(line)
            if entry["outcome"].keys() == names:
                found[entry["input"]] = entry["outcome"]
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return found


def _key(job: Job, task: int, target: int) -> str:
    digest = hashlib.sha256(sources_digest().encode())
    _digest(digest, (job.tasks[task].network, job.targets[target].config, job.targets[target].machine))
    return digest.hexdigest()[:32]


def _digest(digest: "hashlib._Hash", value: object) -> None:
    """Feed a hash with a value, the same in every process."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for item in fields(value):
            digest.update(item.name.encode())
            _digest(digest, getattr(value, item.name))
    elif isinstance(value, Enum) or not isinstance(value, tuple | list | dict | frozenset | set):
        digest.update(f"{value!r};".encode())
    else:
        parts: list[Any] = sorted(value, key=repr) if isinstance(value, frozenset | set) else list(value)
        digest.update(f"{len(parts)}:".encode())
        for part in parts:
            _digest(digest, part)
        if isinstance(value, dict):
            _digest(digest, list(value.values()))
