"""Runs the points of an exploration on the workers of a Dask scheduler.

A call per step: what is finished is on disk here, and a lost worker loses one step. Steps of a point follow each other,
as they do locally.
"""

import json
import pickle
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpulpnn_sim.explorer.cache import sources_digest
from xpulpnn_sim.explorer.results import PointResult
from xpulpnn_sim.explorer.runner import Emit, Manner, Report, begin, run_point
from xpulpnn_sim.explorer.task import RESULT, PointStep, Task
from xpulpnn_sim.farm.child import LOG, Tell
from xpulpnn_sim.farm.dask_pool import DaskPool, dask_pool
from xpulpnn_sim.farm.remote_call import Answer
from xpulpnn_sim.files import write_bytes


def versions(tell: Tell | None, steps: Sequence[PointStep]) -> dict[str, str]:
    """All that the results of steps depend on besides the configuration."""
    found = {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "sources of xpulpnn": sources_digest()[:12],
    }
    for step in steps:
        found |= {f"{name} (for {step.name})": value for name, value in step.settings().items()}
    return found


def run_remotely(tell: Tell, task: Task, step: PointStep, emit: Emit) -> PointResult:
    """What the process of a step does on a worker: the task is that of the step alone, whose folder it runs in."""
    return run_point(tell, replace(task, steps=(step,)), Path(), emit)


def run_dask(
    tasks: Sequence[Task], waiting: list[int], output: Path, emit: Emit, manner: Manner, report: Report
) -> Iterator[tuple[int, PointResult]]:
    """Numbers and results of the points ``waiting`` among ``tasks``, in the order they end.

    Parameters are those of :func:`~xpulpnn_sim.explorer.runner.run_points`.
    """
    steps = {id(step): step for number in waiting for step in tasks[number].steps}
    with dask_pool(manner.dask, versions, pickle.dumps(tuple(steps.values()))) as pool:
        shared = {name: pool.share(pickle.dumps(step)) for name, step in steps.items()}
        emitter = pool.share(pickle.dumps(emit))
        left = len(waiting)
        for number in waiting:
            chain = _Chain(number, tasks[number], output, report)
            chain.submit(pool, shared, emitter, manner.timeout_s)
        while left:
            chain, answer = pool.next_answer()
            chain.take(answer)
            if chain.current is None:
                left -= 1
                yield chain.number, chain.result
            else:
                chain.submit(pool, shared, emitter, manner.timeout_s)


class _Chain:
    """The steps of one point, one after the other."""

    def __init__(self, number: int, task: Task, output: Path, report: Report) -> None:
        self.number = number
        self.current: int | None = -1
        self._task = task
        self._report = report
        self._folder = begin(task, output)
        self._errors: list[str] = []
        self._wrong: frozenset[str] = frozenset()
        self.result = task.result()
        self._advance()

    @property
    def _step(self) -> tuple[PointStep, str]:
        """The current step and its key."""
        current = self.current or 0
        return self._task.steps[current], self._task.keys[current]

    def _advance(self) -> None:
        """Go on to the next step whose result is not known."""
        for number in range((-1 if self.current is None else self.current) + 1, len(self._task.steps)):
            if self._task.keys[number] not in self._task.known:
                self.current = number
                return
            self._report(self._task.point.label, self._task.steps[number].name, True)
        self.current = None

    def submit(self, pool: DaskPool, shared: Mapping[int, Any], emitter: Any, timeout_s: float) -> None:
        """Have the current step run."""
        step, key = self._step
        # its steps travel apart from it, once for all points
        alone = replace(self._task, steps=(), keys=(key,), known={}, strange=frozenset())
        label = f"{self._task.point.label} {step.name}"
        pool.submit(label, run_remotely, pickle.dumps(alone), shared[id(step)], emitter, timeout_s=timeout_s, tag=self)

    def take(self, answer: Answer) -> None:
        """Keep what came of the current step, and go on to the next."""
        step, key = self._step
        with (self._folder / LOG).open("ab") as log:
            log.write(answer.files.get(LOG, b""))
        for name, content in answer.files.items():
            if name not in (LOG, RESULT):
                write_bytes(self._folder / name, content)
        cached = False
        if answer.returned:
            cached = self._keep(answer, step, key)
        else:
            self._errors.append(f"{step.name}: {answer.why}")
        # a design that cannot be made says so once, not for every step
        errors = "; ".join(dict.fromkeys(self._errors))
        self.result = self._task.write(self._folder, errors, self._wrong)
        self._report(self._task.point.label, step.name, cached)
        self._advance()

    def _keep(self, answer: Answer, step: PointStep, key: str) -> bool:
        """Add what a step returned; returns whether its worker knew it."""
        found: PointResult = answer.value
        results = getattr(found, step.kind)
        if found.configuration:
            self._task = replace(self._task, configuration=found.configuration)
        if results:
            self._task = replace(self._task, known={**self._task.known, key: results[0]})
            if not json.loads(answer.files[RESULT])["keys"][step.kind][0]:
                self._wrong |= {key}
        if found.error:
            self._errors.append(found.error)
        return any(known for _name, known in answer.told)
