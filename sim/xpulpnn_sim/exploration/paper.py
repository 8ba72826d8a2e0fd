"""Compare core and cluster with and without XpulpNN, as in Table II of the XpulpNN paper, and with later extensions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product

from xpulpnn.config import PRESETS
from xpulpnn_sim.exploration.energy.programs import GENERAL_CODE
from xpulpnn_sim.exploration.flows import WINDOW_CYCLES, KernelSpec, energy_step, flow_steps, kernel_step, libraries
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.results import EnergyResult, PointResult
from xpulpnn_sim.exploration.space import CLUSTER, Point, Space, build_space
from xpulpnn_sim.exploration.task import PointStep
from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell, number_columns, text_columns

BASELINE, EXTENDED = "ri5cy", "xpulpnn"
VARIANTS = {BASELINE: "xpulpv2_4x2", EXTENDED: "nn_4x4", "xpulpnn2": "x2_4x4", "xpulpnn3": "x3_4x4"}
"""Cores that are compared, in order of development, and the fastest kernel variant of each."""

CLUSTER_VARIANTS = dict(zip(("cluster-ri5cy", "cluster", "cluster2", "cluster3"), VARIANTS.values(), strict=True))
"""Clusters whose energy is estimated, and the kernel variant that their cores run."""

MATMUL = KernelSpec.parse("matmul:8:xpulpv2_4x2:32x64x16")
"""8-bit MatMul with XpulpV2 instructions that all cores run, as in the paper; it is small, as it runs on gates."""

BITS = (8, 4, 2)
LAYER = "16x16x32:64x3x3"  # the papers' layer, for cycles
LAYER_ROWS = "4x16x32:64x3x3"  # four of its sixteen rows of pixels, for energy on gates
OWN_MATMUL = "32x64x16"
CLUSTER_MATMUL = "32x288x32"
"""MatMul with as many products per result as the paper's layer, and a block of results for each core."""

LAYER_WINDOW = 8 * WINDOW_CYCLES
"""Number of clock cycles of a layer whose switching is counted; it is large, as the phases of a layer differ."""

REFERENCE_LIBRARY = "sg13g2_stdcell_typ_1p20V_25C"
"""Library for which results of the authors' RTL are known."""

_PERCENT = 100.0

_AUTHORS: Mapping[tuple[str, str, str], tuple[float, float]] = {
    ("ex-stage", "area [kGE]", "area"): (27.1, 37.4),
    ("ex-stage", "area [kGE]", "speed"): (33.0, 44.4),
    ("core", "area [kGE]", "area"): (63.0, 74.6),
    ("core", "area [kGE]", "speed"): (68.0, 80.4),
    ("ex-stage", "delay [FO4]", "area"): (97.5, 106.1),
    ("ex-stage", "delay [FO4]", "speed"): (70.6, 71.4),
    ("core", "delay [FO4]", "area"): (114.2, 121.8),
    ("core", "delay [FO4]", "speed"): (85.8, 85.9),
}
"""Results of the authors' RTL without and with the extension, by component, quantity and script."""

_OVERHEADS = {"ex-stage": "+32.6", "core": "+17.5"}  # area overhead in the paper, percent


_RUN = {"core": VARIANTS, CLUSTER: CLUSTER_VARIANTS, "ex-stage": ()}
"""Presets whose cycles and energies are compared, by component."""


def fastest_kernel(preset: str, bits: int, layer: str) -> KernelSpec:
    kernel = "conv" if layer.endswith("x3x3") else "matmul"
    return KernelSpec.parse(f"{kernel}:{bits}:{(VARIANTS | CLUSTER_VARIANTS)[preset]}:{layer}")


def paper_points(options: ExploreOptions) -> tuple[Space, list[list[PointStep]]]:
    if options.component == CLUSTER:
        space = build_space(CLUSTER, [name for pair in CLUSTERS_COMPARED for name in pair], (), ())
    else:
        named = product(("ex-stage", "core"), VARIANTS)
        points = [
            Point(label=f"{name} {top}", top=top, preset=name, settings={}, config=PRESETS[name]) for top, name in named
        ]
        space = Space(points=tuple(points), skipped=())
    flows = flow_steps(options)
    runs = [] if options.no_energy else [point for point in space.points if point.preset in _RUN[point.top]]
    return space, [[*flows, *(_runs(options, point) if point in runs else [])] for point in space.points]


