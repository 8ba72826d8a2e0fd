"""Results of all points side by side: one value for each flow, kernel or workload of each point."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from xpulpnn_sim.exploration.report.cluster_plots import clustered
from xpulpnn_sim.exploration.results import (
    PERIOD_NS,
    CornerResult,
    CriticalPath,
    EnergyResult,
    FlowResult,
    PathStep,
    PointResult,
    Spread,
    spread,
)
from xpulpnn_sim.tools.component_names import ARITHMETIC_UNITS
from xpulpnn_sim.tools.named_table import POINT, Column
from xpulpnn_sw.kernels.variants import VARIANTS

FJ_PER_PJ = 1000.0
_WRAPPERS = re.compile(r"(core|cluster)\d*|backend")
_PS_PER_NS = 1000.0
RATE = "MAC/cycle"
POINT_COLUMNS = (Column(name="no.", digits=0), Column(name=POINT))  # first in every table of points


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedConditions:
    """Tools and conditions of several results; a sentence that holds only for some points names them."""

    name: str
    tools: list[str]
    sentences: list[str]


def numbered(points: Sequence[PointResult], name: str) -> Iterator[tuple[tuple[int, str], Any]]:
    """Yield number and label of the point, and the result, for each of the results called ``name``."""
    for number, point in enumerate(points, 1):
        yield from (((number, point.label), result) for result in getattr(point, name))


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def flow_names(points: Sequence[PointResult]) -> list[str]:
    return _unique(flow.name for point in points for flow in point.flows)


def flow_of(point: PointResult, name: str) -> FlowResult | None:
    return next((flow for flow in point.flows if flow.name == name), None)


def corners_of(points: Sequence[PointResult], name: str) -> dict[str, list[CornerResult | None]]:
    """Return the results of all points by flow, or by flow and corner if there are several corners."""
    flows = [flow_of(point, name) for point in points]
    at = [{corner.corner: corner for corner in flow.corners} if flow else {} for flow in flows]
    corners = _unique(corner for known in at for corner in known)
    return {
        f"{name}, {corner}" if len(corners) > 1 else name: [known.get(corner) for known in at] for corner in corners
    }


def clock_verdicts(points: Sequence[PointResult]) -> list[dict[str, Any]]:
    """Return which points meet the clock that was asked for, by flow and corner."""
    verdicts: dict[tuple[str, float], dict[str, list[str]]] = {}
    for name in flow_names(points):
        for group, corners in corners_of(points, name).items():
            for point, corner in zip(points, corners, strict=True):
                if corner and corner.clock_ps and corner.slack_ps is not None:
                    verdict = verdicts.setdefault((group, corner.clock_ps / _PS_PER_NS), {"met": [], "missed": []})
                    verdict["met" if corner.slack_ps >= 0 else "missed"].append(point.label)
    return [{"of": group, "clock_ns": clock, **verdict} for (group, clock), verdict in verdicts.items()]


def path_parts(top: str, path: CriticalPath) -> Iterator[tuple[str, str, list[PathStep], float]]:
    """Yield stage or part of the core, instance, cells and share of the delay of what a path runs through."""
    for instance in _unique(step.instance for step in path.steps):
        names = [top.replace("-", "_"), *filter(None, instance.split("."))]
        below = [name for name in names[1:] if not _WRAPPERS.fullmatch(name)]
        stages = [name for name in names if name.endswith("_stage")] or below[:1] or names
        steps = [step for step in path.steps if step.instance == instance]
        share = sum(step.delay_ps for step in steps) / (path.delay_ps or 1.0)
        yield stages[-1], instance or names[0], steps, share


def pick(results: Iterable[CornerResult | None], figure: str) -> list[Any]:
    return [getattr(result, figure, None) for result in results]


def fpga_flows(points: Sequence[PointResult]) -> set[str]:
    return {flow.name for point in points for flow in point.flows if flow.is_fpga}


def kernel_name(record: dict[str, Any]) -> str:
    return f"{record['kernel']} {record['layer']} {record['bits']} bit"


def kernel_names(points: Sequence[PointResult]) -> list[str]:
    return _unique(kernel_name(record) for point in points for record in point.kernels)


def best_record(point: PointResult, kernel: str) -> dict[str, Any] | None:
    records = [record for record in point.kernels if kernel_name(record) == kernel]
    return max(records, key=lambda record: record["macs_per_cycle"] or 0.0, default=None)


def without_variant(workload: str) -> str:
    """Remove the kernel variant from a workload's name, so that points with different variants can be compared."""
    parts = re.split(r"([\s:,/]+)", workload)
    retained = [
        (parts[i - 1] if i else "", part) for i, part in enumerate(parts) if i % 2 == 0 and part not in VARIANTS
    ]
    return "".join(separator + part for separator, part in retained).strip(" :,/") or workload


