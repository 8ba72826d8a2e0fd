"""Runs the points of an exploration in processes of their own, a few at a time.

A process per point: one that crashes, hangs or is killed takes nothing else with it, and what it had finished is on
disk. Whoever ends the run ends the processes and the tools they started.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.explorer.results import EmittedDesign, PointResult
from xpulpnn_sim.explorer.task import RESULT, Task, run_task, with_known
from xpulpnn_sim.files import write_text

LOG = "log.txt"

_SCRATCH = ".scratch"
"""Folder inside that of a point for what its tools would leave behind if they were killed."""

Emit = Callable[[str, CoreConfig], EmittedDesign]
Report = Callable[[str, str, bool], None]
"""Told the label of a point, the name of a finished step and whether its result was known already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How points are run.

    Parameters
    ----------
    jobs : int
        Processes at a time.
    timeout_s : float
        Longest time of one step.
    dask : str
        Address of a Dask scheduler whose workers run the points instead; empty for none.
    """

    jobs: int = 2
    timeout_s: float = 3600.0
    dask: str = ""


def run_points(tasks: Sequence[Task], output: Path, emit: Emit, manner: Manner, report: Report) -> list[PointResult]:
    """Results of all tasks, in their order; a point that failed has its error.

    Parameters
    ----------
    tasks : sequence of Task
        The points.
    output : Path
        Folder of the run.
    emit : callable
        Function of a module that makes the design of a component name and configuration.
    manner : Manner
        How to run them.
    report : callable
        Told of every finished step.

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
    run = _run_dask if manner.dask else _run_local
    if waiting:
        with _single_interrupt():
            results |= dict(run(tasks, waiting, output, emit, manner, report))
    return [results[number] for number in range(len(tasks))]


@contextmanager
def _single_interrupt() -> Iterator[None]:
    """Ignore further interrupts after the first one, while what it ends is tidied up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _later_interrupt() -> Iterator[None]:
    """Keep an interrupt waiting; processes started meanwhile never see one, as they are ended by this one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


