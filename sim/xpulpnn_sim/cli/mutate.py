"""``xpulpnn mutate units`` and ``core``: search for faults that benches or programs miss."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn.config import DEFAULT_PRESET, PRESETS
from xpulpnn.errors import require
from xpulpnn_sim.benches.runner import available
from xpulpnn_sim.benches.units import UNITS
from xpulpnn_sim.cli.common import OK, finish, interruptible, progress_bar, table, tell
from xpulpnn_sim.cli.configurations import Settings
from xpulpnn_sim.cli.options import (
    Count,
    Fresh,
    Jobs,
    Json,
    Natural,
    NewFolder,
    YosysChoice,
    arguments,
    at_least,
    command,
    listed,
)
from xpulpnn_sim.tools.files import folder_lock, require_folder
from xpulpnn_sim.tools.yosys import find_abc, find_yosys, require_verilator
from xpulpnn_sim.verification.mutants import core_mutants
from xpulpnn_sim.verification.mutants.judgement import EQUIVALENT, LEGAL, Judged, Progress, collected, rows_of
from xpulpnn_sim.verification.mutants.judgement import MutationSettings as CampaignSettings
from xpulpnn_sim.verification.mutants.unit_mutants import judge_unit
from xpulpnn_sim.verification.random.program_runs import CoreSource


@arguments
class MutationOptions(Fresh, Jobs, YosysChoice, Json):
    mutants: Count = 200
    """Mutants of each unit, or of each core."""
    seed: Natural = 1
    """Seed for the choice of mutants."""
    limit: Annotated[int, at_least(1, "S")] = 60
    """Seconds of computing for each test on a mutant."""
    proof: Annotated[int, at_least(0, "S")] = 60
    """Seconds for the proof that an undetected mutant is equivalent; 0 for no proofs."""
    output: Annotated[NewFolder, Parameter(alias="-o")] = Path("build", "mutate")
    """Folder for models and verdicts."""

    @property
    def campaign(self) -> CampaignSettings:
        seconds = {"limit_s": self.limit, "proof_s": self.proof}
        return CampaignSettings(count=self.mutants, seed=self.seed, jobs=self.jobs, **seconds)


@arguments
class UnitMutationOptions(MutationOptions):
    units: Annotated[tuple[str, ...], Parameter(metavar="UNIT")] = field(default=(), kw_only=False)
    """Units with a bench, such as dotp-shared (--list shows them), or all."""
    bench_seed: Natural = 1
    """Seed of the benches."""
    listing: Annotated[bool, Parameter(name="--list")] = False
    """List the units and exit."""
    summary: bool = False
    """Show what all campaigns in the folder have found, and exit."""


@command("mutate units")
def mutate_units_command(options: UnitMutationOptions) -> int:
    """
    xpulpnn mutate units --list  # the units that have a bench
    xpulpnn mutate units dotp-shared --mutants 200  # faults in the dot-product unit, and those that nothing finds
    xpulpnn mutate units alu mult --mutants 1000 --json build/mutants.json  # going on where a run ended
    """
    if options.listing:
        tell(*UNITS)
        return OK
    if options.summary:
        known = collected(options.output)
        _UNITS.show(known)
        return finish(options.json, {"complete": True, "units": _UNITS.records(known)})
    units = _chosen(options.units)
    if not available("verilator"):
        require_verilator()
    yosys = find_yosys(options.yosys)

    def judge(unit: str, progress: Progress) -> Sequence[Judged]:
        where = (options.bench_seed, options.output.resolve() / unit, yosys)
        return judge_unit(unit, options.campaign, *where, resume=not options.fresh, progress=progress)

    return _UNITS.run(options, units, judge, bench_seed=options.bench_seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mutated:
    """The mutants of units or cores, and what is shown of them."""

    name: str
    outcomes: Sequence[str]  # columns of the table
    outcome: Callable[[Judged], str]
    foot: str

    def run(
        self,
        options: MutationOptions,
        names: Collection[str],
        judge: Callable[[str, Progress], Sequence[Judged]],
        **more: int,
    ) -> int:
        judged: dict[str, Sequence[Judged]] = {}
        require_folder(options.output, "--output")
        with folder_lock(options.output, "--output"), progress_bar("mutants", None) as bar, interruptible() as stop:
            for name in names:

                def progress(phase: str, done: int, total: int, name: str = name) -> None:
                    bar.describe(f"{name}: {phase}")
                    bar.reach(done, total)

                judged[name] = judge(name, progress)
        self.show(judged)
        settings, records = {**asdict(options.campaign), **more}, {f"{self.name}s": self.records(judged)}
        record = {"complete": not stop.interrupted, "settings": settings, **records}
        return finish(options.json, record, stop=stop, done=f"{len(judged)} of {len(names)} {self.name}s")

    def show(self, results: Mapping[str, Sequence[Judged]]) -> None:
        rows, proofs = {name: self._counts(judged) for name, judged in results.items()}, self.outcomes.index(EQUIVALENT)
        others = dict.fromkeys(name for counts in rows.values() for name in counts if name not in self.outcomes)
        names = [*self.outcomes[:proofs], *others, *self.outcomes[proofs:]]
        if len(rows) > 1:
            rows["all"] = {name: sum(counts.get(name, 0) for counts in rows.values()) for name in names}
        shown = [(thing, *(counts.get(name, 0) for name in names)) for thing, counts in rows.items()]
        tell(table((self.name, *names), shown), self.foot)
        every = [each for judged in results.values() for each in judged]
        if every:
            disposed = sum(not each.alive for each in every)
            tell(f"{disposed} of {len(every)} killed or proved equivalent ({100 * disposed / len(every):.2f} %)")
        for thing, judged in results.items():
            for each in sorted(judged, key=lambda each: (each.mutant.source or "~", each.mutant.number)):
                if each.alive:
                    _tell_survivor(thing, each)

    def records(self, results: Mapping[str, Sequence[Judged]]) -> dict[str, Any]:
        return {name: {**self._counts(judged), "mutants": rows_of(judged)} for name, judged in results.items()}

    def _counts(self, judged: Sequence[Judged]) -> dict[str, int]:
        return dict.fromkeys(self.outcomes, 0) | Counter(map(self.outcome, judged)) | {"mutants": len(judged)}


def _tell_survivor(thing: str, judged: Judged) -> None:
    mutant, proof = judged.mutant, ": ".join(filter(None, (judged.proof, judged.example)))
    where = f"{mutant.source or 'no source'}: {thing} mutant {mutant.number}"
    place = f"{mutant.module} {mutant.cell} {mutant.port}[{mutant.bit}]"
    tell(f"{where}: {place} {mutant.change}{f' ({proof})' if proof else ''}")


_UNITS = _Mutated(
    name="unit",
    outcomes=("mutants", "check", "time", "simulator", EQUIVALENT, LEGAL, "alive"),
    outcome=lambda judged: judged.outcome,
    foot="killed by a check of the bench, by its limit of time, by the simulator's own checks, of cores by programs; "
    "equivalent: proved to do what the unit does; legal: proved for inputs that occur",
)
_ALL = "all"
_WHOLE = ("core", "backend", "cluster_axi")  # benches of several units, which also have benches of their own


def _chosen(names: Sequence[str]) -> list[str]:
    if list(names) == [_ALL]:
        return [name for name, unit in UNITS.items() if unit.bench not in _WHOLE]
    for name in names:
        require(name in UNITS, f"UNIT must be {_ALL}, or one that --list shows, not {name}")
    require(names, f"UNIT must be given: {_ALL}, or one or more that --list shows")
    return list(dict.fromkeys(names))


def _outcome_of_core(judged: Judged) -> str:
    if not judged.killed:
        return "alive" if judged.alive else judged.proof
    known = {"random program": "random", "cycle costs": "costs"}
    return next((kind for start, kind in known.items() if judged.test.startswith(start)), "directed")


_CORES = _Mutated(
    name="core",
    outcomes=("mutants", "random", "directed", "costs", EQUIVALENT, LEGAL, "alive"),
    outcome=_outcome_of_core,
    foot="found by random programs in lock step with the simulator, by directed programs, by the table of cycle costs; "
    "equivalent: proved to do what the core does; legal: proved for buses that answer what they have granted",
)


@arguments
class CoreMutationOptions(MutationOptions, Settings):
    preset: Annotated[tuple[str, ...], listed(tuple(PRESETS), "Cores")] = (DEFAULT_PRESET,)
    instructions: Count = 100_000
    """Retirements of random programs on each mutant."""

    def source(self, name: str) -> CoreSource:
        configuration = self.of_preset(name)
        return CoreSource(config=configuration.core, label=configuration.command_words)

    def folder(self, name: str) -> Path:
        return self.output.resolve() / re.sub("[=/]", "-", "-".join(["core", name, *self.settings]))


@command("mutate core")
def mutate_core_command(options: CoreMutationOptions) -> int:
    """xpulpnn mutate core --preset ri5cy --mutants 50  # faults in a whole core"""
    sources = {name: options.source(name) for name in options.preset}
    if options.proof:
        find_abc()
    yosys = find_yosys(options.yosys)

    def judge(name: str, progress: Progress) -> Sequence[Judged]:
        what, where = (sources[name], options.campaign, options.instructions), (options.folder(name), yosys)
        return core_mutants.judge_core(*what, *where, resume=not options.fresh, progress=progress)

    return _CORES.run(options, sources, judge, instructions=options.instructions)
