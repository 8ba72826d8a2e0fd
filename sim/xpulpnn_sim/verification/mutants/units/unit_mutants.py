"""Mutants of a unit, all in one design: an input of it says which of them it is; its bench on each of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from amaranth.back import rtlil

import xpulpnn_sim.benches
from xpulpnn.errors import ToolError
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.benches.benched import BenchedUnit
from xpulpnn_sim.benches.runner import run_bench
from xpulpnn_sim.benches.units import UNITS
from xpulpnn_sim.proofs.units.mutated_gates import SELECT, read_mutated
from xpulpnn_sim.tools.results import Results, digest
from xpulpnn_sim.tools.yosys import Yosys
from xpulpnn_sim.verification.mutants.campaign import RESULT, Judged, Mutant, Told, judge, mutant_of, places
from xpulpnn_sim.verification.mutants.units.equivalence import UnitProver, occurring_at

_BASE = "base.il"  # file that holds the unit itself as Yosys understands it; the mutants are changes of it
_LIST, _DESIGN = "places.ys", "mutants.v"
_PLACES_PER_MUTANT = 2
_PREPARE = """read_rtlil unit.il
hierarchy -top {top}
proc
memory_collect
write_rtlil {base}
mutate -list {places} -seed {seed} -o {list}
"""
_APPLY = """read_rtlil {base}
{changes}
write_verilog -noattr -norename {design}
"""

# A mutant that combines two bits of a word looks to Verilator as if the word depended on itself.
_LINT_OFF = "/* verilator lint_off UNOPTFLAT */"


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
    names = {"top": top, "base": _BASE, "list": _LIST, "design": _DESIGN}
    (folder / "unit.il").write_text(rtlil.convert(unit.make(), name=top))
    prepare = _PREPARE.format(**names, places=_PLACES_PER_MUTANT * count, seed=seed)
    yosys.run(prepare, folder, what=f"mutants of {top}", results=[_BASE, _LIST], name="prepare")
    lines = places((folder / _LIST).read_text().splitlines())[:count]
    mutants = tuple(mutant_of(number, line) for number, line in enumerate(lines, start=1))
    if not mutants:
        raise ToolError(f"yosys must find places for mutants in {top}, but found none")
    changes = "\n".join(
        mutant.command.replace("mutate ", f"mutate -ctrl {SELECT} {width} {mutant.number} ", 1) for mutant in mutants
    )
    apply = _APPLY.format(**names, changes=changes)
    yosys.run(apply, folder, what=f"mutants of {top}", results=[_DESIGN], name="apply")
    ports = [*emitted.manifest["ports"], {"name": SELECT, "direction": "input", "width": width, "meaning": ""}]
    text = f"{_LINT_OFF}\n{(folder / _DESIGN).read_text()}"
    design = replace(emitted, modules={top: text}, manifest={**emitted.manifest, "ports": ports})
    inputs = tuple(port["name"] for port in emitted.manifest["ports"] if port["direction"] == "input")
    return MutatedUnit(design=design, inputs=inputs, mutants=mutants)


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
    verdicts, proofs = (Results(folder / name, fresh=not resume) for name in ("verdicts", "proofs"))
    told_bench = {"bench": f"xpulpnn_sim.benches.bench_{benched.bench}", "inputs": mutated.inputs, **benched.describe()}
    facts = json.dumps([told_bench, settings.bench_seed, settings.limit_s], default=list)
    key = digest(mutated.design.text, facts)
    prover = None
    if settings.proof_s:
        changes = {mutant.number: mutant.command for mutant in mutated.mutants}
        gates = read_mutated(folder / _BASE, mutated.design.manifest["top"], changes, yosys)
        outputs = [port["name"] for port in mutated.design.manifest["ports"] if port["direction"] == "output"]
        occurring = occurring_at(unit, mutated.inputs, outputs)
        prover = UnitProver(mutated.mutants, proofs, key, settings.proof_s, gates=gates, occurring=occurring)
    benches = digest(xpulpnn_sim.benches)

    def run(waiting: Sequence[int]) -> None:
        work = {"mutants": waiting, "jobs": settings.jobs, "limit_s": settings.limit_s, "select": SELECT}
        run_bench(
            mutated.design,
            unit,
            "verilator",
            cache=folder.parent / "models",
            results=folder / "bench",
            seed=settings.bench_seed,
            data={**told_bench, **work, "verdicts": str(verdicts.folder.absolute()), "key": key, "tests": benches},
            module="mutants",
        )

    # the number of the unit itself is 0
    return judge(mutated.mutants, verdicts, key, benches, run, prover, told, also=[0])
