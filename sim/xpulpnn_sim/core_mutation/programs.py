"""What judges a core: the random programs of ``xpulpnn verify``, then directed programs, then the cycle costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.elf import Executable
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.program_run import run_program, text_window
from xpulpnn_sim.harness.session import RunResult
from xpulpnn_sim.retirement import WIDE_FIELDS, Records
from xpulpnn_sim.verify.campaign import Plan
from xpulpnn_sim.verify.cost_rows import cost_rows
from xpulpnn_sim.verify.costs import cost_program, measure
from xpulpnn_sim.verify.designs import machine_of
from xpulpnn_sim.verify.directed.case import Directed
from xpulpnn_sim.verify.directed.programs import programs_of
from xpulpnn_sim.verify.layout import BUS_ERRORS

CHECK, TIME = "check", "time"
"""What a program finds: something wrong, or no end."""

_DIRECTED_CYCLES = 500_000
_TIMINGS = {
    "ideal memory": (Machine(max_cycles=_DIRECTED_CYCLES, bus_errors=BUS_ERRORS), 0.002),
    "slow memory": (
        Machine(
            bus_errors=BUS_ERRORS,
            grant_stalls=0.3,
            response_latency=5,
            fetch_grant_stalls=0.3,
            fetch_latency=4,
            seed=3,
            max_cycles=_DIRECTED_CYCLES,
        ),
        0.0004,
    ),
}
"""Machines of directed programs, and how often interrupts come where a program enables them."""

_SPARE_CYCLES = 2_000
_LATE = (Reason.MAX_CYCLES, Reason.ENDLESS_LOOP, Reason.TRAP_LOOP, Reason.DEADLOCK)


@dataclass(frozen=True, slots=True)
class Found:
    """What a program has found.

    Members
    -------
    how : str
        :data:`CHECK` or :data:`TIME`; empty if nothing.
    test : str
        The program.
    text : str
        The first line of the report.
    """

    how: str = ""
    test: str = ""
    text: str = ""


def _words(records: Sequence[Records]) -> NDArray[np.uint32]:
    """The 32-bit fields of retirements, a row each; number and cycle are left out."""
    if not records:
        return np.zeros((0, 0), np.uint32)
    joined = np.concatenate(records)
    return joined.view(np.uint32).reshape(len(joined), -1)[:, 2 * len(WIDE_FIELDS) :].copy()


@dataclass(slots=True)
class _Stream:
    """Collects what a run retires."""

    blocks: list[Records]

    def __call__(self, records: Sequence[Records]) -> None:
        self.blocks.append(records[0].copy())

    @property
    def words(self) -> NDArray[np.uint32]:
        return _words(self.blocks)

    @property
    def cycles(self) -> NDArray[np.uint64]:
        return np.concatenate([block["cycle"] for block in self.blocks])


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomProgram:
    """A random program with what it does on the core itself, every retirement as the simulator says.

    Parameters
    ----------
    name : str
        Which one.
    executable : Executable
        The program.
    machine : Machine
        Its surroundings.
    words : uint32[retirements, fields]
        What retires.
    cycles : uint64[retirements]
        When.
    """

    name: str
    executable: Executable
    machine: Machine
    words: NDArray[np.uint32]
    cycles: NDArray[np.uint64]

    @classmethod
    def made(cls, seed: int, plan: Plan, library: Path) -> "RandomProgram":
        """The program ``seed`` on the core; raises :class:`ToolError` if it finds a difference."""
        case = plan.case(seed)
        executable, machine, stream = case.program.executable(), machine_of(case.machine), _Stream([])
        result = run_program(
            executable, plan.config, machine, lockstep=True, observer=stream, library=library
        )
        if result.mismatches or not result.exit.ok:
            raise ToolError(f"random program {seed} must pass on the core itself, but: {result.exit.text}")
        return cls(
            name=f"random program {seed}",
            executable=executable,
            machine=machine,
            words=stream.words,
            cycles=stream.cycles,
        )

    def judge(self, config: CoreConfig, library: Path) -> Found:
        """Run it on the mutant that is chosen; whatever is not as on the core itself is compared with the simulator."""
        limit = 2 * int(self.cycles[-1]) + _SPARE_CYCLES
        stream = _Stream([])
        short = replace(self.machine, max_cycles=min(limit, self.machine.max_cycles))
        result = run_program(self.executable, config, short, observer=stream, library=library)
        if result.exit.ok and self._same(stream):
            return Found()
        found = _compared(self.name, run_program(self.executable, config, short, lockstep=True, library=library))
        if found.how == TIME and short.max_cycles < self.machine.max_cycles:
            result = run_program(self.executable, config, self.machine, lockstep=True, library=library)
            found = _compared(self.name, result)
        return found

    def _same(self, stream: _Stream) -> bool:
        """Whether all retires as on the core itself; with interrupts, which come by the cycle, also when it did."""
        if not np.array_equal(stream.words, self.words):
            return False
        return not self.machine.irq_rate or np.array_equal(stream.cycles, self.cycles)


def _compared(name: str, result: RunResult) -> Found:
    if result.mismatches:
        return Found(CHECK, name, _first_lines(result.difference or result.exit.text))
    if result.exit.ok:
        return Found()
    return Found(TIME if result.exit.reason in _LATE else CHECK, name, result.exit.text)


def _first_lines(text: str) -> str:
    """Where a difference is, and what it is, in one line."""
    lines = [line.strip() for line in text.splitlines()]
    return ": ".join(lines[:3])


def random_programs(plan: Plan, instructions: int, library: Path) -> Iterator[RandomProgram]:
    """The programs that ``xpulpnn verify`` runs for so many instructions.

    Parameters
    ----------
    plan : Plan
        Of the configuration.
    instructions : int
        Retired instructions to reach.
    library : Path
        The compiled core.
    """
    done = 0
    for seed in count():
        program = RandomProgram.made(seed, plan, library)
        yield program
        done += len(program.words)
        if done >= instructions:
            return


def directed(config: CoreConfig, library: Path) -> Found:
    """Run the directed programs, fast memory first, until one finds something."""
    for timing, (machine, rate) in _TIMINGS.items():
        for case in programs_of(config):
            found = _directed(case, f"{case.name}, {timing}", config, machine, rate, library)
            if found.how:
                return found
    return Found()


def _directed(
    case: Directed, name: str, config: CoreConfig, machine: Machine, rate: float, library: Path
) -> Found:
    surroundings = replace(machine, irq_rate=rate * case.interrupts)
    executable = case.program().executable()
    result = run_program(executable, config, surroundings, lockstep=True, check=True, library=library)
    found = _compared(name, result)
    if not found.how and (problems := case.problems(result.read)):
        return Found(CHECK, name, problems[0])
    return found


def costs(config: CoreConfig, library: Path) -> Found:
    """Measure the cycle costs, each wait under its cause."""
    rows = cost_rows(config)
    executable = cost_program(rows).executable()
    machine = Machine(max_cycles=_DIRECTED_CYCLES)
    result = run_program(executable, config, machine, account=True, library=library)
    name = "cycle costs"
    if not result.exit.ok:
        return Found(TIME if result.exit.reason in _LATE else CHECK, name, result.exit.text)
    for one in measure(rows, executable, result.accounts[0], text_window(executable)[0]):
        if not one.ok:
            return Found(CHECK, name, f"{one.row.group}: {one.row.name}: {one.cycles} cycles")
    return Found()
