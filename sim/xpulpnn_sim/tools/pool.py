"""Executors that know how many calls to have submitted, and share arguments of many calls."""

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
"""Returns all that results depend on besides the arguments: workers on other machines must have the same."""


class Call(Future[Result], Generic[Result]):
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
    """Versions that workers on other machines must share: Python, the sources of this project, these packages."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "sources of xpulpnn": sources_digest()[:12],
        **{name: metadata.version(name) for name in packages},
    }
