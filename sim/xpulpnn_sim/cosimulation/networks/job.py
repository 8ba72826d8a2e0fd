"""Jobs: networks, each for its images on several targets; a run of one image, anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_case import NetworkCase
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import BuiltNetwork
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.network import Network

CHECKS = ("first", "all", "none")  # Which images have every retirement checked; the results of every layer are, of all


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """A network and its inputs."""

    network: Network
    inputs: Ints  # `[image][row][column][channel]`
    labels: NDArray[np.int64] | None = None  # the class of each, if these are known
    classes: tuple[str, ...] = ()  # what the classes are called; empty: numbers
    samples: NDArray[Any] | None = None  # the pictures that the inputs were made of, if they were


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
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
class Outcome:
    """The outcome of one run."""

    record: dict[str, Any]
    reports: list[str]  # its first mismatches
    answer: int  # number of the greatest result of the last layer, the first of several
    reference: int
    checked: bool  # whether every retirement was checked


@dataclass(eq=False, kw_only=True)
class Job:
    """All that is to be run."""

    tasks: Sequence[Task]
    targets: Sequence[Target]  # each runs every network
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

    def run(self, item: Item) -> Outcome:
        """Run it."""
        case = self.case(item)
        expected = [values[0] for values in run_reference(case.network, case.image[np.newaxis])]
        result = self.built(item).run(replace(case, expected=expected))
        return Outcome(
            record=result.record,
            reports=result.reports,
            answer=int(result.scores.argmax()),
            reference=int(expected[-1].argmax()),
            checked=case.checked,
        )
