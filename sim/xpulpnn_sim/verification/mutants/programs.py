"""Programs that judge a core: those of ``xpulpnn verify``, then directed programs, then the cycle costs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.checks.retirements import Checker, Findings
from xpulpnn_sim.cosimulation.model.machine import Machine, Target, load_memory
from xpulpnn_sim.cosimulation.model.model import Block, Windows
from xpulpnn_sim.cosimulation.model.schema import GRANT, OUTSIDE, Event
from xpulpnn_sim.cosimulation.model.session import RunResult, Session
from xpulpnn_sim.cosimulation.workloads.program_run import run_program, text_window
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.exits import TOHOST_PASS, Reason
from xpulpnn_sim.reference.programs.retirement import RETIREMENT, WIDE_FIELDS
from xpulpnn_sim.verification.costs.cost_rows import cost_rows
from xpulpnn_sim.verification.costs.measurement import CostRow, cost_program, measure
from xpulpnn_sim.verification.directed.case import Directed
from xpulpnn_sim.verification.directed.programs import programs_of
from xpulpnn_sim.verification.random.layout import BUS_ERRORS
from xpulpnn_sim.verification.random.trials import Plan

_FIRST_WORD = 2 * len(WIDE_FIELDS)
_CYCLE_WORDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Record of all that a run has shown."""

    passed: bool  # whether the program has reported success
    retired: NDArray[np.uint32]  # the records without number and cycle
    cycles: NDArray[np.uint64]  # when they retired
    lines: NDArray[np.uint32]
    grants: NDArray[np.uint32]  # accesses on the data bus, without their cycles
    memory: Windows  # final memory by base address

    def retires_as(self, other: "Stream") -> bool:
        """Return whether both have passed and retired the same, interrupts under the same lines."""
        same = self.passed and other.passed and np.array_equal(self.retired, other.retired)
        return same and np.array_equal(self.lines, other.lines)

    def shows_as(self, other: "Stream") -> bool:
        """Return whether nothing outside the core tells them apart but the time."""
        return (
            self.retires_as(other)
            and np.array_equal(self.grants, other.grants)
            and all(np.array_equal(self.memory[base], content) for base, content in other.memory.items())
        )


