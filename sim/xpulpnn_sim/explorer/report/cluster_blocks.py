"""Area of the blocks of clusters, their memories, and the path of a grant."""

import re
from collections.abc import Sequence

from xpulpnn_sim.explorer.report.named_table import POINT, Column, NamedTable, TableCell
from xpulpnn_sim.explorer.results import FlowResult, PointResult

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

REST = "rest"
"""Gates of the cluster itself, those that serve several blocks, and bridges around it."""

_PER_KILO = 1000.0
_KIBIT = 1024


def block_areas(flow: FlowResult) -> dict[str, float]:
    """Area in kGE of each block, without memories; :data:`REST` last."""
    top = flow.modules[0]
    areas = dict.fromkeys(BLOCKS, 0.0)
    for module in flow.modules[1:]:
        name = module.path.removeprefix(f"{top.path}.").removeprefix("cluster.")
        for block, pattern in BLOCKS.items():
            if pattern.fullmatch(name):
                areas[block] += module.total_ge / _PER_KILO
    return {**areas, REST: top.total_ge / _PER_KILO - sum(areas.values())}


def block_table(points: Sequence[PointResult]) -> NamedTable | None:
    """Blocks of the clusters among the points; None without any."""
    found = [
        (number, point, flow)
        for number, point in enumerate(points, 1)
        for flow in point.flows
        if flow.grant is not None and flow.modules
    ]
    if not found:
        return None
    rows: list[list[TableCell]] = []
    for number, point, flow in found:
        grant, unit = flow.grant, flow.delay_ps and flow.delay_fo4 and flow.delay_fo4 / flow.delay_ps
        if grant is None or not unit:
            continue
        parts = (grant.request_ps, grant.grant_ps - grant.request_ps, grant.path.delay_ps - grant.grant_ps)
        rows.append(
            [
                number,
                point.label,
                flow.name,
                *block_areas(flow).values(),
                flow.area_kge,
                (flow.memory_bits or 0) / _KIBIT,
                *(part * unit for part in parts),
                grant.fo4,
            ]
        )
    area, path = "area [kGE]", "grant path [FO4]"
    return NamedTable(
        title="Blocks of the clusters",
        columns=[
            Column(name="no.", digits=0),
            Column(name=POINT),
            Column(name="flow"),
            *(Column(name=name, group=area, digits=1) for name in (*BLOCKS, REST)),
            Column(name="sum", group=area, digits=1, better="less"),
            Column(name="memories", unit="Kibit", digits=0),
            Column(name="request", group=path, digits=1),
            Column(name="to grant", group=path, digits=1),
            Column(name="onwards", group=path, digits=1),
            Column(name="all", group=path, digits=1, better="less"),
        ],
        rows=rows,
        notes=[
            "Areas: logic and registers, without the memories of TCDM and caches, which the column after them counts.",
            (
                "Grant path: from a register to where a core's request leaves it, through demux and crossbar to where "
                "a grant enters a core, and on to where the path ends."
            ),
        ],
    )
