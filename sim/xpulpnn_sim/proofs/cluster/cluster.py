"""Everything that is proved of a cluster's parts."""

from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from xpulpnn.config import Arbiter, ClusterConfig
from xpulpnn_sim.proofs.cluster.arbiter import arbiter
from xpulpnn_sim.proofs.cluster.barrier import barrier
from xpulpnn_sim.proofs.cluster.core_unit import core_unit
from xpulpnn_sim.proofs.cluster.dispatch import dispatch
from xpulpnn_sim.proofs.cluster.mutex import mutex
from xpulpnn_sim.proofs.cluster.obligation import Obligation


def _arbiters(config: ClusterConfig) -> list[Obligation]:
    cores, others = config.cores, config.masters - config.cores
    sizes = {cores, others} if config.dma_priority == "low" and others else {config.masters}
    return [arbiter(inputs, kind) for kind in get_args(Arbiter) for inputs in sorted(sizes) if inputs > 1]


def _event_unit(config: ClusterConfig) -> list[Obligation]:
    return [core_unit(config), barrier(config), mutex(config), dispatch(config)]


PARTS: Mapping[str, Callable[[ClusterConfig], Sequence[Obligation]]] = {
    "arbiter": _arbiters,
    "event-unit": _event_unit,
}
"""Claims about each part: the arbiters of a bank, of all kinds in the sizes there are, and the event unit."""