def workload_names(points: Sequence[PointResult]) -> list[str]:
    results = [energy for point in points for energy in point.energies]
    with_macs = [without_variant(energy.workload) for energy in results if energy.energy_per_mac_fj is not None]
    return _unique([*with_macs, *(without_variant(energy.workload) for energy in results)])


def best_energy(point: PointResult, workload: str) -> EnergyResult | None:
    """Return the variant that needs least energy per multiply-accumulate, or per cycle in general code."""
    results = [energy for energy in point.energies if without_variant(energy.workload) == workload]
    return min(results, key=lambda energy: energy.energy_per_mac_fj or energy.energy_per_cycle_fj, default=None)


def per_mac_pj(energy: EnergyResult | None) -> float | None:
    return None if energy is None or energy.energy_per_mac_fj is None else energy.energy_per_mac_fj / FJ_PER_PJ


def per_cycle_pj(energy: EnergyResult | None) -> float | None:
    return None if energy is None else energy.energy_per_cycle_fj / FJ_PER_PJ


def power_mw(point: PointResult, energy: EnergyResult | None) -> float | None:
    """Return the power of a workload at the clock that was asked for, else at the best one of the point."""
    flows = [(flow.clock_ps, clock) for flow in point.flows if (clock := flow.clock_mhz)]
    clocks = [1e6 / asked_ps if asked_ps else clock for asked_ps, clock in flows]
    if energy is None or not clocks:
        return None
    leakage_fj = energy.part_fj("leakage")
    return 1e-6 * (energy.energy_per_cycle_fj - leakage_fj) * max(clocks) + 1e-3 * leakage_fj / PERIOD_NS


def kernel_conditions(record: Mapping[str, Any]) -> str:
    simulated = "Adders and shifters are simulated as plain operators, in the same cycles."
    if not clustered(record):
        return f"On the RTL, results checked, ideal memory. {simulated}"
    fetches = "second pass, with the code in the caches" if record["icache"] else "instructions fetched without delay"
    return (
        f"On the RTL, results checked, on all cores of each cluster with its banks, {fetches}, memory outside answers "
        f"after {record['l2_latency']} cycles. {simulated}"
    )


@dataclass(frozen=True, slots=True)
class Figure:
    column: Column
    values: list[float | None]
    compared: bool  # if overheads and best points are shown
    # smallest and largest of several runs, by point; empty if no point has several
    spreads: list[Spread | None] = field(default_factory=list[Spread | None])


