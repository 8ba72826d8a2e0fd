# amaranth: UnusedElaboratable=no
"""Parts of a cluster for which there are claims."""

from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from xpulpnn.config import Arbiter as ArbiterKind
from xpulpnn.config import ClusterConfig
from xpulpnn_sim.proofs.cluster.arbiter import ArbiterClaims
from xpulpnn_sim.proofs.cluster.debug import debug_obligations
from xpulpnn_sim.proofs.cluster.event_unit import BarrierClaims, CoreUnitClaims, DispatchClaims, MutexClaims
from xpulpnn_sim.proofs.cluster.obligation import Obligation


def _arbiters(config: ClusterConfig) -> list[Obligation]:
    cores, others = config.cores, config.masters - config.cores
    sizes = {cores, others} if config.dma_priority == "low" and others else {config.masters}
    return [ArbiterClaims(inputs, kind) for kind in get_args(ArbiterKind) for inputs in sorted(sizes) if inputs > 1]


def _event_unit(config: ClusterConfig) -> list[Obligation]:
    return [claims(config) for claims in (CoreUnitClaims, BarrierClaims, MutexClaims, DispatchClaims)]


PARTS: Mapping[str, Callable[[ClusterConfig], Sequence[Obligation]]] = {
    "arbiter": _arbiters,
    "event-unit": _event_unit,
    "debug": debug_obligations,
}
"""Functions that return the claims about each part of a cluster, by name of the part."""
