"""Programs that judge a core: random programs, directed programs, and the cycle costs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn.isa.table import find
from xpulpnn_sim.cosimulation.checks.retirements import Checker
from xpulpnn_sim.cosimulation.model.machine import WATCHDOG_CYCLES, Machine
from xpulpnn_sim.cosimulation.model.model import Block
from xpulpnn_sim.cosimulation.model.session import RunResult
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.bare.layout import BUS_ERRORS
from xpulpnn_sim.reference.bare.program import RandomProgram
from xpulpnn_sim.reference.directed.case import Directed
from xpulpnn_sim.reference.directed.programs import programs_of
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.reference.programs.retirements import GRANT, RETIREMENT
from xpulpnn_sim.reference.programs.trace import WIDE_FIELDS
from xpulpnn_sim.verification.random.designs import cost_run
from xpulpnn_sim.verification.random.program_runs import CoreSource


class CoreModel(NamedTuple):
    config: CoreConfig
    library: Path


class _Keeper(Checker):
    def __init__(self) -> None:
        self.blocks = [(np.zeros(0, RETIREMENT), np.zeros(0, np.uint32), np.zeros(0, GRANT))]

    def __call__(self, block: Block) -> None:
        self.blocks.append((block.records().copy(), block.lines().copy(), block.grants.copy()))


_MRET = find("mret", "").match


class Advance(Checker):
    """Records the last cycle in which an instruction outside of interrupt handlers retired."""

    def __init__(self) -> None:
        self.last, self._depth = 0, 0

    def __call__(self, block: Block) -> None:
        records = block.records()
        # before each instruction and behind it
        change = np.zeros((len(records), 2), np.int64)
        change[:, 0] = records["intr"] != 0
        change[:, 1] = (records["trap"] != 0).astype(np.int64) - (records["insn"] == _MRET)
        depth = self._depth + np.cumsum(change)
        # an mret that ends no handler changes nothing
        depth -= np.minimum.accumulate(np.minimum(depth, 0))
        outside = records["cycle"][depth[::2] == 0]
        self.last = int(outside[-1]) if len(outside) else self.last
        self._depth = int(depth[-1]) if len(depth) else self._depth


class Stream:
    def __init__(self, executable: Executable, machine: Machine, core: CoreModel) -> None:
        keeper = _Keeper()
        self.result = run_program(executable, core.config, machine, library=core.library, more_checkers=[keeper])
        self.records, self.lines, self.grants = map(np.concatenate, zip(*keeper.blocks, strict=True))

    def retires_as(self, other: "Stream") -> bool:
        """Return whether both passed and retired the same instructions, with interrupts on the same lines."""
        passed = self.result.exit.ok and other.result.exit.ok
        return passed and _same(self.records, other.records) and np.array_equal(self.lines, other.lines)

    def shows_as(self, other: "Stream") -> bool:
        """Return whether both runs look the same from outside the core, except for the timing."""
        mine, its = self.result.memory, other.result.memory
        return (
            self.retires_as(other)
            and _same(self.grants, other.grants)
            and all(np.array_equal(mine[base], content) for base, content in its.items())
        )


def _same(mine: NDArray[Any], its: NDArray[Any]) -> bool:
    """Return whether records are equal except for their numbers and cycles."""
    names = [name for name in mine.dtype.names or () if name not in WIDE_FIELDS]
    return len(mine) == len(its) and all(np.array_equal(mine[name], its[name]) for name in names)


# what a program finds: something wrong, such as a core that stands still, or no end
CHECK, TIME = "check", "time"

_DIRECTED_CYCLES = 500_000
_TIMINGS = {
    "ideal memory": (Machine(max_cycles=_DIRECTED_CYCLES, bus_errors=BUS_ERRORS, hart_id=0x5A3C_69F0), 0.002),
    "slow memory": (
        Machine(
            bus_errors=BUS_ERRORS,
            grant_stalls=0.3,
            response_latency=5,
            fetch_grant_stalls=0.8,
            fetch_latency=4,
            seed=3,
            max_cycles=_DIRECTED_CYCLES,
            hart_id=0xA5C3_960F,
        ),
        0.0004,
    ),
}
"""Machines for directed programs by memory speed, and the interrupt rate for programs that enable interrupts."""

_SPARE_CYCLES = 2_000
_LATE = (Reason.MAX_CYCLES, Reason.ENDLESS_LOOP, Reason.TRAP_LOOP, Reason.DEADLOCK)


@dataclass(frozen=True, slots=True)
class Finding:
    how: str = ""  # CHECK or TIME; empty if nothing
    test: str = ""
    text: str = ""  # the first line of the report


class MutantProgram:
    """Runs a program on mutants and compares each run with a run on the unchanged core.

    The unchanged core is checked in lock step with the simulator. For a directed program (``case``), its results,
    memory accesses and bus are checked too. Raises :class:`ToolError` if a check fails.
    """

    def __init__(
        self, name: str, program: RandomProgram, machine: Machine, core: CoreModel, case: Directed | None = None
    ) -> None:
        self._name, self._machine, self._core, self._case = name, machine, core, case
        self._executable = program.executable()
        self.right = Stream(self._executable, machine, core)
        finding = self._checked(machine)
        if finding.how:
            raise ToolError(f"{name} must pass on the core itself, but: {finding.text}")

    def judge(self) -> Finding:
        """Run the program on the chosen mutant; if it behaves differently from the core, check it in full."""
        limit = 2 * self.right.result.cycles + _SPARE_CYCLES
        short = replace(self._machine, max_cycles=min(limit, self._machine.max_cycles))
        stream = Stream(self._executable, short, self._core)
        if stream.shows_as(self.right) if self._case else stream.retires_as(self.right):
            return Finding()
        finding = self._checked(short)
        if finding.how == TIME and short.max_cycles < self._machine.max_cycles:
            finding = self._checked(self._machine)
        return finding

    def _checked(self, machine: Machine) -> Finding:
        """Run the program in lock step with the simulator; check a directed program as its test does."""
        check, (config, library), advance = self._case is not None, self._core, Advance()
        result = run_program(
            self._executable, config, machine, lockstep=True, check=check, library=library, more_checkers=[advance]
        )
        if result.mismatches:
            lines = [line.strip() for line in (result.difference or result.exit.text).splitlines()]
            return Finding(CHECK, self._name, ": ".join(lines[:3]))
        if result.exit.reason is Reason.MAX_CYCLES and result.cycles - advance.last > WATCHDOG_CYCLES:
            text = f"the program has not gone on outside of its interrupt handlers for {WATCHDOG_CYCLES} cycles"
            return Finding(CHECK, self._name, text)
        problems = self._case.problems(result.read) if self._case and result.exit.ok else []
        return Finding(CHECK, self._name, problems[0]) if problems else _finding_at_end(result, self._name)


def _finding_at_end(result: RunResult, name: str) -> Finding:
    if result.exit.ok:
        return Finding()
    return Finding(TIME if result.exit.reason in _LATE else CHECK, name, result.exit.text)


def random_programs(source: CoreSource, instructions: int, core: CoreModel) -> Iterator[MutantProgram]:
    done = 0
    for seed in count():
        case = source.case(seed)
        judge = MutantProgram(f"random program {seed}", case.program, case.machine, core)
        yield judge
        done += len(judge.right.records)
        if done >= instructions:
            return


def directed_programs(core: CoreModel) -> Iterator[MutantProgram]:
    for timing, (machine, rate) in _TIMINGS.items():
        for case in programs_of(core.config):
            surroundings = replace(machine, irq_rate=rate * case.interrupts)
            yield MutantProgram(f"{case.name}, {timing}", case.program(), surroundings, core, case)


def cost_programs(core: CoreModel) -> Finding:
    """Compare measured cycle costs with the documentation, each stall under its cause."""
    name = "cycle costs"
    result, measured = cost_run(core.config, Machine(max_cycles=_DIRECTED_CYCLES), core.library)
    if not result.exit.ok:
        return _finding_at_end(result, name)
    for case in measured:
        if not case.ok:
            return Finding(CHECK, name, f"{case.row.group}: {case.row.name}: {case.cycles} cycles")
    return Finding()
