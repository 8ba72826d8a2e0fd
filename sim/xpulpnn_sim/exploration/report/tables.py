"""Tables of a run, for terminal and HTML alike."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from xpulpnn_sim.exploration.library import NO_TECHNOLOGY
from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.report.headlines import netlist_of
from xpulpnn_sim.exploration.results import ENERGY_PARTS, PointResult
from xpulpnn_sim.tools.named_table import ERROR, POINT, Column, NamedTable, TableCell

_PERCENT = 100.0
_PS_PER_NS = 1000.0
_LEAD = [Column(name="no.", digits=0), Column(name=POINT)]  # columns that every table of points begins with


def _failed(points: Sequence[PointResult]) -> frozenset[int]:
    return frozenset(number for number, point in enumerate(points) if point.failed)


def _of_points(
    title: str, points: Sequence[PointResult], columns: Iterable[tuple[Column, Sequence[TableCell]]], **more: Any
) -> NamedTable:
    """A table with a row for each point, from headings and cells of its columns."""
    lead = zip(_LEAD, (range(1, len(points) + 1), [point.label for point in points]), strict=True)
    headings, cells = zip(*lead, *columns, strict=True)
    rows = list(zip(*cells, strict=True))
    return NamedTable(title=title, columns=headings, rows=rows, lead=len(_LEAD), **more)


def figure_table(points: Sequence[PointResult], baseline: str) -> NamedTable:
    """All figures of all points; of several variants of a kernel the fastest one counts."""
    found, failed = comparison.figures(points), _failed(points)
    notes = [f"{number} {point.label}: {point.error}." for number, point in enumerate(points, 1) if point.unfinished]
    notes.append("An arrow tells which way is better.")
    if any(figure.spreads for figure in found):
        notes.append("Medians; min..max: over the runs of each mapping, or the placements of an FPGA.")
    notes += _slack_notes(points)
    flows = [flow for point in points for flow in point.flows if flow.structures]
    told = {flow.name: ", ".join(f"{key}={value}" for key, value in flow.structures.items()) for flow in flows}
    notes += [f"{name}: figures with {text}, whatever the preset has." for name, text in told.items()]
    notes += _energy_notes(points)
    kernels = comparison.kernel_names(points)
    if kernels:
        notes.append("MAC/cycle: whole kernel; cycles/sdotp: MatMul alone; fastest variant that the point ran.")
    if comparison.fpga_flows(points):
        notes.append("fmax: median over the placement seeds.")
    columns: list[tuple[Column, Sequence[TableCell]]] = []
    if failed:
        columns.append((Column(name=ERROR, group="failed"), [point.error * point.failed for point in points]))
    for figure in found:
        if figure.column.group in kernels and figure.column.name == comparison.RATE:
            records = [comparison.best_record(point, figure.column.group) or {} for point in points]
            columns.append((Column(name="variant", group=figure.column.group), [one.get("variant") for one in records]))
        columns.append((figure.column, figure.values))
        if figure.spreads:
            column, show = replace(figure.column, name="min..max", digits=None, better=""), figure.column.show
            columns.append((column, [spread and "..".join(map(show, spread)) for spread in figure.spreads]))
    marked = frozenset(number for number, point in enumerate(points) if point.label == baseline)
    return _of_points("Figures of all points", points, columns, notes=notes, marked=marked, failed=failed)


def _slack_notes(points: Sequence[PointResult]) -> list[str]:
    """Count the points that meet the clock that was asked for, by flow."""
    notes: list[str] = []
    for name in comparison.flow_names(points):
        flows = [comparison.flow_of(point, name) for point in points]
        slacks = [(number, flow.slack_ps, flow.clock_ps) for number, flow in enumerate(flows, 1) if flow]
        asked = {clock for _, slack, clock in slacks if slack is not None and clock is not None}
        if asked:
            met = [str(number) for number, slack, _ in slacks if slack is not None and slack >= 0]
            missed = [str(number) for number, slack, _ in slacks if slack is not None and slack < 0]
            parts = [f"{word} by {', '.join(those)}" for word, those in (("met", met), ("missed", missed)) if those]
            clocks = ", ".join(f"{clock / _PS_PER_NS:g} ns" for clock in sorted(asked))
            notes.append(f"{name}: clock of {clocks} {'; '.join(parts)}.")
    return notes


def _energy_notes(points: Sequence[PointResult]) -> list[str]:
    """Name the netlists of the energies."""
    netlists: dict[str, dict[str, None]] = {}
    for number, point in enumerate(points, 1):
        for energy in point.energies:
            netlists.setdefault(energy.method, {})[f"{number} {netlist_of(energy)}"] = None
    notes = [
        f"Energies: of netlists of their own ({method}): {'; '.join(listed)}."
        for method, listed in netlists.items()
        if method
    ]
    estimated = any(NO_TECHNOLOGY in energy.conditions for point in points for energy in point.energies)
    return [NO_TECHNOLOGY, *notes] if estimated else notes


def overhead_table(points: Sequence[PointResult], baseline: str) -> NamedTable | None:
    """Every figure in percent of the baseline's; None unless the baseline and another point have figures."""
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


