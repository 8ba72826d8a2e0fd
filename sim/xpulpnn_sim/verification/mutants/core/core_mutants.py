"""All mutants of a core: programs on each of them, proofs about those that are left, and what is known already."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.tools.forks import Forks, limit_computing, silence
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.results import Results, digest, watched
from xpulpnn_sim.tools.sources import sources_digest
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.tools.yosys import Yosys
from xpulpnn_sim.verification.mutants.core.design import MutatedCore, mutated_core
from xpulpnn_sim.verification.mutants.core.programs import TIME, Found, Judge, costs, directed_programs, random_programs
from xpulpnn_sim.verification.mutants.core.proofs import Kept, Prover
from xpulpnn_sim.verification.mutants.units.mutants import Mutant
from xpulpnn_sim.verification.mutants.units.summary import EQUIVALENT, Judged, keep
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


_VERDICTS = "verdicts"
_NO_JUDGES = frozenset({"api", "benches", "c_programs", "cli", "clusters", "exploration", "proofs", "publishing"})
"""Folders of sources that have nothing to do with what programs find."""

Told = Callable[[str, int, int], None]  # hears of the progress: what is being done, how much of it, of how much


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of the judgement of a core."""

    count: int
    seed: int  # which mutants
    instructions: int  # retirements of random programs for each
    jobs: int  # mutants that run side by side
    limit_s: int  # seconds of computing after which a mutant counts as found
    proof_s: int  # seconds for each search of a proof; 0 for no proofs


def judge_core(plan: Plan, settings: Settings, folder: Path, yosys: Yosys, *, resume: bool, told: Told) -> list[Judged]:
    """Judge the mutants of a core."""
    folder.mkdir(parents=True, exist_ok=True)
    told("model", 0, settings.count)
    core = mutated_core(plan.config, settings.count, settings.seed, folder, yosys)
    verdicts, proofs = (Results(folder / name, fresh=not resume) for name in (_VERDICTS, "proofs"))
    key = digest(core.mutants, core.digest)
    # programs, and what checks them, come from these sources; more of them may find what these did not
    programs = digest(settings.instructions, sources_digest(_NO_JUDGES))
    rows = {mutant.number: verdicts.find(str(mutant.number), key) for mutant in core.mutants}
    known = {number: row for number, row in rows.items() if row and (row["killed"] or row["programs"] == programs)}
    verdicts.retain([str(number) for number in known])
    prover = Prover(plan.config, core.mutants, folder, yosys, settings.proof_s, Kept(proofs, key))
    # no program need run on what changes nothing
    before = dict.fromkeys(prover.unchanged(), (EQUIVALENT, "")) | prover.proved()
    changed = [mutant for mutant in core.mutants if mutant.number not in before]
    waiting = tuple(mutant.number for mutant in changed if mutant.number not in known)
    if waiting:
        work = Work(
            core=core,
            plan=plan,
            instructions=settings.instructions,
            waiting=waiting,
            jobs=settings.jobs,
            limit_s=settings.limit_s,
            verdicts=Results(verdicts.folder.absolute()),
            key=key,
            programs=programs,
        )
        with watched(verdicts, lambda number: told("programs", number, len(changed))):
            judge(work)
        known |= {number: row for number in waiting if (row := verdicts.find(str(number), key))}
    missing = [mutant for mutant in changed if mutant.number not in known]
    if missing:
        raise ToolError(f"every mutant must have been judged, but {len(missing)} of them were not")
    proved = before | prover.prove(
        [mutant for mutant in changed if not known[mutant.number]["killed"]],
        lambda done, total: told("proofs", done, total),
    )
    found = [_judged(mutant, known.get(mutant.number), proved.get(mutant.number)) for mutant in core.mutants]
    keep(folder, found)
    return found


def _judged(mutant: Mutant, row: dict[str, Any] | None, proved: tuple[str, str] | None) -> Judged:
    proof, example = proved or ("", "")
    if row is None:
        return Judged(mutant=mutant, killed="", test="", proof=proof, example=example)
    return Judged(mutant=mutant, killed=row["killed"], test=row["test"], proof=proof, example=example)
