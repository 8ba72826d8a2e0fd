"""One check as a graph of gates, and the bounded model checker of ABC on it."""

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.riscv_formal.aiger import Named, read_aiger, read_named, read_witness
from xpulpnn_sim.riscv_formal.gates import ZERO
from xpulpnn_sim.riscv_formal.graph import FALSE
from xpulpnn_sim.riscv_formal.join import Problem, join
from xpulpnn_sim.riscv_formal.suite import FAIR, Check, Suite
from xpulpnn_sim.riscv_formal.testbench import CONSTANT, TOP, top_text
from xpulpnn_sim.yosys import Yosys

PASSED, FAILED, UNDECIDED = "passes", "FAILS", "time is up"
"""Outcomes of a check."""


_GRACE_S = 120.0
"""Time beyond the limit in which ABC may read, simplify and end."""

_WITNESS = "example.aiw"
_NO_STATE = "Does not work for combinational networks"

_SCRIPT = """read_verilog -sv -formal -I. check.sv
hierarchy -check -top {top}
proc
flatten
opt_clean
opt -full -nodffe -nosdff
chformal -cover -remove
{lower}chformal -early
opt_clean
techmap
opt -fast -nodffe -nosdff
dffunmap
setundef -undriven -anyseq
aigmap
opt_clean
write_aiger -map check.map check.aig
"""
_LOWER = "async2sync\nchformal -lower\n"
"""What a Yosys needs that keeps properties as cells with their trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a check."""

    name: str
    verdict: str  # see PASSED
    # last cycle in which the check looked: of a check that fails the one in which it does, of one without a verdict the
    # last that was searched to its end, or -1
    cycle: int
    seconds: float  # time of ABC
    # signals by name in each cycle from reset to where the check fails; empty if it does not
    trace: Sequence[Mapping[str, int]] = ()


