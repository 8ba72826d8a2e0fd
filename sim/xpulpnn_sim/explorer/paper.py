"""The comparison of Table II of the XpulpNN paper: EX stage and core, baseline against extended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xpulpnn.config import PRESETS
from xpulpnn_sim.explorer.flows import Request, flow_steps, library
from xpulpnn_sim.explorer.kernels import EnergyStep, KernelSpec
from xpulpnn_sim.explorer.report import comparison
from xpulpnn_sim.explorer.report.named_table import Column, NamedTable, TableCell
from xpulpnn_sim.explorer.results import PointResult
from xpulpnn_sim.explorer.space import Point, Space
from xpulpnn_sim.explorer.task import PointStep

BASELINE, EXTENDED = "ri5cy", "xpulpnn"
PAPER_TOPS = ("ex-stage", "core")
MATMUL = "matmul:8:xpulpv2_4x2:32x64x16"
"""Both cores run the 8-bit MatMul with the instructions of XpulpV2, as in the paper; small, since gates run it."""

REFERENCE_LIBRARY = "sg13g2_stdcell_typ_1p20V_25C"
"""Library of the flow that the figures of the authors' RTL were measured in."""

_PERCENT = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What others say of a figure.

    Parameters
    ----------
    paper : str
        Overhead in the paper, percent.
    authors : tuple of float or None
        Baseline and extension of the authors' RTL in the reference flow, in our unit.
    """

    paper: str
    authors: tuple[float, float] | None = None


_AREA = {
    ("ex-stage", "area"): Published(paper="+32.6", authors=(27.1, 37.4)),
    ("ex-stage", "speed"): Published(paper="+32.6", authors=(33.0, 44.4)),
    ("core", "area"): Published(paper="+17.5", authors=(63.0, 74.6)),
    ("core", "speed"): Published(paper="+17.5", authors=(68.0, 80.4)),
}
"""kGE, by component and script."""

_DELAY = {
    ("ex-stage", "area"): Published(paper="same clock", authors=(97.5, 106.1)),
    ("ex-stage", "speed"): Published(paper="same clock", authors=(70.6, 71.4)),
    ("core", "area"): Published(paper="same clock", authors=(114.2, 121.8)),
    ("core", "speed"): Published(paper="same clock", authors=(85.8, 85.9)),
}
"""FO4, by component and script."""

_MATMUL_ENERGY = Published(paper="+2.1 to +2.5")
_GENERAL_ENERGY = Published(paper="+2.17 to +3.7")


def label(preset: str, top: str) -> str:
    """Label of a point of the comparison."""
    return f"{preset} {top}"


def paper_points(request: Request, *, energy: bool) -> tuple[Space, list[list[PointStep]]]:
    """The points of the comparison and the steps of each.

    Parameters
    ----------
    request : Request
        Flows and library.
    energy : bool
        Whether the energy of the cores is wanted.
    """
    flows = flow_steps(request)
    energies: list[PointStep] = []
    if energy:
        cells = library(request)
        energies = [
            EnergyStep(cells, KernelSpec.parse(MATMUL), core=True, yosys=request.yosys),
            EnergyStep(cells, None, yosys=request.yosys),
        ]
    points: list[Point] = []
    steps: list[list[PointStep]] = []
    for top in PAPER_TOPS:
        for name in (BASELINE, EXTENDED):
            points.append(Point(label=label(name, top), top=top, preset=name, settings={}, config=PRESETS[name]))
            steps.append([*flows, *(energies if top == "core" else [])])
    return Space(points=tuple(points), skipped=()), steps


def paper_table(points: Sequence[PointResult]) -> NamedTable:
    """Ours beside the paper's overheads, and beside the authors' RTL if the library is that of the reference flow."""
    found = {point.label: point for point in points}
    flows = {flow.script: flow.name for point in points for flow in point.flows}
    reference = any(REFERENCE_LIBRARY in line for point in points for flow in point.flows for line in flow.conditions)
    columns = [
        Column(name="figure"),
        Column(name=BASELINE, group="ours", digits=2),
        Column(name=EXTENDED, group="ours", digits=2),
        Column(name="overhead", unit="%", group="ours", digits=1, signed=True),
        Column(name="overhead", unit="%", group="paper"),
    ]
    if reference:
        columns += [
            Column(name="RI5CY", group="authors' RTL, same flow", digits=1),
            Column(name="XpulpNN", group="authors' RTL, same flow", digits=1),
            Column(name="overhead", unit="%", group="authors' RTL, same flow", digits=1, signed=True),
        ]
    rows: list[list[TableCell]] = []

    def add(figure: str, top: str, value: Callable[[PointResult], float | None], published: Published) -> None:
        baseline, extended = (value(found[label(name, top)]) for name in (BASELINE, EXTENDED))
        row: list[TableCell] = [figure, baseline, extended, overhead(baseline, extended), published.paper]
        if reference:
            authors = published.authors or (None, None)
            row += [*authors, overhead(*authors)]
        rows.append(row)

    for what, known, figure in (("area [kGE]", _AREA, comparison.size), ("delay [FO4]", _DELAY, comparison.delay)):
        for (top, script), published in known.items():
            name = flows.get(script, "")
            add(
                f"{top}, {what}, {script} script",
                top,
                lambda point, name=name, figure=figure: figure(comparison.flow_of(point, name)),
                published,
            )
    for position, (workload, published) in enumerate(
        (("8-bit MatMul", _MATMUL_ENERGY), ("general code", _GENERAL_ENERGY))
    ):
        if any(point.energies for point in points):
            add(
                f"core with clock gates, energy per cycle on {workload} [pJ]",
                "core",
                lambda point, position=position: _energy(point, position),
                published,
            )
    return NamedTable(
        title="Table II of the XpulpNN paper, repeated",
        columns=columns,
        rows=rows,
        notes=[
            "Paper: 22 nm FDX, placed and routed, clock trees and wires included; power at 0.8 V and at 0.65 V.",
            "Ours: gates alone, before placement, in the conditions of each flow below.",
            *(
                ["Authors' RTL: their Verilog through the same scripts and library, with Yosys 0.23 and its ABC."]
                if reference
                else []
            ),
        ],
    )


def _energy(point: PointResult, position: int) -> float | None:
    """Energy per cycle in pJ of the workload at a position."""
    wanted = [one for one in point.energies if (one.macs == 0) == bool(position)]
    return comparison.per_cycle_pj(wanted[0]) if wanted else None


def overhead(baseline: float | None, extended: float | None) -> float | None:
    """Percent that ``extended`` is above ``baseline``; None if either is missing."""
    return None if not baseline or extended is None else _PERCENT * (extended / baseline - 1.0)
