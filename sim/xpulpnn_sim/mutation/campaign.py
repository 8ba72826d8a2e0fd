"""All mutants of a unit: its bench on each of them, proofs about those that are left, and what is known already."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.bench.runner import run_bench
from xpulpnn_sim.bench.units import UNITS
from xpulpnn_sim.files import write_text
from xpulpnn_sim.mutation.equivalence import EQUIVALENT, METHOD, compare
from xpulpnn_sim.mutation.mutants import SELECT, Mutant, mutate
from xpulpnn_sim.yosys import Yosys

_VERDICTS, _PROOFS = "verdicts.jsonl", "proofs.jsonl"
_POLL_S = 0.5
Told = Callable[[str, int, int], None]
"""Hears of the progress: what is being done, how much of it, of how much."""

_NONE = 0
"""Number of the unit itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How units are mutated and judged.

    Parameters
    ----------
    count : int
        Mutants of each unit.
    seed : int
        Which mutants.
    bench_seed : int
        Seed of the benches.
    jobs : int
        Mutants that run side by side.
    limit_s : int
        Seconds after which a test of a mutant counts as failed.
    proof_s : int
        Seconds for the proof of a mutant that its bench does not find; 0 for no proofs.
    """

    count: int
    seed: int
    bench_seed: int
    jobs: int
    limit_s: int
    proof_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A mutant and what became of it.

    Parameters
    ----------
    mutant : Mutant
        The change.
    killed : str
        ``check``, ``time`` or ``simulator``; empty if the bench passed.
    test : str
        Test that failed.
    proof : str
        ``equivalent``, ``different`` or ``undecided``; empty without a proof.
    """

    mutant: Mutant
    killed: str
    test: str
    proof: str = ""

    @property
    def alive(self) -> bool:
        """Whether neither the bench nor a proof disposed of it."""
        return not self.killed and self.proof != EQUIVALENT


def campaign(unit: str, settings: Settings, folder: Path, yosys: Yosys, *, resume: bool, told: Told) -> list[Judged]:
    """Judge the mutants of a unit.

    Parameters
    ----------
    unit : str
        Name in :data:`xpulpnn_sim.bench.units.UNITS`.
    settings : Settings
        How.
    folder : Path
        Gets the files of Yosys, the model, verdicts and proofs.
    yosys : Yosys
        Makes the mutants, and proves.
    resume : bool
        Whether verdicts that are in the folder count, if they are about the same design, bench and seed.
    told : callable
        Gets what is done ("benches" or "proofs"), how many mutants it is done with, and of how many, now and then.

    Raises
    ------
    ToolError
        If a tool fails, or the bench fails on the unit itself.
    """
    benched = UNITS[unit]
    folder.mkdir(parents=True, exist_ok=True)
    mutated = mutate(benched, settings.count, settings.seed, folder, yosys)
    verdicts, proofs = (folder / name for name in (_VERDICTS, _PROOFS))
    told_bench = {"bench": f"xpulpnn_sim.bench.bench_{benched.bench}", "inputs": mutated.inputs, **benched.describe()}
    key = hashlib.sha256(
        json.dumps(
            [mutated.design.text, told_bench, settings.bench_seed, settings.limit_s, METHOD], default=list
        ).encode()
    ).hexdigest()
    stamp = folder / "key"
    if not (resume and stamp.exists() and stamp.read_text() == key):
        for path in (verdicts, proofs):
            path.unlink(missing_ok=True)
        write_text(stamp, key)
    known = {row["mutant"]: row for row in _rows(verdicts)}
    waiting = [number for number in range(len(mutated.mutants) + 1) if number not in known]
    if waiting:
        work = {"mutants": waiting, "jobs": settings.jobs, "limit_s": settings.limit_s, "select": SELECT}
        data = {**told_bench, **work, "verdicts": str(verdicts.absolute())}
        with _Watched(verdicts, lambda number: told("benches", number, len(mutated.mutants) + 1)):
            run_bench(
                mutated.design,
                unit,
                "verilator",
                cache=folder / "models",
                results=folder / "bench",
                seed=settings.bench_seed,
                data=data,
                module="mutants",
            )
        known = {row["mutant"]: row for row in _rows(verdicts)}
    missing = [number for number in range(len(mutated.mutants) + 1) if number not in known]
    if missing:
        raise ToolError(f"bench of {unit} must judge every mutant, but did not {len(missing)} of them")
    if known[_NONE]["killed"]:
        raise ToolError(f"bench of {unit} must pass on the unit itself, but {known[_NONE]['test']} failed")
    left = [mutant for mutant in mutated.mutants if not known[mutant.number]["killed"]]
    told("proofs", 0, len(left))
    proved = _proofs(left, mutated.design.manifest["top"], settings, folder, yosys, told)
    return [
        Judged(
            mutant=mutant,
            killed=known[mutant.number]["killed"],
            test=known[mutant.number]["test"],
            proof=proved.get(mutant.number, ""),
        )
        for mutant in mutated.mutants
    ]


def _proofs(
    left: Sequence[Mutant], top: str, settings: Settings, folder: Path, yosys: Yosys, told: Told
) -> dict[int, str]:
    """What is proved about the mutants that are left, by number; kept as it comes."""
    if not settings.proof_s:
        return {}
    path = folder / _PROOFS
    found = {row["mutant"]: row["proof"] for row in _rows(path) if row["proof_s"] >= settings.proof_s}
    waiting = [mutant for mutant in left if mutant.number not in found]

    def prove(mutant: Mutant) -> tuple[int, str]:
        return mutant.number, compare(mutant, top, folder, yosys, settings.proof_s)

    pool = ThreadPoolExecutor(max_workers=settings.jobs)
    try:
        for done in as_completed([pool.submit(prove, mutant) for mutant in waiting]):
            number, found[number] = done.result()
            row = {"mutant": number, "proof": found[number], "proof_s": settings.proof_s}
            with path.open("a") as file:
                file.write(f"{json.dumps(row)}\n")
            told("proofs", len(found), len(left))
    finally:
        pool.shutdown(cancel_futures=True)
    return found


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of JSON; the last one may be cut off."""
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except ValueError:
            return


class _Watched:
    """Tells how many lines a file has while something else writes it."""

    def __init__(self, path: Path, told: Callable[[int], None]) -> None:
        self._path = path
        self._told = told
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_POLL_S):
            self._told(sum(1 for _ in _rows(self._path)))
