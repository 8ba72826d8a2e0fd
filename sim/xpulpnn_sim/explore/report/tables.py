"""Tables of a run, built once as :class:`~xpulpnn_sim.explore.report.named_table.NamedTable` for terminal and HTML."""

from collections.abc import Sequence
from itertools import groupby
from textwrap import wrap

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from xpulpnn_sim.explore.report import comparison
from xpulpnn_sim.explore.report.named_table import Column, NamedTable, RunInfo, TableCell
from xpulpnn_sim.explore.results import FlowResult, PointResult

POINT, ERROR = "point", "error"
"""Names of the columns of labels, and of the reasons why points failed."""

_PERCENT = 100.0

_ERROR_WIDTH = 44
_GROUP_WIDTH = 16
_GAP = 2
"""Characters in the terminal: a line of an error, a line of a group's heading, the space between columns."""


class TerminalTable:
    """A table for a rich console of any width: units and groups in the headings, notes below.

    Columns that do not fit go to further tables below the first, which repeat number and name of the points.
    """

    def __init__(self, table: NamedTable) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Title, tables and notes."""
        yield Text(self._table.title, style="bold")
        for columns in _blocks(self._table, options.max_width):
            yield _block(self._table, columns)
        for note in self._table.notes:
            yield Text(f"* {note}")


def render(table: NamedTable) -> TerminalTable:
    """``table`` for the terminal."""
    return TerminalTable(table)


def _headings(table: NamedTable, column: int) -> list[str]:
    """Lines of a heading without its group."""
    lines = [table.columns[column].name]
    if any(other.unit for other in table.columns):
        unit = table.columns[column].unit
        lines.append(f"[{unit}]" if unit else "")
    return lines


def _group_lines(column: Column) -> list[str]:
    return wrap(column.group, _GROUP_WIDTH, break_long_words=False, break_on_hyphens=False)


def _width(table: NamedTable, column: int) -> int:
    """Characters that a column needs, with the gap after it; errors are folded."""
    heading = table.columns[column]
    cells = [heading.show(row[column]) for row in table.rows]
    if heading.name == ERROR:
        cells = [cell[:_ERROR_WIDTH] for cell in cells]
    return max(map(len, [*_headings(table, column), *_group_lines(heading), *cells])) + _GAP


def _blocks(table: NamedTable, width: int) -> list[list[int]]:
    """Columns of each table: those of a group stay together, the leading ones without a group are repeated."""
    groups = [list(members) for _, members in groupby(range(len(table.columns)), key=lambda i: table.columns[i].group)]
    lead = groups.pop(0) if len(groups) > 1 and not table.columns[0].group else []
    blocks = [list(lead)]
    for group in groups:
        needed = sum(_width(table, column) for column in (*blocks[-1], *group))
        if needed > width and len(blocks[-1]) > len(lead):
            blocks.append(list(lead))
        blocks[-1] += group
    return blocks


def _block(table: NamedTable, columns: Sequence[int]) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    above = max(len(_group_lines(table.columns[i])) for i in columns)
    previous = ""
    for i in columns:
        column = table.columns[i]
        group = _group_lines(column) if column.group != previous else []
        previous = column.group
        error = column.name == ERROR
        shown.add_column(
            Text("\n".join([*group, *[""] * (above - len(group)), *_headings(table, i)])),
            justify="left" if column.digits is None else "right",
            no_wrap=not error,
            overflow="fold",
            max_width=_ERROR_WIDTH if error else None,
        )
    for number, row in enumerate(table.rows):
        style = "bold" if number in table.marked else "red" if number in table.failed else ""
        shown.add_row(*(Text(table.columns[i].show(row[i])) for i in columns), style=style)
    return shown


def main_table(points: Sequence[PointResult], info: RunInfo) -> TerminalTable:
    """All figures of all points, for the terminal; a point that failed is a row with its error."""
    return render(figures(points, info))


def overhead_table(points: Sequence[PointResult], info: RunInfo) -> TerminalTable | None:
    """Every figure relative to the baseline, for the terminal; None without a baseline that has figures."""
    table = overheads(points, info)
    return None if table is None else render(table)


def _flow_columns(name: str, *, fpga: bool) -> list[Column]:
    if fpga:
        return [
            Column(name="LUT", group=name, digits=0),
            Column(name="FF", group=name, digits=0),
            Column(name="DSP", group=name, digits=0),
            Column(name="fmax", unit="MHz", group=name, digits=1),
        ]
    return [
        Column(name="area", unit="kGE", group=name, digits=2),
        Column(name="delay", unit="FO4", group=name, digits=1),
        Column(name="delay", unit="ps", group=name, digits=0),
    ]


def _flow_cells(flow: FlowResult | None, *, fpga: bool) -> list[TableCell]:
    if fpga:
        return [None] * 4 if flow is None else [flow.luts, flow.flip_flops, flow.dsps, comparison.fmax(flow)]
    return [None] * 3 if flow is None else [flow.area_kge, flow.delay_fo4, flow.delay_ps]


def _kernel_cells(point: PointResult, kernel: str) -> list[TableCell]:
    record = comparison.best_record(point, kernel)
    return [None, None] if record is None else [record["macs_per_cycle"], record.get("cycles_per_sdotp")]


def _energy_cells(point: PointResult, workload: str) -> list[TableCell]:
    energy = comparison.best_energy(point, workload)
    return [comparison.per_cycle_pj(energy), comparison.per_mac_pj(energy)]


def _marked(points: Sequence[PointResult], info: RunInfo) -> frozenset[int]:
    return frozenset(number for number, point in enumerate(points) if info.baseline and point.label == info.baseline)


def _failed(points: Sequence[PointResult]) -> frozenset[int]:
    return frozenset(number for number, point in enumerate(points) if point.error)


def figures(points: Sequence[PointResult], info: RunInfo) -> NamedTable:
    """All figures of all points; of several variants of a kernel the fastest one counts."""
    flows, kernels, workloads = (
        comparison.flow_names(points),
        comparison.kernel_names(points),
        comparison.workload_names(points),
    )
    fpga = comparison.fpga_flows(points)
    columns = [Column(name="no.", digits=0), Column(name=POINT)]
    failed = _failed(points)
    if failed:
        columns.append(Column(name=ERROR, group="failed"))
    for name in flows:
        columns += _flow_columns(name, fpga=name in fpga)
    for name in kernels:
        columns.append(Column(name="MAC/cycle", group=name, digits=2))
        columns.append(Column(name="cycles/sdotp", group=name, digits=3))
    for name in workloads:
        columns.append(Column(name="per cycle", unit="pJ", group=f"energy, {name}", digits=2))
        columns.append(Column(name="per MAC", unit="pJ", group=f"energy, {name}", digits=3))
    rows: list[list[TableCell]] = []
    for number, point in enumerate(points, 1):
        row: list[TableCell] = [number, point.label]
        if failed:
            row.append(point.error)
        for name in flows:
            row += _flow_cells(comparison.flow_of(point, name), fpga=name in fpga)
        for name in kernels:
            row += _kernel_cells(point, name)
        for name in workloads:
            row += _energy_cells(point, name)
        rows.append(row)
    empty = {i for i, column in enumerate(columns) if column.name == "per MAC" and all(row[i] is None for row in rows)}
    notes = []
    if kernels:
        notes.append("MAC/cycle: whole kernel; cycles/sdotp: MatMul alone; fastest variant that the point ran.")
    if fpga:
        notes.append("fmax: median over the placement seeds.")
    return NamedTable(
        title="Figures of all points",
        columns=[column for i, column in enumerate(columns) if i not in empty],
        rows=[[cell for i, cell in enumerate(row) if i not in empty] for row in rows],
        notes=notes,
        marked=_marked(points, info),
        failed=failed,
    )


def _comparable(point: PointResult, points: Sequence[PointResult]) -> list[tuple[Column, float | None]]:
    """Figures of ``point`` that overheads are told of, in an order that depends on ``points`` only."""
    found: list[tuple[Column, float | None]] = []
    fpga = comparison.fpga_flows(points)
    for name in comparison.flow_names(points):
        flow = comparison.flow_of(point, name)
        if name in fpga:
            found.append((Column(name="LUT", group=name, digits=0), flow and flow.luts))
            found.append((Column(name="FF", group=name, digits=0), flow and flow.flip_flops))
            found.append((Column(name="fmax", unit="MHz", group=name, digits=1), flow and comparison.fmax(flow)))
        else:
            found.append((Column(name="area", unit="kGE", group=name, digits=2), comparison.size(flow)))
            found.append((Column(name="delay", unit="FO4", group=name, digits=1), comparison.delay(flow)))
    for name in comparison.kernel_names(points):
        record = comparison.best_record(point, name)
        rate = None if record is None else record["macs_per_cycle"]
        found.append((Column(name="MAC/cycle", group=name, digits=2), rate))
    for name in comparison.workload_names(points):
        energy = comparison.best_energy(point, name)
        group = f"energy, {name}"
        found.append((Column(name="per cycle", unit="pJ", group=group, digits=2), comparison.per_cycle_pj(energy)))
        found.append((Column(name="per MAC", unit="pJ", group=group, digits=3), comparison.per_mac_pj(energy)))
    return found


def overheads(points: Sequence[PointResult], info: RunInfo) -> NamedTable | None:
    """Every figure in percent of the baseline's; None unless the baseline and another point have figures."""
    baseline = next((point for point in points if info.baseline and point.label == info.baseline), None)
    if baseline is None or len(points) < 2:
        return None
    reference = _comparable(baseline, points)
    known = [i for i, (_, value) in enumerate(reference) if value]
    if not known:
        return None
    columns = [Column(name="no.", digits=0), Column(name=POINT)]
    columns += [
        Column(name=reference[i][0].name, unit="%", group=reference[i][0].group, digits=1, signed=True) for i in known
    ]
    rows: list[list[TableCell]] = []
    for number, point in enumerate(points, 1):
        row: list[TableCell] = [number, point.label]
        ours = _comparable(point, points)
        for i in known:
            column, base = reference[i]
            value = ours[i][1]
            if point is baseline:
                row.append(f"{column.show(base)} {column.unit}".rstrip())
            else:
                row.append(None if value is None or not base else _PERCENT * (value / base - 1.0))
        rows.append(row)
    return NamedTable(
        title=f"Overhead against {info.baseline}",
        columns=columns,
        rows=rows,
        notes=[
            "Percent of the baseline's figure; the baseline's row has the figures themselves.",
            "More is better for MAC/cycle and fmax, less for everything else.",
        ],
        marked=_marked(points, info),
        failed=_failed(points),
    )


