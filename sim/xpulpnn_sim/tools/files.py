"""Writing of files in one step, folders that can be written, and one run at a time in a folder."""

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

STANDARD_OUTPUT = Path("-")  # stands for the standard output in the place of a file

LOCK = ".lock"  # file in the folder that says who uses it; there is none when nobody does


@contextmanager
def folder_lock(folder: Path, option: str) -> Generator[None]:
    """Keep other runs out of ``folder``, which exists; what a killed run held is free. Raises :class:`InputError`
    naming ``option`` and who uses the folder, if somebody does."""
    path = folder / LOCK
    file = _opened(path, option)
    file.truncate()
    now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    file.write(f"process {os.getpid()} on {platform.node()} since {now}")
    file.flush()
    try:
        yield
    finally:
        # while it is locked: whoever comes later makes a new one
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
        # its last owner removed it between our opening and locking it
        file.close()


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A temporary file that takes the place of ``path``, whose folder is made if it does not exist, when it is
    complete, and goes away if it is not."""
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
    """Write a file in one step: readers see the old content or the new one. Unchanged files are left alone. The folder
    is made if it does not exist."""
    write_bytes(path, text.encode())


def write_texts(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files by their names in a folder, each as :func:`write_text` does; returns their paths."""
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def write_bytes(path: Path, content: bytes) -> None:
    """As :func:`write_text`, for bytes."""
    if path.is_file() and path.read_bytes() == content:
        return
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def require_folder(folder: Path, option: str) -> None:
    """Raise :class:`InputError` unless files can be created in ``folder``, which is made if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError:
        raise InputError(f"{option} must be a folder, not the file {folder}") from None
    except OSError as error:
        raise InputError(f"{option} must be in a writable folder, not {folder} ({error.strerror})") from None


def require_place(folder: Path, option: str) -> None:
    """Raise :class:`InputError` unless ``folder`` can be written into, or be made; makes nothing."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)) or there.is_relative_to("/proc"):
        raise InputError(f"{option} must be in a writable folder, not {folder}")


def require_writable(path: Path | None, option: str) -> None:
    """Raise :class:`InputError` unless the file ``path`` can be created, before any work is spent on its content."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} must be a file, not the folder {path}")
    require_place(path.parent, option)