def kernel_table(points: Sequence[PointResult]) -> NamedTable | None:
    """Every kernel that ran, with its cycles and mismatches; None if there is none."""
    columns = [
        *_LEAD,
        *(Column(name=name) for name in ("kernel", "layer")),
        Column(name="bits", digits=0),
        *(Column(name=name) for name in ("variant", "engine")),
        Column(name="cycles", digits=0),
        Column(name="cycles/sdotp", digits=3),
        Column(name="MAC/cycle", digits=2),
        Column(name="mismatches", digits=0),
    ]
    fields = ("kernel", "layer", "bits", "variant", "engine", "cycles", "cycles_per_sdotp", "macs_per_cycle")
    names = (*fields, "mismatches")
    rows: list[list[TableCell]] = [
        [number, point.label, *map(record.get, names)]
        for number, point in enumerate(points, 1)
        for record in point.kernels
    ]
    wrong = frozenset(i for i, row in enumerate(rows) if row[-1])
    notes = ["cycles and MAC/cycle: whole kernel; cycles/sdotp: MatMul alone, without im2col and quantisation."]
    return NamedTable(title="Kernels", columns=columns, rows=rows, notes=notes, lead=6, failed=wrong) if rows else None


def energy_table(points: Sequence[PointResult]) -> NamedTable | None:
    """Every workload of every point with the parts of its energy; None if there is none."""
    columns = [
        *_LEAD,
        *(Column(name=name) for name in ("workload", "of")),
        Column(name="cycles", digits=0),
        *(Column(name=name, unit="pJ", group="per cycle", digits=2) for name in (*ENERGY_PARTS, "all")),
        Column(name="all", unit="pJ", group="per MAC", digits=3),
    ]
    rows: list[list[TableCell]] = []
    for number, point in enumerate(points, 1):
        for energy in point.energies:
            parts = [energy.part_fj(part) / comparison.FJ_PER_PJ for part in ENERGY_PARTS]
            whole = [comparison.per_cycle_pj(energy), comparison.per_mac_pj(energy)]
            netlist = netlist_of(energy)
            rows.append([number, point.label, energy.workload, netlist, energy.cycles, *parts, *whole])
    methods = dict.fromkeys(energy.method for point in points for energy in point.energies if energy.method)
    notes = [
        f"Of: the netlist that was simulated, which is not one of those that areas and delays are told of: {method}."
        for method in methods
    ]
    return NamedTable(title="Energy", columns=columns, rows=rows, notes=notes, lead=3) if rows else None


def fpga_table(points: Sequence[PointResult]) -> NamedTable | None:
    """Resources and clock over the seeds of every FPGA result; None if there is none."""
    columns = [
        *_LEAD,
        Column(name="flow"),
        *(Column(name=name, digits=0) for name in ("LUT", "FF", "DSP", "BRAM")),
        *(Column(name=name, unit="MHz", group="fmax", digits=1) for name in ("min", "median", "max")),
        Column(name="each seed", unit="MHz", group="fmax"),
    ]
    rows: list[list[TableCell]] = []
    for number, point in enumerate(points, 1):
        for flow in (flow for flow in point.flows if flow.is_fpga):
            clocks = flow.fmax_mhz
            spread: list[TableCell] = [min(clocks), flow.fmax, max(clocks)] if clocks else [None] * 3
            each = ", ".join(f"{clock:.1f}" for clock in clocks)
            counts = [flow.luts, flow.flip_flops, flow.dsps, flow.brams]
            rows.append([number, point.label, flow.name, *counts, *spread, each])
    return NamedTable(title="FPGA", columns=columns, rows=rows) if rows else None


def configuration_table(points: Sequence[PointResult]) -> NamedTable:
    """Parameters that differ between the points, as echoed from the emitted Verilog."""
    parameters = {name: found for name, found in comparison.parameters(points).items() if len(set(found)) > 1}
    given = {name: [getattr(point, name) for point in points] for name in ("top", "preset", "folder")}
    shown = {"top": given["top"], "preset": given["preset"], **parameters, "folder": given["folder"]}
    columns = [(Column(name=name), cells) for name, cells in shown.items()]
    same = [f"{name} = {found[0]}" for name, found in comparison.parameters(points).items() if len(set(found)) == 1]
    notes = [f"The same in all points: {', '.join(same)}."] if same else []
    return _of_points("Configurations", points, columns, notes=notes)
