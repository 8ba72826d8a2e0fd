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
from xpulpnn_sim.exploration.results import PointResult
from xpulpnn_sim.exploration.space import Point
from xpulpnn_sim.exploration.task import POINTS, PointStep, Task, earlier_files, run_tasks
from xpulpnn_sim.tools.dask_workers import WorkersLostError
from xpulpnn_sim.tools.results import cached_results

_DEFAULTS_S = {"flows": 30.0, "kernels": 20.0, "energies": 60.0}
"""Seconds of a step that has never run, by the kind of its result."""

_CLUSTER_S = {**_DEFAULTS_S, "flows": 240.0, "kernels": 120.0}  # the same of a whole cluster

_MINUTE_S, _HOUR_S = 60, 3600


def _size_text(points: int, steps: int, known: int, seconds: float, jobs: int) -> str:
    """Size of a run for people; ``jobs`` processes share the work, 0 for machines of unknown number."""
    counted = [f"{n:,} {what}{'' if n == 1 else 's'}" for n, what in ((points, "point"), (steps, "step"))]
    told = f", {known:,} known" if known else ""
    at_once = max(1, min(jobs, points))
    seconds /= at_once
    time = f"{seconds:.0f} s"
    if seconds >= 2 * _MINUTE_S:
        time = f"{seconds / _MINUTE_S:.0f} min" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.1f} h"
    shared = f"{time} with {at_once} process{'es' if at_once > 1 else ''}" if jobs else f"{time} of work"
    return f"{counted[0]} to run, {counted[1]}{told}, about {shared}"


def _remember(tasks: Iterable[Task]) -> None:
    """Note in the cache how long the steps of these tasks took."""
    measured: defaultdict[str, list[float]] = defaultdict(list)
    for task in tasks:
        for key in task.known.keys() - task.missing:
            result = task.known[key]
            wall_s = float(result.get("wall_s", 0.0) if isinstance(result, dict) else result.wall_s)
            if wall_s:
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
        self.results: list[PointResult] = []
        self.notes: list[str] = []  # remarks on what the points could not do
        self.cached = 0
        self.interrupted = ""
        self.lost = ""

    def run(
        self, points: Sequence[Point], steps: Sequence[Sequence[PointStep]], whole: int | None = None
    ) -> list[PointResult]:
        """Results of a round, each point with its steps; an interrupted one is noted in :attr:`interrupted`.

        There will be ``whole`` points in all rounds; if that is more than was asked for, the first one raises
        :class:`InputError`.
        """
        options = self._options
        pairs = zip(points, steps, strict=True)
        tasks = [Task(point, listed, options.output, fresh_since=self._fresh_since) for point, listed in pairs]
        if not self.results:
            self._allow(tasks, 1.0 if whole is None else whole / len(points))
        try:
            run_tasks(tasks, self._report, jobs=options.jobs, timeout_s=options.timeout, dask=options.dask)
        except (KeyboardInterrupt, WorkersLostError) as stop:
            done = len(self.results) + sum(not task.left for task in tasks)
            self.interrupted = f"interrupted after {done} of {len(self.results) + len(tasks)} points"
            self.lost = str(stop) if isinstance(stop, WorkersLostError) else ""
        results = [task.unfinished() if task.left else task.result() for task in tasks]
        self.results += results
        _remember(tasks)
        return results

    def _allow(self, tasks: Sequence[Task], factor: float) -> None:
        """Tell the size of the run, ``factor`` times that of these tasks, before it starts."""
        options = self._options
        seconds = 0.0
        missing = [(task.point.top, task.steps[key]) for task in tasks for key in task.missing]
        for top, step in missing:
            usual = _CLUSTER_S if top in WHOLE_CLUSTERS else _DEFAULTS_S
            seconds += factor * (cached_results("times").find(f"{top} {step.name}") or usual[step.kind])
        counted = sum(bool(task.left) for task in tasks), len(missing), sum(len(task.known) for task in tasks)
        count, steps, known = (round(factor * one) for one in counted)
        text = _size_text(count, steps, known, seconds, 0 if options.dask else options.jobs)
        if count > options.max_points and not options.yes:
            raise InputError(f"yes or max_points of {count} must be given, not left out ({text})")
        if seconds >= _WORTH_TELLING_S:
            self._watcher.remark(text)
        if options.fresh:
            remove_earlier(options.output)
        self._watcher.expect(steps + known)

    def _report(self, label: str, step: str, known: bool) -> None:
        self.cached += known
        self._watcher.done(label, step)
