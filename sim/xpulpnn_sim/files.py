"""Writing of files in one step."""

import os
import tempfile
from pathlib import Path


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
