"""The loop of an exploration: points through processes or Dask workers, in rounds, under the eyes of a watcher."""

import time
from collections.abc import Callable, Sequence

from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.design import emit_design
from xpulpnn_sim.exploration.earlier_run import remove_earlier
from xpulpnn_sim.exploration.estimate import Estimate, estimate, remember
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.results import PointResult
from xpulpnn_sim.exploration.runner import InterruptedRun, Manner, run_points
from xpulpnn_sim.exploration.search import Found, Search
from xpulpnn_sim.exploration.space import Point
from xpulpnn_sim.exploration.task import PointStep, Task, plan

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
