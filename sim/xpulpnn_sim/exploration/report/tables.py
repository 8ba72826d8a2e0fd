"""Tables of an exploration for the terminal and the HTML report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from xpulpnn_sim.exploration.library import NO_TECHNOLOGY
from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.report.cluster_plots import clustered
from xpulpnn_sim.exploration.report.comparison import POINT_COLUMNS
from xpulpnn_sim.exploration.results import ENERGY_PARTS, PointResult
from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell, number_columns, table_of, text_columns

_PERCENT = 100.0


def _failed(points: Sequence[PointResult]) -> frozenset[int]:
    return frozenset(number for number, point in enumerate(points) if point.failed)


def _of_points(
    title: str, points: Sequence[PointResult], columns: Iterable[tuple[Column, Sequence[TableCell]]], **more: Any
) -> NamedTable:
    lead = zip(POINT_COLUMNS, (range(1, len(points) + 1), [point.label for point in points]), strict=True)
    headings, cells = zip(*lead, *columns, strict=True)
    rows = list(zip(*cells, strict=True))
    return NamedTable(title=title, columns=headings, rows=rows, lead=len(POINT_COLUMNS), **more)


def figure_table(points: Sequence[PointResult], baseline: str) -> NamedTable:
    figures, failed = comparison.figures(points), _failed(points)
    notes = [f"{number} {point.label}: {point.error}." for number, point in enumerate(points, 1) if point.unfinished]
    notes.append("An arrow tells which way is better.")
    if any(figure.spreads for figure in figures):
        notes.append("Medians; min..max: over the runs of each mapping, or the placements of an FPGA.")
    for verdict in comparison.clock_verdicts(points):
        parts = [f"{word} by {', '.join(verdict[word])}" for word in ("met", "missed") if verdict[word]]
        notes.append(f"{verdict['of']}: clock of {verdict['clock_ns']:g} ns {'; '.join(parts)}.")
    flows = [flow for point in points for flow in point.flows if flow.structures]
    structures = {flow.name: ", ".join(f"{key}={value}" for key, value in flow.structures.items()) for flow in flows}
    notes += [f"{name}: figures with {text}, whatever the preset has." for name, text in structures.items()]
    notes += _energy_notes(points)
    kernels = comparison.kernel_names(points)
    if kernels:
        notes.append(
            "MAC/cycle: whole kernel, with products of padding; cycles/sdotp: MatMul alone; fastest variant run."
        )
        unused = {kernel: names for kernel in kernels if (names := _unused(points, kernel))}
        notes += [f"{kernel}: no variant uses {names} here." for kernel, names in unused.items()]
    if comparison.fpga_flows(points):
        notes.append("fmax: median over the placement seeds.")
    columns: list[tuple[Column, Sequence[TableCell]]] = []
    for figure in figures:
        if figure.column.group in kernels and figure.column.name == comparison.RATE:
            records = [comparison.best_record(point, figure.column.group) or {} for point in points]
            variants = [record.get("variant") for record in records]
            columns.append((Column(name="variant", group=figure.column.group), variants))
        columns.append((figure.column, figure.values))
        if figure.spreads:
            column, show = replace(figure.column, name="min..max", digits=None, better=""), figure.column.show
            columns.append((column, [spread and "..".join(map(show, spread)) for spread in figure.spreads]))
    marked = frozenset(number for number, point in enumerate(points) if point.label == baseline)
    return _of_points("Figures of all points", points, columns, notes=notes, marked=marked, failed=failed)


def _energy_notes(points: Sequence[PointResult]) -> list[str]:
    netlists: dict[str, dict[str, None]] = {}
    for (number, _), energy in comparison.numbered(points, "energies"):
        netlists.setdefault(energy.method, {})[f"{number} {comparison.netlist_of(energy)}"] = None
    notes = [
        f"Energies: of netlists of their own ({method}): {'; '.join(listed)}."
        for method, listed in netlists.items()
        if method
    ]
    if any(comparison.power_mw(point, energy) for point in points for energy in point.energies):
        notes.append("Power: those energies at the clock asked for, else at the best one, and leakage by time.")
    estimated = any(NO_TECHNOLOGY in energy.conditions for point in points for energy in point.energies)
    return [NO_TECHNOLOGY, *notes] if estimated else notes


def overhead_table(points: Sequence[PointResult], baseline: str) -> NamedTable | None:
    first = next((number for number, point in enumerate(points) if point.label == baseline), None)
    if first is None or len(points) < 2:
        return None
    known = [figure for figure in comparison.figures(points) if figure.compared and figure.values[first]]
    if not known:
        return None
    columns: list[tuple[Column, Sequence[TableCell]]] = []
    for figure in known:
        base = figure.values[first] or 0.0
        cells: list[TableCell] = [None if value is None else _PERCENT * (value / base - 1.0) for value in figure.values]
        cells[first] = f"{figure.column.show(base)} {figure.column.unit}".rstrip()
        columns.append((replace(figure.column, unit="%", digits=1, signed=True), cells))
    notes = [
        "Percent of the baseline's figure; the baseline's row has the figures themselves.",
        "An arrow tells which way is better.",
    ]
    more = {"notes": notes, "marked": frozenset({first}), "failed": _failed(points)}
    return _of_points(f"Overhead against {baseline}", points, columns, **more)


def energy_table(points: Sequence[PointResult]) -> NamedTable | None:
    columns = [
        *POINT_COLUMNS,
        *text_columns("workload", "of"),
        Column(name="cycles", digits=0),
        *number_columns(*ENERGY_PARTS, "all", unit="pJ", group="per cycle", digits=2),
        Column(name="all", unit="pJ", group="per MAC", digits=3),
    ]
    wired = any(module.wires for point in points for energy in point.energies for module in energy.modules)
    columns += [Column(name="wires of switching", unit="pJ", group="per cycle", digits=2)] * wired
    rows: list[list[TableCell]] = []
    for at, energy in comparison.numbered(points, "energies"):
        parts = [energy.part_fj(part) / comparison.FJ_PER_PJ for part in ENERGY_PARTS]
        whole = [comparison.per_cycle_pj(energy), comparison.per_mac_pj(energy)]
        whole += [energy.part_fj("wires") / comparison.FJ_PER_PJ] * wired
        rows.append([*at, energy.workload, comparison.netlist_of(energy), energy.cycles, *parts, *whole])
    notes = ["Of: the netlist that was simulated, which is none of those that areas and delays are told of."]
    return NamedTable(title="Energy", columns=columns, rows=rows, notes=notes, lead=3) if rows else None


def path_table(points: Sequence[PointResult]) -> NamedTable | None:
    rows: list[list[TableCell]] = []
    notes = ["Shares of the cells of each module in the delay, in the order in which the path reaches them."]
    for at, flow in comparison.numbered(points, "flows"):
        if path := flow.path:
            others = "".join(f"; {tool}: {delay:.0f} ps" for tool, delay in path.others.items())
            text = f"{path.start} to {path.end}, {path.delay_ps:.0f} ps by {path.tool}, {path.netlist} netlist"
            notes.append(f"{at[0]} {flow.name}: {text}{others}.")
            for stage, instance, steps, share in comparison.path_parts(points[at[0] - 1].top, path):
                shares = share * path.delay_ps, share * _PERCENT
                rows.append([*at, flow.name, stage, instance, len(steps), *shares])
    numbers = (("cells", "", 0), ("delay", "ps", 0), ("share", "%", 1))
    columns = [*POINT_COLUMNS, *text_columns("flow", "stage", "module")]
    columns += [Column(name=name, unit=unit, digits=digits) for name, unit, digits in numbers]
    return NamedTable(title="Critical paths", columns=columns, rows=rows, notes=notes, lead=5) if rows else None


def placement_table(points: Sequence[PointResult]) -> NamedTable | None:
    rows: list[list[TableCell]] = []
    for at, flow in comparison.numbered(points, "flows"):
        if (placed := flow.placement) and flow.path:
            wires = sum(step.wire_ps for step in flow.path.steps) / flow.path.delay_ps * _PERCENT
            size = f"{placed.width_um:.0f} x {placed.height_um:.0f}", placed.utilisation * _PERCENT, placed.wire_mm
            slower = placed.wireless_ps and _PERCENT * (flow.delay_ps / placed.wireless_ps - 1)
            delays = placed.wireless_ps, placed.unsized_ps, flow.delay_ps, slower, wires, *flow.path.others.values()
            clock = [getattr(placed.clock, name, None) for name in ("buffers", "wire_mm", "energy_pj", "skew_ps")]
            rows.append([*at, flow.name, *size, placed.resized, placed.buffers, *clock, *delays])
    tools = dict.fromkeys(tool for point in points for flow in point.flows if flow.path for tool in flow.path.others)
    columns = [*POINT_COLUMNS, *text_columns("flow"), Column(name="core", unit="um")]
    numbers = (("utilisation", "%", 0), ("wires", "mm", 1), ("resized", "", 0), ("buffers", "", 0))
    columns += [Column(name=name, unit=unit, digits=digits) for name, unit, digits in numbers]
    columns += number_columns("cells", "mm", "pJ per cycle", "ps of skew", group="clock tree", digits=1)
    columns += number_columns("no wires", "unsized", "placed", unit="ps", group="delay", digits=0)
    columns += [
        Column(name="slower", unit="%", digits=1, signed=True),
        Column(name="path in wires", unit="%", digits=1),
    ]
    columns += number_columns(*tools, unit="ps", group="delay", digits=0)
    notes = [
        "Of the run with the median delay. No wires: before placement; unsized: with wires, before gates were changed."
    ]
    return NamedTable(title="Placements", columns=columns, rows=rows, notes=notes, lead=3) if rows else None


def rate_table(points: Sequence[PointResult]) -> NamedTable | None:
    rates = comparison.kernel_rates(points)
    if not rates:
        return None
    clock = Column(name="clock", unit="MHz", digits=1, better="more")
    clusters = any(clustered(rate.record) for rate in rates)
    run = "on the cluster" if clusters else "on the back end of the same configuration with ideal memory"
    notes = [
        (
            f"GMAC/s: MAC/cycle of the whole kernel, {run}, times the clock that the named component alone reaches: "
            "one over its delay without clock-to-output and setup times, on an FPGA the median clock after routing."
        ),
        "per mm2: area of the same component, memories only of clusters; pJ/MAC: of the netlist named beside it.",
    ]
    return table_of(
        "Rates, densities and energies",
        rates,
        [
            (Column(name="no.", digits=0), lambda rate: rate.point),
            (Column(name="point"), lambda rate: rate.label),
            (Column(name="kernel"), lambda rate: comparison.kernel_name(rate.record)),
            (Column(name="variant"), lambda rate: str(rate.record["variant"])),
            (Column(name="clock and area of"), lambda rate: f"{rate.top}, {rate.flow.name}"),
            (clock, lambda rate: rate.clock_mhz),
            (Column(name="GMAC/s", digits=3, better="more"), lambda rate: rate.gmacs),
            (Column(name="GMAC/s per mm2", digits=2, better="more"), lambda rate: rate.gmacs_per_mm2),
            (Column(name="pJ/MAC", digits=3, better="less"), lambda rate: comparison.per_mac_pj(rate.energy)),
            (Column(name="energy of"), lambda rate: comparison.netlist_of(rate.energy) if rate.energy else None),
        ],
        notes=notes,
        lead=5,
    )


def _unused(points: Sequence[PointResult], kernel: str) -> str:
    """Return the instructions that points differ in, if a kernel takes the same cycles with and without them."""
    cycles = {record["cycles"] for point in points if (record := comparison.best_record(point, kernel))}
    varied = comparison.parameters(points).items() if len(points) > 1 and len(cycles) == 1 else ()
    return ", ".join(name for name, values in varied if set(values) == {"true", "false"})


def best_table(points: Sequence[PointResult], outside: Mapping[str, Sequence[str]] | None = None) -> NamedTable | None:
    """Return the best points by each figure; those that break a constraint, named by ``outside``, are none of them."""
    broken = {label for labels in (outside or {}).values() for label in labels}
    if len(points) < 2:
        return None
    rows: list[list[TableCell]] = []

    def add(column: Column, values: Mapping[int, float | None]) -> None:
        able = (number for number in values if points[number - 1].label not in broken)
        known = {number: value for number in able if (value := values[number]) is not None}
        if len(known) < 2 or not column.better:
            return
        best, noise = _BEST[column.better](known.values()), _NOISE.get(column.unit or column.name, 0.0)
        far = {number: abs(value - best) for number, value in known.items()}
        holders = [number for number in sorted(far, key=far.__getitem__) if far[number] <= noise * best]
        if len(holders) < len(known):
            names = ", ".join(f"{number} {points[number - 1].label}" for number in holders[:2])
            more = f" and {len(holders) - 2} more" if len(holders) > 2 else ""
            rows.append([column.heading, column.group, f"{column.show(best)} {column.unit}".strip(), names + more])

    tops = list(dict.fromkeys(point.top for point in points))
    for top, figure in product(tops, comparison.figures(points)):
        if figure.compared:
            group = ", ".join([figure.column.group, *([top] if len(tops) > 1 else [])])
            numbers = [number for number, point in enumerate(points, 1) if point.top == top]
            add(replace(figure.column, group=group), {number: figure.values[number - 1] for number in numbers})
    groups: dict[str, list[comparison.KernelRate]] = {}
    for rate in comparison.kernel_rates(points):
        groups.setdefault(f"{comparison.kernel_name(rate.record)}; {rate.top}, {rate.flow.name}", []).append(rate)
    for group, rates in groups.items():
        speed = Column(name="GMAC/s", group=group, digits=3, better="more")
        add(speed, {rate.point: rate.gmacs for rate in rates})
        add(replace(speed, name="GMAC/s per mm2", digits=2), {rate.point: rate.gmacs_per_mm2 for rate in rates})
    notes = ["Points that ABC's order of cells and nets may exchange, 6 % in area and 3 % in delay, share a row."]
    so_far = " so far" * any(point.unfinished for point in points)
    columns = text_columns("figure", "of", "best", "point")
    return NamedTable(title=f"Best points{so_far}", columns=columns, rows=rows, notes=notes) if rows else None


_BEST = {"more": max, "less": min}
_NOISE = {"kGE": 0.06, "ps": 0.03, "FO4": 0.03, "GMAC/s": 0.03, "GMAC/s per mm2": 0.09}
"""By how much two figures of ASIC flows may differ by chance."""


def configuration_table(points: Sequence[PointResult]) -> NamedTable:
    parameters = {name: values for name, values in comparison.parameters(points).items() if len(set(values)) > 1}
    given = {name: [getattr(point, name) for point in points] for name in ("top", "preset", "folder")}
    shown = {"top": given["top"], "preset": given["preset"], **parameters, "folder": given["folder"]}
    columns = [(Column(name=name), cells) for name, cells in shown.items()]
    same = [f"{name} = {values[0]}" for name, values in comparison.parameters(points).items() if len(set(values)) == 1]
    notes = [f"The same in all points: {', '.join(same)}."] if same else []
    return _of_points("Configurations", points, columns, notes=notes)
