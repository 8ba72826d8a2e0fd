"""All mutants of a unit: its bench on each of them, proofs about those that are left, and what is known already."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xpulpnn_sim.benches
import xpulpnn_sim.proofs.units
import xpulpnn_sim.verification.mutants.units
from xpulpnn.errors import ToolError
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.benches.runner import ports_of, run_bench
from xpulpnn_sim.benches.units import UNITS
from xpulpnn_sim.proofs.units.mutated_gates import Change, mutated_netlist
from xpulpnn_sim.tools.netlists import NetlistModule
from xpulpnn_sim.tools.results import Results, digest, watched
from xpulpnn_sim.tools.yosys import Yosys
from xpulpnn_sim.verification.mutants.units.equivalence import EQUIVALENT, Proof, Prover
from xpulpnn_sim.verification.mutants.units.lanes import KILLED, OPEN, SAME, Lanes, read_trace
from xpulpnn_sim.verification.mutants.units.mutants import BASE, SELECT, Mutant, MutatedUnit, mutate
from xpulpnn_sim.verification.mutants.units.summary import RESULT, Judged, keep


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Knowledge about a mutant."""

    outcome: str  # see KILLED
    test: str = ""


def replay(
    unit: str,
    design: EmittedVerilog,
    mutated: MutatedUnit,
    netlist: NetlistModule,
    folder: Path,
    told: Mapping[str, Any],
    *,
    seed: int,
) -> dict[int, Replayed]:
    """Record the bench on the unit, and run all mutants through the record; by number."""
    traces = folder / "traces"
    traces.mkdir(exist_ok=True)
    for path in traces.glob("*.npz"):
        path.unlink()
    models = folder.parent / "models"
    run_bench(
        design,
        unit,
        "verilator",
        cache=models,
        results=folder / "record",
        seed=seed,
        data={**told, "traces": str(traces.absolute())},
        module="recorded",
    )
    inputs = [name for name in mutated.inputs if name != "clk"]
    lanes = Lanes(netlist, inputs, ports_of(design, "output"), len(mutated.mutants), models)
    found = {mutant.number: Replayed(outcome=SAME) for mutant in mutated.mutants}
    for path in sorted(traces.glob("*.npz"), key=lambda path: int(path.stem)):
        trace = read_trace(path)
        for number, outcome in enumerate(lanes.judge(trace), 1):
            # a test behind one that the bench itself must run may find it, too: the first one that surely does counts
            if outcome == KILLED and found[number].outcome != KILLED:
                found[number] = Replayed(outcome=KILLED, test=trace.test)
            elif outcome == OPEN and found[number].outcome == SAME:
                found[number] = Replayed(outcome=OPEN)
        path.unlink()
    return found


_VERDICTS, _PROOFS = "verdicts", "proofs"
Told = Callable[[str, int, int], None]  # hears of the progress: what is being done, how much of it, of how much

_RECORDED_LONGER = 10  # what a test may take longer while it is recorded

_NONE = 0  # number of the unit itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of the judgement of a unit."""

    count: int  # mutants of each unit
    seed: int  # which mutants
    bench_seed: int
    jobs: int  # mutants that run side by side
    limit_s: int  # seconds of computing after which a test of a mutant counts as failed
    proof_s: int  # seconds for the proof of a mutant that its bench does not find; 0 for no proofs


