"""Area of the blocks of clusters, their memories, and the path of a grant."""

import re
from collections.abc import Sequence

from xpulpnn_sim.exploration.results import FlowResult, PointResult
from xpulpnn_sim.tools.named_table import POINT, Column, NamedTable, TableCell

BLOCKS = {
    "cores": re.compile(r"core\d+"),
    "crossbar": re.compile(r"tcdm"),
    "event unit": re.compile(r"event_unit"),
    "DMA": re.compile(r"dma"),
    "caches": re.compile(r"icache"),
    "peripherals": re.compile(r"bus|control|timer"),
    "demuxes, ports": re.compile(r"demux\d+|host_\w+|fetches\d+|external"),
}
"""Blocks by the names of their instances in the cluster."""

REST = "rest"  # gates of the cluster itself, those that serve several blocks, and bridges around it

_PER_KILO = 1000.0
_KIBIT = 1024


def is_cluster(flow: FlowResult | None) -> bool:
    """Return whether the result is of a cluster with all its parts."""
    return flow is not None and flow.grant is not None and bool(flow.modules)


def block_of(instance: str) -> str:
    """Block of an instance of the cluster, or its own name if it belongs to none."""
    return next((block for block, pattern in BLOCKS.items() if pattern.fullmatch(instance)), instance)


def block_areas(flow: FlowResult) -> dict[str, float]:
    """Area in kGE of each block, without memories; :data:`REST` last."""
    top = flow.modules[0]
    areas = dict.fromkeys(BLOCKS, 0.0)
    for module in flow.modules[1:]:
        block = block_of(module.path.removeprefix(f"{top.path}.").removeprefix("cluster."))
        if block in areas:
            areas[block] += module.total_ge / _PER_KILO
    return {**areas, REST: top.total_ge / _PER_KILO - sum(areas.values())}


def cluster_tables(points: Sequence[PointResult]) -> list[NamedTable]:
    """Blocks and grant paths of the clusters among the points; none without any."""
    found = [
        (number, point, flow) for number, point in enumerate(points, 1) for flow in point.flows if is_cluster(flow)
    ]
    if not found:
        return []
    lead = [Column(name="no.", digits=0), Column(name=POINT), Column(name="flow")]
    areas: list[list[TableCell]] = [
        [
            number,
            point.label,
            flow.name,
            *block_areas(flow).values(),
            flow.area_kge,
            (flow.memory_bits or 0) / _KIBIT,
        ]
        for number, point, flow in found
    ]
    paths: list[list[TableCell]] = [[number, point.label, flow.name, *_grant(flow)] for number, point, flow in found]
    return [
        NamedTable(
            title="Blocks of the clusters",
            columns=[
                *lead,
                *(Column(name=name, group="area [kGE]", digits=1) for name in (*BLOCKS, REST)),
                Column(name="sum", group="area [kGE]", digits=1, better="less"),
                Column(name="memories", unit="Kibit", digits=0),
            ],
            rows=areas,
            notes=["Areas: logic and registers; the memories of TCDM and caches are in none, their bits are counted."],
        ),
        NamedTable(
            title="Path from a request through its grant",
            columns=[
                *lead,
                *(Column(name=name, unit="FO4", digits=1) for name in ("to the request", "to the grant", "onwards")),
                Column(name="all", unit="FO4", digits=1, better="less"),
                *(Column(name=name) for name in ("from", "to")),
            ],
            rows=paths,
            notes=[
                (
                    "From a register to where a core's request leaves it, through demux and crossbar to where a grant "
                    "enters a core, and on to where the path ends."
                )
            ],
        ),
    ]


def _grant(flow: FlowResult) -> list[TableCell]:
    grant = flow.grant
    if grant is None or not grant.path.delay_ps:
        return []
    unit = grant.fo4 / grant.path.delay_ps
    parts = (grant.request_ps, grant.grant_ps - grant.request_ps, grant.path.delay_ps - grant.grant_ps)
    return [*(part * unit for part in parts), grant.fo4, grant.path.start, grant.path.end]
