"""The comparison of Table II of the XpulpNN paper: EX stage and core, baseline, extended, and with the additions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.config import PRESETS
from xpulpnn_sim.exploration.energy.window import WINDOW_CYCLES
from xpulpnn_sim.exploration.flows import Request, flow_steps, library
from xpulpnn_sim.exploration.kernels import EnergyStep, KernelSpec, KernelStep
from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.results import EnergyResult, PointResult
from xpulpnn_sim.exploration.space import Point, Space
from xpulpnn_sim.exploration.task import PointStep
from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell

BASELINE, EXTENDED, BEYOND = "ri5cy", "xpulpnn", "xpulpnn2"
COMPARED = (BASELINE, EXTENDED, BEYOND)
VARIANTS = {BASELINE: "xpulpv2_4x2", EXTENDED: "nn_4x4", BEYOND: "x2_4x4"}  # what runs fastest on each

PAPER_TOPS = ("ex-stage", "core")
MATMUL = "matmul:8:xpulpv2_4x2:32x64x16"
"""All cores run the 8-bit MatMul with the instructions of XpulpV2, as in the paper; small, since gates run it."""

BITS = (8, 4, 2)
LAYER = "conv", "16x16x32:64x3x3"  # the layer of the papers, for its cycles

LAYER_ROWS = "conv", "4x16x32:64x3x3"  # four of its sixteen rows of pixels, for its energy: gates run them

OWN_MATMUL = "matmul", "32x64x16"
LAYER_WINDOW = 8 * WINDOW_CYCLES
"""Clock cycles of a layer whose switching is looked at: many pieces, since its phases differ."""

REFERENCE_LIBRARY = "sg13g2_stdcell_typ_1p20V_25C"
"""Library of the flow that the figures of the authors' RTL were measured in."""

