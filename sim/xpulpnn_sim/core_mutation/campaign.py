"""All mutants of a core: programs on each of them, proofs about those that are left, and what is known already."""

import hashlib
import json
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.core_mutation.design import BASE, ENABLE, TOP, MutatedCore, mutated_core, turned_on
from xpulpnn_sim.core_mutation.judges import Work, judge
from xpulpnn_sim.core_mutation.proofs import EQUIVALENT, METHOD, PROVED, Gates, decide, gates_of
from xpulpnn_sim.files import write_text
from xpulpnn_sim.mutation.mutants import Mutant
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
"""Folders of sources that have nothing to do with what becomes of a mutant of the core."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A mutant of the core and what became of it.

    Parameters
    ----------
    mutant : Mutant
        The change.
    killed : str
        ``check``, ``time`` or ``simulator``; empty if all programs passed.
    test : str
        Program that found it.
    text : str
        What it found.
    proof : str
        A verdict of :mod:`xpulpnn_sim.core_mutation.proofs`; empty without a proof.
    """

    mutant: Mutant
    killed: str
    test: str
    text: str
    proof: str = ""

    @property
    def alive(self) -> bool:
        """Whether neither a program nor a proof disposed of it."""
        return not self.killed and self.proof not in PROVED


def campaign(plan: Plan, settings: Settings, folder: Path, yosys: Yosys, *, resume: bool, told: Told) -> list[Judged]:
    """Judge the mutants of a core.

    Parameters
    ----------
    plan : Plan
        Of the configuration.
    settings : Settings
        How.
    folder : Path
        Gets the files of Yosys, verdicts and proofs.
    yosys : Yosys
        Makes the mutants and their gates.
    resume : bool
        Whether verdicts that are in the folder count, if they are about the same mutants and programs.
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
    verdicts, proofs = folder / _VERDICTS, folder / _PROOFS
    made = [asdict(mutant) for mutant in core.mutants], core.library.name, METHOD
    same_core = _same(folder / "core.key", made) and resume
    # programs, and what judges them, come from these sources
    rules = settings.instructions, settings.limit_s, sources_digest(_NO_JUDGES)
    same_rules = _same(folder / "rules.key", (*made, *rules)) and resume
    before = {row["mutant"]: row for row in _rows(verdicts)} if same_core else {}
    if not same_core:
        proofs.unlink(missing_ok=True)
    if not same_rules:
        verdicts.unlink(missing_ok=True)
    prover = _Prover(core, settings, folder, yosys)
    unchanged = prover.unchanged(fresh=not same_core)
    known = before if same_rules else {}
    changed = [mutant for mutant in core.mutants if mutant.number not in unchanged]
    waiting = tuple(mutant.number for mutant in changed if mutant.number not in known)
    if waiting:
        work = Work(
            core=core,
            plan=plan,
            instructions=settings.instructions,
            waiting=waiting,
            first={number: row["test"] for number, row in before.items()},
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
    left = [mutant for mutant in changed if not known[mutant.number]["killed"]]
    proved = dict.fromkeys(unchanged, EQUIVALENT) | prover.prove(left, told)
    nothing = {"killed": "", "test": "", "text": ""}
    return [
        Judged(
            mutant=mutant,
            **{name: known.get(mutant.number, nothing)[name] for name in nothing},
            proof=proved.get(mutant.number, ""),
        )
        for mutant in core.mutants
    ]


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
        self._gates: Gates | None = None
        self._lock = threading.Lock()

    def unchanged(self, *, fresh: bool) -> frozenset[int]:
        """Mutants whose gates are those of the core, which no program need run on; none without proofs."""
        path = self._folder / _UNCHANGED
        if not self._settings.proof_s:
            return frozenset()
        if fresh or not path.exists():
            gates = self._made()
            numbers = [mutant.number for mutant in self._core.mutants if not gates.difference(mutant.number)]
            write_text(path, json.dumps(numbers))
        return frozenset(json.loads(path.read_text()))

    def prove(self, left: Sequence[Mutant], told: Told) -> dict[int, str]:
        """What is proved about mutants that no program finds, by number."""
        if not self._settings.proof_s:
            return {}
        path, seconds = self._folder / _PROOFS, self._settings.proof_s
        kept = {row["mutant"]: row["proof"] for row in _rows(path) if row["proof_s"] >= seconds}
        found = {mutant.number: kept[mutant.number] for mutant in left if mutant.number in kept}
        waiting = [mutant for mutant in left if mutant.number not in found]
        if not waiting:
            return found
        told("proofs", len(found), len(left))
        self._made()
        pool = ThreadPoolExecutor(max_workers=self._settings.jobs)
        try:
            for done in as_completed([pool.submit(self._proof, mutant.number) for mutant in waiting]):
                number, found[number] = done.result()
                row = {"mutant": number, "proof": found[number], "proof_s": seconds}
                with path.open("a") as file:
                    file.write(f"{json.dumps(row)}\n")
                told("proofs", len(found), len(left))
        finally:
            pool.shutdown(cancel_futures=True)
        return found

    def _proof(self, number: int) -> tuple[int, str]:
        with self._lock:
            miters = self._made().miters(number)
        return number, decide(miters, self._settings.proof_s)

    def _made(self) -> Gates:
        if self._gates is None:
            changes = [turned_on(mutant) for mutant in self._core.mutants]
            self._gates = gates_of(BASE, TOP, changes, ENABLE, self._folder, self._yosys)
        return self._gates


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
