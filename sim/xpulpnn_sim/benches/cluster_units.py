"""Benches of the units of the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xpulpnn.cluster.axi.bridge import AxiBridge
from xpulpnn.cluster.axi.cluster import ClusterAxi
from xpulpnn.cluster.axi.refill import AxiRefill
from xpulpnn.cluster.demux import CoreDemux
from xpulpnn.cluster.dma.unit import Dma
from xpulpnn.cluster.event_unit.unit import EventUnit
from xpulpnn.cluster.external_port import ExternalPort
from xpulpnn.cluster.icache.private import PrivateCache
from xpulpnn.cluster.icache.unit import InstructionCache
from xpulpnn.cluster.peripherals.bus import PeripheralBus
from xpulpnn.cluster.peripherals.control import ClusterControl
from xpulpnn.cluster.peripherals.timer import ClusterTimer
from xpulpnn.cluster.tcdm.tcdm import Tcdm
from xpulpnn.config import EXT_DATA_BITS, ClusterConfig, preset
from xpulpnn.isa.cluster import (
    BLOCK_BYTES,
    CONTROL,
    DMA_LENGTH_BITS,
    EVENT_UNIT,
    EVENT_UNIT_BYTES,
    TIMER,
)
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.benches.benched import BenchedUnit, ComponentMaker
from xpulpnn_sim.benches.runner import SIMULATORS


def _icache(config: ClusterConfig, far: int, *simulators: str) -> BenchedUnit:
    """``far``: cycles in which the counters go on."""
    shared = {"shared": config.icache_shared, "banks": config.icache_shared_banks}
    data = {"cores": config.cores, "private": config.icache_private, "ways": config.icache_ways, "far": far, **shared}
    return BenchedUnit("icache", lambda: InstructionCache(config), lambda: data, simulators)


def _private_cache(config: ClusterConfig, *simulators: str) -> BenchedUnit:
    data = {"size": config.icache_private, "ways": config.icache_ways, "prefetch": config.prefetch}
    return BenchedUnit("private_cache", lambda: PrivateCache(config), lambda: data, simulators)


def _event_unit(episodes: int, *simulators: str, **fields: Any) -> BenchedUnit:
    return BenchedUnit(
        "event_unit",
        lambda: EventUnit(ClusterConfig(**fields)),
        lambda: {"cluster": fields, "episodes": episodes},
        simulators,
    )


def _tcdm(cycles: int, *simulators: str, others: int = 1, **settings: Any) -> BenchedUnit:
    """A small memory with a host, or with as many masters beside the cores."""
    chosen = {"cores": 4, "banks": 4, "tcdm_bytes": 1024, "rvfi": True} | settings
    config = ClusterConfig(**chosen)
    masters = config.cores + others
    data = {"config": chosen, "masters": masters, "cycles": cycles}
    return BenchedUnit("tcdm", lambda: Tcdm(config, masters), lambda: data, simulators)


def _core_demux(*simulators: str, **settings: Any) -> BenchedUnit:
    config = ClusterConfig(**settings)
    return BenchedUnit("core_demux", lambda: CoreDemux(config), lambda: {"config": settings}, simulators)


def _dma(config: ClusterConfig, transfers: int, line: int, *simulators: str) -> BenchedUnit:
    """``line``: bytes of the longest line."""
    numbers = {"cores": config.cores, "identifiers": config.dma_transfers}
    counts = {"transfers": transfers, "commands": transfers // 8, "line": line}
    return BenchedUnit("dma", lambda: Dma(config), lambda: {**numbers, **counts}, simulators)


def _axi(make: ComponentMaker, bits: int, *, writes: bool = True, runs: bool = False) -> BenchedUnit:
    data = {"bits": bits, "writes": writes, "runs": runs, "slack": 1.2}
    return BenchedUnit("axi_bridge", make, lambda: data)


def _cluster_axi(*simulators: str, **settings: Any) -> BenchedUnit:
    # the plainest core: what it executes is the business of other benches
    config = ClusterConfig(core=_PLAIN, **settings)
    return BenchedUnit("cluster_axi", lambda: ClusterAxi(config), lambda: {"config": settings}, simulators)


def _funnelled(
    make: ComponentMaker, initiators: Sequence[str], places: Mapping[str, tuple[int, int]], **data: Any
) -> BenchedUnit:
    """``places``: first address and size of what each port leads to."""
    rows = [{"port": port, "base": base, "size": size} for port, (base, size) in places.items()]
    told = {"initiators": list(initiators), "places": rows, **data}
    return BenchedUnit("funnelled", make, lambda: told)


_BLOCKS = ((CONTROL, BLOCK_BYTES), (TIMER, BLOCK_BYTES), (EVENT_UNIT, EVENT_UNIT_BYTES))
_BUS_PLACES = {f"peripherals__{number}": block for number, block in enumerate(_BLOCKS)}

_PLAIN = replace(preset("ri5cy"), xpulpv2=False)
_CACHED = ClusterConfig()

CLUSTER_UNITS: Mapping[str, BenchedUnit] = {
    "private-cache": _private_cache(_CACHED, "verilator"),
    "private-cache-plain": _private_cache(replace(_CACHED, icache_ways=1, prefetch=False), "icarus"),
    "icache": _icache(replace(_CACHED, cores=3), 1 << 13, "verilator"),
    "icache-small": _icache(
        replace(_CACHED, cores=2, icache_private=64, icache_ways=2, icache_shared=256, icache_shared_banks=1),
        1 << 6,
        "icarus",
    ),
    "event-unit": _event_unit(5, "icarus", dma=True),
    "event-unit-3": _event_unit(5, "verilator", cores=3, mutexes=2, sw_events=3, dispatch_depth=2),
    "event-unit-16": _event_unit(2, "icarus", cores=16, barriers=3, mutexes=3, dispatch_depth=4, sw_events=5),
    "event-unit-1": _event_unit(2, "icarus", cores=1, barriers=1, dispatch_depth=1, sw_events=1),
    "tcdm": _tcdm(400, *SIMULATORS),
    "tcdm-strict": _tcdm(400, "verilator", arbiter="strict", bank_hash=True, cores=5, others=3),
    "tcdm-fixed": _tcdm(200, "icarus", arbiter="fixed", rvfi=False, banks=1),
    "tcdm-equal": _tcdm(300, "verilator", dma_priority="equal", cores=8, banks=2),
    "tcdm-broadcast": _tcdm(400, "icarus", broadcast=True, bank_hash=True, others=5, tcdm_bytes=64),
    "core-demux": _core_demux(*SIMULATORS),
    "core-demux-dma": _core_demux("icarus", dma=True, tcdm_bytes=1 << 20),
    "cluster-timer": BenchedUnit("cluster_timer", ClusterTimer),
    "cluster-control": BenchedUnit("cluster_control", lambda: ClusterControl(3), lambda: {"cores": 3}),
    "dma": _dma(ClusterConfig(), 120, 1 << DMA_LENGTH_BITS - 1, "verilator"),
    "dma-small": _dma(ClusterConfig(cores=3, dma_transfers=5), 40, 8192, "icarus"),
    "peripheral-bus": _funnelled(
        lambda: PeripheralBus(5, _BLOCKS),
        [f"initiators__{number}" for number in range(5)],
        _BUS_PLACES,
        outstanding=1,
        latency=2,
    ),
    "external-port": _funnelled(
        lambda: ExternalPort(4),
        [f"cores__{number}" for number in range(4)],
        {"ext": (0, 1 << XLEN)},
        outstanding=4,
        latency=3,
    ),
    "axi-dma": _axi(lambda: AxiBridge(EXT_DATA_BITS), EXT_DATA_BITS, runs=True),
    "axi-ext": _axi(lambda: AxiBridge(XLEN), XLEN),
    "axi-refill": _axi(AxiRefill, EXT_DATA_BITS, writes=False),
    "cluster-axi": _cluster_axi(*SIMULATORS, cores=2, banks=4, tcdm_bytes=1 << 11, icache_shared=512),
}
"""The units by name."""
