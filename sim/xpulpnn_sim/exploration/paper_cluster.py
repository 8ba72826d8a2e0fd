"""The comparison of Table II of the XpulpNN paper for the whole cluster: what the extension and more banks cost."""

from collections.abc import Callable, Mapping, Sequence

from xpulpnn.config import CLUSTER_PRESETS
from xpulpnn_sim.exploration.flows import Request, flow_steps
from xpulpnn_sim.exploration.options import CLUSTER
from xpulpnn_sim.exploration.paper import overhead
from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.results import FlowResult, PointResult
from xpulpnn_sim.exploration.space import Point, Space
from xpulpnn_sim.exploration.task import PointStep
from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell

COMPARED: Mapping[tuple[str, str], tuple[str, float | None]] = {
    ("cluster-ri5cy", "cluster"): ("extension of the cores", 4.1),
    ("cluster", "cluster-bf4"): ("32 instead of 16 banks", 4.2),
    ("cluster", "cluster2"): ("additions beyond the paper", None),
}
"""Difference of two presets, and the percent of area that it costs in the paper, if it knows it."""


def cluster_points(request: Request) -> tuple[Space, list[list[PointStep]]]:
    """The clusters that are compared and the steps of each."""
    names = dict.fromkeys(name for pair in COMPARED for name in pair)
    points = [Point(label=name, top=CLUSTER, preset=name, settings={}, config=CLUSTER_PRESETS[name]) for name in names]
    flows = flow_steps(request, CLUSTER)
    return Space(points=tuple(points), skipped=()), [list[PointStep](flows) for _ in points]


def cluster_paper_table(points: Sequence[PointResult]) -> NamedTable:
    """Ours beside the paper's overheads."""
    found = {point.label: point for point in points}
    names = comparison.flow_names(points)
    figures: tuple[tuple[str, Callable[[FlowResult | None], float | None]], ...] = (
        ("area [kGE]", comparison.size),
        ("delay [FO4]", comparison.delay),
        ("grant path [FO4]", comparison.grant),
    )
    rows: list[list[TableCell]] = []
    for (smaller, larger), (what, paper) in COMPARED.items():
        for figure, value in figures:
            for name in names:
                ours = [value(comparison.flow_of(found[label], name)) for label in (smaller, larger)]
                more = overhead(*ours)
                published = paper if value is comparison.size else None
                ratio = more / published if more is not None and published else None
                rows.append([what, f"{figure}, {name}", *ours, more, published, ratio])
    return NamedTable(
        title="Table II of the XpulpNN paper, the cluster",
        columns=[
            Column(name="what"),
            Column(name="figure"),
            Column(name="without", group="ours", digits=1),
            Column(name="with", group="ours", digits=1),
            Column(name="overhead", unit="%", group="ours", digits=1, signed=True),
            Column(name="overhead", unit="%", group="paper", digits=1, signed=True),
            Column(name="ours / paper", digits=2),
        ],
        rows=rows,
        notes=[
            "Paper: 22 nm FDX, placed and routed, with the memories, which both of its clusters have alike.",
            "Ours: logic and registers before placement, no memories: the same gates are a larger share of the area.",
        ],
    )
