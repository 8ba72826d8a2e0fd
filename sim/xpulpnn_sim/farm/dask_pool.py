"""Calls on the workers of a Dask scheduler, each in a process of its own.

Workers need this package and its tools, no files in common: arguments and results travel as bytes. Dask runs a call
again elsewhere if its worker is lost.
"""

import hashlib
import logging
import pickle
import re
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.farm.remote_call import Answer, answer_call

_CONNECT_S = 5.0
_CHECK_S = 60.0
"""Time in which every worker must have told its versions."""
_LOOK_S = 2.0
"""Time between looks for workers while none answers."""
_LONELY_S = 60.0
"""Time without any worker after which a run gives up."""

_ADDRESS = re.compile(r"(?:(?:tcp|tls)://)?(\[[0-9a-fA-F:]+\]|[^/:\[\]]+):(\d{1,5})")


class FarmLostError(ToolError):
    """The scheduler or all its workers are gone."""


def require_dask(address: str) -> Any:
    """The package ``distributed``.

    Raises :class:`ToolError` with the command that installs it, :class:`InputError` if nothing listens at ``address``.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise ToolError("distributed must be installed for --dask: pip install '.[dask]'") from None
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InputError(f"--dask must be HOST:PORT of a Dask scheduler, not {address}")
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), _CONNECT_S).close()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"--dask must be the address of a running Dask scheduler, not {address} ({reason})") from None
    return distributed


@contextmanager
def dask_pool(address: str, versions: Callable[..., Mapping[str, str]], *parts: bytes) -> Generator["DaskPool"]:
    """The workers of the scheduler at ``address``, of the same versions as this process."""
    distributed = require_dask(address)
    # what it logs of lost workers is told by our own messages
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"--dask must be the address of a running Dask scheduler, not {address} ({text})") from None
    with client:
        pool = DaskPool(client, address, versions, parts)
        try:
            pool.check_workers()
            yield pool
        finally:
            pool.cancel()


class DaskPool:
    """Workers to call functions on."""

    def __init__(
        self, client: Any, address: str, versions: Callable[..., Mapping[str, str]], parts: tuple[bytes, ...]
    ) -> None:
        self._client = client
        self._address = address
        self._expected = dict(versions(None, *map(pickle.loads, parts)))
        self._shared: dict[str, Any] = {}
        self._running: dict[str, tuple[Any, Any]] = {}
        self._ended: SimpleQueue[str] = SimpleQueue()
        self._numbers = count()
        self._run = hashlib.sha256(f"{client.id}".encode()).hexdigest()[:8]
        self._versions = self.share(pickle.dumps((versions, parts)))

    @property
    def threads(self) -> int:
        """Number of calls that can run at a time now."""
        return sum(self._workers().values())

    def _workers(self) -> dict[str, int]:
        try:
            return dict(self._client.nthreads())
        except (OSError, TimeoutError, RuntimeError) as error:
            text = " ".join(str(error).split())
            raise FarmLostError(f"--dask must be a scheduler that stays, not {self._address} ({text})") from None

    def check_workers(self) -> None:
        """Raise :class:`InputError` unless there are workers and all of them have our versions."""
        workers = self._workers()
        if not workers:
            raise InputError(f"--dask must be a scheduler with workers, not {self._address} without any")
        futures = {
            worker: self._client.submit(
                answer_call,
                self._versions,
                self._expected,
                pickle.dumps(_nothing),
                _CHECK_S,
                key=f"xpulpnn-versions-{self._run}-{next(self._numbers)}",
                workers=[worker],
                pure=False,
            )
            for worker in workers
        }
        for worker, future in futures.items():
            try:
                answer: Answer = future.result(timeout=_CHECK_S)
            except TimeoutError:
                text = f"answer within {_CHECK_S:g} s, not stay silent"
            except Exception as error:  # whatever a worker without our package runs into
                text = f"be able to run xpulpnn, not fail with: {' '.join(str(error).split())}"
            else:
                if answer.returned:
                    continue
                text = answer.why
            raise InputError(f"every worker of --dask must {text} (worker {worker})")

    def share(self, part: bytes) -> Any:
        """An argument of many calls, sent once; to be given to :meth:`submit` in place of the bytes."""
        name = hashlib.sha256(part).hexdigest()[:16]
        if name not in self._shared:
            import dask.config

            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
                self._shared[name] = self._client.submit(bytes, part, key=f"xpulpnn-shared-{name}-{self._run}")
        return self._shared[name]

    def submit(self, label: str, function: Callable[..., Any], *parts: Any, timeout_s: float, tag: Any = None) -> None:
        """Call ``function`` on some worker; :meth:`next_answer` tells what came of it."""
        key = f"xpulpnn-{re.sub('[^A-Za-z0-9_.=+]+', '_', label)}-{self._run}-{next(self._numbers)}"
        call = pickle.dumps(function)
        future = self._client.submit(
            answer_call, self._versions, self._expected, call, timeout_s, *parts, key=key, pure=False
        )
        self._running[key] = future, tag
        future.add_done_callback(lambda _: self._ended.put(key))

    def next_answer(self) -> tuple[Any, Answer]:
        """Wait for the end of any call; returns its tag and what came of it.

        Raises :class:`FarmLostError` if scheduler or workers are gone for good.
        """
        lonely_s = 0.0
        while True:
            try:
                key = self._ended.get(timeout=_LOOK_S)
            except Empty:
                lonely_s = 0.0 if self._workers() else lonely_s + _LOOK_S
                if lonely_s >= _LONELY_S:
                    raise FarmLostError(
                        f"--dask must be a scheduler with workers, not {self._address} without any for {_LONELY_S:g} s"
                    ) from None
                continue
            future, tag = self._running.pop(key)
            if future.status == "finished":
                return tag, future.result()
            if future.status != "error":
                raise FarmLostError(f"--dask must be a scheduler that stays, not {self._address} ({future.status})")
            error = future.exception()
            return tag, Answer(why=f"dask: {type(error).__name__}: {' '.join(str(error).split())}")

    def cancel(self) -> None:
        """End all calls; their processes and tools are killed on the workers."""
        futures = [future for future, _ in self._running.values()]
        self._running.clear()
        try:
            self._client.cancel([*futures, *self._shared.values()], force=True)
        except Exception as error:  # the scheduler may be what is gone
            logging.getLogger(__name__).debug("not cancelled: %s", error)


def _nothing(tell: object) -> None:
    """What a call does that only compares versions."""
