"""All mutants of a core, each judged in a process of its own until a program finds it.

The judge is a fresh interpreter that has the model and the programs, and forks for each mutant: it costs no start, and
disturbs no other, whatever the model does. Verdicts are kept at once, so that an interrupted run loses nothing.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NoReturn

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.tools.forks import Forks, limit_computing, silence
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.results import Results
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.verification.mutants.core.design import MutatedCore
from xpulpnn_sim.verification.mutants.core.programs import TIME, Found, Judge, costs, directed_programs, random_programs
from xpulpnn_sim.verification.random.trials import Plan

SIMULATOR = "simulator"  # what the simulator's own checks find

_ENDED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Mutants to judge, and everything that judges them."""

    core: MutatedCore
    plan: Plan
    instructions: int  # retirements of random programs for each
    waiting: tuple[int, ...]  # mutants to judge
    jobs: int  # how many side by side
    limit_s: int  # seconds of computing after which a mutant counts as found
    verdicts: Results  # gets a record for each
    key: str  # of the records
    programs: str  # digest of the programs


def judge(work: Work) -> None:
    """Judge mutants in a process of its own; raises :class:`ToolError` if it fails."""
    # a process of its own even for a single job: threads must not be forked
    with executor(1, timeout_s=inf) as pool:
        try:
            pool.submit(_judge_all, work).result()
        except CallError as error:
            raise ToolError(f"judge of the mutants: {error}") from None


def _judge_all(work: Work) -> None:
    config: CoreConfig = work.plan.config
    work.core.choose(0)
    programs = [
        *random_programs(work.plan, work.instructions, work.core.library),
        *directed_programs(config, work.core.library),
    ]
    found = costs(config, work.core.library)
    if found.how:
        raise ToolError(f"{found.test} must pass on the core itself, but: {found.text}")

    def ended(mutant: int, code: int) -> None:
        if code != _ENDED:
            how = TIME if -code == signal.SIGPROF else SIMULATOR
            _tell(work, mutant, Found(how, "", f"process ended with {code}"))

    forks = Forks(work.jobs, ended)
    for mutant in work.waiting:
        if forks.start(mutant):
            _judge_one(work, mutant, programs)
    forks.wait()


def _judge_one(work: Work, mutant: int, programs: Sequence[Judge]) -> NoReturn:
    """One mutant, until something finds it; ends the process."""
    code = 1
    try:
        silence()
        limit_computing(work.limit_s)
        work.core.choose(mutant)
        _tell(work, mutant, _found(work, programs))
        code = _ENDED
    finally:
        os._exit(code)


def _found(work: Work, programs: Sequence[Judge]) -> Found:
    config, library = work.plan.config, work.core.library
    for program in programs:
        found = program.judge(config, library)
        if found.how:
            return found
    return costs(config, library)


def _tell(work: Work, mutant: int, found: Found) -> None:
    row = {"killed": found.how, "test": found.test, "text": found.text, "programs": work.programs}
    work.verdicts.keep(str(mutant), row, work.key)
