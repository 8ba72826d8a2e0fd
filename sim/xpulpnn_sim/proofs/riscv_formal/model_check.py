"""One check as a graph of gates, and the bounded model checker of ABC on it."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpulpnn_sim.proofs.engine.aiger import Named, read_aiger, read_named, read_witness
from xpulpnn_sim.proofs.engine.gate_graph import FALSE
from xpulpnn_sim.proofs.engine.solvers import WITNESS, Searched, search_cycles, simplify
from xpulpnn_sim.proofs.riscv_formal.gates import ZERO
from xpulpnn_sim.proofs.riscv_formal.join import Problem, join
from xpulpnn_sim.proofs.riscv_formal.suite import FAIR, Check, Suite
from xpulpnn_sim.proofs.riscv_formal.testbench import CONSTANT, TOP, top_text
from xpulpnn_sim.tools.yosys import Yosys

PASSED, FAILED, UNDECIDED = "passes", "FAILS", "time is up"  # outcomes of a check

_BAD, _SIMPLE = "bad.aig", "simple.aig"
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
_LOWER = "async2sync\nchformal -lower\n"  # what a Yosys needs that keeps properties as cells with their trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Verdict on a check."""

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
    """Return what checks share that can be searched together in less time; ``None`` for one by itself."""
    if check.sliced or check.triggered:
        return None
    return (check.cutpoints, check.cycle, check.first)


def keeps_triggers(yosys: Yosys) -> bool:
    """Return whether this Yosys keeps properties as cells with their trigger: from version 0.37 on."""
    number = re.match(r"0\.(\d+)", yosys.tools["yosys"])
    return number is None or int(number[1]) >= 37


@dataclass(frozen=True, slots=True)
class _Searching:
    """Runs of ABC in a folder, until a time."""

    folder: Path
    abc: str
    ends: float

    @property
    def _left_s(self) -> float:
        return max(1.0, self.ends - time.monotonic())

    def search(self, read: str, first: int, last: int) -> Searched:
        """Search some cycles of the graph that ``read`` reads."""
        return search_cycles(self.abc, read, self.folder, first=first, last=last, timeout_s=self._left_s)

    def simplified(self, merge: str = "") -> list[int]:
        """Outputs of the graph once it is simplified, in :data:`_SIMPLE`."""
        read = f"read_aiger {_BAD}; strash; scleanup; {merge}"
        simplify(self.abc, read, _SIMPLE, self.folder, timeout_s=self._left_s)
        graph = read_aiger(self.folder / _SIMPLE)
        return [*graph.outputs, *graph.bad]


def search(
    check: Check, problem: Problem, folder: Path, abc: str, timeout_s: float, *, shortest: bool = False
) -> Outcome:
    """Search for inputs that make the check fail.

    It is enough to look in the last cycle: what fails earlier fails then too, if fetching begins later. Bits of data
    whose graphs are the same are searched once. A failure is then searched in the first cycle that has one.
    """
    began = time.monotonic()
    (folder / _BAD).write_bytes(problem.searched.binary())
    last = check.cycle - 1
    failed = decided = False
    if not shortest:
        searching = _Searching(folder=folder, abc=abc, ends=began + timeout_s)
        failed, decided = _last_cycle(searching, last, alike=len(problem.searched.bad) > 1)
    if decided and not failed:
        return Outcome(name=check.name, verdict=PASSED, cycle=check.cycle, seconds=time.monotonic() - began)
    # the first cycle in which it fails, or how far there is an answer
    searching = _Searching(folder=folder, abc=abc, ends=time.monotonic() + timeout_s)
    found = searching.search(f"read_aiger {_BAD}; strash; ", check.first - 1, last)
    seconds = time.monotonic() - began
    if found.failing is not None:
        witness = read_witness((folder / WITNESS).read_text(), problem.searched.inputs)
        trace = replay(problem, witness)
        return Outcome(name=check.name, verdict=FAILED, cycle=found.failing + 1, seconds=seconds, trace=trace)
    if failed:
        return Outcome(name=check.name, verdict=FAILED, cycle=check.cycle, seconds=seconds)
    verdict = PASSED if found.deepest >= last else UNDECIDED
    return Outcome(name=check.name, verdict=verdict, cycle=found.deepest + 1, seconds=seconds)


def pass_together(checks: Sequence[Check], problem: Problem, folder: Path, abc: str, timeout_s: float) -> float | None:
    """Seconds in which some checks all passed, or ``None`` if they did not; as :func:`search`."""
    began = time.monotonic()
    searching = _Searching(folder=folder, abc=abc, ends=began + timeout_s)
    (folder / _BAD).write_bytes(problem.searched.binary())
    if all(literal == FALSE for literal in searching.simplified()):
        return time.monotonic() - began
    last = checks[0].cycle - 1
    found = searching.search(f"read_aiger {_SIMPLE}; ", last, last)
    return time.monotonic() - began if found.failing is None and found.deepest >= last else None


def _last_cycle(searching: _Searching, last: int, *, alike: bool) -> tuple[bool, bool]:
    """Return whether a check fails in its last cycle, and whether there is an answer."""
    outputs = searching.simplified("iso; " if alike else "")
    for number, literal in enumerate(outputs):
        if literal == FALSE:
            # simplified away: it fails in no cycle
            continue
        read = f"read_aiger {_SIMPLE}; " + (f"cone -s -O {number}; scleanup; " if len(outputs) > 1 else "")
        found = searching.search(read, last, last)
        if found.failing is not None:
            return True, True
        if found.deepest < last:
            return False, False
    return False, True


def replay(problem: Problem, witness: Sequence[Sequence[int]]) -> list[dict[str, int]]:
    """Values of all signals shown in each cycle of a counterexample."""
    return [
        {name: sum(outputs[index] << bit for bit, index in bits.items()) for name, bits in problem.signals.items()}
        for outputs in problem.shown.run(witness)
    ]
