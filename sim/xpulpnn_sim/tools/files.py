"""Atomic writing of files, checks of output paths, and a lock for folders."""

import fcntl
import os
import platform
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO

from xpulpnn.errors import InputError

STANDARD_OUTPUT = Path("-")  # stands for stdout
LOCK = ".lock"  # file in a folder that names the process using it


@contextmanager
def folder_lock(folder: Path, option: str) -> Generator[None]:
    """Lock an existing folder; raise :class:`InputError`, which names ``option``, if another process has locked it."""
    path = folder / LOCK
    file = _opened(path, option)
    file.truncate()
    now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    file.write(f"process {os.getpid()} on {platform.node()} since {now}")
    file.flush()
    try:
        yield
    finally:
        # remove it while locked: the next run makes a new file
        with suppress(OSError):
            path.unlink()
        file.close()


def _opened(path: Path, option: str) -> TextIO:
    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read() or "a process that has just started"
            file.close()
            raise InputError(
                f"{option} must be a folder that no other run uses, not {path.parent} ({holder})"
            ) from None
        except BaseException:
            file.close()
            raise
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                return file
        # the previous owner removed it between our open and lock
        file.close()


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield a temporary file that replaces ``path`` when the block succeeds; missing folders are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file atomically, and create its folder; a file that already has this content is left alone."""
    write_bytes(path, text.encode())


def write_texts(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def write_bytes(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def require_folder(folder: Path, option: str) -> None:
    """Create ``folder`` if it is missing; raise :class:`InputError` unless files can be created in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError:
        raise InputError(f"{option} must be a folder, not the file {folder}") from None
    except OSError as error:
        raise InputError(f"{option} must be in a writable folder, not {folder} ({error.strerror})") from None


def require_place(folder: Path, option: str) -> None:
    """Raise :class:`InputError` unless ``folder`` is writable or could be created; create nothing."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)) or existing.is_relative_to("/proc"):
        raise InputError(f"{option} must be in a writable folder, not {folder}")


def require_writable(path: Path | None, option: str) -> None:
    """Raise :class:`InputError` unless the file can be created; None always passes."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} must be a file, not the folder {path}")
    require_place(path.parent, option)
