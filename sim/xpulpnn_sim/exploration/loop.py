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
from xpulpnn.user_cache import cache_directory, store
from xpulpnn_sim.exploration.design import emit_design
from xpulpnn_sim.exploration.finished_run import FILES
from xpulpnn_sim.exploration.options import WHOLE_CLUSTERS, ExploreOptions
from xpulpnn_sim.exploration.results import PointResult
from xpulpnn_sim.exploration.runner import InterruptedRun, Manner, run_points
from xpulpnn_sim.exploration.search import Found, Search
from xpulpnn_sim.exploration.space import Point
from xpulpnn_sim.exploration.task import POINTS, PointStep, StepResult, Task, earlier_files, plan, with_known

_DEFAULTS_S = {"flows": 30.0, "kernels": 20.0, "energies": 60.0}
"""Seconds of a step that has never run, by the kind of its result."""

_CLUSTER_S = {"flows": 240.0, "kernels": 120.0}  # the same of a whole cluster

_MINUTE_S, _HOUR_S = 60, 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Size of a run."""

    points: int  # points that lack a result
    steps: int  # steps to run
    known: int  # steps whose results are known
    seconds: float  # sum of the times of the steps to run, one after the other

    def scaled(self, factor: float) -> "Estimate":
        """The size of ``factor`` times as many points of the kind."""
        points, steps, known = (round(factor * one) for one in (self.points, self.steps, self.known))
        return Estimate(points=points, steps=steps, known=known, seconds=factor * self.seconds)

    def text(self, jobs: int) -> str:
        """The size for people; ``jobs`` processes share the work, 0 for machines of unknown number."""
        known = f", {self.known:,} known" if self.known else ""
        at_once = max(1, min(jobs, self.points))
        time = duration(self.seconds / at_once)
        shared = f"{time} with {at_once} process{'es' if at_once > 1 else ''}" if jobs else f"{time} of work"
        return f"{_counted(self.points, 'point')} to run, {_counted(self.steps, 'step')}{known}, about {shared}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE_S:.0f} min" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.1f} h"


def estimate(tasks: Iterable[Task]) -> Estimate:
    """Size of the run of these tasks."""
    known_s = _read()
    points = steps = known = 0
    seconds = 0.0
    for task in tasks:
        missing = [step for step, key in zip(task.steps, task.keys, strict=True) if key not in task.known]
        points, steps, known = points + bool(missing), steps + len(missing), known + len(task.steps) - len(missing)
        seconds += sum(known_s.get(_name(task, step), _default_s(task, step)) for step in missing)
    return Estimate(points=points, steps=steps, known=known, seconds=seconds)


def remember(tasks: Iterable[Task], output: Path) -> None:
    """Note in the cache how long the steps of these tasks took, as far as their folders below ``output`` tell."""
    measured: defaultdict[str, list[float]] = defaultdict(list)
    for task in tasks:
        found = with_known(task, output / task.folder_name)
        for step, key in zip(found.steps, found.keys, strict=True):
            if key in found.known and (wall_s := _wall_s(found.known[key])):
                measured[_name(task, step)].append(wall_s)
    if measured:
        known_s = _read() | {name: round(fmean(values), 2) for name, values in measured.items()}
        store(_file(), json.dumps(known_s, indent=1, sort_keys=True) + "\n")


def _default_s(task: Task, step: PointStep) -> float:
    usual = _DEFAULTS_S[step.kind]
    return _CLUSTER_S.get(step.kind, usual) if task.point.top in WHOLE_CLUSTERS else usual


def _name(task: Task, step: PointStep) -> str:
    return f"{task.point.top} {step.name}"


def _wall_s(result: StepResult) -> float:
    return float(result.get("wall_s", 0.0) if isinstance(result, dict) else result.wall_s)


def _file() -> Path:
    return cache_directory() / "times" / "steps.json"


def _read() -> dict[str, float]:
    try:
        return {str(name): float(value) for name, value in json.loads(_file().read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def remove_earlier(output: Path) -> None:
    """Remove the points and the tables of earlier runs in ``output``; files that no run has written stay."""
    for folder in sorted((output / POINTS).glob("*/")):
        for name in earlier_files(folder):
            (folder / name).unlink(missing_ok=True)
        for inner in sorted((path for path in folder.rglob("*/") if path != folder), reverse=True):
            _remove_empty(inner)
        _remove_empty(folder)
    _remove_empty(output / POINTS)
    if _is_record(output / FILES[0]):
        for name in FILES:
            (output / name).unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _is_record(path: Path) -> bool:
    """Return whether a file holds the results of a run."""
    try:
        record = json.loads(path.read_text())
        return "points" in record and str(record["command"]).startswith("xpulpnn explore")
    except (OSError, ValueError, TypeError, LookupError):
        return False


_WORTH_TELLING_S = 60.0  # Estimated time from which the size of a run is told before it starts


class Watcher:
    """Listener to the progress of a run; this one does nothing."""

    def remark(self, text: str) -> None:
        """Something that is no result."""

    def expect(self, total: int) -> None:
        """The number of steps, once it is known."""

    def done(self, label: str, step: str) -> None:
        """A step of a point is done."""


class Loop:
    """Points of one run, in rounds."""

    def __init__(self, options: ExploreOptions, watcher: Watcher) -> None:
        self._output = options.output
        self._jobs = options.jobs
        self._most = None if options.yes else options.max_points
        self._manner = Manner(jobs=options.jobs, timeout_s=options.timeout, dask=options.dask)
        self._fresh_since = time.time() if options.fresh else None
        self._watcher = watcher
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
        return [
            plan(point, [self._settings[id(step)] for step in listed], self._output, fresh_since=self._fresh_since)
            for point, listed in zip(points, steps, strict=True)
        ]

    def allow(self, size: Estimate) -> None:
        """Tell the size of the run before it starts; raises :class:`InputError` if it is larger than was asked for."""
        text = size.text(0 if self._manner.dask else self._jobs)
        if self._most is not None and size.points > self._most:
            raise InputError(f"--yes or --max-points {size.points} must be given, not left out ({text})")
        if size.seconds >= _WORTH_TELLING_S:
            self._watcher.remark(text)
        if self._fresh_since is not None:
            remove_earlier(self._output)

    def expect(self, total: int) -> None:
        """Tell the number of steps."""
        self._watcher.expect(total)

    def run(self, tasks: Sequence[Task]) -> list[PointResult]:
        """Results of a round; an interrupted one is noted in :attr:`interrupted`."""
        try:
            results = run_points(tasks, self._output, emit_design, self._manner, self._report)
        except InterruptedRun as stopped:
            done = len(self.results) + stopped.finished
            results = stopped.results
            self.interrupted = f"interrupted after {done} of {len(self.results) + len(tasks)} points"
            self.lost = stopped.lost
        self.results += results
        remember(tasks, self._output)
        return results

    def _report(self, label: str, step: str, known: bool) -> None:
        self.cached += known
        self._watcher.done(label, step)


def run_sweep(loop: Loop, points: Sequence[Point], steps: Sequence[Sequence[PointStep]]) -> None:
    """Run all points in one round."""
    tasks = loop.plan(points, steps)
    loop.allow(estimate(tasks))
    loop.expect(sum(len(task.steps) for task in tasks))
    loop.run(tasks)


def run_search(
    loop: Loop, search: Search, steps_of: Callable[[Sequence[Point]], Sequence[Sequence[PointStep]]]
) -> Found:
    """Run what a search proposes, round after round."""
    most = min(search.points, search.size)
    rounds = 0

    def evaluate(points: Sequence[Point]) -> Sequence[PointResult]:
        nonlocal rounds
        tasks = loop.plan(points, steps_of(points))
        if not rounds:
            size = estimate(tasks).scaled(most / len(points))
            loop.allow(size)
            loop.expect(size.steps + size.known)
        rounds += 1
        return loop.run(tasks)

    return search.run(evaluate, lambda: bool(loop.interrupted))
