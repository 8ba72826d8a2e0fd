"""The one cache of the project: models, emitted designs, netlists, results of flows and of tables, step times.

It is ``$XPULPNN_CACHE``, else ``$XDG_CACHE_HOME/xpulpnn``, else ``~/.cache/xpulpnn``. Every entry is named after a hash
of all that determines it, so that entries never go out of date, and emptying the cache costs time alone.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from xpulpnn.errors import ToolError

CACHE_VARIABLE = "XPULPNN_CACHE"

DEFAULT = "default"  # what `cache_place` returns where no variable says where the cache is to be

_FOLDERS = ("designs", "flows", "energies", "netlists", "liberty", "times", "papers", "runs", "widths")
"""Folders of the cache; compiled models are beside them."""
_FILES = ("*.so", "*.a", "*.lock", "building-*")
"""Compiled models, the libraries of models and of programs, locks of builds, and folders of builds."""

_started = 0.0  # time since the epoch, in seconds, before which entries do not count in this process


def cache_place() -> tuple[Path, str]:
    """Place of the cache and its source: a variable of the environment, or the default."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen), CACHE_VARIABLE
    # the convention has relative paths ignored
    if (base := os.environ.get("XDG_CACHE_HOME", "")) and Path(base).is_absolute():
        return Path(base) / "xpulpnn", "XDG_CACHE_HOME"
    try:
        return Path.home() / ".cache" / "xpulpnn", DEFAULT
    except RuntimeError:
        raise ToolError(f"{CACHE_VARIABLE} must be set where there is no home folder, not left out") from None


def cache_directory() -> Path:
    """Folder of the cache, made if need be; raises :class:`ToolError` if nothing can be written there."""
    folder, said_by = cache_place()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder.resolve()
    except OSError:
        name = said_by if said_by != DEFAULT else CACHE_VARIABLE
        raise ToolError(f"{name} must be a writable folder, not {folder}") from None


def ignore_before(started: float) -> None:
    """Let only entries count in this process that were written since ``started``, seconds since the epoch."""
    global _started
    _started = started


def counts(entry: Path) -> bool:
    """Return whether the cache holds ``entry`` and this process may use it."""
    try:
        return entry.stat().st_mtime >= _started
    except OSError:
        return False


@contextmanager
def alone(lock: Path) -> Generator[None]:
    """Wait until no other process makes the entry with this lock; what a killed one holds is free."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # whoever waits has the file open, whoever comes later finds the entry
            lock.unlink(missing_ok=True)


def _entries(folder: Path) -> list[Path]:
    folders = [folder / name for name in _FOLDERS if (folder / name).is_dir()]
    return folders + [path for pattern in _FILES for path in sorted(folder.glob(pattern))]


def cache_size() -> tuple[int, int]:
    """Number of files in the cache and their bytes; nothing is made."""
    files = bytes_ = 0
    for entry in _entries(cache_place()[0]):
        for path in [entry] if entry.is_file() else entry.rglob("*"):
            # another process may be removing it
            with suppress(OSError):
                if path.is_file():
                    files, bytes_ = files + 1, bytes_ + path.stat().st_size
    return files, bytes_


def clean_cache() -> None:
    """Remove every entry of the cache, and nothing else that may be in its folder."""
    for entry in _entries(cache_place()[0]):
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