_PERCENT = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure as others print it."""

    paper: str = ""  # overhead in the paper, percent; empty if it tells none
    # baseline and extension of the authors' RTL in the reference flow, in our unit
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


def own(preset: str, bits: int, workload: tuple[str, str]) -> KernelSpec:
    """A kernel and its layer in the variant that runs fastest on a preset."""
    kernel, layer = workload
    return KernelSpec.parse(f"{kernel}:{bits}:{VARIANTS[preset]}:{layer}")


def paper_points(request: Request, *, energy: bool) -> tuple[Space, list[list[PointStep]]]:
    """The points of the comparison and the steps of each."""
    flows = flow_steps(request)
    points: list[Point] = []
    steps: list[list[PointStep]] = []
    for top in PAPER_TOPS:
        for name in COMPARED:
            points.append(Point(label=label(name, top), top=top, preset=name, settings={}, config=PRESETS[name]))
            steps.append([*flows, *(_runs(request, name) if energy and top == "core" else [])])
    return Space(points=tuple(points), skipped=()), steps


def _runs(request: Request, preset: str) -> list[PointStep]:
    """Workloads of a core: the same programs as the others, then its own kernels."""
    cells, yosys = library(request), request.yosys
    return [
        EnergyStep(cells, KernelSpec.parse(MATMUL), core=True, yosys=yosys),
        EnergyStep(cells, None, yosys=yosys),
        *([EnergyStep(cells, own(preset, 8, OWN_MATMUL), core=True, yosys=yosys)] if preset != BASELINE else []),
        *(KernelStep(own(preset, bits, LAYER)) for bits in BITS),
        *(
            EnergyStep(cells, own(preset, bits, LAYER_ROWS), core=True, yosys=yosys, window=LAYER_WINDOW)
            for bits in BITS
        ),
    ]


def paper_table(points: Sequence[PointResult]) -> NamedTable:
    """Ours beside the paper's overheads, and beside the authors' RTL if the library is that of the reference flow."""
    found = {point.label: point for point in points}
    flows = {flow.script: flow.name for point in points for flow in point.flows}
    reference = any(REFERENCE_LIBRARY in line for point in points for flow in point.flows for line in flow.conditions)
    columns = [
        Column(name="figure"),
        Column(name=BASELINE, group="ours", digits=2),
        Column(name=EXTENDED, group="ours", digits=2),
        Column(name=BEYOND, group="ours", digits=2),
        Column(name=EXTENDED, unit="%", group="ours, overhead", digits=1, signed=True),
        Column(name=f"{BEYOND} over {EXTENDED}", unit="%", group="ours, overhead", digits=1, signed=True),
        Column(name="overhead", unit="%", group="paper"),
    ]
    if reference:
        columns += [
            Column(name="RI5CY", group="authors' RTL, same flow", digits=1),
            Column(name="XpulpNN", group="authors' RTL, same flow", digits=1),
            Column(name="overhead", unit="%", group="authors' RTL, same flow", digits=1, signed=True),
        ]
    rows: list[list[TableCell]] = []

    def add(figure: str, value: Callable[[str], float | None], published: Published) -> None:
        ours = [value(name) for name in COMPARED]
        row: list[TableCell] = [figure, *ours, overhead(*ours[:2]), overhead(*ours[1:]), published.paper or None]
        if reference:
            authors = published.authors or (None, None)
            row += [*authors, overhead(*authors)]
        rows.append(row)

    for what, known, figure in (("area [kGE]", _AREA, comparison.size), ("delay [FO4]", _DELAY, comparison.delay)):
        for (top, script), published in known.items():
            flow = flows.get(script, "")
            add(
                f"{top}, {what}, {script} script",
                lambda name, top=top, flow=flow, figure=figure: figure(
                    comparison.flow_of(found[label(name, top)], flow)
                ),
                published,
            )
    cores = {name: found[label(name, "core")] for name in COMPARED}
    if any(point.energies or point.kernels for point in points):
        _add_runs(add, cores)
    return NamedTable(
        title="Table II of the XpulpNN paper, repeated",
        columns=columns,
        rows=rows,
        notes=[
            "Paper: 22 nm FDX, placed and routed, clock trees and wires included; power at 0.8 V and at 0.65 V.",
            "Ours: gates alone, before placement, in the conditions of each flow below.",
            f"{BEYOND}: {EXTENDED} with the additions beyond the paper, which tells nothing of it.",
            "Own kernels: " + ", ".join(f"{variant} on {name}" for name, variant in VARIANTS.items()) + ".",
            f"Layer: {LAYER[1]} with im2col and requantisation; energies on four of its rows, {LAYER_ROWS[1]}.",
            *(
                ["Authors' RTL: their Verilog through the same scripts and library, with Yosys 0.23 and its ABC."]
                if reference
                else []
            ),
        ],
    )


def _add_runs(
    add: Callable[[str, Callable[[str], float | None], Published], None], cores: Mapping[str, PointResult]
) -> None:
    """Rows of what the cores run."""

    def energy(name: str, workload: str) -> EnergyResult | None:
        return next((one for one in cores[name].energies if one.workload == workload), None)

    def per_mac(name: str, bits: int, what: tuple[str, str]) -> float | None:
        return comparison.per_mac_pj(energy(name, str(own(name, bits, what))))

    same = "core with clock gates, energy per cycle on"
    matmul = str(KernelSpec.parse(MATMUL))
    add(f"{same} 8-bit MatMul [pJ]", lambda name: comparison.per_cycle_pj(energy(name, matmul)), _MATMUL_ENERGY)
    add(f"{same} general code [pJ]", lambda name: comparison.per_cycle_pj(_general(cores[name])), _GENERAL_ENERGY)
    add("8-bit MatMul, own kernel, energy [pJ/MAC]", lambda name: per_mac(name, 8, OWN_MATMUL), Published())
    for bits in BITS:
        add(
            f"layer at {bits} bit, own kernel, energy [pJ/MAC]",
            lambda name, bits=bits: per_mac(name, bits, LAYER_ROWS),
            Published(),
        )
    for bits in BITS:
        add(
            f"layer at {bits} bit, own kernel, speed [MAC/cycle]",
            lambda name, bits=bits: _speed(cores[name], own(name, bits, LAYER)),
            Published(),
        )


def _general(point: PointResult) -> EnergyResult | None:
    return next((one for one in point.energies if not one.macs), None)


def _speed(point: PointResult, spec: KernelSpec) -> float | None:
    """Multiply-accumulates per cycle of a kernel."""
    wanted = (str(spec.layer), spec.bits, spec.variant)
    records = [one for one in point.kernels if (one["layer"], one["bits"], one["variant"]) == wanted]
    return records[0]["macs_per_cycle"] if records else None


def overhead(baseline: float | None, extended: float | None) -> float | None:
    """Percent that ``extended`` is above ``baseline``; None if either is missing."""
    return None if not baseline or extended is None else _PERCENT * (extended / baseline - 1.0)
