"""Rates of a design with a kernel, in the units of data sheets, and the best point by each figure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.report.scaling import clustered
from xpulpnn_sim.exploration.results import EnergyResult, FlowResult, PointResult
from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell

_PS_GHZ = 1000.0  # Picoseconds times gigahertz in one cycle

_UM2_PER_MM2 = 1e6
_MHZ_PER_GHZ = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
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
        if comparison.is_fpga(self.flow):
            return (comparison.fmax(self.flow) or 0.0) / _MHZ_PER_GHZ
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


def _technology(flow: FlowResult) -> bool:
    """Return whether the delays are those of something that can be built."""
    return comparison.is_fpga(flow) or flow.area_um2 is not None


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
            found += [
                Headline(
                    point=number,
                    label=point.label,
                    top=point.top,
                    flow=flow,
                    record=record,
                    energy=None if comparison.is_fpga(flow) else energy,
                )
                for flow in point.flows
                if _technology(flow) and flow.delay_ps
            ]
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
    return NamedTable(title="Rates, densities and energies", columns=columns, rows=rows, notes=notes)


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
        those = [number for number, point in enumerate(points) if point.top == top]
        where = [(number + 1, points[number].label) for number in those]
        told = ", ".join([figure.column.group, *([top] if len(tops) > 1 else [])])
        if figure.compared:
            column = replace(figure.column, group=told)
            add(column, [figure.values[number] for number in those], where)
    found = headlines(points)
    for group in dict.fromkeys((comparison.kernel_name(one.record), one.flow.name, one.top) for one in found):
        kernel, flow, top = group
        rates = [one for one in found if (comparison.kernel_name(one.record), one.flow.name, one.top) == group]
        where = [(one.point, one.label) for one in rates]
        told = f"{kernel}; {top}, {flow}"
        for name, digits, values in (
            ("GMAC/s", 3, [one.gmacs for one in rates]),
            ("GMAC/s per mm2", 2, [one.gmacs_per_mm2 for one in rates]),
        ):
            add(Column(name=name, group=told, digits=digits, better="more"), values, where)
    if not rows:
        return None
    columns = [Column(name="figure"), Column(name="of"), Column(name="best"), Column(name="point")]
    return NamedTable(title="Best points", columns=columns, rows=rows)
