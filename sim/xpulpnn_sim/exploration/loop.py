"""The loop of an exploration: points through processes or Dask workers, in rounds, under the eyes of a watcher."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.finished_run import FILES
from xpulpnn_sim.exploration.options import WHOLE_CLUSTERS, ExploreOptions
from xpulpnn_sim.exploration.results import PointResult, emit_design
from xpulpnn_sim.exploration.search import Search
from xpulpnn_sim.exploration.space import Point, Space
from xpulpnn_sim.exploration.task import (
    POINTS,
    PointStep,
    Task,
    earlier_files,
    plan,
    run_points,
    unfinished,
    with_known,
)
from xpulpnn_sim.tools.dask_workers import WorkersLostError
from xpulpnn_sim.tools.results import cached_results

_DEFAULTS_S = {"flows": 30.0, "kernels": 20.0, "energies": 60.0}
"""Seconds of a step that has never run, by the kind of its result."""

_CLUSTER_S = {**_DEFAULTS_S, "flows": 240.0, "kernels": 120.0}  # the same of a whole cluster

_MINUTE_S, _HOUR_S = 60, 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSize:
    """Size of a run."""

    points: int  # points that lack a result
    steps: int  # steps to run
    known: int  # steps whose results are known
    seconds: float  # sum of the times of the steps to run, one after the other

    def scaled(self, factor: float) -> "RunSize":
        """The size of ``factor`` times as many points of the kind."""
        points, steps, known = (round(factor * one) for one in (self.points, self.steps, self.known))
        return RunSize(points=points, steps=steps, known=known, seconds=factor * self.seconds)

    def text(self, jobs: int) -> str:
        """The size for people; ``jobs`` processes share the work, 0 for machines of unknown number."""
        points, steps = (
            f"{number:,} {what}{'' if number == 1 else 's'}"
            for number, what in ((self.points, "point"), (self.steps, "step"))
        )
        known = f", {self.known:,} known" if self.known else ""
        at_once = max(1, min(jobs, self.points))
        seconds = self.seconds / at_once
        time = f"{seconds:.0f} s"
        if seconds >= 2 * _MINUTE_S:
            time = f"{seconds / _MINUTE_S:.0f} min" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.1f} h"
        shared = f"{time} with {at_once} process{'es' if at_once > 1 else ''}" if jobs else f"{time} of work"
        return f"{points} to run, {steps}{known}, about {shared}"


def size_of(tasks: Iterable[Task]) -> RunSize:
    """Size of the run of these tasks."""
    points = steps = known = 0
    seconds = 0.0
    for task in tasks:
        usual = _CLUSTER_S if task.point.top in WHOLE_CLUSTERS else _DEFAULTS_S
        missing = [task.steps[key] for key in task.missing]
        points, steps, known = points + bool(missing), steps + len(missing), known + len(task.steps) - len(missing)
        for step in missing:
            seconds += cached_results("times").find(f"{task.point.top} {step.name}") or usual[step.kind]
    return RunSize(points=points, steps=steps, known=known, seconds=seconds)


def remember(tasks: Iterable[Task], output: Path) -> None:
    """Note in the cache how long the steps of these tasks took, as far as their folders below ``output`` tell."""
    measured: defaultdict[str, list[float]] = defaultdict(list)
    for task in tasks:
        for key, result in with_known(task, output / task.folder_name).known.items():
            wall_s = float(result.get("wall_s", 0.0) if isinstance(result, dict) else result.wall_s)
            if key in task.steps and wall_s:
                measured[f"{task.point.top} {task.steps[key].name}"].append(wall_s)
    for name, values in measured.items():
        cached_results("times").keep(name, round(fmean(values), 2))


def remove_earlier(output: Path) -> None:
    """Remove the points and the tables of earlier runs in ``output``; files that no run has written stay."""
    for folder in sorted((output / POINTS).glob("*/")):
        for name in earlier_files(folder):
            (folder / name).unlink(missing_ok=True)
    for folder in [*sorted((output / POINTS).rglob("*/"), reverse=True), output / POINTS]:
        with suppress(OSError):
            folder.rmdir()
    with suppress(OSError, ValueError, TypeError, LookupError):
        record = json.loads((output / FILES[0]).read_text())
        if "points" in record and str(record["command"]).startswith("xpulpnn explore"):
            for name in FILES:
                (output / name).unlink(missing_ok=True)


_WORTH_TELLING_S = 60.0  # Estimated time from which the size of a run is told before it starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Listener to the progress of a run; unless told otherwise it does nothing."""

    remark: Callable[[str], object] = lambda text: None  # told something that is no result
    expect: Callable[[int], object] = lambda total: None  # told the number of steps, once it is known
    done: Callable[[str, str], object] = lambda label, step: None  # told the point and the step that is done