def read_check(check: Check, suite: Suite, manifest: Mapping[str, Any], folder: Path, yosys: Yosys) -> Named:
    """The check as a graph, in files ``check.*`` of ``folder``; raises :class:`ToolError`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in check.files:
        (folder / Path(name).name).write_text(suite.text(name))
    (folder / "check.sv").write_text(top_text(check, manifest))
    script = _SCRIPT.format(top=TOP, lower=_LOWER if keeps_triggers(yosys) else "")
    yosys.run(script, folder, what=check.name, results=["check.aig", "check.map"], name="check")
    return read_named(folder / "check.aig", folder / "check.map")


def pose(checks: Sequence[Check], graphs: Sequence[Named], core: Named) -> Problem:
    """Checks beside the core: one, or some that :func:`alike` says can be searched together."""
    check = checks[0]
    return join(
        core,
        graphs,
        constants=CONSTANT,
        tied={ZERO: 0, "fair": int(FAIR in check.defines)},
        sliced=check.sliced,
        width=len(core.outputs[check.sliced[0]]) if check.sliced else 1,
        triggered=check.triggered,
        delay=check.delay,
    )


def alike(check: Check) -> tuple[object, ...] | None:
    """What checks have in common that can be searched together, which takes less time; ``None`` for one by itself."""
    if check.sliced or check.triggered:
        return None
    return (check.cuts, check.cycle, check.first)


def keeps_triggers(yosys: Yosys) -> bool:
    """Whether this Yosys keeps properties as cells with their trigger: from version 0.37 on."""
    number = re.match(r"0\.(\d+)", yosys.tools["yosys"])
    return number is None or int(number[1]) >= 37


@dataclass(frozen=True, slots=True)
class _Found:
    """The frame in which an output was 1, if any, and the last one searched to its end, or -1."""

    asserted: int | None
    deepest: int


@dataclass(slots=True)
class _Searching:
    """Runs of ABC in a folder, until a time."""

    folder: Path
    abc: str
    ends: float

    def search(self, read: str, first: int, last: int) -> _Found:
        """Search some frames of the graph that ``read`` reads."""
        seconds = max(1, round(self.ends - time.monotonic()))
        (self.folder / _WITNESS).unlink(missing_ok=True)
        text = self.run(f"{read}bmc3 -g -v -S {first} -F {last + 1} -T {seconds}; write_cex -a {_WITNESS}")
        searched = [int(number) for number in re.findall(r"^ *(\d+) \+ :", text, re.MULTILINE)]
        asserted = re.search(r"was asserted in frame (\d+)", text)
        deepest = max(searched, default=-1)
        if _NO_STATE in text:
            # nothing is left to search: the graph as it was has the answer
            return _Found(None, -1)
        if asserted is None and deepest < last and time.monotonic() < self.ends - 1:
            raise ToolError(f"abc must be able to search {self.folder.name}: {_last_line(text)}")
        return _Found(int(asserted[1]) if asserted else None, deepest)

    def run(self, commands: str) -> str:
        """What ABC prints."""
        try:
            done = subprocess.run(
                [self.abc, "-c", commands],
                cwd=self.folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=max(1.0, self.ends - time.monotonic()) + _GRACE_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            text = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            text = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else ""
        with (self.folder / "abc.log").open("a") as log:
            log.write(text)
        return text


def search(
    check: Check, problem: Problem, folder: Path, abc: str, timeout_s: float, *, shortest: bool = False
) -> Outcome:
    """Search for inputs that make the check fail.

    It is enough to look in the last cycle: what fails earlier fails then too, if fetching begins later. Bits of data
    whose graphs are the same are searched once. A failure is then searched in the first cycle that has one.
    """
    began = time.monotonic()
    searching = _Searching(folder=folder, abc=abc, ends=began + timeout_s)
    (folder / "bad.aig").write_bytes(problem.searched.binary())
    last = check.cycle - 1
    failed = decided = False
    if not shortest:
        failed, decided = _last_cycle(searching, last, alike=len(problem.searched.bad) > 1)
    if decided and not failed:
        return Outcome(name=check.name, verdict=PASSED, cycle=check.cycle, seconds=time.monotonic() - began)
    # the first cycle in which it fails, or how far there is an answer
    searching.ends = time.monotonic() + timeout_s
    found = searching.search("read_aiger bad.aig; strash; ", check.first - 1, last)
    seconds = time.monotonic() - began
    if found.asserted is not None:
        witness = read_witness((folder / _WITNESS).read_text(), problem.searched.inputs)
        trace = replay(problem, witness)
        return Outcome(name=check.name, verdict=FAILED, cycle=found.asserted + 1, seconds=seconds, trace=trace)
    if failed:
        return Outcome(name=check.name, verdict=FAILED, cycle=check.cycle, seconds=seconds)
    verdict = PASSED if found.deepest >= last else UNDECIDED
    return Outcome(name=check.name, verdict=verdict, cycle=found.deepest + 1, seconds=seconds)


def pass_together(checks: Sequence[Check], problem: Problem, folder: Path, abc: str, timeout_s: float) -> float | None:
    """Seconds in which some checks all passed, or ``None`` if they did not; as :func:`search`."""
    began = time.monotonic()
    searching = _Searching(folder=folder, abc=abc, ends=began + timeout_s)
    (folder / "bad.aig").write_bytes(problem.searched.binary())
    searching.run("read_aiger bad.aig; strash; scleanup; dc2; scorr; dc2; write_aiger simple.aig")
    if all(literal == FALSE for literal in _outputs(folder / "simple.aig")):
        return time.monotonic() - began
    last = checks[0].cycle - 1
    found = searching.search("read_aiger simple.aig; ", last, last)
    return time.monotonic() - began if found.asserted is None and found.deepest >= last else None


def _last_cycle(searching: _Searching, last: int, *, alike: bool) -> tuple[bool, bool]:
    """Whether a check fails in its last frame, and whether there is an answer."""
    merge = "iso; " if alike else ""
    searching.run(f"read_aiger bad.aig; strash; scleanup; {merge}dc2; scorr; dc2; write_aiger simple.aig")
    outputs = _outputs(searching.folder / "simple.aig")
    for number, literal in enumerate(outputs):
        if literal == FALSE:
            # simplified away: it fails in no cycle
            continue
        read = "read_aiger simple.aig; " + (f"cone -s -O {number}; scleanup; " if len(outputs) > 1 else "")
        found = searching.search(read, last, last)
        if found.asserted is not None:
            return True, True
        if found.deepest < last:
            return False, False
    return False, True


def _outputs(path: Path) -> list[int]:
    """Literals of the outputs of a graph that ABC wrote; raises :class:`ToolError` if there is none."""
    if not path.exists():
        raise ToolError(f"abc must be able to simplify {path.parent.name}: see {path.parent}/abc.log")
    graph = read_aiger(path)
    return [*graph.outputs, *graph.bad]


def replay(problem: Problem, witness: Sequence[Sequence[int]]) -> list[dict[str, int]]:
    """Values of all signals shown in each cycle of an example."""
    return [
        {name: sum(outputs[index] << bit for bit, index in bits.items()) for name, bits in problem.signals.items()}
        for outputs in problem.shown.run(witness)
    ]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
