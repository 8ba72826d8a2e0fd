"""Random programs on the model that counts coverage, beside the simulator."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn_sim.coverage.collector import Collector
from xpulpnn_sim.coverage.rtl import Point, read_counts, read_points
from xpulpnn_sim.elf import Executable
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.harness.coverage_model import coverage_library, covered_design, write_coverage
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sim.retirement import RETIREMENT, Records
from xpulpnn_sim.verify.campaign import Plan, Verdict
from xpulpnn_sim.verify.coverage import Coverage
from xpulpnn_sim.verify.designs import Listener, machine_of
from xpulpnn_sim.verify.program import Program
from xpulpnn_sim.verify.spread import Chunk
from xpulpnn_sim.verify.stress import Stress


@dataclass(slots=True)
class CoveredResult:
    """One random program."""

    seed: int
    plan: Plan  # where it came from
    verdict: Verdict
    coverage: Coverage  # what it reached, as without crosses
    crosses: NDArray[np.int64]  # numbers of the crosses it reached, and how often
    times: NDArray[np.int64]  # numbers of the crosses it reached, and how often
    points: NDArray[np.bool_]  # which lines and bits it used
    wall_s: float  # time it took


@cache
def _collector(config: CoreConfig) -> Collector:
    """One for all programs of a process: it knows words that it has met."""
    return Collector(config)


def run_covered(seed: int, plan: Plan) -> CoveredResult:
    """Generate and run the program ``seed``."""
    start, config, case = perf_counter(), plan.config, plan.case(seed)
    library = coverage_library(config)
    coverage, collector, blocks = Coverage(), _collector(config), list[Records]()

    def observe(records: Records) -> None:
        coverage.add(records, config)
        blocks.append(records.copy())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts"
        verdict = _run(case.program.executable(), config, case.machine, Listener(observe), library, path)
        points = read_counts(path) > 0
    collector.counts[:] = 0
    collector.add(np.concatenate(blocks) if blocks else np.zeros(0, RETIREMENT))
    reached = np.flatnonzero(collector.counts)
    times = collector.counts[reached]
    return CoveredResult(seed, plan, verdict, coverage, reached, times, points, perf_counter() - start)


def _run(
    executable: Executable, config: CoreConfig, stress: Stress, listener: Listener, library: Path, path: Path
) -> Verdict:
    result = run_program(
        executable,
        config,
        machine_of(stress),
        lockstep=True,
        observer=listener,
        library=library,
        closing=partial(write_coverage, library, path),
    )
    reason = Reason.DIFFERENCE if result.mismatches else result.exit.reason
    return Verdict(reason, result.difference or result.exit.text, result.instructions, result.cycles)


def run_covered_chunk(chunk: Chunk, engine: str) -> list[Any]:
    """Run some programs; the engine is always the model that counts."""
    del engine
    return [run_covered(seed, plan) for seed, plan in chunk]


def points_of(config: CoreConfig) -> list[Point]:
    """What the model of a configuration counts."""
    library = coverage_library(config)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points"
        write = partial(write_coverage, library, path)
        run_program(Program(()).executable(), config, Machine(), library=library, closing=write)
        return read_points(path)


class Total:
    """What programs have reached together."""

    def __init__(self, config: CoreConfig) -> None:
        self.collector = Collector(config)
        self.points = points_of(config)
        self.used = np.zeros(len(self.points), np.bool_)
        self.verilog, manifest = covered_design(config)
        self.components = {name: module["component"] for name, module in manifest["modules"].items()}

    def add(self, result: CoveredResult) -> None:
        """Add what a program has reached."""
        self.collector.counts[result.crosses] += result.times
        self.used |= result.points

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
