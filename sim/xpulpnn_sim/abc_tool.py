"""ABC on graphs of gates: which program it is, and whether one output of a graph can ever be 1."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn.errors import ToolError

ABC_PROGRAMS = ("berkeley-abc", "yosys-abc", "abc")

NEVER, SOMETIMES, UNKNOWN = "never", "sometimes", "unknown"
"""Whether the output is ever 1."""

_EXAMPLE = "example.txt"
_VALUE = re.compile(r"^pi(\d+)(?:@(\d+))?=([01])", re.MULTILINE)
_GRACE_S = 15.0
"""Time beyond the limit in which ABC may read, simplify and end."""


def find_abc() -> str:
    """Path of ABC; raises :class:`ToolError` with what to install if it is not there."""
    for name in ABC_PROGRAMS:
        found = shutil.which(name)
        if found:
            return found
    raise ToolError("abc must be installed: apt-get install berkeley-abc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What ABC found."""

    verdict: str  # see NEVER
    # with the verdict `sometimes`: values of the inputs in each cycle, up to the one in which the output is 1
    frames: Sequence[Sequence[int]] = ()


def run_abc(abc: str, aiger: bytes, commands: str, *, timeout_s: float) -> Answer:
    """Is the only output of a graph ever 1?"""
    with tempfile.TemporaryDirectory(prefix="xpulpnn-abc-") as name:
        folder = Path(name)
        (folder / "graph.aig").write_bytes(aiger)
        try:
            done = subprocess.run(
                [abc, "-c", f"read_aiger graph.aig; {commands}; print_status; write_cex -n {_EXAMPLE}"],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=timeout_s + _GRACE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(verdict=UNKNOWN)
        status = re.search(r"^Status = (-?\d)", done.stdout, re.MULTILINE)
        if done.returncode != 0 or status is None:
            text = " ".join((done.stderr or done.stdout).split())[-300:]
            raise ToolError(f"abc must say what it found, not end with code {done.returncode}: {text}")
        if status[1] == "1":
            return Answer(verdict=NEVER)
        if status[1] != "0":
            return Answer(verdict=UNKNOWN)
        return Answer(verdict=SOMETIMES, frames=_frames((folder / _EXAMPLE).read_text()))


def _frames(text: str) -> list[list[int]]:
    """Values of the inputs in each cycle of an example."""
    values = {(int(cycle or 0), int(place)): int(bit) for place, cycle, bit in _VALUE.findall(text)}
    cycles = 1 + max((cycle for cycle, _ in values), default=0)
    width = 1 + max((place for _, place in values), default=-1)
    return [[values.get((cycle, place), 0) for place in range(width)] for cycle in range(cycles)]
