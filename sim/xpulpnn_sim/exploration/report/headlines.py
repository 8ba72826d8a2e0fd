"""Tables of rates in the units of data sheets, of the best points, and of the blocks of clusters."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.report.cluster_plots import clustered
from xpulpnn_sim.exploration.results import EnergyResult, FlowResult, PointResult
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


def block_energies(energy: EnergyResult) -> dict[str, float]:
    """Energy in pJ per cycle of each block of a cluster, without memories; :data:`REST` last."""
    energies = dict.fromkeys((*BLOCKS, REST), 0.0)
    for module in energy.modules:
        block = block_of(module.path.partition(".")[2].partition(".")[0])
        energies[block if block in energies else REST] += module.total / comparison.FJ_PER_PJ
    return energies


def cluster_energy_table(points: Sequence[PointResult]) -> NamedTable | None:
    """Energy of the blocks of clusters and their accesses to memories; None if none was estimated."""
    rows: list[list[TableCell]] = []
    found = [(number, point, energy) for number, point in enumerate(points, 1) for energy in point.energies]
    clusters = [one for one in found if one[2].accesses]
    kinds = dict.fromkeys(what for _, _, energy in clusters for what in energy.accesses)
    for number, point, energy in clusters:
        per_mac = energy.cycles / energy.macs if energy.macs else 0.0
        blocks = [one * per_mac for one in block_energies(energy).values()]
        accesses = [energy.accesses.get(kind, 0.0) * per_mac * _PER_KILO for kind in kinds]
        whole = [comparison.per_mac_pj(energy), comparison.per_cycle_pj(energy)]
        rows.append([number, point.label, energy.workload, *blocks, *whole, *accesses])
    return (
        NamedTable(
            title="Energy of the clusters by block",
            columns=[
                Column(name="no.", digits=0),
                *(Column(name=name) for name in (POINT, "workload")),
                *(Column(name=name, group="energy [pJ/MAC]", digits=3) for name in (*BLOCKS, REST)),
                Column(name="sum", group="energy [pJ/MAC]", digits=3, better="less"),
                Column(name="sum", unit="pJ/cycle", digits=1),
                *(Column(name=kind, group="accesses per 1000 MAC", digits=2) for kind in kinds),
            ],
            rows=rows,
            notes=[
                "Energies: logic and registers, before placement; the memories of TCDM and caches are in none.",
                "Accesses: of a bank to a word; a lookup of a cache reads tag and line of one way, a write fills both.",
            ],
        )
        if rows
        else None
    )


def cluster_tables(points: Sequence[PointResult]) -> list[NamedTable]:
    """Blocks, energies and grant paths of the clusters among the points; none without any."""
    energies = cluster_energy_table(points)
    return [*_cluster_areas(points), *([energies] if energies else [])]


def _cluster_areas(points: Sequence[PointResult]) -> list[NamedTable]:
    found = [
        ([number, point.label, flow.name], flow, flow.grant)
        for number, point in enumerate(points, 1)
        for flow in point.flows
        if is_cluster(flow) and flow.grant is not None
    ]
    if not found:
        return []
    lead = [Column(name="no.", digits=0), Column(name=POINT), Column(name="flow")]
    areas: list[list[TableCell]] = [
        [*names, *block_areas(flow).values(), flow.area_kge, (flow.memory_bits or 0) / _KIBIT]
        for names, flow, _ in found
    ]
    paths: list[list[TableCell]] = []
    for names, _, grant in found:
        path, unit = grant.path, grant.fo4 / grant.path.delay_ps
        parts = (grant.request_ps, grant.grant_ps - grant.request_ps, path.delay_ps - grant.grant_ps)
        paths.append([*names, *(part * unit for part in parts), grant.fo4, path.start, path.end])
    told = (
        "From a register to where a core's request leaves it, through demux and crossbar to where a grant enters a "
        "core, and on to where the path ends."
    )
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
            notes=[told],
        ),
    ]


_PS_GHZ = 1000.0  # picoseconds times gigahertz in one cycle
_UM2_PER_MM2 = 1e6
_MHZ_PER_GHZ = 1000.0


@dataclass(frozen=True, slots=True)
class Headline:
    """A kernel on a point, at the clock that a flow says its component reaches."""

    point: int  # number of the point, from 1 on
    label: str  # label of the point
    top: str  # its component
    flow: FlowResult  # whose clock and area count
    record: dict[str, object]  # cycles of the kernel on the back end of the same configuration, or on the cluster
    energy: EnergyResult | None  # energy of the same kernel, if it was estimated and the flow is not one of an FPGA

    @property
    def clock_ghz(self) -> float:
        """One over the delay of the component, or the median clock after routing."""
        if self.flow.is_fpga:
            return (self.flow.fmax or 0.0) / _MHZ_PER_GHZ
        return _PS_GHZ / self.flow.delay_ps if self.flow.delay_ps else 0.0

    @property
    def gmacs(self) -> float:
        """Multiply-accumulates per ns."""
        rate = self.record["macs_per_cycle"]
        return self.clock_ghz * rate if isinstance(rate, int | float) else 0.0

    @property
    def gmacs_per_mm2(self) -> float | None:
        """The same per area of the component; None without a physical area."""
        return self.gmacs * _UM2_PER_MM2 / self.flow.area_um2 if self.flow.area_um2 else None


def headlines(points: Sequence[PointResult]) -> list[Headline]:
    """Every kernel of every point, the fastest variant of each, with every flow on a real technology."""
    found: list[Headline] = []
    for number, point in enumerate(points, 1):
        for name in comparison.kernel_names(points):
            record = comparison.best_record(point, name)
            if record is None or record.get("mismatches"):
                continue
            workload = "{kernel}:{bits}:{variant}:{layer}".format(**record)
            energy = next((one for one in point.energies if one.workload == workload), None)
            for flow in point.flows:
                # the delays must be those of something that can be built
                if flow.delay_ps and (flow.is_fpga or flow.area_um2 is not None):
                    shown = None if flow.is_fpga else energy
                    found.append(Headline(number, point.label, point.top, flow, record, shown))
    return found


def headline_table(points: Sequence[PointResult]) -> NamedTable | None:
    """Clock, rate, density and energy of each kernel, flow and point; None without a kernel on a real technology."""
    found = headlines(points)
    if not found:
        return None
    columns = [
        Column(name="no.", digits=0),
        *(Column(name=name) for name in ("point", "kernel", "variant", "clock and area of")),
        Column(name="clock", unit="MHz", digits=1, better="more"),
        Column(name="GMAC/s", digits=3, better="more"),
        Column(name="GMAC/s per mm2", digits=2, better="more"),
        Column(name="pJ/MAC", digits=3, better="less"),
        Column(name="energy of"),
    ]
    rows: list[list[TableCell]] = [
        [
            one.point,
            one.label,
            comparison.kernel_name(one.record),
            str(one.record["variant"]),
            f"{one.top}, {one.flow.name}",
            one.clock_ghz * _MHZ_PER_GHZ,
            one.gmacs,
            one.gmacs_per_mm2,
            comparison.per_mac_pj(one.energy),
            netlist_of(one.energy) if one.energy else None,
        ]
        for one in found
    ]
    clusters = any(clustered(one.record) for one in found)
    run = "on the cluster" if clusters else "on the back end of the same configuration with ideal memory"
    notes = [
        (
            f"GMAC/s: MAC/cycle of the whole kernel, {run}, times the clock that the named component alone reaches: "
            "one over its delay without clock-to-output and setup times, on an FPGA the median clock after routing."
        ),
        "per mm2: cell area of the same component, no memories; pJ/MAC: of the netlist named beside it.",
    ]
    return NamedTable(title="Rates, densities and energies", columns=columns, rows=rows, notes=notes, lead=5)


def netlist_of(energy: EnergyResult) -> str:
    """The netlist whose energy is told."""
    area = "" if energy.area_kge is None else f", {energy.area_kge:.2f} kGE"
    return f"{energy.top}{area}"


def best_table(points: Sequence[PointResult]) -> NamedTable | None:
    """The best point by each figure; None unless there are several points."""
    if len(points) < 2:
        return None
    rows: list[list[TableCell]] = []

    def add(column: Column, values: Sequence[float | None], labels: Sequence[tuple[int, str]]) -> None:
        known = [(value, at) for value, at in zip(values, labels, strict=True) if value is not None]
        if len({at for _, at in known}) < 2 or not column.better:
            return
        value = (max if column.better == "more" else min)(value for value, _ in known)
        holders = [at for found, at in known if found == value]
        if len(holders) == len(known):
            return
        names = ", ".join(f"{number} {label}" for number, label in holders[:2])
        more = f" and {len(holders) - 2} more" if len(holders) > 2 else ""
        shown = f"{column.show(value)} {column.unit}".strip()
        rows.append([column.heading, column.group, shown, names + more])

    tops = list(dict.fromkeys(point.top for point in points))
    for top, figure in product(tops, comparison.figures(points)):
        if figure.compared:
            those = [number for number, point in enumerate(points) if point.top == top]
            told = ", ".join([figure.column.group, *([top] if len(tops) > 1 else [])])
            where = [(number + 1, points[number].label) for number in those]
            add(replace(figure.column, group=told), [figure.values[number] for number in those], where)
    groups: dict[str, list[Headline]] = {}
    for one in headlines(points):
        groups.setdefault(f"{comparison.kernel_name(one.record)}; {one.top}, {one.flow.name}", []).append(one)
    for told, rates in groups.items():
        where = [(one.point, one.label) for one in rates]
        add(Column(name="GMAC/s", group=told, digits=3, better="more"), [one.gmacs for one in rates], where)
        density = Column(name="GMAC/s per mm2", group=told, digits=2, better="more")
        add(density, [one.gmacs_per_mm2 for one in rates], where)
    if not rows:
        return None
    columns = [Column(name="figure"), Column(name="of"), Column(name="best"), Column(name="point")]
    so_far = " so far" * any(point.unfinished for point in points)
    return NamedTable(title=f"Best points{so_far}", columns=columns, rows=rows)