class _Worker:
    """A process that runs one point."""

    def __init__(self, number: int, task: Task, output: Path, emit: Emit, timeout_s: float) -> None:
        self.number = number
        self.task = task
        self.folder = output / task.folder_name
        self.folder.mkdir(parents=True, exist_ok=True)
        if not task.known:
            (self.folder / RESULT).unlink(missing_ok=True)
        self.timeout_s = timeout_s
        self.told = 0
        self.result: PointResult | None = None
        context = get_context("spawn")
        self.receiver, sender = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_serve, args=(sender, task, self.folder, emit))
        self.process.start()
        sender.close()
        self.deadline = monotonic() + timeout_s

    def receive(self, report: Report) -> bool:
        """Take one message; returns whether the process has nothing more to say."""
        try:
            message = self.receiver.recv()
        except (EOFError, OSError):
            return True
        if isinstance(message, PointResult):
            self.result = message
            return True
        name, cached = message
        self.told += 1
        self.deadline = monotonic() + self.timeout_s
        report(self.task.point.label, name, cached)
        return False

    def end(self) -> int | None:
        """Kill the process and all it started; returns its exit code, None if it had to be killed."""
        pid = self.process.pid
        # its tools are in its process group, which outlives it if one of them does
        self.process.join(0.0 if self.result is None and monotonic() >= self.deadline else 5.0)
        code = self.process.exitcode
        if pid is not None:
            try:
                os.killpg(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self.process.kill()
        self.process.join()
        self.process.close()
        self.receiver.close()
        shutil.rmtree(self.folder / _SCRATCH, ignore_errors=True)
        return code

    def failed(self, error: str, report: Report) -> PointResult:
        """The result of a process that ended without one: what it had finished, and why it ended."""
        result = with_known(self.task, self.folder).write(self.folder, error)
        for step in self.task.steps[self.told :]:
            report(self.task.point.label, step.name, False)
        return result


def _run_local(
    tasks: Sequence[Task], waiting: list[int], output: Path, emit: Emit, manner: Manner, report: Report
) -> Iterator[tuple[int, PointResult]]:
    left = list(reversed(waiting))
    running: list[_Worker] = []
    try:
        while left or running:
            while left and len(running) < manner.jobs:
                number = left.pop()
                with _later_interrupt():
                    running.append(_Worker(number, tasks[number], output, emit, manner.timeout_s))
            soonest = min(worker.deadline for worker in running)
            ready = connection.wait([worker.receiver for worker in running], max(soonest - monotonic(), 0.0))
            for worker in list(running):
                late = monotonic() >= worker.deadline
                if worker.receiver in ready:
                    if not worker.receive(report):
                        continue
                elif not late:
                    continue
                running.remove(worker)
                code = worker.end()
                yield worker.number, worker.result or worker.failed(_why(worker, code, late=late), report)
    finally:
        for worker in running:
            worker.deadline = 0.0
            worker.end()


def _why(worker: _Worker, code: int | None, *, late: bool) -> str:
    name = worker.task.steps[worker.told].name if worker.told < len(worker.task.steps) else "last step"
    if late or code is None:
        return f"{name}: must end within {worker.timeout_s:g} s, not be stopped then"
    if code < 0:
        return f"{name}: its process must end by itself, not be killed by {signal.Signals(-code).name}"
    return f"{name}: its process must end with a result, not with exit code {code} (see {LOG})"


def _serve(sender: Connection, task: Task, folder: Path, emit: Emit) -> None:
    """Run one point in a fresh process, whose process group is its own and ends with the process that started it."""
    os.setpgid(0, 0)
    scratch = folder.resolve() / _SCRATCH
    scratch.mkdir(exist_ok=True)
    os.environ["TMPDIR"], tempfile.tempdir = str(scratch), None
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with (folder / LOG).open("w") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
    result = run_task(task, folder, emit, lambda name, cached: sender.send((name, cached)))
    sender.send(result)
    sender.close()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)


def _run_dask(
    tasks: Sequence[Task], waiting: list[int], output: Path, emit: Emit, manner: Manner, report: Report
) -> Iterator[tuple[int, PointResult]]:
    """Run points on the workers of a Dask scheduler, which need the same sources and tools but no common files."""
    with _dask_client(manner.dask) as (client, as_completed):
        futures = {client.submit(run_remotely, tasks[number], emit, pure=False): number for number in waiting}
        try:
            for future in as_completed(list(futures)):
                number = futures[future]
                task = tasks[number]
                folder = output / task.folder_name
                folder.mkdir(parents=True, exist_ok=True)
                if future.status == "finished":
                    result, files = future.result()
                    for name, text in files.items():
                        write_text(folder / name, text)
                else:
                    error = " ".join(f"{type(future.exception()).__name__}: {future.exception()}".split())
                    result = task.write(folder, f"dask: {error}")
                for step in task.steps:
                    report(task.point.label, step.name, False)
                yield number, result
        finally:
            client.cancel(list(futures))


@contextmanager
def _dask_client(address: str) -> Iterator[tuple[Any, Any]]:
    """Client of a scheduler and the function that waits for its results."""
    distributed = dask_package()
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"--dask must be the address of a running Dask scheduler, not {address} ({text})") from None
    with client:
        yield client, distributed.as_completed


def dask_package() -> Any:
    """The package ``distributed``; raises :class:`ToolError` with the command that installs it."""
    try:
        return import_module("distributed")
    except ImportError:
        raise ToolError("distributed must be installed for --dask: pip install distributed") from None


def run_remotely(task: Task, emit: Emit) -> tuple[PointResult, dict[str, str]]:
    """Run one point where only the result matters; returns it and the files of its folder."""
    with tempfile.TemporaryDirectory(prefix="xpulpnn-") as name:
        folder = Path(name)
        result = run_task(task, folder, emit, lambda name, cached: None)
        return result, {
            str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
        }
