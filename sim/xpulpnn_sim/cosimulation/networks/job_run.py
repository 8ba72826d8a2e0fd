"""All runs of a job, from where an interrupted one left off."""

from collections.abc import Callable
from dataclasses import dataclass

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.networks.job import Item, Job, Outcome
from xpulpnn_sim.cosimulation.networks.journal import Journal
from xpulpnn_sim.cosimulation.networks.spread import spread
from xpulpnn_sim.tools.dask_workers import WorkersLostError
from xpulpnn_sim.tools.interrupts import single_interrupt

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
    :func:`~xpulpnn_sim.cosimulation.networks.spread.spread`.
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
