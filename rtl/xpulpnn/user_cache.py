"""The cache folder of the project: compiled models, emitted designs, netlists, and results and times of flows.

The folder is ``$XPULPNN_CACHE``, else ``$XDG_CACHE_HOME/xpulpnn``, else ``~/.cache/xpulpnn``. The name of an entry is a
hash of everything that determines its contents, so entries never become stale and the cache can be emptied safely.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from xpulpnn.errors import ToolError

CACHE_VARIABLE = "XPULPNN_CACHE"

DEFAULT = "default"  # source that `cache_place` returns where no variable sets the folder

_FOLDERS = ("designs", "flows", "energies", "netlists", "liberty", "times", "papers", "runs", "widths")
"""Subfolders of the cache; compiled models are in the cache folder itself."""
_FILES = ("*.so", "*.a", "*.lock", "building-*")
"""Patterns of files: compiled models, libraries of models and of programs, locks of builds, folders of builds."""

_started = 0.0  # time in seconds since the epoch; this process ignores older entries


def cache_place() -> tuple[Path, str]:
    """Return the folder of the cache, and the environment variable that determines it or ``DEFAULT``."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen), CACHE_VARIABLE
    # the XDG specification says that relative paths are ignored
    if (base := os.environ.get("XDG_CACHE_HOME", "")) and Path(base).is_absolute():
        return Path(base) / "xpulpnn", "XDG_CACHE_HOME"
    try:
        return Path.home() / ".cache" / "xpulpnn", DEFAULT
    except RuntimeError:
        raise ToolError(f"{CACHE_VARIABLE} must be set where there is no home folder, not left out") from None


def cache_directory() -> Path:
    """Return the folder of the cache, created if missing; raise :class:`ToolError` if it is not writable."""
    folder, said_by = cache_place()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder.resolve()
    except OSError:
        name = said_by if said_by != DEFAULT else CACHE_VARIABLE
        raise ToolError(f"{name} must be a writable folder, not {folder}") from None


def ignore_before(started: float) -> None:
    """Make this process ignore cache entries older than ``started``, in seconds since the epoch."""
    global _started
    _started = started


def is_usable(entry: Path) -> bool:
    try:
        return entry.stat().st_mtime >= _started
    except OSError:
        return False


@contextmanager
def locked(lock: Path) -> Generator[None]:
    """Hold the lock of a cache entry, waiting for other processes; the lock of a killed process is free."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # a waiting process has the file open; a later process finds the entry
            lock.unlink(missing_ok=True)


def cached_file(identity: object, suffix: str, build: Callable[[Path], None]) -> Path:
    """Return the file whose name is a hash of ``identity``; ``build`` makes a missing one, in a folder of its own."""
    entry = cache_directory() / f"{hashlib.sha256(repr(identity).encode()).hexdigest()[:24]}{suffix}"
    if is_usable(entry):
        return entry
    with locked(entry.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=entry.parent, prefix="building-") as name:
        if not is_usable(entry):
            made = Path(name) / entry.name
            build(made)
            made.replace(entry)
    return entry


def _entries(folder: Path) -> list[Path]:
    folders = [folder / name for name in _FOLDERS if (folder / name).is_dir()]
    return folders + [path for pattern in _FILES for path in sorted(folder.glob(pattern))]


def cache_size() -> tuple[int, int]:
    files = bytes_ = 0
    for entry in _entries(cache_place()[0]):
        for path in [entry] if entry.is_file() else entry.rglob("*"):
            # another process may be removing it
            with suppress(OSError):
                if path.is_file():
                    files, bytes_ = files + 1, bytes_ + path.stat().st_size
    return files, bytes_


def clean_cache() -> None:
    """Remove every entry of the cache and leave other files in its folder alone."""
    for entry in _entries(cache_place()[0]):
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
