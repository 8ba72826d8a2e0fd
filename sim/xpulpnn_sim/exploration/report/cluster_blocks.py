"""Tables of area and energy of the blocks of clusters."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.report.comparison import POINT_COLUMNS
from xpulpnn_sim.exploration.results import EnergyResult, FlowResult, PointResult
from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell, number_columns, text_columns

BLOCKS = {
    "cores": re.compile(r"core\d+"),
    "crossbar": re.compile(r"tcdm"),
    "event unit": re.compile(r"event_unit"),
    "DMA": re.compile(r"dma"),
    "caches": re.compile(r"icache"),
    "peripherals": re.compile(r"bus|control|timer"),
    "demuxes, ports": re.compile(r"demux\d+|host_\w+|fetches\d+|external"),
    "memories": re.compile(r"memories"),
}
"""Patterns of the instance names in a cluster, by block."""

REST = "rest"  # gates of the cluster itself, gates that serve several blocks, and bridges around it
_PER_KILO = 1000.0


def is_cluster(flow: FlowResult | None) -> bool:
    return flow is not None and flow.grant is not None and bool(flow.modules)


def block_of(instance: str) -> str:
    return next((block for block, pattern in BLOCKS.items() if pattern.fullmatch(instance)), instance)


def block_areas(flow: FlowResult) -> dict[str, float]:
    """Return the area in kGE of each block; :data:`REST` comes last."""
    top = flow.modules[0]
    areas = dict.fromkeys(BLOCKS, 0.0)
    for module in flow.modules[1:]:
        block = block_of(module.path.removeprefix(f"{top.path}.").removeprefix("cluster."))
        if block in areas:
            areas[block] += module.total_ge / _PER_KILO
    return {**areas, REST: top.total_ge / _PER_KILO - sum(areas.values())}


def block_energies(energy: EnergyResult) -> dict[str, float]:
    """Return the energy in pJ per cycle of each block; :data:`REST` comes last."""
    energies = dict.fromkeys((*BLOCKS, REST), 0.0)
    for module in energy.modules:
        block = block_of(module.path.partition(".")[2].partition(".")[0])
        energies[block if block in energies else REST] += module.total / comparison.FJ_PER_PJ
    return energies


def cluster_tables(points: Sequence[PointResult]) -> list[NamedTable]:
    tables = (
        *(_area_table(points), _memory_table(points), _wire_table(points)),
        *(_grant_table(points), cluster_energy_table(points)),
    )
    return [table for table in tables if table.rows]


def _table(title: str, columns: Sequence[Column], rows: Iterable[Sequence[TableCell]], *notes: str) -> NamedTable:
    return NamedTable(title=title, columns=[*POINT_COLUMNS, *columns], rows=list(rows), notes=notes)


def _clusters(points: Sequence[PointResult]) -> Iterator[tuple[list[TableCell], FlowResult]]:
    return (([*at, flow.name], flow) for at, flow in comparison.numbered(points, "flows") if is_cluster(flow))


def _area_table(points: Sequence[PointResult]) -> NamedTable:
    area = "area [kGE]"
    columns = [Column(name="flow"), *number_columns(*BLOCKS, REST, group=area, digits=1)]
    columns.append(Column(name="sum", group=area, digits=1, better="less"))
    areas = [(names, block_areas(flow), flow.area_kge) for names, flow in _clusters(points)]
    rows = ([*names, *blocks.values(), whole] for names, blocks, whole in areas)
    return _table("Blocks of the clusters", columns, rows, _dominance("area", [blocks for _, blocks, _ in areas]))


def _dominance(what: str, blocks: Sequence[Mapping[str, float]]) -> str:
    """Return which share of all blocks the memories have, and whether they have most."""
    shares = [100 * block["memories"] / (sum(block.values()) or 1.0) for block in blocks]
    text = ", ".join(f"{share:.0f} %" for share in shares)
    return f"Memories have {text} of the {what}{': they dominate' if max(shares, default=0.0) > 50 else ''}."


_FIGURES: Mapping[str, int | None] = {
    **dict.fromkeys(("count", "words", "bits", "ports", "macros", "area_um2", "access_ps"), 0),
    "macro": None,
    "read_pj": 2,
    "write_pj": 2,
    "leakage_nw": 0,
}
"""Figures of memories, and their digits."""


def _memory_table(points: Sequence[PointResult]) -> NamedTable:
    parts = {name: name.replace("_pj", "_pJ").replace("_nw", "_nW").partition("_")[::2] for name in _FIGURES}
    columns = [Column(name=parts[name][0], unit=parts[name][1], digits=digits) for name, digits in _FIGURES.items()]
    figures = (
        [*names, use.name, *(getattr(use, name) for name in _FIGURES)]
        for names, flow in _clusters(points)
        for use in flow.memories
    )
    note = "Macros, area, energies of an access and leakage of one memory each."
    return _table("Memories of the clusters", [*text_columns("flow", "memory"), *columns], figures, note)


def _wire_table(points: Sequence[PointResult]) -> NamedTable:
    rows: list[list[TableCell]] = []
    for names, flow in _clusters(points):
        if flow.placement:
            whole = sum(wires.wire_mm for wires in flow.placement.wires) or 1.0
            for wires in flow.placement.wires:
                share = 100 * wires.wire_mm / whole
                rows.append([*names, wires.between, wires.nets, wires.wire_mm, share, wires.longest_um])
    numbers = (("nets", "", 0), ("wires", "mm", 1), ("share", "%", 1), ("longest", "um", 0))
    columns = (Column(name=name, unit=unit, digits=digits) for name, unit, digits in numbers)
    note = "On the floorplan; wires inside of parts are not in it."
    return _table("Wires between the blocks of the clusters", [*text_columns("flow", "between"), *columns], rows, note)


def _grant_table(points: Sequence[PointResult]) -> NamedTable:
    rows: list[list[TableCell]] = []
    for names, flow in _clusters(points):
        if (grant := flow.grant) is not None:
            path, fo4_per_ps = grant.path, grant.fo4 / grant.path.delay_ps
            parts = (grant.request_ps, grant.grant_ps - grant.request_ps, path.delay_ps - grant.grant_ps)
            rows.append([*names, *(part * fo4_per_ps for part in parts), grant.fo4, path.start, path.end])
    columns = [
        Column(name="flow"),
        *number_columns("to the request", "to the grant", "onwards", unit="FO4", digits=1),
        Column(name="all", unit="FO4", digits=1, better="less"),
        *text_columns("from", "to"),
    ]
    note = "From a register or memory to a core's request, through the crossbar to the grant of a core, and on."
    return _table("Path from a request through its grant", columns, rows, note)


def cluster_energy_table(points: Sequence[PointResult]) -> NamedTable:
    energies = [(at, energy) for at, energy in comparison.numbered(points, "energies") if energy.accesses]
    accesses = list(dict.fromkeys(name for _, energy in energies for name in energy.accesses))
    rows: list[list[TableCell]] = []
    for at, energy in energies:
        cycles_per_mac = energy.cycles / energy.macs if energy.macs else 0.0
        blocks = [block * cycles_per_mac for block in block_energies(energy).values()]
        counts = [energy.accesses.get(name, 0.0) * cycles_per_mac * _PER_KILO for name in accesses]
        whole = [comparison.per_mac_pj(energy), comparison.per_cycle_pj(energy)]
        power, per_cycle = comparison.power_mw(points[at[0] - 1], energy), comparison.per_cycle_pj(energy)
        parts = (*block_energies(energy).values(), per_cycle)
        powers = [part * power / per_cycle if part is not None and power and per_cycle else None for part in parts]
        rows.append([*at, energy.workload, *blocks, *whole, *powers, *counts])
    per_mac = "energy [pJ/MAC]"
    columns = [
        Column(name="workload"),
        *number_columns(*BLOCKS, REST, group=per_mac, digits=3),
        Column(name="sum", group=per_mac, digits=3, better="less"),
        Column(name="sum", unit="pJ/cycle", digits=1),
        *number_columns(*BLOCKS, REST, "sum", group="power [mW]", digits=2),
        *number_columns(*accesses, group="accesses per 1000 MAC", digits=2),
    ]
    return _table(
        "Energy of the clusters by block",
        columns,
        rows,
        _dominance("energy", [block_energies(energy) for _, energy in energies]),
        "Power: at the clock that was asked for, else at the best one of the point, without wires between blocks.",
        "Accesses: of a bank to a word; a lookup of a cache reads tag and line of one way, a write fills both.",
    )
