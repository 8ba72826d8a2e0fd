"""Results of images that interrupted runs have left, so that the same command goes on from there."""

from dataclasses import asdict, fields

import numpy as np

from xpulpnn_sim.cosimulation.networks.job import Item, Job, Outcome
from xpulpnn_sim.tools.results import Results, digest
from xpulpnn_sim.tools.sources import sources_digest
from xpulpnn_sim.tools.user_cache import cache_directory

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