def judge_unit(unit: str, settings: Settings, folder: Path, yosys: Yosys, *, resume: bool, told: Told) -> list[Judged]:
    """Judge the mutants of a unit."""
    benched = UNITS[unit]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).unlink(missing_ok=True)
    mutated = mutate(benched, settings.count, settings.seed, folder, yosys)
    verdicts, proofs = (Results(folder / name, fresh=not resume) for name in (_VERDICTS, _PROOFS))
    told_bench = {"bench": f"xpulpnn_sim.benches.bench_{benched.bench}", "inputs": mutated.inputs, **benched.describe()}
    longer = {"limit_s": _RECORDED_LONGER * settings.limit_s}
    facts = json.dumps([told_bench, settings.bench_seed, settings.limit_s], default=list)
    key = digest(mutated.design.text, facts)
    top = mutated.design.manifest["top"]
    changes = [Change(number=mutant.number, command=mutant.command) for mutant in mutated.mutants]
    netlist = mutated_netlist(folder / BASE, top, changes, yosys)
    prover = Prover(unit, mutated, netlist, settings.proof_s) if settings.proof_s else None
    # no bench needs to look at a mutant that has the gates of the unit
    same = {mutant.number for mutant in mutated.mutants if prover and prover.is_identical(mutant.number)}
    judged = [number for number in range(len(mutated.mutants) + 1) if number not in same]
    benches = digest(xpulpnn_sim.benches)
    # a bench that has changed since then may find what it did not find
    rows = {number: verdicts.find(str(number), key) for number in judged}
    known = {number: row for number, row in rows.items() if row and (row["killed"] or row["benches"] == benches)}
    verdicts.retain([str(number) for number in known])
    waiting = [number for number in judged if number not in known]
    if waiting and not benched.reacts:
        told("record", 0, 1)
        replayed = replay(
            unit, benched.emit(), mutated, netlist, folder, {**told_bench, **longer}, seed=settings.bench_seed
        )
        for number in waiting:
            one = replayed.get(number, Replayed(outcome=SAME))
            if one.outcome != OPEN:
                row = {"killed": "check" if one.outcome == KILLED else "", "test": one.test, "benches": benches}
                verdicts.keep(str(number), row, key)
        waiting = [number for number in waiting if number in replayed and replayed[number].outcome == OPEN]
    if waiting:
        work = {
            "mutants": waiting,
            "jobs": settings.jobs,
            "limit_s": settings.limit_s,
            "select": SELECT,
        }
        data = {**told_bench, **work, "verdicts": str(verdicts.folder.absolute()), "key": key, "benches": benches}
        with watched(verdicts, lambda number: told("benches", number, len(judged))):
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
    known = {number: row for number in judged if (row := verdicts.find(str(number), key))}
    missing = [number for number in judged if number not in known]
    if missing:
        raise ToolError(f"bench of {unit} must judge every mutant, but did not {len(missing)} of them")
    if known[_NONE]["killed"]:
        raise ToolError(f"bench of {unit} must pass on the unit itself, but {known[_NONE]['test']} failed")
    left = [mutant for mutant in mutated.mutants if mutant.number in judged and not known[mutant.number]["killed"]]
    proved = _proofs(left, prover, settings, proofs, key, told) if prover else {}
    proved |= dict.fromkeys(same, Proof(verdict=EQUIVALENT))
    found = [
        _judged(mutant, known.get(mutant.number), proved.get(mutant.number, Proof(verdict="")))
        for mutant in mutated.mutants
    ]
    keep(folder, found)
    return found


def _judged(mutant: Mutant, verdict: Mapping[str, Any] | None, proof: Proof) -> Judged:
    killed, test = (verdict["killed"], verdict["test"]) if verdict else ("", "")
    return Judged(mutant=mutant, killed=killed, test=test, proof=proof.verdict, example=proof.example)


def _proofs(
    left: Sequence[Mutant], prover: Prover, settings: Settings, kept: Results, key: str, told: Told
) -> dict[int, Proof]:
    # what is known to occur may have changed, or how it is searched
    method = digest(xpulpnn_sim.proofs.units, xpulpnn_sim.verification.mutants.units)
    found: dict[int, Proof] = {}
    for done, mutant in enumerate(left):
        told("proofs", done, len(left))
        row = kept.find(str(mutant.number), key)
        if not row or not (
            row["proof"] == EQUIVALENT or (row["proof_s"] >= settings.proof_s and row["method"] == method)
        ):
            proof = prover.prove(mutant.number)
            row = {"proof": proof.verdict, "example": proof.example, "proof_s": settings.proof_s, "method": method}
            kept.keep(str(mutant.number), row, key)
        found[mutant.number] = Proof(verdict=row["proof"], example=row["example"])
    return found
