"""Writing of files in one step, and folders that can be written."""

import os
import tempfile
from pathlib import Path

from xpulpnn.errors import InputError


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: readers see the old content or the new one. Unchanged files are left alone.

    The folder is made if it does not exist.
    """
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """As :func:`write_text`, for bytes."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_folder(folder: Path, option: str) -> None:
    """Raise :class:`InputError` unless files can be created in ``folder``, which is made if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
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
