"""Run work in this process, in several processes, or on Dask workers.

Each of the three is an executor of :mod:`concurrent.futures`. At the end of its block, :func:`executor` cancels
unfinished calls and kills their processes and tools; an interrupt from the terminal reaches only the parent process.
"""

import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from xpulpnn.errors import require
from xpulpnn_sim.tools.dask_workers import dask_workers
from xpulpnn_sim.tools.pool import Call, Pool, Result, Versions
from xpulpnn_sim.tools.worker_process import Shared, WorkerProcess, pack_object


def executor(
    jobs: int, *, dask: str = "", timeout_s: float | None = None, versions: Versions | None = None
) -> AbstractContextManager[Pool]:
    """Return an executor that kills calls longer than ``timeout_s``; Dask workers must have the same ``versions``."""
    require(jobs >= 1, f"jobs must be at least 1, not {jobs}")
    if dask:
        return dask_workers(dask, versions or dict, math.inf if timeout_s is None else timeout_s)
    if jobs == 1 and timeout_s is None:
        return _InProcess()
    return _Processes(jobs, math.inf if timeout_s is None else timeout_s)


class _InProcess(Pool):
    @property
    def depth(self) -> int:
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
    """An executor with processes on this machine, which are started on demand; a killed process is replaced."""

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
    def depth(self) -> int:
        return 2 * self._jobs

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Call[Result]:
        call: Call[Result] = Call()
        packed = pack_object(fn, args, kwargs)
        self._threads.submit(self._run, call, packed)
        return call

    def share(self, value: Any) -> Any:
        shared = Shared(f"shared-{next(self._numbers)}")
        Path(self._folder.name, shared.name).write_bytes(pickle.dumps(value))
        return shared

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
            process = WorkerProcess(folder, folder.parent)
            self._all.append(process)
            if self._stopped:
                process.kill()
            return process