def kernel_table(points: Sequence[PointResult]) -> NamedTable | None:
    """Every kernel that ran, with its cycles and mismatches; None if there is none."""
    columns = [
        Column(name="no.", digits=0),
        Column(name=POINT),
        Column(name="kernel"),
        Column(name="layer"),
        Column(name="bits", digits=0),
        Column(name="variant"),
        Column(name="engine"),
        Column(name="cycles", digits=0),
        Column(name="cycles/sdotp", digits=3),
        Column(name="MAC/cycle", digits=2),
        Column(name="mismatches", digits=0),
    ]
    fields = ("kernel", "layer", "bits", "variant", "engine", "cycles", "cycles_per_sdotp", "macs_per_cycle")
    rows: list[list[TableCell]] = [
        [number, point.label, *(record.get(name) for name in fields), record.get("mismatches")]
        for number, point in enumerate(points, 1)
        for record in point.kernels
    ]
    wrong = frozenset(i for i, row in enumerate(rows) if row[-1])
    notes = ["cycles and MAC/cycle: whole kernel; cycles/sdotp: MatMul alone, without im2col and quantisation."]
    return NamedTable(title="Kernels", columns=columns, rows=rows, notes=notes, failed=wrong) if rows else None


def energy_table(points: Sequence[PointResult]) -> NamedTable | None:
    """Every workload of every point with the parts of its energy; None if there is none."""
    columns = [
        Column(name="no.", digits=0),
        Column(name=POINT),
        Column(name="workload"),
        Column(name="netlist"),
        Column(name="cycles", digits=0),
        *(Column(name=name, unit="pJ", group="per cycle", digits=2) for name in ("switching", "internal")),
        *(Column(name=name, unit="pJ", group="per cycle", digits=2) for name in ("clock", "leakage", "all")),
        Column(name="all", unit="pJ", group="per MAC", digits=3),
    ]
    rows: list[list[TableCell]] = []
    for number, point in enumerate(points, 1):
        for energy in point.energies:
            parts = [
                sum(getattr(module, part) for module in energy.modules) / comparison.FJ_PER_PJ
                for part in ("switching", "internal", "clock", "leakage")
            ]
            whole = [comparison.per_cycle_pj(energy), comparison.per_mac_pj(energy)]
            rows.append([number, point.label, energy.workload, energy.top, energy.cycles, *parts, *whole])
    return NamedTable(title="Energy", columns=columns, rows=rows) if rows else None


