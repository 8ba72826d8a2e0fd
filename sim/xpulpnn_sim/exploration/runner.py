"""Runs the points of an exploration in processes, a few at a time: here or on the workers of a Dask scheduler."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from xpulpnn_sim.exploration.cache import sources_digest
from xpulpnn_sim.exploration.results import PointResult
from xpulpnn_sim.exploration.task import LOG, RESULT, Emit, PointStep, StepAnswer, Task, run_step, with_known
from xpulpnn_sim.tools.dask_workers import WorkersLostError
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.interrupts import single_interrupt
from xpulpnn_sim.tools.jobs import executor, versions_of
from xpulpnn_sim.tools.worker_process import CallError

Report = Callable[[str, str, bool], None]
"""Told the label of a point, the name of a finished step and whether its result was known already."""


UNFINISHED = "interrupted before the end of"  # how the error of a point begins that an interrupted run did not finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Processes or machines that run points, and the time they get."""

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
        try:
            with single_interrupt():
                # one by one: those that have ended count if there is an interrupt
                for ended in _run(tasks, waiting, output, emit, manner, report):
                    results.update([ended])
        except (KeyboardInterrupt, WorkersLostError) as stop:
            listed = [results.get(number) or _unfinished(task, output) for number, task in enumerate(tasks)]
            lost = str(stop) if isinstance(stop, WorkersLostError) else ""
            raise InterruptedRun(lost, listed, len(results)) from None
    return [results[number] for number in range(len(tasks))]


def _unfinished(task: Task, output: Path) -> PointResult:
    """Result of a point that an interrupted run did not finish."""
    found = with_known(task, output / task.folder_name)
    names = [step.name for step, key in zip(found.steps, found.keys, strict=True) if key not in found.known]
    return found.result(f"{UNFINISHED} {', '.join(names) or 'the last step'}")


def versions(steps: Sequence[PointStep]) -> dict[str, str]:
    """All that the results of steps depend on besides the configuration."""
    found = {"Python": versions_of()["Python"], "sources of xpulpnn": sources_digest()[:12]}
    for step in steps:
        found |= {f"{name} (for {step.name})": value for name, value in step.settings().items()}
    return found


def _run(
    tasks: Sequence[Task], waiting: Sequence[int], output: Path, emit: Emit, manner: Manner, report: Report
) -> Iterator[tuple[int, PointResult]]:
    """Numbers and results of the points ``waiting`` among ``tasks``, in the order they end.

    A call per step: what is finished is on disk, and a lost machine loses one step. Steps of a point follow each other.
    """
    steps = {id(step): step for number in waiting for step in tasks[number].steps}
    told = partial(versions, tuple(steps.values()))
    with executor(manner.jobs, dask=manner.dask, timeout_s=manner.timeout_s, versions=told) as pool:
        shared = {name: pool.share(step) for name, step in steps.items()}
        left = iter(waiting)
        running: dict[Future[StepAnswer], tuple[int, _Chain]] = {}

        def proceed(number: int, chain: "_Chain") -> None:
            point, step = chain.task.point, shared[id(chain.step)]
            running[pool.submit(run_step, point, step, emit, chain.task.fresh_since)] = number, chain

        # points of this machine one after the other: what is interrupted has finished as many as possible
        for number in islice(left, None if manner.dask else manner.jobs):
            proceed(number, _Chain(tasks[number], output, report))
        while running:
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for call in ended:
                number, chain = running.pop(call)
                chain.take(call)
                if chain.left:
                    proceed(number, chain)
                    continue
                for following in islice(left, 1):
                    proceed(following, _Chain(tasks[following], output, report))
                yield number, chain.result


class _Chain:
    """The steps of one point, one after the other."""

    def __init__(self, task: Task, output: Path, report: Report) -> None:
        self.task = task
        self.result = task.result()
        self.left = [pair for pair in zip(task.steps, task.keys, strict=True) if pair[1] not in task.known]
        self._report = report
        self._folder = output / task.folder_name
        self._errors: list[str] = []
        # a result that is wrong is shown, but never taken for a finished step
        self._wrong: frozenset[str] = frozenset()
        self._folder.mkdir(parents=True, exist_ok=True)
        known = [step.name for step, key in zip(task.steps, task.keys, strict=True) if key in task.known]
        (self._folder / LOG).write_text("".join(f"{name}: known\n" for name in known))
        for name in known:
            report(task.point.label, name, True)
        if not known:
            (self._folder / RESULT).unlink(missing_ok=True)

    @property
    def step(self) -> PointStep:
        """The step to run next."""
        return self.left[0][0]

    def take(self, call: Future[StepAnswer]) -> None:
        """Keep what came of the step, and go on to the next one."""
        step, key = self.left.pop(0)
        try:
            answer = call.result()
        except CallError as error:
            answer = StepAnswer(error=f"{step.name}: {error} (see {LOG})")
        with (self._folder / LOG).open("a") as log:
            log.write(getattr(call, "output", ""))
        for name, text in answer.files.items():
            write_text(self._folder / name, text)
        if answer.configuration:
            self.task = replace(self.task, configuration=answer.configuration)
        if answer.result is not None:
            self.task = replace(self.task, known={**self.task.known, key: answer.result})
            self._wrong |= {key} if answer.error else set()
        # a design that cannot be made says so once, not for every step
        self._errors += [answer.error] if answer.error and answer.error not in self._errors else []
        self.result = self.task.write(self._folder, "; ".join(self._errors), self._wrong)
        self._report(self.task.point.label, step.name, answer.cached)