def figures(points: Sequence[PointResult]) -> list[Figure]:
    known: list[Figure] = []

    def add(
        name: str,
        unit: str,
        group: str,
        digits: int,
        values: Iterable[float | None],
        *,
        compared: bool = True,
        spreads: Iterable[Spread | None] = (),
        **more: Any,
    ) -> None:
        column = Column(name=name, unit=unit, group=group, digits=digits, **{"better": "less", **more})
        listed = list(spreads)
        known.append(Figure(column, list(values), compared, listed if any(listed) else []))

    fpga = fpga_flows(points)
    for name in flow_names(points):
        flows = [flow_of(point, name) for point in points]
        if name in fpga:
            for heading, figure in (("LUT", "luts"), ("FF", "flip_flops"), ("DSP", "dsps"), ("BRAM", "brams")):
                add(heading, "", name, 0, pick(flows, figure), compared=heading in ("LUT", "FF"))
            clocks = [spread(flow.fmax_mhz) if flow else None for flow in flows]
            add("fmax", "MHz", name, 1, pick(flows, "fmax"), better="more", spreads=clocks)
        else:
            add("area", "kGE", name, 2, pick(flows, "size"), spreads=pick(flows, "size_spread"))
            add("delay", "FO4", name, 1, pick(flows, "delay"), spreads=pick(flows, "delay_spread"))
            if any(pick(flows, "grant")):
                add("grant path", "FO4", name, 1, pick(flows, "grant_fo4"))
        for group, corners in corners_of(points, name).items():
            if name not in fpga:
                add("delay", "ps", group, 0, pick(corners, "delay_ps"), compared=False)
            if any(pick(corners, "clock_mhz")):
                add("clock", "MHz", group, 0, pick(corners, "clock_mhz"), better="more", compared=False)
                add("leakage", "uW", group, 1, pick(corners, "leakage_uw"), compared=False)
            if any(pick(corners, "clock_ps")):
                slacks = pick(corners, "slack_ps")
                add("slack", "ps", group, 0, slacks, better="more", compared=False, signed=True)
    for name in kernel_names(points):
        records = [best_record(point, name) or {} for point in points]
        add(RATE, "", name, 2, (record.get("macs_per_cycle") for record in records), better="more")
        add("cycles/sdotp", "", name, 3, (record.get("cycles_per_sdotp") for record in records), compared=False)
    for name in workload_names(points):
        energies = [best_energy(point, name) for point in points]
        has_macs = any(energy and energy.energy_per_mac_fj is not None for energy in energies)
        # more energy per cycle is no loss if the kernel does more in it
        better = "" if has_macs else "less"
        add("per cycle", "pJ", f"energy, {name}", 2, map(per_cycle_pj, energies), better=better)
        if has_macs:
            add("per MAC", "pJ", f"energy, {name}", 3, map(per_mac_pj, energies))
        powers = [power_mw(point, energy) for point, energy in zip(points, energies, strict=True)]
        if any(powers):
            add("power", "mW", f"energy, {name}", 2, powers, better=better, compared=False)
    return known


_UM2_PER_MM2 = 1e6
_MHZ_PER_GHZ = 1000.0


@dataclass(frozen=True, slots=True)
class KernelRate:
    point: int  # number of the point, from 1
    label: str
    top: str
    flow: FlowResult  # source of clock and area
    record: dict[str, object]  # cycles of the kernel on the back end of the same configuration, or on the cluster
    energy: EnergyResult | None  # of the same kernel, if estimated; None for FPGA flows

    @property
    def clock_mhz(self) -> float:
        """Return the inverse of the longest path; for an FPGA the median clock after routing."""
        if self.flow.is_fpga:
            return self.flow.fmax or 0.0
        return 1e6 / self.flow.delay_ps if self.flow.delay_ps else 0.0

    @property
    def gmacs(self) -> float:
        rate = self.record["macs_per_cycle"]
        return self.clock_mhz / _MHZ_PER_GHZ * rate if isinstance(rate, int | float) else 0.0

    @property
    def gmacs_per_mm2(self) -> float | None:
        return self.gmacs * _UM2_PER_MM2 / self.flow.area_um2 if self.flow.area_um2 else None


def kernel_rates(points: Sequence[PointResult]) -> list[KernelRate]:
    """Return the rate of the fastest variant of each kernel, for each point and each flow with physical delays."""
    rates: list[KernelRate] = []
    for (number, point), name in product(enumerate(points, 1), kernel_names(points)):
        record = best_record(point, name)
        if record is None or record.get("mismatches") or point.top in ARITHMETIC_UNITS:
            continue
        workload = "{kernel}:{bits}:{variant}:{layer}".format(**record)
        energy = next((energy for energy in point.energies if energy.workload == workload), None)
        for flow in point.flows:
            # delays of the built-in library are not physical
            if flow.delay_ps and (flow.is_fpga or flow.area_um2 is not None):
                energy_shown = None if flow.is_fpga else energy
                rates.append(KernelRate(number, point.label, point.top, flow, record, energy_shown))
    return rates


