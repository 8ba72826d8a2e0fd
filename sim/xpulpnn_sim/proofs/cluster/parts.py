# amaranth: UnusedElaboratable=no
"""Parts of a cluster whose properties are proved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from xpulpnn.config import Arbiter as ArbiterKind
from xpulpnn.config import ClusterConfig
from xpulpnn_sim.proofs.cluster.arbiter import ArbiterClaims
from xpulpnn_sim.proofs.cluster.debug import HaltClaims, SystemBusClaims, WayClaims
from xpulpnn_sim.proofs.cluster.debug_module import CommandClaims, HartClaims, ShareClaims
from xpulpnn_sim.proofs.cluster.event_unit import BarrierClaims, CoreUnitClaims, DispatchClaims, MutexClaims
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.cluster.transport import TransportClaims


def _arbiters(config: ClusterConfig) -> list[Obligation]:
    cores, others = config.cores, config.masters - config.cores
    sizes = {cores, others} if config.dma_priority == "low" and others else {config.masters}
    return [ArbiterClaims(inputs, kind) for kind in get_args(ArbiterKind) for inputs in sorted(sizes) if inputs > 1]


def _debug(config: ClusterConfig) -> list[Obligation]:
    halts = HaltClaims(replace(config, core=replace(config.core, debug=True)))
    return [WayClaims(), SystemBusClaims(), halts, TransportClaims(), ShareClaims(), HartClaims(), CommandClaims()]


_EVENT_UNIT = (CoreUnitClaims, BarrierClaims, MutexClaims, DispatchClaims)

PARTS: Mapping[str, Callable[[ClusterConfig], Sequence[Obligation]]] = {
    "arbiter": _arbiters,
    "event-unit": lambda config: [claims(config) for claims in _EVENT_UNIT],
    "debug": _debug,
}
"""Functions that return the claims about each part of a cluster, by name of the part."""
