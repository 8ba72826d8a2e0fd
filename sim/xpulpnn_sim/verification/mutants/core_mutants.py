"""All mutants of a core: programs on each of them, proofs about those that are left, and what is known already."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import NoReturn

from xpulpnn.errors import ToolError
from xpulpnn_sim.tools.forks import Forks, limit_computing, silence
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.results import Results, digest, sources_digest
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.tools.yosys import Yosys
from xpulpnn_sim.verification.mutants.campaign import Judged, MutationSettings, Told, judge
from xpulpnn_sim.verification.mutants.core_design import MutatedCore, mutated_core
from xpulpnn_sim.verification.mutants.programs import (
    TIME,
    CoreModel,
    Found,
    cost_programs,
    directed_programs,
    random_programs,
)
from xpulpnn_sim.verification.mutants.provers import CoreProver
from xpulpnn_sim.verification.random.trials import Plan

SIMULATOR = "simulator"  # what the simulator's own checks find

_ENDED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Mutants to judge, and everything that judges them."""

    core: MutatedCore
    plan: Plan
    settings: MutationSettings
    instructions: int  # retirements of random programs for each
    waiting: tuple[int, ...]  # mutants to judge
    verdicts: Results  # gets a record for each
    key: str  # of the records
    programs: str  # digest of the programs


def run_programs(work: Work) -> None:
    """Judge mutants in a process of its own; raises :class:`ToolError` if it fails."""
    # a process of its own even for a single job: threads must not be forked
    with executor(1, timeout_s=inf) as pool:
        try:
            pool.submit(_judge_all, work).result()
        except CallError as error:
            raise ToolError(f"judge of the mutants: {error}") from None


def _judge_all(work: Work) -> None:
    core = CoreModel(work.plan.config, work.core.library)
    work.core.choose(0)
    programs = [*random_programs(work.plan, work.instructions, core), *directed_programs(core)]
    found = cost_programs(core)
    if found.how:
        raise ToolError(f"{found.test} must pass on the core itself, but: {found.text}")

    def ended(mutant: int, code: int) -> None:
        if code != _ENDED:
            how = TIME if -code == signal.SIGPROF else SIMULATOR
            _tell(work, mutant, Found(how, "", f"process ended with {code}"))

    forks = Forks(work.settings.jobs, ended)
    for mutant in work.waiting:
        if forks.start(mutant):
            _judge_one(work, mutant, [*(one.judge for one in programs), partial(cost_programs, core)])
    forks.wait()


def _judge_one(work: Work, mutant: int, judges: Sequence[Callable[[], Found]]) -> NoReturn:
    """One mutant, until something finds it; ends the process."""
    code = 1
    try:
        silence()
        limit_computing(work.settings.limit_s)
        work.core.choose(mutant)
        found = (judge() for judge in judges)
        _tell(work, mutant, next((one for one in found if one.how), Found()))
        code = _ENDED
    finally:
        os._exit(code)


def _tell(work: Work, mutant: int, found: Found) -> None:
    row = {"killed": found.how, "test": found.test, "text": found.text, "tests": work.programs}
    work.verdicts.keep(str(mutant), row, work.key)


_NO_JUDGES = frozenset({"api", "benches", "c_programs", "cli", "clusters", "exploration", "proofs", "publishing"})
"""Folders of sources that have nothing to do with what programs find."""


def judge_core(
    plan: Plan, settings: MutationSettings, instructions: int, folder: Path, yosys: Yosys, *, resume: bool, told: Told
) -> list[Judged]:
    """Judge the mutants of a core."""
    folder.mkdir(parents=True, exist_ok=True)
    told("model", 0, settings.count)
    core = mutated_core(plan.config, settings.count, settings.seed, folder, yosys)
    verdicts, proofs = (Results((folder / name).absolute(), fresh=not resume) for name in ("verdicts", "proofs"))
    key = digest(core.mutants, core.digest)
    # programs, and what checks them, come from these sources; more of them may find what these did not
    programs = digest(instructions, sources_digest(_NO_JUDGES))

    def run(waiting: Sequence[int]) -> None:
        work = Work(
            core=core,
            plan=plan,
            settings=settings,
            instructions=instructions,
            waiting=tuple(waiting),
            verdicts=verdicts,
            key=key,
            programs=programs,
        )
        run_programs(work)

    prover = None
    if settings.proof_s:
        prover = CoreProver(core.mutants, proofs, key, settings.proof_s, plan.config, folder, yosys)
    return judge(core.mutants, verdicts, key, programs, run, prover, told)
