"""Random programs on a design beside the simulator: plans, trials, and the minimal form of a failure."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from time import perf_counter
from typing import Generic, TypeVar

from xpulpnn.config import CoreConfig
from xpulpnn_sim.cosimulation.model.session import RunResult
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.reference.programs.retirement import Records
from xpulpnn_sim.verification.random.coverage import Coverage
from xpulpnn_sim.verification.random.generator import BUDGET, generate
from xpulpnn_sim.verification.random.layout import BUS_ERRORS
from xpulpnn_sim.verification.random.program import Program, indented
from xpulpnn_sim.verification.random.reference import Fault, ReferenceDesign
from xpulpnn_sim.verification.random.shrink import RUNS, Case, Shrinker
from xpulpnn_sim.verification.random.stress import Stress, random_stress

_REFERENCE_STEPS = 100_000  # Steps after which a program on the simulator has failed; a fault may lead it astray
_SPARE_CYCLES = 1_000  # added to the cycles a shrunk program may take


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of one run in lock step."""

    reason: Reason  # PASS if the program ended well and every retirement was right
    text: str  # report for people
    instructions: int  # length of the run
    cycles: int

    @classmethod
    def of(cls, result: RunResult) -> "Verdict":
        """The verdict on a run on the RTL; a difference from the simulator comes before its end."""
        reason = Reason.DIFFERENCE if result.mismatches else result.exit.reason
        return cls(reason, result.difference or result.exit.text, result.instructions, result.cycles)


Observer = Callable[[Records], None]  # Takes the retirements of a run, block by block

Design = Callable[[Executable, CoreConfig, Stress, Observer], Verdict]  # Runs a program in lock step with the simulator


def reference_design(fault: Fault | None = None) -> Design:
    """The simulator itself as the design: checks the programs, and with a ``fault`` the checks."""

    def run(executable: Executable, config: CoreConfig, stress: Stress, observer: Observer) -> Verdict:
        design = ReferenceDesign(config, fault)
        limit = min(stress.max_cycles, _REFERENCE_STEPS)
        end, records, _ = design.run(executable, limit=limit, irq_rate=stress.irq_rate, seed=stress.seed)
        observer(records)
        difference = Lockstep(executable, config, errors=BUS_ERRORS).compare(records)
        cycles = int(records["cycle"][-1]) + 1 if len(records) else 0
        if difference is not None:
            return Verdict(Reason.DIFFERENCE, difference.text, difference.order + 1, difference.cycle + 1)
        return Verdict(end.reason, end.text, len(records), cycles)

    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Programs to run, and their settings."""

    config: CoreConfig  # configuration of the design
    label: str  # options of the command line that choose the configuration
    # fields of Stress; None: chosen for each program
    grant_stalls: float | None = None
    response_latency: int | None = None
    fetch_grant_stalls: float | None = None
    fetch_latency: int | None = None
    irq_rate: float | None = None

    @property
    def chosen(self) -> dict[str, float | int | None]:
        """The fields of :class:`Stress`."""
        names = {one.name for one in fields(Stress)}
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name in names}

    def case(self, seed: int) -> Case:
        """The program ``seed`` and its machine."""
        stress = random_stress(seed, **self.chosen)
        return Case(generate(self.config, seed, interrupts=stress.irq_rate > 0, budget=BUDGET), stress)

    def command(self, seed: int) -> str:
        """The command that runs the program ``seed`` again."""
        options = [f"--{name.replace('_', '-')} {value}" for name, value in self.chosen.items() if value is not None]
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

    def observe(records: Records) -> None:
        if coverage is not None:
            coverage.add(records, plan.config)

    return design(case.program.executable(), plan.config, case.machine, observe)


def run_seed(seed: int, plan: Plan, design: Design) -> Result:
    """Generate and run the program ``seed``."""
    return tried(seed, plan, Coverage(), lambda coverage: run_case(plan.case(seed), plan, design, coverage))


def shrink(result: Result, design: Design, progress: Callable[[int], None] | None = None, runs: int = RUNS) -> Case:
    """The smallest program that fails in the same way as ``result``, found with at most ``runs`` runs."""
    limit = 2 * result.verdict.cycles + _SPARE_CYCLES
    full = result.plan.case(result.seed)
    case = Case(full.program, replace(full.machine, max_cycles=min(limit, full.machine.max_cycles)))

    def fails(candidate: Case) -> bool:
        return run_case(candidate, result.plan, design).reason is result.verdict.reason

    return Shrinker(fails, progress=progress, runs=runs).shrink(case) if fails(case) else full


def _heading(stress: Stress, result: Result) -> list[str]:
    """All that is needed to see a failure again."""
    return [
        "Written by xpulpnn verify: minimal program that fails",
        f"from: {result.plan.command(result.seed)}",
        f"machine: {stress.shown()}, seed {stress.seed}",
        *result.verdict.text.splitlines(),
    ]


def listing(program: Program, stress: Stress, result: Result) -> str:
    """The whole minimal program; assembles to the words that fail."""
    return program.listing(_heading(stress, result))


def excerpt(program: Program, stress: Stress, result: Result) -> str:
    """The minimal program for people: only what the generator wrote, not what is around it."""
    lines = [line for block in (*program.main, *program.functions) for line in block.lines()]
    return "\n".join([*(f"# {line}" for line in _heading(stress, result)), *indented(lines)]) + "\n"
