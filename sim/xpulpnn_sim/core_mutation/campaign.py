"""All mutants of a core: programs on each of them, proofs about those that are left, and what is known already."""

import hashlib
import json
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.abc_tool import find_abc
from xpulpnn_sim.core_mutation.design import BASE, TOP, MutatedCore, mutated_core
from xpulpnn_sim.core_mutation.judges import Work, judge
from xpulpnn_sim.files import write_text
from xpulpnn_sim.formal.mutant_proof import (
    DIFFERENT,
    EVERYWHERE,
    OUTPUTS,
    UNDECIDED,
    Answered,
    Comparison,
    Judge,
    Situation,
)
from xpulpnn_sim.formal.mutated_gates import Change, MutatedGates, read_mutated
from xpulpnn_sim.mutation.judged import EQUIVALENT, LEGAL, Judged
from xpulpnn_sim.mutation.mutants import Mutant
from xpulpnn_sim.mutation.summary import keep
from xpulpnn_sim.sources import sources_digest
from xpulpnn_sim.verify.campaign import Plan
from xpulpnn_sim.yosys import Yosys

_VERDICTS, _PROOFS, _UNCHANGED = "verdicts.jsonl", "proofs.jsonl", "unchanged.json"
_NO_JUDGES = frozenset(
    {
        *("api", "bench", "commands", "cprograms", "explorer", "farm", "faulty", "formal", "guide", "multihart"),
        *("mutation", "netruns", "package", "papers", "properties", "riscv_formal", "widths"),
    }
)
"""Folders of sources that have nothing to do with what programs find."""

_RUNNING = (Situation(values={"rst": {0}}),)
_ANSWERED = tuple(
    Answered(request=f"{port}__req", grant=f"{port}__gnt", answer=f"{port}__rvalid") for port in ("instr", "data")
)
"""What surrounds a core that runs: reset is over, and buses answer what they have granted."""

_POLL_S = 0.5

Told = Callable[[str, int, int], None]
"""Hears of the progress: what is being done, how much of it, of how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a core is mutated and judged.

    Parameters
    ----------
    count : int
        Mutants.
    seed : int
        Which mutants.
    instructions : int
        Retirements of random programs for each.
    jobs : int
        Mutants that run side by side.
    limit_s : int
        Seconds after which a mutant counts as found.
    proof_s : int
        Seconds for each search of a proof; 0 for no proofs.
    """

    count: int
    seed: int
    instructions: int
    jobs: int
    limit_s: int
    proof_s: int


