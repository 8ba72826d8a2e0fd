"""All mutants of a unit: its bench on each of them, proofs about those that are left, and what is known already."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import xpulpnn_sim.bench
import xpulpnn_sim.formal
import xpulpnn_sim.mutation
from xpulpnn.errors import ToolError
from xpulpnn_sim.bench.runner import run_bench
from xpulpnn_sim.bench.units import UNITS
from xpulpnn_sim.files import write_text
from xpulpnn_sim.formal.mutated_gates import Change, mutated_netlist
from xpulpnn_sim.mutation.equivalence import EQUIVALENT, Proof, Prover
from xpulpnn_sim.mutation.judged import Judged
from xpulpnn_sim.mutation.lanes import KILLED, OPEN, SAME
from xpulpnn_sim.mutation.mutants import BASE, SELECT, Mutant, mutate
from xpulpnn_sim.mutation.replay import Replayed, replay
from xpulpnn_sim.mutation.summary import RESULT, keep
from xpulpnn_sim.yosys import Yosys

_VERDICTS, _PROOFS = "verdicts.jsonl", "proofs.jsonl"
_POLL_S = 0.5
Told = Callable[[str, int, int], None]
"""Hears of the progress: what is being done, how much of it, of how much."""

_RECORDED_LONGER = 10
"""What a test may take longer while it is recorded."""

_NONE = 0
"""Number of the unit itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How units are mutated and judged."""

    count: int  # mutants of each unit
    seed: int  # which mutants
    bench_seed: int
    jobs: int  # mutants that run side by side
    limit_s: int  # seconds of computing after which a test of a mutant counts as failed
    proof_s: int  # seconds for the proof of a mutant that its bench does not find; 0 for no proofs


def campaign(unit: str, settings: Settings, folder: Path, yosys: Yosys, *, resume: bool, told: Told) -> list[Judged]:
    """Judge the mutants of a unit."""
    benched = UNITS[unit]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).unlink(missing_ok=True)
    mutated = mutate(benched, settings.count, settings.seed, folder, yosys)
    verdicts, proofs = (folder / name for name in (_VERDICTS, _PROOFS))
    told_bench = {"bench": f"xpulpnn_sim.bench.bench_{benched.bench}", "inputs": mutated.inputs, **benched.describe()}
    longer = {"limit_s": _RECORDED_LONGER * settings.limit_s}
    key = hashlib.sha256(
        json.dumps([mutated.design.text, told_bench, settings.bench_seed, settings.limit_s], default=list).encode()
    ).hexdigest()
    stamp = folder / "key"
    if not (resume and stamp.exists() and stamp.read_text() == key):
        for path in (verdicts, proofs):
            path.unlink(missing_ok=True)
        write_text(stamp, key)
    top = mutated.design.manifest["top"]
    changes = [Change(number=mutant.number, command=mutant.command) for mutant in mutated.mutants]
    netlist = mutated_netlist(folder / BASE, top, changes, yosys)
    prover = Prover(unit, mutated, netlist, settings.proof_s) if settings.proof_s else None
    # no bench needs to look at a mutant that has the gates of the unit
    same = {mutant.number for mutant in mutated.mutants if prover and prover.is_identical(mutant.number)}
    judged = [number for number in range(len(mutated.mutants) + 1) if number not in same]
    benches = _digest(xpulpnn_sim.bench)
    # a bench that has changed since then may find what it did not find
    known = {row["mutant"]: row for row in _rows(verdicts) if row["killed"] or row.get("benches") == benches}
    waiting = [number for number in judged if number not in known]
    if waiting and not benched.reacts:
        told("record", 0, 1)
        replayed = replay(
            unit, benched.emit(), mutated, netlist, folder, {**told_bench, **longer}, seed=settings.bench_seed
        )
        with verdicts.open("a") as file:
            for number in waiting:
                one = replayed.get(number, Replayed(outcome=SAME))
                if one.outcome != OPEN:
                    row = {"mutant": number, "killed": "check" if one.outcome == KILLED else "", "test": one.test}
                    file.write(f"{json.dumps({**row, 'benches': benches})}\n")
        waiting = [number for number in waiting if number in replayed and replayed[number].outcome == OPEN]
    if waiting:
        work = {
            "mutants": waiting,
            "jobs": settings.jobs,
            "limit_s": settings.limit_s,
            "select": SELECT,
        }
        data = {**told_bench, **work, "verdicts": str(verdicts.absolute()), "benches": benches}
        with _Watched(verdicts, lambda number: told("benches", number, len(judged))):
            run_bench(
                mutated.design,
                unit,
                "verilator",
                cache=folder.parent / "models",
                results=folder / "bench",
                seed=settings.bench_seed,
                data=data,
                module="mutants",
            )
    known = {row["mutant"]: row for row in _rows(verdicts)}
    missing = [number for number in judged if number not in known]
    if missing:
        raise ToolError(f"bench of {unit} must judge every mutant, but did not {len(missing)} of them")
    if known[_NONE]["killed"]:
        raise ToolError(f"bench of {unit} must pass on the unit itself, but {known[_NONE]['test']} failed")
    left = [mutant for mutant in mutated.mutants if mutant.number in judged and not known[mutant.number]["killed"]]
    proved = _proofs(left, prover, settings, proofs, told) if prover else {}
    proved |= dict.fromkeys(same, Proof(verdict=EQUIVALENT))
    found = [
        _judged(mutant, known.get(mutant.number), proved.get(mutant.number, Proof(verdict="")))
        for mutant in mutated.mutants
    ]
    keep(folder, found)
    return found


def _digest(*packages: ModuleType) -> str:
    """Stands for the modules of packages."""
    paths = [path for package in packages for path in sorted(Path(str(package.__file__)).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def _judged(mutant: Mutant, verdict: Mapping[str, Any] | None, proof: Proof) -> Judged:
    killed, test = (verdict["killed"], verdict["test"]) if verdict else ("", "")
    return Judged(mutant=mutant, killed=killed, test=test, proof=proof.verdict, example=proof.example)


def _proofs(left: Sequence[Mutant], prover: Prover, settings: Settings, path: Path, told: Told) -> dict[int, Proof]:
    """What is proved about the mutants that are left, by number; kept as it comes."""
    # what is known to occur may have changed, or how it is searched
    method = _digest(xpulpnn_sim.formal, xpulpnn_sim.mutation)
    found = {
        row["mutant"]: Proof(verdict=row["proof"], example=row["example"])
        for row in _rows(path)
        if row["proof"] == EQUIVALENT or (row["proof_s"] >= settings.proof_s and row["method"] == method)
    }
    for done, mutant in enumerate(left):
        told("proofs", done, len(left))
        if mutant.number not in found:
            proof = prover.prove(mutant.number)
            row = {"mutant": mutant.number, "proof": proof.verdict, "example": proof.example}
            with path.open("a") as file:
                file.write(f"{json.dumps({**row, 'proof_s': settings.proof_s, 'method': method})}\n")
            found[mutant.number] = proof
    return {mutant.number: found[mutant.number] for mutant in left}


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
