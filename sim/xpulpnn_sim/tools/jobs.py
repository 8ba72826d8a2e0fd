"""The one way to run work in processes: here, on several processes of this machine, or on the workers of Dask.

All three are executors of :mod:`concurrent.futures`. Leaving :func:`executor` cancels what has not ended and kills the
processes with all tools that they started; an interrupt of the terminal reaches only the process that owns them.
"""

import math
import pickle
import platform
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from importlib import metadata
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Generic, TypeVar

from xpulpnn.errors import InputError
from xpulpnn_sim.tools.results import sources_digest
from xpulpnn_sim.tools.worker_process import CallError, Shared, WorkerAnswer, WorkerProcess, pack_object

Item = TypeVar("Item")
Result = TypeVar("Result")

Versions = Callable[[], Mapping[str, str]]
"""Returns all that results depend on besides the arguments: workers on other machines must have the same."""


class Call(Future[Result], Generic[Result]):
    """A call that was submitted."""

    output: str = ""
    """Output of its process and its tools, once it has ended; of a call in this very process nothing."""

    def settle(self, answer: WorkerAnswer) -> None:
        self.output = answer.output
        if self.done():
            return
        if answer.error is None:
            self.set_result(answer.value)
        else:
            self.set_exception(answer.error)


class Pool(Executor):
    """Runs calls somewhere."""

    @property
    @abstractmethod
    def ahead(self) -> int:
        """Number of calls to have submitted at a time, so that no process waits."""

    @abstractmethod
    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Call[Result]:
        """Have a function called that can be imported by its name."""

    @abstractmethod
    def share(self, value: Any) -> Any:
        """An argument of many calls, which travels once; to be given to :meth:`submit` in place of the value."""

    def map(self, fn: Callable[..., Result], *iterables: Iterable[Any], **_: Any) -> Iterator[Result]:
        """Results in order; arguments are taken as they are needed, so that there may be no end of them."""
        calls = zip(*iterables, strict=False)
        running: deque[Call[Result]] = deque()
        try:
            while True:
                running.extend(self.submit(fn, *one) for one in islice(calls, self.ahead - len(running)))
                if not running:
                    return
                yield running.popleft().result()
        finally:
            for call in running:
                call.cancel()


def completed(
    pool: Pool,
    function: Callable[..., Result],
    items: Iterable[Item],
    *more: Any,
    named: Callable[[Item], str] | None = None,
) -> Iterator[tuple[Item, Result]]:
    """Items and what the function returns for each of them and ``more``, as they come; an error cancels all others. The
    error of a call whose process was lost begins with what ``named`` calls its item."""
    waiting = iter(items)
    running: dict[Call[Result], Item] = {}
    try:
        while True:
            for item in islice(waiting, pool.ahead - len(running)):
                running[pool.submit(function, item, *more)] = item
            if not running:
                return
            wait(running, return_when=FIRST_COMPLETED)
            for call in [one for one in running if one.done()]:
                item = running.pop(call)
                try:
                    result = call.result()
                except CallError as error:
                    raise CallError(f"{named(item)}: {error}" if named else str(error)) from None
                yield item, result
    finally:
        for call in running:
            call.cancel()


def versions_of(*packages: str) -> dict[str, str]:
    """Versions that workers on other machines must share: Python, the sources of this project, these packages."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "sources of xpulpnn": sources_digest()[:12],
        **{name: metadata.version(name) for name in packages},
    }


def executor(
    jobs: int, *, dask: str = "", timeout_s: float | None = None, versions: Versions | None = None
) -> AbstractContextManager[Pool]:
    """Processes of this machine, or with ``dask`` the workers of the scheduler at that address.

    A call that takes longer than ``timeout_s`` is killed with its tools. Without such a limit a single job runs in
    this very process. Workers of Dask must tell the same ``versions`` as this process. Raises :class:`InputError` for a
    number or an address that cannot be, :class:`ToolError` without Dask.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, not {jobs}")
    if dask:
        from xpulpnn_sim.tools.dask_workers import dask_workers

        return dask_workers(dask, versions or dict, math.inf if timeout_s is None else timeout_s)
    if jobs == 1 and timeout_s is None:
        return _Here()
    return _Processes(jobs, math.inf if timeout_s is None else timeout_s)


class _Here(Pool):
    """Runs calls in this very process, one at a time, when they are submitted."""

    @property
    def ahead(self) -> int:
        return 1

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Call[Result]:
        call: Call[Result] = Call()
        call.set_running_or_notify_cancel()
        try:
            call.set_result(fn(*args, **kwargs))
        except Exception as error:
            call.set_exception(error)
        return call

    def share(self, value: Any) -> Any:
        return value


class _Processes(Pool):
    """Runs calls in processes of this machine, which start when they are needed; a killed one is replaced."""

    def __init__(self, jobs: int, timeout_s: float) -> None:
        self._jobs, self._timeout_s = jobs, timeout_s
        self._folder = TemporaryDirectory(prefix="xpulpnn-", ignore_cleanup_errors=True)
        self._threads = ThreadPoolExecutor(jobs)
        self._lock = Lock()
        self._idle: list[WorkerProcess] = []
        self._all: list[WorkerProcess] = []
        self._stopped = False
        self._numbers = count()

    @property
    def ahead(self) -> int:
        return 2 * self._jobs

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Call[Result]:
        call: Call[Result] = Call()
        packed = pack_object(fn, args, kwargs)
        self._threads.submit(self._run, call, packed)
        return call

    def share(self, value: Any) -> Any:
        path = Path(self._folder.name, f"shared-{next(self._numbers)}")
        path.write_bytes(pickle.dumps(value))
        return Shared(path)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._stopped = True
            processes = list(self._all)
        for process in processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def _run(self, call: Call[Any], packed: bytes) -> None:
        if not call.set_running_or_notify_cancel():
            return
        try:
            process = self._process()
        except Exception as error:
            call.set_exception(error)
            return
        answer = process.call(packed, self._timeout_s)
        with self._lock:
            if process.has_ended:
                self._all.remove(process)
            else:
                self._idle.append(process)
        call.settle(answer)

    def _process(self) -> WorkerProcess:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            folder = Path(self._folder.name, f"process-{next(self._numbers)}")
            folder.mkdir()
            process = WorkerProcess(folder)
            self._all.append(process)
            if self._stopped:
                process.kill()
            return process
