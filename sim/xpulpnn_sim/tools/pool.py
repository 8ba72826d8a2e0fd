"""Executors that suggest how many calls to submit, and send an argument of many calls only once."""

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
"""A function that returns everything on which results depend besides the arguments; it must agree on all workers."""


class Call(Future[Result], Generic[Result]):
    output: str = ""
    """Output of the process and its tools during the call, set at its end; empty for calls in this process."""

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
    def depth(self) -> int:
        """Return the number of unfinished calls that keeps every process busy."""

    @abstractmethod
    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Call[Result]:
        """Submit a call of an importable function."""

    @abstractmethod
    def share(self, value: Any) -> Any:
        """Return a handle for an argument of many calls, so that each process receives the argument only once."""

    def map(self, fn: Callable[..., Result], *iterables: Iterable[Any], **_: Any) -> Iterator[Result]:
        """Yield results in order; the iterables of arguments are consumed lazily and may be infinite."""
        calls = zip(*iterables, strict=False)
        running: deque[Call[Result]] = deque()
        try:
            while True:
                running.extend(self.submit(fn, *arguments) for arguments in islice(calls, self.depth - len(running)))
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
    name_of: Callable[[Item], str] | None = None,
) -> Iterator[tuple[Item, Result]]:
    """Yield items with their results in order of completion; ``name_of`` names the item whose process is lost."""
    waiting = iter(items)
    running: dict[Call[Result], Item] = {}
    try:
        while True:
            for item in islice(waiting, pool.depth - len(running)):
                running[pool.submit(function, item, *more)] = item
            if not running:
                return
            wait(running, return_when=FIRST_COMPLETED)
            for call in [call for call in running if call.done()]:
                item = running.pop(call)
                try:
                    result = call.result()
                except CallError as error:
                    raise CallError(f"{name_of(item)}: {error}" if name_of else str(error)) from None
                yield item, result
    finally:
        for call in running:
            call.cancel()


def versions_of(*packages: str) -> dict[str, str]:
    """Return the versions that remote workers must share: of Python, the sources of this project, and packages."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "sources of xpulpnn": sources_digest()[:12],
        **{name: metadata.version(name) for name in packages},
    }
