"""Runs the points of an exploration in processes of their own, a few at a time.

A process per point: one that crashes, hangs or is killed takes nothing else with it, and what it had finished is on
disk. Whoever ends the run ends the processes and the tools they started.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from time import monotonic

from xpulpnn_sim.explorer.results import Configuration, EmittedDesign, PointResult
from xpulpnn_sim.explorer.task import RESULT, Task, run_task, with_known
from xpulpnn_sim.farm.child import LOG, Child, Tell
from xpulpnn_sim.farm.dask_pool import FarmLostError
from xpulpnn_sim.interrupts import later_interrupt, single_interrupt
from xpulpnn_sim.user_cache import ignore_before

Emit = Callable[[str, Configuration], EmittedDesign]
Report = Callable[[str, str, bool], None]
"""Told the label of a point, the name of a finished step and whether its result was known already."""


UNFINISHED = "interrupted before the end of"
"""How the error of a point begins that an interrupted run did not finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How points are run."""

    jobs: int = 2  # processes at a time
    timeout_s: float = 3600.0  # longest time of one step
    dask: str = ""  # address of a Dask scheduler whose workers run the points instead; empty for none


class InterruptedRun(KeyboardInterrupt):
    """A run that was interrupted, or that lost the machines it ran on."""

    def __init__(self, lost: str, results: list[PointResult], finished: int) -> None:
        super().__init__(lost or "interrupted")
        self.lost = lost
        self.results = results
        self.finished = finished


def run_points(tasks: Sequence[Task], output: Path, emit: Emit, manner: Manner, report: Report) -> list[PointResult]:
    """Results of all tasks, in their order; a point that failed has its error.

    Points without missing steps cost nothing; no process is started if none has any.
    """
    results: dict[int, PointResult] = {}
    waiting: list[int] = []
    for number, task in enumerate(tasks):
        if task.missing:
            waiting.append(number)
        else:
            results[number] = task.result()
            for step in task.steps:
                report(task.point.label, step.name, True)
    if waiting:
        run = _run_local
        if manner.dask:
            # its package takes a while to import
            from xpulpnn_sim.explorer.remote import run_dask as run
        try:
            with single_interrupt():
                # one by one: those that have ended count if there is an interrupt
                for ended in run(tasks, waiting, output, emit, manner, report):
                    results.update([ended])
        except (KeyboardInterrupt, FarmLostError) as stop:
            listed = [results.get(number) or _unfinished(task, output) for number, task in enumerate(tasks)]
            lost = str(stop) if isinstance(stop, FarmLostError) else ""
            raise InterruptedRun(lost, listed, len(results)) from None
    return [results[number] for number in range(len(tasks))]


def _unfinished(task: Task, output: Path) -> PointResult:
    """What an interrupted run knows of a point that it did not finish."""
    found = with_known(task, output / task.folder_name)
    names = [step.name for step, key in zip(found.steps, found.keys, strict=True) if key not in found.known]
    return found.result(f"{UNFINISHED} {', '.join(names) or 'the last step'}")


class _Worker:
    """A process that runs one point."""

    def __init__(self, number: int, task: Task, output: Path, emit: Emit, timeout_s: float) -> None:
        self.number = number
        self.task = task
        self.folder = begin(task, output)
        self.told = 0
        parts = (pickle.dumps(task), pickle.dumps(self.folder.resolve()), pickle.dumps(emit))
        self.child = Child(run_point, parts, self.folder, timeout_s)

    def receive(self, report: Report) -> bool:
        """Take one message; returns whether the process has nothing more to say."""
        message, more = self.child.receive()
        if more:
            name, cached = message
            self.told += 1
            report(self.task.point.label, name, cached)
        return not more

    def end(self, report: Report) -> PointResult:
        """End the process; its result, or that of a process without one: what it had finished, and why it ended."""
        code = self.child.end(kill=self.child.late and not self.child.returned)
        if self.child.returned:
            return self.child.value
        left = self.task.steps[self.told :]
        error = f"{left[0].name if left else 'last step'}: {self.child.why(code)}"
        result = with_known(self.task, self.folder).write(self.folder, error)
        for step in left:
            report(self.task.point.label, step.name, False)
        return result


def begin(task: Task, output: Path) -> Path:
    """The folder of a point that is about to run, without what would be taken for its own."""
    folder = output / task.folder_name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOG).unlink(missing_ok=True)
    if not task.known:
        (folder / RESULT).unlink(missing_ok=True)
    return folder


def run_point(tell: Tell, task: Task, folder: Path, emit: Emit) -> PointResult:
    """What the process of a point does."""
    ignore_before(task.fresh_since)
    return run_task(task, folder, emit, lambda name, cached: tell((name, cached)))


def _run_local(
    tasks: Sequence[Task], waiting: list[int], output: Path, emit: Emit, manner: Manner, report: Report
) -> Iterator[tuple[int, PointResult]]:
    left = list(reversed(waiting))
    running: list[_Worker] = []
    try:
        while left or running:
            while left and len(running) < manner.jobs:
                number = left.pop()
                with later_interrupt():
                    running.append(_Worker(number, tasks[number], output, emit, manner.timeout_s))
            soonest = min(worker.child.deadline for worker in running)
            ready = connection.wait([worker.child.receiver for worker in running], max(soonest - monotonic(), 0.0))
            for worker in list(running):
                if worker.child.receiver in ready:
                    if not worker.receive(report):
                        continue
                elif not worker.child.late:
                    continue
                running.remove(worker)
                yield worker.number, worker.end(report)
    finally:
        for worker in running:
            worker.child.end(kill=True)