def netlist_of(energy: EnergyResult) -> str:
    area = "" if energy.area_kge is None else f", {energy.area_kge:.2f} kGE"
    return f"{energy.top}{area}"


def _flatten(values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple | set | frozenset):
            flat[prefix + key] = ",".join(map(str, value))
        else:
            flat[prefix + key] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat


def parameters(points: Sequence[PointResult]) -> dict[str, list[str]]:
    flat = [_flatten(point.configuration) for point in points]
    names = _unique(name for values in flat for name in values)
    return {name: [values.get(name, "-") for values in flat] for name in names}


def varying(points: Sequence[PointResult]) -> dict[str, list[str]]:
    varied = {"preset": [point.preset for point in points], "top": [point.top for point in points]}
    known = parameters(points)
    for key in _unique(key for point in points for key in point.settings):
        echoed = known.get(key) or next((known[name] for name in known if name.endswith(f".{key}")), None)
        varied[key] = [
            point.settings.get(key, echoed[number] if echoed else "-") for number, point in enumerate(points)
        ]
    return {name: values for name, values in varied.items() if len(set(values)) > 1}


def front(xs: Sequence[float | None], ys: Sequence[float | None], *, more_x: bool) -> list[int]:
    """Return the Pareto-optimal points by ascending ``x``; ``y`` is to be small, ``x`` too unless ``more_x``."""
    pairs = enumerate(zip(xs, ys, strict=True))
    known = [(x, y, number) for number, (x, y) in pairs if x is not None and y is not None]
    known.sort(key=lambda item: (-item[0] if more_x else item[0], item[1]))
    numbers: list[int] = []
    least = float("inf")
    for _, y, number in known:
        if y < least:
            least = y
            numbers.append(number)
    return numbers[::-1] if more_x else numbers


def _collect(name: str, holders: Sequence[tuple[tuple[int, str], FlowResult | EnergyResult]]) -> SharedConditions:
    all_points = {number for (number, _), _ in holders}

    def show(texts: Iterable[tuple[str, int]]) -> list[str]:
        owners: dict[str, set[int]] = {}
        for text, number in texts:
            owners.setdefault(text, set()).add(number)
        return [text if numbers == all_points else f"{text} ({_points(numbers)})" for text, numbers in owners.items()]

    tools = ((f"{tool} {version}", at[0]) for at, result in holders for tool, version in result.tools.items())
    sentences = ((sentence, at[0]) for at, result in holders for sentence in result.conditions)
    return SharedConditions(name=name, tools=show(tools), sentences=show(sentences))


def _points(numbers: set[int]) -> str:
    return f"point{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def conditions(points: Sequence[PointResult]) -> list[SharedConditions]:
    flows = list(numbered(points, "flows"))
    of_flows = [_collect(name, [pair for pair in flows if pair[1].name == name]) for name in flow_names(points)]
    merged: dict[tuple[tuple[str, ...], tuple[str, ...]], list[SharedConditions]] = {}
    energies = list(numbered(points, "energies"))
    for name in workload_names(points):
        entry = _collect(name, [pair for pair in energies if without_variant(pair[1].workload) == name])
        merged.setdefault((tuple(entry.tools), tuple(entry.sentences)), []).append(entry)
    names = [f"energy, {', '.join(entry.name for entry in equal)}" for equal in merged.values()]
    of_energies = [replace(equal[0], name=name) for name, equal in zip(names, merged.values(), strict=True)]
    kernels: dict[str, dict[str, None]] = {}
    for _, record in numbered(points, "kernels"):
        kernels.setdefault(kernel_conditions(record), {})[kernel_name(record)] = None
    of_kernels = [SharedConditions(name=", ".join(of), tools=[], sentences=[text]) for text, of in kernels.items()]
    return [*of_flows, *of_energies, *of_kernels]
