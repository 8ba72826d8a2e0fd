"""Executors with a suggested number of submitted calls, and shared arguments."""

import platform
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from importlib import metadata
from itertools import islice
from typing import Any, Generic, TypeVar

from xpulpnn_sim.tools.results import sources_digest
from xpulpnn_sim.tools.worker_process import CallError, WorkerAnswer

Item = TypeVar("Item")
Result = TypeVar("Result")

Versions = Callable[[], Mapping[str, str]]
"""Returns everything but the arguments that results depend on; remote workers must agree."""


class Call(Future[Result], Generic[Result]):
    output: str = ""
    """Output of the call's process and tools after its end; empty for calls in this process."""

    def settle(self, answer: WorkerAnswer) -> None:
        self.output = answer.output
        if self.done():
            return
        if answer.error is None:
            self.set_result(answer.value)
        else:
            self.set_exception(answer.error)


class Pool(Executor):
    @property
    @abstractmethod
    def ahead(self) -> int:
        """Return the number of calls to have submitted, so that no process idles."""

    @abstractmethod
    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Call[Result]:
        """Submit a call of an importable function."""

    @abstractmethod
    def share(self, value: Any) -> Any:
        """Return a stand-in for an argument of many calls, which is sent once."""

    def map(self, fn: Callable[..., Result], *iterables: Iterable[Any], **_: Any) -> Iterator[Result]:
        """Yield results in order; arguments are consumed lazily and may be infinite."""
        calls = zip(*iterables, strict=False)
        running: deque[Call[Result]] = deque()
        try:
            while True:
                running.extend(self.submit(fn, *arguments) for arguments in islice(calls, self.ahead - len(running)))
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
    """Yield items with their results as they complete; an error cancels all other calls.

    The error of a lost process begins with the item's name by ``named``.
    """
    waiting = iter(items)
    running: dict[Call[Result], Item] = {}
    try:
        while True:
            for item in islice(waiting, pool.ahead - len(running)):
                running[pool.submit(function, item, *more)] = item
            if not running:
                return
            wait(running, return_when=FIRST_COMPLETED)
            for call in [call for call in running if call.done()]:
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
    """Return the versions that remote workers must share: Python, sources of this project, and packages."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "sources of xpulpnn": sources_digest()[:12],
        **{name: metadata.version(name) for name in packages},
    }
