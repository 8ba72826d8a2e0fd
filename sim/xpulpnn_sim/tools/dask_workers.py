"""An executor on the workers of a Dask scheduler; each call runs in a process of its own.

Workers need this package and its tools, but no shared files. If a worker is lost, Dask repeats its call on another
worker.
"""

import hashlib
import logging
import pickle
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from xpulpnn.errors import InputError, ToolError, require
from xpulpnn_sim.tools.files import write_bytes
from xpulpnn_sim.tools.pool import Call, Pool, Result, Versions
from xpulpnn_sim.tools.worker_process import CallError, Shared, WorkerAnswer, WorkerProcess, pack_object

_CONNECT_S = 5.0
_CHECK_S = 60.0  # time for all workers to report their versions
_VERSIONS_S = 120.0  # time limit of the process that determines a worker's versions
_LOOK_S = 2.0  # polling interval
_LONELY_S = 60.0  # time without any worker after which a run is abandoned
_ADDRESS = re.compile(r"(?:(?:tcp|tls)://)?(\[[0-9a-fA-F:]+\]|[^/:\[\]]+):(\d{1,5})")


class WorkersLostError(ToolError): ...


def require_dask(address: str) -> Any:
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise ToolError("distributed must be installed for --dask: pip install '.[dask]'") from None
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InputError(f"Dask address must be HOST:PORT of a scheduler, not {address}")
    try:
        socket.create_connection((match[1].strip("[]"), int(match[2])), _CONNECT_S).close()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"Dask address must be that of a running scheduler, not {address} ({reason})") from None
    return distributed


@contextmanager
def dask_workers(address: str, versions: Versions, timeout_s: float) -> Generator[Pool]:
    """Yield an executor on the workers of a scheduler, which must have the same versions as this process."""
    distributed = require_dask(address)
    # our messages report lost workers
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"Dask address must be that of a running scheduler, not {address} ({text})") from None
    with client:
        pool = _DaskPool(client, address, versions, timeout_s)
        try:
            pool.check_workers()
            threading.Thread(target=pool.watch, daemon=True).start()
            yield pool
        finally:
            pool.stop()