class ExplorationLoop:
    """Points of one run, in rounds."""

    def __init__(self, options: ExploreOptions, watcher: Watcher) -> None:
        self._options, self._watcher = options, watcher
        self._fresh_since = time.time() if options.fresh else None
        self._settings: dict[int, tuple[PointStep, dict[str, str]]] = {}
        self.results: list[PointResult] = []
        self.cached = 0
        self.interrupted = ""
        self.lost = ""

    def plan(self, points: Sequence[Point], steps: Sequence[Sequence[PointStep]]) -> list[Task]:
        """The tasks of points, each with its steps."""
        # tools are asked for their versions once
        for step in (step for listed in steps for step in listed):
            if id(step) not in self._settings:
                self._settings[id(step)] = step, dict(step.settings())
        output, fresh_since = self._options.output, self._fresh_since
        return [
            plan(point, [self._settings[id(step)] for step in listed], output, fresh_since=fresh_since)
            for point, listed in zip(points, steps, strict=True)
        ]

    def allow(self, size: RunSize) -> None:
        """Tell the size of the run before it starts; raises :class:`InputError` if it is larger than was asked for."""
        options = self._options
        text = size.text(0 if options.dask else options.jobs)
        if size.points > options.max_points and not options.yes:
            raise InputError(f"yes or max_points of {size.points} must be given, not left out ({text})")
        if size.seconds >= _WORTH_TELLING_S:
            self._watcher.remark(text)
        if options.fresh:
            remove_earlier(options.output)
        self._watcher.expect(size.steps + size.known)

    def run(self, tasks: Sequence[Task]) -> list[PointResult]:
        """Results of a round; an interrupted one is noted in :attr:`interrupted`."""
        options = self._options
        where = {"jobs": options.jobs, "timeout_s": options.timeout, "dask": options.dask}
        ended: dict[int, PointResult] = {}
        try:
            # one by one: those that have ended count if there is an interrupt
            for one in run_points(tasks, options.output, emit_design, self._report, **where):
                ended.update([one])
        except (KeyboardInterrupt, WorkersLostError) as stop:
            done, whole = len(self.results) + len(ended), len(self.results) + len(tasks)
            self.interrupted = f"interrupted after {done} of {whole} points"
            self.lost = str(stop) if isinstance(stop, WorkersLostError) else ""
        results = [ended.get(number) or unfinished(task, options.output) for number, task in enumerate(tasks)]
        self.results += results
        remember(tasks, options.output)
        return results

    def _report(self, label: str, step: str, known: bool) -> None:
        self.cached += known
        self._watcher.done(label, step)

    def sweep(self, points: Sequence[Point], steps: Sequence[Sequence[PointStep]]) -> None:
        """Run all points in one round."""
        tasks = self.plan(points, steps)
        self.allow(size_of(tasks))
        self.run(tasks)

    def search(self, search: Search, steps_of: Callable[[Sequence[Point]], Sequence[Sequence[PointStep]]]) -> Space:
        """Run what a search proposes, round after round."""

        def evaluate(points: Sequence[Point]) -> Sequence[PointResult]:
            tasks = self.plan(points, steps_of(points))
            if not self.results:
                self.allow(size_of(tasks).scaled(min(search.points, search.size) / len(points)))
            return self.run(tasks)

        return search.run(evaluate, lambda: bool(self.interrupted))
