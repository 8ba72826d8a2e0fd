"""One run at a time in a folder of results."""

import fcntl
import os
import platform
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO

from xpulpnn.errors import InputError

LOCK = ".lock"  # file in the folder that says who uses it; there is none when nobody does


@contextmanager
def folder_lock(folder: Path, option: str) -> Generator[None]:
    """Keep other runs out of ``folder``, which exists; what a killed run held is free.

    Raises :class:`InputError` naming ``option`` and who uses the folder, if somebody does.
    """
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
