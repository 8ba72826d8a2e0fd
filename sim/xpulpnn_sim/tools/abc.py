"""ABC: which program it is, and what it prints."""

import shutil
import subprocess
from pathlib import Path

from xpulpnn.errors import ToolError

ABC_PROGRAMS = ("berkeley-abc", "yosys-abc", "abc")


def find_abc() -> str:
    """Path of ABC; raises :class:`ToolError` with what to install if it is not there."""
    for name in ABC_PROGRAMS:
        found = shutil.which(name)
        if found:
            return found
    raise ToolError("abc must be installed: apt-get install berkeley-abc")


def run_abc(abc: str, commands: str, folder: Path, *, timeout_s: float, log: str = "abc.log") -> str:
    """Return what ABC prints until it ends or time is up, and add it to the file ``log`` of the folder."""
    try:
        done = subprocess.run(
            [abc, "-c", commands],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        text = done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else ""
    with (folder / log).open("a") as file:
        file.write(text)
    return text