class _Collector(Checker):
    """A checker that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[NDArray[np.void]] = []
        self.lines: list[NDArray[np.uint32]] = []
        self.grants: list[NDArray[np.void]] = []

    def __call__(self, block: Block) -> Findings:
        self.records.append(block.records().copy())
        self.lines.append(block.lines().copy())
        self.grants.append(block.grants.copy())
        return Findings()


def _stream_of(executable: Executable, config: CoreConfig, machine: Machine, library: Path) -> Stream:
    """Run a program on a model until it reports an end, or goes wrong, or has taken ``machine.max_cycles``."""
    target = Target.of(config, machine)
    memory = load_memory(executable, machine.ram)
    settings = {"boot_addr": executable.entry, "tohost": executable.tohost} | target.settings
    collector = _Collector()
    with Session(library, 1, settings, memory, machine, checkers=[collector]) as session:
        passed = _ended_well(session)
        session.hand_over()
        session.checks.wait()
    records = np.concatenate([np.zeros(0, RETIREMENT), *collector.records])
    grants = np.concatenate([np.zeros(0, GRANT), *collector.grants])
    return Stream(
        passed=passed,
        retired=_words(records)[:, _FIRST_WORD:].copy(),
        cycles=records["cycle"].copy(),
        lines=np.concatenate([np.zeros(0, np.uint32), *collector.lines]),
        grants=_words(grants)[:, _CYCLE_WORDS:].copy(),
        memory=memory,
    )


def _words(rows: NDArray[np.void]) -> NDArray[np.uint32]:
    """Structs as a row of words each."""
    return rows.view(np.uint32).reshape(len(rows), rows.dtype.itemsize // 4)


def _ended_well(session: Session) -> bool:
    """Run to the end: whether it is one that the program has reported, a success."""
    model = session.model
    while True:
        session.advance(session.limit)
        if Event.TOHOST in model.events and not model.events & OUTSIDE:
            passed = int(model.status["value"]) == TOHOST_PASS
            retired = int(model.harts[0]["retired"])
            # the store that reports the end has been granted, but not retired
            while int(model.harts[0]["retired"]) == retired and Event.STUCK not in model.events:
                session.advance(model.cycles + 1)
            return passed
        if session.ended(lambda pc: "") is not None:
            return False


CHECK, TIME = "check", "time"  # what a program finds: something wrong, or no end

_DIRECTED_CYCLES = 500_000
_TIMINGS = {
    "ideal memory": (Machine(max_cycles=_DIRECTED_CYCLES, bus_errors=BUS_ERRORS, hart_id=0x5A3C_69F0), 0.002),
    "slow memory": (
        Machine(
            bus_errors=BUS_ERRORS,
            grant_stalls=0.3,
            response_latency=5,
            fetch_grant_stalls=0.3,
            fetch_latency=4,
            seed=3,
            max_cycles=_DIRECTED_CYCLES,
            hart_id=0xA5C3_960F,
        ),
        0.0004,
    ),
}
"""Machines of directed programs, and how often interrupts come where a program enables them."""

_SPARE_CYCLES = 2_000
_LATE = (Reason.MAX_CYCLES, Reason.ENDLESS_LOOP, Reason.TRAP_LOOP, Reason.DEADLOCK)


@dataclass(frozen=True, slots=True)
class Found:
    """Finding of a program."""

    how: str = ""  # CHECK or TIME; empty if nothing
    test: str = ""
    text: str = ""  # the first line of the report


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramJudge:
    """A program, and what it shows on the core itself, where every retirement is as the simulator says."""

    name: str
    executable: Executable
    machine: Machine
    right: Stream
    case: Directed | None = None  # the directed program that it is: then results, memory and bus are checked as well

    @classmethod
    def made(
        cls,
        name: str,
        executable: Executable,
        machine: Machine,
        config: CoreConfig,
        library: Path,
        case: Directed | None = None,
    ) -> "ProgramJudge":
        """Run the program on the core itself; raises :class:`ToolError` if it finds something there."""
        right = _stream_of(executable, config, machine, library)
        made = cls(name=name, executable=executable, machine=machine, right=right, case=case)
        found = made.checked(config, machine, library)
        if found.how:
            raise ToolError(f"{name} must pass on the core itself, but: {found.text}")
        return made

    def judge(self, config: CoreConfig, library: Path) -> Found:
        """Run the program on the mutant that is chosen; what is not as on the core itself is checked in full."""
        limit = 2 * int(self.right.cycles[-1]) + _SPARE_CYCLES
        short = replace(self.machine, max_cycles=min(limit, self.machine.max_cycles))
        stream = _stream_of(self.executable, config, short, library)
        if stream.shows_as(self.right) if self.case else stream.retires_as(self.right):
            return Found()
        found = self.checked(config, short, library)
        if found.how == TIME and short.max_cycles < self.machine.max_cycles:
            found = self.checked(config, self.machine, library)
        return found

    def checked(self, config: CoreConfig, machine: Machine, library: Path) -> Found:
        """Run the program with the checks that ``verify``, or the tests of directed programs, make."""
        check = self.case is not None
        result = run_program(self.executable, config, machine, lockstep=True, check=check, library=library)
        found = _compared(self.name, result)
        if self.case is not None and not found.how and (problems := self.case.problems(result.read)):
            return Found(CHECK, self.name, problems[0])
        return found


def _compared(name: str, result: RunResult) -> Found:
    if result.mismatches:
        return Found(CHECK, name, _first_lines(result.difference or result.exit.text))
    if result.exit.ok:
        return Found()
    return Found(TIME if result.exit.reason in _LATE else CHECK, name, result.exit.text)


def _first_lines(text: str) -> str:
    """Describe a difference and its place in one line."""
    lines = [line.strip() for line in text.splitlines()]
    return ": ".join(lines[:3])


def random_programs(plan: Plan, instructions: int, library: Path) -> Iterator[ProgramJudge]:
    """The programs that ``xpulpnn verify`` runs for so many instructions."""
    done = 0
    for seed in count():
        case = plan.case(seed)
        executable, machine = case.program.executable(), case.machine
        judge = ProgramJudge.made(f"random program {seed}", executable, machine, plan.config, library)
        yield judge
        done += len(judge.right.retired)
        if done >= instructions:
            return


def directed_programs(config: CoreConfig, library: Path) -> Iterator[ProgramJudge]:
    """The directed programs, with fast memory and then with slow memory."""
    for timing, (machine, rate) in _TIMINGS.items():
        for case in programs_of(config):
            surroundings = replace(machine, irq_rate=rate * case.interrupts)
            name = f"{case.name}, {timing}"
            yield ProgramJudge.made(name, case.program().executable(), surroundings, config, library, case)


@cache
def _costs(config: CoreConfig) -> tuple[tuple[CostRow, ...], Executable]:
    """The rows and their program."""
    rows = cost_rows(config)
    return tuple(rows), cost_program(rows).executable()


def cost_programs(config: CoreConfig, library: Path) -> Found:
    """Measure the cycle costs, each wait under its cause."""
    rows, executable = _costs(config)
    machine = Machine(max_cycles=_DIRECTED_CYCLES)
    result = run_program(executable, config, machine, account=True, library=library)
    name = "cycle costs"
    if not result.exit.ok:
        return Found(TIME if result.exit.reason in _LATE else CHECK, name, result.exit.text)
    for one in measure(rows, executable, result.accounts[0], text_window(executable)[0]):
        if not one.ok:
            return Found(CHECK, name, f"{one.row.group}: {one.row.name}: {one.cycles} cycles")
    return Found()
