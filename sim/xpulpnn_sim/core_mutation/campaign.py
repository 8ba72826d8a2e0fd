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
from xpulpnn_sim.core_mutation.proofs import METHOD, PROVED, Gates, decide, gates_of
from xpulpnn_sim.files import write_text
from xpulpnn_sim.mutation.mutants import Mutant
from xpulpnn_sim.sources import sources_digest
from xpulpnn_sim.verify.campaign import Plan
from xpulpnn_sim.yosys import Yosys

_VERDICTS, _PROOFS = "verdicts.jsonl", "proofs.jsonl"
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
    known = before if same_rules else {}
    waiting = tuple(mutant.number for mutant in core.mutants if mutant.number not in known)
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
        with _watched(verdicts, lambda number: told("programs", number, len(core.mutants))):
            judge(work)
        known = {row["mutant"]: row for row in _rows(verdicts)}
    missing = [mutant for mutant in core.mutants if mutant.number not in known]
    if missing:
        raise ToolError(f"every mutant must have been judged, but {len(missing)} of them were not")
    left = [mutant for mutant in core.mutants if not known[mutant.number]["killed"]]
    proved = _proofs(core, left, settings, folder, yosys, told)
    return [
        Judged(
            mutant=mutant,
            **{name: known[mutant.number][name] for name in ("killed", "test", "text")},
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


def _proofs(
    core: MutatedCore, left: Sequence[Mutant], settings: Settings, folder: Path, yosys: Yosys, told: Told
) -> dict[int, str]:
    """What is proved about the mutants that are left, by number; kept as it comes."""
    if not settings.proof_s or not left:
        return {}
    path = folder / _PROOFS
    found = {row["mutant"]: row["proof"] for row in _rows(path) if row["proof_s"] >= settings.proof_s}
    waiting = [mutant for mutant in left if mutant.number not in found]
    if not waiting:
        return found
    told("proofs", len(found), len(left))
    gates = gates_of(BASE, TOP, [turned_on(mutant) for mutant in core.mutants], ENABLE, folder, yosys)
    pool = ThreadPoolExecutor(max_workers=settings.jobs)
    lock = threading.Lock()
    try:
        waits = [pool.submit(_proof, gates, lock, mutant, settings.proof_s) for mutant in waiting]
        for done in as_completed(waits):
            number, found[number] = done.result()
            row = {"mutant": number, "proof": found[number], "proof_s": settings.proof_s}
            with path.open("a") as file:
                file.write(f"{json.dumps(row)}\n")
            told("proofs", len(found), len(left))
    finally:
        pool.shutdown(cancel_futures=True)
    return found


def _proof(gates: Gates, lock: threading.Lock, mutant: Mutant, proof_s: int) -> tuple[int, str]:
    with lock:
        miters = gates.miters(mutant.number)
    return mutant.number, decide(miters, proof_s)


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