def _runs(options: ExploreOptions, point: Point) -> list[PointStep]:
    cells, name, is_core = libraries(options)[0], point.preset, point.top == "core"

    def energies(*specs: KernelSpec | str, **more: int) -> list[PointStep]:
        return [energy_step(cells, spec, core=is_core, yosys=options.yosys, **more) for spec in dict.fromkeys(specs)]

    speeds = [kernel_step(fastest_kernel(name, bits, LAYER)) for bits in BITS]
    rows = [fastest_kernel(name, bits, LAYER_ROWS) for bits in BITS]
    if is_core:
        own = [] if name == BASELINE else [fastest_kernel(name, 8, OWN_MATMUL)]
        return [*energies(MATMUL, GENERAL_CODE, *own), *speeds, *energies(*rows, window=LAYER_WINDOW)]
    own = [fastest_kernel(name, bits, CLUSTER_MATMUL) for bits in BITS]
    return [*energies(_SAME, *own, *rows, window=CLUSTER_WINDOW), *speeds]


def paper_table(points: Sequence[PointResult]) -> NamedTable:
    return (_cluster_table if points[0].top == CLUSTER else _core_table)(points)


def _core_table(points: Sequence[PointResult]) -> NamedTable:
    by_label = {point.label: point for point in points}
    flows = {flow.script: flow.name for point in points for flow in point.flows}
    reference = any(REFERENCE_LIBRARY in line for point in points for flow in point.flows for line in flow.conditions)
    columns = [
        Column(name="figure"),
        *(Column(name=name, group="ours", digits=2) for name in VARIANTS),
        *(
            Column(name=f"{name} over {before}", unit="%", group="ours, overhead", digits=1, signed=True)
            for before, name in pairwise(VARIANTS)
        ),
        Column(name="overhead", unit="%", group="paper"),
    ]
    if reference:
        authors_rtl = number_columns("RI5CY", "XpulpNN", "overhead", group="authors' RTL, same flow", digits=1)
        columns += [*authors_rtl[:2], replace(authors_rtl[2], unit="%", signed=True)]
    rows: list[list[TableCell]] = []

    def add(
        figure: str, ours: Sequence[float | None], paper: str = "", authors: Sequence[float | None] = (None, None)
    ) -> None:
        row: list[TableCell] = [figure, *ours, *(overhead(*pair) for pair in pairwise(ours)), paper or None]
        rows.append([*row, *authors, overhead(*authors)] if reference else row)

    for (top, quantity, script), authors in _AUTHORS.items():
        figure, paper = ("size", _OVERHEADS[top]) if "area" in quantity else ("delay", "same clock")
        results = [comparison.flow_of(by_label[f"{name} {top}"], flows.get(script, "")) for name in VARIANTS]
        add(f"{top}, {quantity}, {script} script", comparison.pick(results, figure), paper, authors)
    if any(point.energies or point.kernels for point in points):
        _add_runs(add, [by_label[f"{name} core"] for name in VARIANTS])
    authors = ["Authors' RTL: their Verilog through the same scripts and library, with Yosys 0.23 and its ABC."]
    return NamedTable(
        title="Table II of the XpulpNN paper, repeated",
        columns=columns,
        rows=rows,
        notes=[
            "Paper: 22 nm FDX, placed and routed, clock trees and wires included; power at 0.8 V and at 0.65 V.",
            "Ours: gates alone, before placement, in the conditions of each flow below.",
            f"Beyond {EXTENDED}: the additions of this project, of which the paper tells nothing.",
            "Own kernels: " + ", ".join(f"{variant} on {name}" for name, variant in VARIANTS.items()) + ".",
            f"Layer: {LAYER} with im2col and requantisation; energies on four of its rows, {LAYER_ROWS}.",
            *(authors if reference else []),
        ],
    )


def _add_runs(add: Callable[..., None], cores: Sequence[PointResult]) -> None:
    same = "core with clock gates, energy per cycle on"
    general = [next((energy for energy in core.energies if not energy.macs), None) for core in cores]
    matmul = [_energy_of(core, MATMUL) for core in cores]
    add(f"{same} 8-bit MatMul [pJ]", list(map(comparison.per_cycle_pj, matmul)), "+2.1 to +2.5")
    add(f"{same} general code [pJ]", list(map(comparison.per_cycle_pj, general)), "+2.17 to +3.7")
    add("8-bit MatMul, own kernels, energy [pJ/MAC]", _per_mac(cores, 8, OWN_MATMUL))
    _add_own_kernels(add, cores, {"layer": LAYER_ROWS})


def _add_own_kernels(add: Callable[..., None], points: Sequence[PointResult], layers: Mapping[str, str]) -> None:
    for name, bits in product(layers, BITS):
        add(f"{name} at {bits} bit, own kernels, energy [pJ/MAC]", _per_mac(points, bits, layers[name]))
    for bits in BITS:
        add(f"layer at {bits} bit, own kernels, speed [MAC/cycle]", _speeds(points, bits))


def _energy_of(point: PointResult, workload: KernelSpec) -> EnergyResult | None:
    return next((energy for energy in point.energies if energy.workload == str(workload)), None)


