"""Random programs on the model that counts coverage, beside the simulator."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn_sim.cosimulation.model.coverage_model import coverage_library, covered_design, write_coverage
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.programs.retirement import RETIREMENT, Records
from xpulpnn_sim.verification.coverage.collector import Collector
from xpulpnn_sim.verification.coverage.rtl import Point, read_counts, read_points
from xpulpnn_sim.verification.random.coverage import Coverage
from xpulpnn_sim.verification.random.designs import Listener, machine_of
from xpulpnn_sim.verification.random.program import Program
from xpulpnn_sim.verification.random.shrink import Case
from xpulpnn_sim.verification.random.spread import Chunk
from xpulpnn_sim.verification.random.trials import Plan, Trial, Verdict, tried


@dataclass(slots=True)
class Covered(Coverage):
    """Counts of a program on the model that counts as well."""

    crosses: NDArray[np.int64] = field(default_factory=partial(np.zeros, 0, np.int64))  # numbers of those reached
    times: NDArray[np.int64] = field(default_factory=partial(np.zeros, 0, np.int64))  # how often each
    points: NDArray[np.bool_] = field(default_factory=partial(np.zeros, 0, np.bool_))  # lines and bits used


CoveredResult = Trial[Plan, Covered]


@cache
def _collector(config: CoreConfig) -> Collector:
    """One for all programs of a process: it knows words that it has met."""
    return Collector(config)


def _run(case: Case, config: CoreConfig, covered: Covered) -> Verdict:
    library, collector, blocks = coverage_library(config), _collector(config), [np.zeros(0, RETIREMENT)]

    def observe(records: Records) -> None:
        covered.add(records, config)
        blocks.append(records.copy())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts"
        result = run_program(
            case.program.executable(),
            config,
            machine_of(case.machine),
            lockstep=True,
            observer=Listener(observe),
            library=library,
            closing=partial(write_coverage, library, path),
        )
        covered.points = read_counts(path) > 0
    collector.counts[:] = 0
    collector.add(np.concatenate(blocks))
    covered.crosses = np.flatnonzero(collector.counts)
    covered.times = collector.counts[covered.crosses]
    return Verdict.of(result)


def run_covered_chunk(chunk: Chunk, engine: str) -> list[CoveredResult]:
    """Run some programs; the engine is always the model that counts."""

    def one(seed: int, plan: Plan) -> CoveredResult:
        return tried(seed, plan, Covered(), lambda covered: _run(plan.case(seed), plan.config, covered))

    return [one(seed, plan) for seed, plan in chunk]


def points_of(config: CoreConfig) -> list[Point]:
    """Points that the model of a configuration counts."""
    library = coverage_library(config)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points"
        write = partial(write_coverage, library, path)
        run_program(Program(()).executable(), config, Machine(), library=library, closing=write)
        return read_points(path)


class Total:
    """Counts of all programs together."""

    def __init__(self, config: CoreConfig) -> None:
        self.collector = Collector(config)
        self.points = points_of(config)
        self.used = np.zeros(len(self.points), np.bool_)
        self.verilog, manifest = covered_design(config)
        self.components = {name: module["component"] for name, module in manifest["modules"].items()}

    def add(self, result: CoveredResult) -> None:
        """Add what a program has reached."""
        covered = result.coverage
        self.collector.counts[covered.crosses] += covered.times
        self.used |= covered.points

    def by_family(self) -> Mapping[str, tuple[int, int, int]]:
        """Crosses to reach, crosses reached and places out of reach of each family."""
        crosses, counts = self.collector.crosses, self.collector.counts
        table: dict[str, tuple[int, int, int]] = {}
        for name, family in crosses.families.items():
            start = crosses.starts[name]
            states = family.states.ravel()
            met = counts[start : start + states.size] > 0
            wanted = states == 0
            table[name] = int(wanted.sum()), int((met & wanted).sum()), int((states > 0).sum())
        return table
