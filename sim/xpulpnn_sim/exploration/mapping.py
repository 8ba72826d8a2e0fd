"""Scripts that turn Verilog into a netlist of library cells: Yosys, and ABC inside it."""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.tools.yosys import Yosys

_KEPT = frozenset({".abc", ".constr", ".log", ".out", ".rpt", ".tcl", ".v", ".ys"})


class FlowError(ToolError):
    """A flow that failed, with the files it left."""

    def __init__(self, message: str, files: Mapping[str, str]) -> None:
        super().__init__(message)
        self.files = files


@contextmanager
def flow_folder(files: dict[str, str], folder: str = "") -> Iterator[Path]:
    """A folder for tools to run in; what is worth keeping is added to ``files`` when they have finished."""
    with tempfile.TemporaryDirectory(prefix="xpulpnn-flow-") as name:
        try:
            yield Path(name)
        except ToolError as error:
            _collect(Path(name), files, folder)
            raise FlowError(str(error), files) from error
        _collect(Path(name), files, folder)


def _collect(folder: Path, files: dict[str, str], prefix: str) -> None:
    for path in sorted(folder.iterdir()):
        if path.suffix in _KEPT:
            files[f"{prefix}/{path.name}" if prefix else path.name] = path.read_text(errors="replace")


_PREPARE = "strash; &get -n; &fraig -x; &put; scorr; dc2"
_DEEP = "balance; rewrite; refactor; balance; rewrite; rewrite -z; balance; refactor -z; rewrite -z; balance"
_BUFFER = "topo; buffer -N 16 -S 400"
_TIMED = "stime -p"
_SPEED_PS = 1000.0
"""Delay that the speed script asks the mapper for without a clock: out of reach, so that it does what it can."""

SCRIPTS = ("area", "speed")  # For area, or for speed

_STATISTICS = "stats.txt"
"""File to which ``stime -d`` appends cells, area and delay, in whole ps: the wheel loses what ABC prints."""

_NATIVE_ALIAS = "alias stat print_stats"

DESIGN, LIBRARY, CONSTRAINTS = "design.v", "library.lib", "library.constr"  # inputs of the scripts


def abc_commands(script: str, clock_ps: float | None = None) -> str:
    """The commands of ABC, separated by semicolons."""
    target = "" if clock_ps is None else f" -D {clock_ps:.0f}"
    sized = f"upsize{target}; dnsize{target}"
    if script == "area":
        return f"{_PREPARE}; dch -f; map -B 0.9{target}; {_BUFFER}; {sized}; {_TIMED}"
    mapped = f"map -B 0.9{target or f' -D {_SPEED_PS:g}'}"
    return f"{_PREPARE}; {_DEEP}; if -g -K 6; strash; dch -f; {mapped}; {_BUFFER}; {sized}; {sized}; {_TIMED}"


def write_inputs(folder: Path, library: Library, scripts: Mapping[str, str], yosys: Yosys) -> None:
    """Write library, constraints and the files of ABC commands, by name, that the scripts read.

    Raises :class:`ToolError` if the library cannot be read.
    """
    try:
        (folder / LIBRARY).write_bytes(library.path.read_bytes())
    except OSError as error:
        raise ToolError(f"liberty must be readable, not {library.path} ({error.strerror})") from error
    for name, commands in scripts.items():
        lines = [*([_NATIVE_ALIAS] if yosys.native else []), *commands.replace(_TIMED, f"{_TIMED} -d").split("; ")]
        (folder / name).write_text("\n".join(lines) + "\n")
    load = f"set_load {library.output_load_ff:g} [all_outputs]"
    (folder / CONSTRAINTS).write_text(f"set_driving_cell {library.driving_cell}\n{load}\n")


def map_gates(commands: str) -> str:
    """The command of Yosys that maps to the library with a file of ABC commands."""
    return f"abc -liberty {LIBRARY} -constr {CONSTRAINTS} -script {commands}"


def read_verilog(module: str) -> Sequence[str]:
    """Commands that read the design."""
    return f"read_verilog {DESIGN}", f"hierarchy -check -top {module}"


def delay_ps(folder: Path, log: str) -> float | None:
    """Delay that ABC printed into a log, or wrote to its statistics in whole ps; None for a design without gates."""
    printed = re.findall(r"Delay = *([\d.]+) ps", (folder / log).read_text(errors="replace"))
    if printed:
        return float(printed[-1])
    try:
        return float((folder / _STATISTICS).read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return None
