"""All mutants of a core: programs on each of them, proofs about those that are left, and what is known already."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.tools.results import Results, digest, watched
from xpulpnn_sim.tools.sources import sources_digest
from xpulpnn_sim.tools.yosys import Yosys
from xpulpnn_sim.verification.mutants.core.design import mutated_core
from xpulpnn_sim.verification.mutants.core.judges import Work, judge
from xpulpnn_sim.verification.mutants.core.proofs import Kept, Prover
from xpulpnn_sim.verification.mutants.units.judged import EQUIVALENT, Judged
from xpulpnn_sim.verification.mutants.units.mutants import Mutant
from xpulpnn_sim.verification.mutants.units.summary import keep
from xpulpnn_sim.verification.random.trials import Plan

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