def campaign(plan: Plan, settings: Settings, folder: Path, yosys: Yosys, *, resume: bool, told: Told) -> list[Judged]:
    """Judge the mutants of a core.

    Parameters
    ----------
    plan : Plan
        Of the configuration.
    settings : Settings
        How.
    folder : Path
        Gets the files of Yosys, verdicts, proofs and the result.
    yosys : Yosys
        Makes the mutants and their gates.
    resume : bool
        Whether verdicts that are in the folder count, if they are about the same mutants. What no program has found
        runs again if there are other programs, or more instructions, than when it was judged.
    told : callable
        Gets what is done ("model", "programs" or "proofs"), how many mutants it is done with, and of how many.

    Raises
    ------
    ToolError
        If a tool fails, or a program fails on the core itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told("model", 0, settings.count)
    core = mutated_core(plan.config, settings.count, settings.seed, folder, yosys)
    verdicts = folder / _VERDICTS
    mutants = [asdict(mutant) for mutant in core.mutants], core.digest
    same_core = _same(folder / "core.key", mutants) and resume
    # programs, and what checks them, come from these sources
    same_programs = _same(folder / "programs.key", (settings.instructions, sources_digest(_NO_JUDGES))) and same_core
    known = {row["mutant"]: row for row in _rows(verdicts)} if same_core else {}
    if not same_programs:
        known = {number: row for number, row in known.items() if row["killed"]}
        write_text(verdicts, "".join(f"{json.dumps(row)}\n" for row in known.values()))
    if not same_core:
        for name in (_PROOFS, _UNCHANGED):
            (folder / name).unlink(missing_ok=True)
    prover = _Prover(core, settings, folder, yosys)
    unchanged = prover.unchanged()
    changed = [mutant for mutant in core.mutants if mutant.number not in unchanged]
    waiting = tuple(mutant.number for mutant in changed if mutant.number not in known)
    if waiting:
        work = Work(
            core=core,
            plan=plan,
            instructions=settings.instructions,
            waiting=waiting,
            jobs=settings.jobs,
            limit_s=settings.limit_s,
            verdicts=verdicts.absolute(),
        )
        with _watched(verdicts, lambda number: told("programs", number, len(changed))):
            judge(work)
        known = {row["mutant"]: row for row in _rows(verdicts)}
    missing = [mutant for mutant in changed if mutant.number not in known]
    if missing:
        raise ToolError(f"every mutant must have been judged, but {len(missing)} of them were not")
    proved = prover.prove([mutant for mutant in changed if not known[mutant.number]["killed"]], told)
    found = [_judged(mutant, known.get(mutant.number), proved.get(mutant.number)) for mutant in core.mutants]
    keep(folder, found)
    return found


def _judged(mutant: Mutant, row: dict[str, Any] | None, proved: tuple[str, str] | None) -> Judged:
    """What became of a mutant: nothing is known of what programs find in one whose gates are those of the core."""
    if row is None:
        return Judged(mutant=mutant, killed="", test="", proof=EQUIVALENT)
    proof, example = proved or ("", "")
    return Judged(mutant=mutant, killed=row["killed"], test=row["test"], proof=proof, example=example)


def _same(stamp: Path, facts: object) -> bool:
    """Whether a file tells the same facts; it does afterwards."""
    key = hashlib.sha256(json.dumps(facts, default=list).encode()).hexdigest()
    same = stamp.exists() and stamp.read_text() == key
    write_text(stamp, key)
    return same


class _Prover:
    """Proofs about the mutants of a core; what is proved is kept as it comes."""

    def __init__(self, core: MutatedCore, settings: Settings, folder: Path, yosys: Yosys) -> None:
        self._core, self._settings, self._folder, self._yosys = core, settings, folder, yosys
        self._gates: MutatedGates | None = None

    def unchanged(self) -> frozenset[int]:
        """Mutants whose gates are those of the core, which no program need run on; none without proofs."""
        path = self._folder / _UNCHANGED
        if not self._settings.proof_s:
            return frozenset()
        if not path.exists():
            gates = self._made()
            numbers = [mutant.number for mutant in self._core.mutants if not gates.differences(mutant.number)]
            write_text(path, json.dumps(numbers))
        return frozenset(json.loads(path.read_text()))

    def prove(self, left: Sequence[Mutant], told: Told) -> dict[int, tuple[str, str]]:
        """What is proved about mutants that no program finds, by number: verdict, and inputs that show a difference."""
        if not self._settings.proof_s:
            return {}
        path, seconds = self._folder / _PROOFS, self._settings.proof_s
        found = {row["mutant"]: (row["proof"], row["example"]) for row in _rows(path) if row["proof_s"] >= seconds}
        waiting = [mutant for mutant in left if mutant.number not in found]
        if not waiting:
            return found
        told("proofs", len(left) - len(waiting), len(left))
        judge = Judge(gates=self._made(), abc=find_abc(), timeout_s=seconds, situations=_RUNNING, answered=_ANSWERED)
        for done, mutant in enumerate(waiting, start=len(left) - len(waiting) + 1):
            compared = judge.compare(mutant.number)
            proof, example = _proof(compared), json.dumps([*compared.example]) if compared.scope == OUTPUTS else ""
            row = {"mutant": mutant.number, "proof": proof, "example": example, "proof_s": seconds}
            with path.open("a") as file:
                file.write(f"{json.dumps(row)}\n")
            found[mutant.number] = proof, example
            told("proofs", done, len(left))
        return found

    def _made(self) -> MutatedGates:
        if self._gates is None:
            changes = [Change(number=mutant.number, command=mutant.command) for mutant in self._core.mutants]
            self._gates = read_mutated(self._folder / BASE, TOP, changes, self._yosys, ignored=["rvfi_*"])
        return self._gates


def _proof(compared: Comparison) -> str:
    """Verdict of a comparison: what is equal only in states that are reached is so for what occurs."""
    if compared.verdict == EQUIVALENT:
        return EQUIVALENT if compared.scope == EVERYWHERE else LEGAL
    # a difference in a state that may never be reached says nothing
    return DIFFERENT if compared.scope == OUTPUTS else UNDECIDED


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of JSON; the last one may be cut off."""
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except ValueError:
            return


@contextmanager
def _watched(path: Path, told: Callable[[int], None]) -> Generator[None]:
    """Tells how many lines a file has while something else writes it."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            told(sum(1 for _ in _rows(path)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
