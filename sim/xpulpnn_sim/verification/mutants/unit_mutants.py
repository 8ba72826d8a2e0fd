"""Mutants of a unit, all in one design: an input of it says which of them it is; its bench on each of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import xpulpnn_sim.benches
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.benches.runner import run_bench
from xpulpnn_sim.benches.units import UNITS, BenchedUnit
from xpulpnn_sim.proofs.units.mutated_gates import SELECT, read_mutated
from xpulpnn_sim.tools.results import Results, digest
from xpulpnn_sim.tools.yosys import Yosys
from xpulpnn_sim.verification.mutants.campaign import (
    BASE,
    LINT_OFF,
    RESULT,
    Judged,
    Mutant,
    MutationSettings,
    Told,
    apply_all,
    find_places,
    judge,
    mutant_of,
    places,
)
from xpulpnn_sim.verification.mutants.provers import UnitProver, occurring_at

_PLACES_PER_MUTANT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedUnit:
    """The design that holds all mutants of a unit, beside the unit itself."""

    design: EmittedVerilog
    inputs: tuple[str, ...]
    mutants: tuple[Mutant, ...]


def mutate(unit: BenchedUnit, count: int, seed: int, folder: Path, yosys: Yosys) -> MutatedUnit:
    """Make the mutants of a unit."""
    emitted = unit.emit()
    top, width = emitted.manifest["top"], count.bit_length()
    lines = find_places(unit.make(), top, folder, yosys, places=_PLACES_PER_MUTANT * count, seed=seed)
    mutants = tuple(mutant_of(number, line) for number, line in enumerate(places(lines)[:count], start=1))
    changed = apply_all(mutants, lambda mutant: f"{SELECT} {width} {mutant.number}", top, folder, yosys)
    ports = [*emitted.manifest["ports"], {"name": SELECT, "direction": "input", "width": width, "meaning": ""}]
    design = replace(emitted, modules={top: f"{LINT_OFF}\n{changed}"}, manifest={**emitted.manifest, "ports": ports})
    inputs = tuple(port["name"] for port in emitted.manifest["ports"] if port["direction"] == "input")
    return MutatedUnit(design=design, inputs=inputs, mutants=mutants)


def judge_unit(
    unit: str, settings: MutationSettings, bench_seed: int, folder: Path, yosys: Yosys, *, resume: bool, told: Told
) -> list[Judged]:
    """Judge the mutants of a unit."""
    benched = UNITS[unit]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).unlink(missing_ok=True)
    mutated = mutate(benched, settings.count, settings.seed, folder, yosys)
    verdicts, proofs = (Results(folder / name, fresh=not resume) for name in ("verdicts", "proofs"))
    told_bench = {"bench": f"xpulpnn_sim.benches.bench_{benched.bench}", "inputs": mutated.inputs, **benched.describe()}
    facts = json.dumps([told_bench, bench_seed, settings.limit_s], default=list)
    key = digest(mutated.design.text, facts)
    prover = None
    if settings.proof_s:
        changes = {mutant.number: mutant.command for mutant in mutated.mutants}
        gates = read_mutated(folder / BASE, mutated.design.manifest["top"], changes, yosys)
        outputs = [port["name"] for port in mutated.design.manifest["ports"] if port["direction"] == "output"]
        occurring = occurring_at(unit, mutated.inputs, outputs)
        prover = UnitProver(mutated.mutants, proofs, key, settings.proof_s, gates, occurring)
    benches = digest(xpulpnn_sim.benches)

    def run(waiting: Sequence[int]) -> None:
        work = {"mutants": waiting, "jobs": settings.jobs, "limit_s": settings.limit_s, "select": SELECT}
        run_bench(
            mutated.design,
            unit,
            "verilator",
            cache=folder.parent / "models",
            results=folder / "bench",
            seed=bench_seed,
            data={**told_bench, **work, "verdicts": str(verdicts.folder.absolute()), "key": key, "tests": benches},
            module="mutants",
        )

    # the number of the unit itself is 0
    return judge(mutated.mutants, verdicts, key, benches, run, prover, told, also=[0])