def _per_mac(points: Sequence[PointResult], bits: int, layer: str) -> list[float | None]:
    energies = [_energy_of(point, fastest_kernel(point.preset, bits, layer)) for point in points]
    return list(map(comparison.per_mac_pj, energies))


def _speeds(points: Sequence[PointResult], bits: int) -> list[float | None]:
    speeds: list[float | None] = []
    for point in points:
        rates = {"{bits}:{variant}:{layer}".format(**run): run["macs_per_cycle"] for run in point.kernels}
        speeds.append(rates.get(str(fastest_kernel(point.preset, bits, LAYER)).partition(":")[2]))
    return speeds


def overhead(baseline: float | None, extended: float | None) -> float | None:
    return None if not baseline or extended is None else _PERCENT * (extended / baseline - 1.0)


CLUSTER_WINDOW = 2 * WINDOW_CYCLES  # clock cycles counted for each module
_SAME = KernelSpec.parse(f"matmul:8:xpulpv2_4x2:{CLUSTER_MATMUL}")
_WORKLOADS = {"MatMul": CLUSTER_MATMUL, "layer": LAYER_ROWS}
_POWERS = {"same": _PERCENT * (41.6 / 41.8 - 1.0), "own": _PERCENT * (43.7 / 41.8 - 1.0)}
"""Power overhead in percent of the cluster in the paper, for an 8-bit MatMul at 0.8 V."""

CLUSTERS_COMPARED: Mapping[tuple[str, str], tuple[str, float | None]] = {
    ("cluster-ri5cy", "cluster"): ("extension of the cores", 4.1),
    ("cluster", "cluster-bf4"): ("32 instead of 16 banks", 4.2),
    ("cluster", "cluster2"): ("additions beyond the paper", None),
    ("cluster2", "cluster3"): ("two products at a time", None),
}
"""Differences between two presets, and the area overhead in percent that the paper states, if any."""


def _cluster_table(points: Sequence[PointResult]) -> NamedTable:
    by_label = {point.label: point for point in points}
    names = comparison.flow_names(points)
    rows: list[list[TableCell]] = []
    for (smaller, larger), (change, paper) in CLUSTERS_COMPARED.items():
        for figure in ("area [kGE]", "delay [FO4]", "grant path [FO4]"):
            for name in names:
                flows = [comparison.flow_of(by_label[label], name) for label in (smaller, larger)]
                ours = comparison.pick(flows, {"area [kGE]": "size", "delay [FO4]": "delay"}.get(figure, "grant_fo4"))
                more = overhead(*ours)
                published = paper if figure == "area [kGE]" else None
                ratio = more / published if more is not None and published else None
                rows.append([change, f"{figure}, {name}", *ours, more, published, ratio])
        rows += [[change, *row] for row in _cluster_energies(by_label[smaller], by_label[larger])]
    return NamedTable(
        title="Table II of the XpulpNN paper, the cluster",
        columns=[
            *text_columns("what", "figure"),
            *number_columns("without", "with", group="ours", digits=2),
            Column(name="overhead", unit="%", group="ours", digits=1, signed=True),
            Column(name="overhead", unit="%", group="paper", digits=1, signed=True),
            Column(name="ours / paper", digits=2),
        ],
        rows=rows,
        notes=[
            "Paper: 22 nm FDX, placed and routed, with the memories, which both of its clusters have alike.",
            "Ours: logic and registers before placement, and memories as macros of a table, as the conditions say.",
            f"MatMul {CLUSTER_MATMUL}; layer {LAYER_ROWS} with im2col and requantisation, its speed on all of {LAYER}.",
            "Own kernels: " + ", ".join(f"{variant} on {name}" for name, variant in CLUSTER_VARIANTS.items()) + ".",
            "Energies per cycle stand beside the paper's power at one clock.",
        ],
    )


def _cluster_energies(smaller: PointResult, larger: PointResult) -> list[list[TableCell]]:
    pair = (smaller, larger)
    if not all(point.label in CLUSTER_VARIANTS and point.energies for point in pair):
        return []
    rows: list[list[TableCell]] = []

    def add(figure: str, values: Sequence[float | None], published: float | None = None) -> None:
        rows.append([figure, *values, overhead(*values), published, None])

    powers = _POWERS if smaller.label == "cluster-ri5cy" else {}
    same = [_energy_of(point, _SAME) for point in pair]
    own = [_energy_of(point, fastest_kernel(point.preset, 8, CLUSTER_MATMUL)) for point in pair]
    add("8-bit MatMul, same program, energy [pJ/cycle]", list(map(comparison.per_cycle_pj, same)), powers.get("same"))
    add("8-bit MatMul, own kernels, energy [pJ/cycle]", list(map(comparison.per_cycle_pj, own)), powers.get("own"))
    _add_own_kernels(add, pair, _WORKLOADS)
    return rows
