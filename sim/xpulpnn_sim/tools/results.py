"""A store of results on disk, with which interrupted runs continue.

A record is a JSON file with a name, a value, and a key of everything that determines the value. A record with another
key counts as missing and is replaced, so that no result is outdated.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import Event, Thread
from types import ModuleType
from typing import Any, cast
from urllib.parse import quote

import numpy as np

import xpulpnn
import xpulpnn_sw
from xpulpnn.user_cache import cache_directory, is_usable
from xpulpnn_sim.tools.files import replacing, write_text


@cache
def sources_digest(without: frozenset[str] = frozenset()) -> str:
    """Return a hash of Amaranth's version and all sources except the folders named in ``without``."""
    digest = hashlib.sha256(metadata.version("amaranth").encode())
    for root in (
        *(Path(package.__file__ or "").parent for package in (xpulpnn, xpulpnn_sw)),
        Path(__file__).parents[1],
    ):
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and path.suffix != ".pyc" and not without.intersection(name.parts):
                digest.update(str(name).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


_LOOK_S = 0.5


class Results:
    """A store of records in a folder; with ``fresh``, records of earlier runs are removed."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.folder = folder
        if fresh:
            self.remove()

    def find(self, name: str, key: str = "") -> Any | None:
        """Return the value stored with this name and key, or None; if the name is a digest, no key is needed."""
        path = self._path(name)
        if not is_usable(path):
            return None
        try:
            record = json.loads(path.read_text())
            return record["value"] if record["key"] == key else None
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def store(self, name: str, value: Any, key: str = "", files: Mapping[str, str] | None = None) -> None:
        """Store a JSON value under a name in place of any earlier one, and text files in a folder of that name."""
        for file, text in (files or {}).items():
            write_text(self.folder / _file_name(name) / file, text)
        # the record counts as new from now on, even with the same value
        with replacing(self._path(name)) as file:
            file.write_text(json.dumps({"key": key, "value": value}, default=list))

    def retain(self, names: Collection[str]) -> None:
        retained = {self._path(name) for name in names}
        for path in self.folder.glob("*.json"):
            if path not in retained:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def __len__(self) -> int:
        return sum(1 for _ in self.folder.glob("*.json"))

    def _path(self, name: str) -> Path:
        return self.folder / f"{_file_name(name)}.json"


def _file_name(name: str) -> str:
    return quote(name, safe=" ,=+")


@contextmanager
def report_counts(results: Results, report: Callable[[int], None]) -> Generator[None]:
    ended = Event()

    def watch() -> None:
        while not ended.wait(_LOOK_S):
            report(len(results))

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def cached_results(folder: str) -> Results:
    """Return a store in the user's cache; the names of its records are digests of everything that determines them."""
    return Results(cache_directory() / folder)


def digest(*parts: object) -> str:
    """Return 32 hexadecimal digits, equal for equal parts in every process; for a module its sources are hashed."""
    return hashlib.sha256(json.dumps(_plain(parts)).encode()).hexdigest()[:32]


def _plain(part: Any) -> Any:
    """Return a part as nested lists of texts, with the name of its type where that matters."""
    if isinstance(part, np.ndarray):
        content = np.ascontiguousarray(cast("np.ndarray[Any, Any]", part)).tobytes()
        return [f"{part.dtype} {part.shape}", hashlib.sha256(content).hexdigest()]
    if isinstance(part, ModuleType):
        path = Path(str(part.__file__))
        return [
            file.read_text() for file in (sorted(path.parent.glob("*.py")) if path.name == "__init__.py" else [path])
        ]
    if is_dataclass(part) and not isinstance(part, type):
        return [type(part).__name__, *([member.name, _plain(getattr(part, member.name))] for member in fields(part))]
    if isinstance(part, Mapping):
        return [[repr(name), _plain(part[name])] for name in sorted(part, key=repr)]
    if isinstance(part, frozenset | set):
        return sorted(map(repr, part))
    return list(map(_plain, part)) if isinstance(part, tuple | list) and not isinstance(part, Enum) else repr(part)