def fpga_table(points: Sequence[PointResult]) -> NamedTable | None:
    """Resources and clock over the seeds of every FPGA result; None if there is none."""
    columns = [
        Column(name="no.", digits=0),
        Column(name=POINT),
        Column(name="flow"),
        *(Column(name=name, digits=0) for name in ("LUT", "FF", "DSP", "BRAM")),
        *(Column(name=name, unit="MHz", group="fmax", digits=1) for name in ("min", "median", "max")),
        Column(name="each seed", unit="MHz", group="fmax"),
    ]
    rows: list[list[TableCell]] = []
    for number, point in enumerate(points, 1):
        for flow in filter(comparison.is_fpga, point.flows):
            clocks = flow.fmax_mhz
            spread: list[TableCell] = [min(clocks), comparison.fmax(flow), max(clocks)] if clocks else [None] * 3
            each = ", ".join(f"{clock:.1f}" for clock in clocks)
            rows.append(
                [number, point.label, flow.name, flow.luts, flow.flip_flops, flow.dsps, flow.brams, *spread, each]
            )
    return NamedTable(title="FPGA", columns=columns, rows=rows) if rows else None


def configuration_table(points: Sequence[PointResult]) -> NamedTable:
    """Parameters that differ between the points, as echoed from the emitted Verilog."""
    parameters = {name: found for name, found in comparison.parameters(points).items() if len(set(found)) > 1}
    columns = [Column(name="no.", digits=0), Column(name=POINT), Column(name="top"), Column(name="preset")]
    columns += [Column(name=name) for name in parameters]
    columns.append(Column(name="folder"))
    rows: list[list[TableCell]] = [
        [
            number + 1,
            point.label,
            point.top,
            point.preset,
            *(found[number] for found in parameters.values()),
            point.folder,
        ]
        for number, point in enumerate(points)
    ]
    same = [f"{name} = {found[0]}" for name, found in comparison.parameters(points).items() if len(set(found)) == 1]
    notes = [f"The same in all points: {', '.join(same)}."] if same else []
    return NamedTable(title="Configurations", columns=columns, rows=rows, notes=notes)