class _DaskPool(Pool):
    def __init__(self, client: Any, address: str, versions: Versions, timeout_s: float) -> None:
        self._client, self._address, self._timeout_s = client, address, timeout_s
        self._executor = client.get_executor(pure=False)
        self._expected = dict(versions())
        self._shared: dict[str, Any] = {}
        self._running: set[Call[Any]] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._numbers = count()
        self._run = hashlib.sha256(f"{client.id}".encode()).hexdigest()[:8]
        self._versions = pickle.dumps(versions)

    @property
    def depth(self) -> int:
        return 2 * max(sum(self._workers().values()), 1)

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Call[Result]:
        # only the call's process loads the function and its arguments, so that a worker keeps no state
        packed = pack_object(fn, args, kwargs)
        shared = {argument.name: self._shared[argument.name] for argument in args if isinstance(argument, Shared)}
        call: Call[Result] = Call()
        call.set_running_or_notify_cancel()
        with self._lock:
            self._running.add(call)
        name = getattr(fn, "__name__", "call")
        answer = self._executor.submit(
            answer_call, self._versions, self._expected, packed, self._timeout_s, shared, key=self._key(name)
        )
        answer.add_done_callback(lambda done: self._settle(call, done))
        return call

    def share(self, value: Any) -> Any:
        import dask.config

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            key = self._key("shared")
            self._shared[key] = self._client.submit(bytes, pickle.dumps(value), key=key)
        return Shared(key)

    def check_workers(self) -> None:
        workers = self._workers()
        require(workers, f"Dask address must be that of a scheduler with workers, not {self._address} without any")
        futures = {
            worker: self._client.submit(
                _difference, self._versions, self._expected, key=self._key("versions"), workers=[worker], pure=False
            )
            for worker in workers
        }
        for worker, future in futures.items():
            try:
                text = future.result(timeout=_CHECK_S)
            except TimeoutError:
                text = f"answer within {_CHECK_S:g} s, not stay silent"
            except Exception as error:  # anything that a worker without this package raises
                text = f"be able to run xpulpnn, not fail with: {' '.join(str(error).split())}"
            require(not text, f"every Dask worker must {text} (worker {worker})")

    def stop(self) -> None:
        """Cancel all calls, so that the workers kill the processes of the calls and their tools."""
        self._stopped.set()
        try:
            self._executor.shutdown(wait=False)
            self._client.cancel(list(self._shared.values()), force=True)
        except Exception as error:  # the scheduler may be lost
            logging.getLogger(__name__).debug("not cancelled: %s", error)

    def _key(self, name: str) -> str:
        return f"xpulpnn-{name.strip('_')}-{self._run}-{next(self._numbers)}"

    def _workers(self) -> dict[str, int]:
        try:
            return dict(self._client.nthreads())
        except (OSError, TimeoutError, RuntimeError) as error:
            raise self._lost(" ".join(str(error).split())) from None

    def _lost(self, text: str) -> WorkersLostError:
        return WorkersLostError(f"Dask scheduler must be one that stays, not {self._address} ({text})")

    def _settle(self, call: Call[Any], done: Any) -> None:
        with self._lock:
            self._running.discard(call)
        if done.cancelled():
            call.settle(WorkerAnswer(error=self._lost("cancelled")))
        elif error := done.exception():
            call.settle(WorkerAnswer(error=CallError(f"dask: {type(error).__name__}: {' '.join(str(error).split())}")))
        else:
            call.settle(done.result())

    def watch(self) -> None:
        """Let all calls fail once the scheduler is lost, or has been without workers for some time."""
        lonely_s = 0.0
        while not self._stopped.wait(_LOOK_S):
            try:
                lonely_s = 0.0 if self._workers() else lonely_s + _LOOK_S
                if lonely_s < _LONELY_S:
                    continue
                text = f"{self._address} without any for {_LONELY_S:g} s"
                error = WorkersLostError(f"Dask address must be that of a scheduler with workers, not {text}")
            except WorkersLostError as lost:
                error = lost
            with self._lock:
                calls = list(self._running)
            for call in calls:
                call.settle(WorkerAnswer(error=error))


def answer_call(
    versions: bytes, expected: Mapping[str, str], call: bytes, timeout_s: float, shared: Mapping[str, bytes]
) -> WorkerAnswer:
    difference = _difference(versions, expected)
    if difference:
        return WorkerAnswer(error=CallError(difference))
    with tempfile.TemporaryDirectory(prefix="xpulpnn-") as name:
        folder = Path(name)
        for argument, content in shared.items():
            write_bytes(folder / argument, content)
        return _run(folder, call, timeout_s, _task_predicate())


def _run(folder: Path, call: bytes, timeout_s: float, is_wanted: Callable[[], bool]) -> WorkerAnswer:
    process = WorkerProcess(folder, folder)
    try:
        return process.call(call, timeout_s, is_wanted)
    finally:
        process.kill()


@cache
def _worker_versions(versions: bytes) -> Mapping[str, str]:
    with tempfile.TemporaryDirectory(prefix="xpulpnn-") as folder:
        answer = _run(Path(folder), pack_object(_tell_versions, (versions,), {}), _VERSIONS_S, lambda: True)
    if answer.error is not None:
        raise answer.error
    return answer.value


def _difference(versions: bytes, expected: Mapping[str, str]) -> str:
    own = _worker_versions(versions)
    for name, version in expected.items():
        if own.get(name) != version:
            return f"have {name} {version}, not {own.get(name, 'none')}"
    return ""


def _tell_versions(versions: bytes) -> dict[str, str]:
    return dict(pickle.loads(versions)())


def _task_predicate() -> Callable[[], bool]:
    """Return a predicate that is true while a client waits for the Dask task of this thread."""
    worker = import_module("distributed").get_worker()
    key = worker.get_current_task()

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    return is_wanted
