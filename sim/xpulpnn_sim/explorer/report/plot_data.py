"""Data of the plots, as JSON types; the page's script only lays them out."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from xpulpnn_sim.explorer.report import comparison
from xpulpnn_sim.explorer.report.cluster_blocks import block_of, is_cluster
from xpulpnn_sim.explorer.report.named_table import LESS, MORE
from xpulpnn_sim.explorer.report.scaling import clustered, scaling_figure
from xpulpnn_sim.explorer.results import EnergyResult, ModuleArea, ModuleEnergy, PointResult

_TRADE_OFFS = (
    ("area-delay", "Area against delay", "delay", "area"),
    ("area-rate", "Area against MAC per cycle", "rate", "area"),
    ("delay-rate", "Delay against MAC per cycle", "rate", "delay"),
    ("energy-rate", "Energy per MAC against MAC per cycle", "rate", "energy"),
)
"""Identifier, heading, figure to the right and figure upwards; only MAC per cycle (rate) is better when larger."""

_ENERGY_PARTS = ("switching", "internal", "clock", "leakage")

_SHOWN_MODULES = 16
"""Modules with an energy bar of their own; the others share one."""

_GE_PER_KGE = 1000.0


def report_data(points: Sequence[PointResult]) -> dict[str, Any]:
    """Everything the page's script draws."""
    axes = _axes(points)
    trade_offs, fronts = _trade_offs(points, axes)
    return {
        "points": [{"label": point.label, "failed": bool(point.error)} for point in points],
        "flows": comparison.flow_names(points),
        "kernels": comparison.kernel_names(points),
        "workloads": comparison.workload_names(points),
        "colours": comparison.varying(points),
        "axes": axes,
        "tradeOffs": trade_offs,
        "fronts": fronts,
        "areas": _areas(points),
        "blocks": {name: block for name in comparison.flow_names(points) if (block := _blocks(points, name))},
        "partOf": _part_of(points),
        "paths": _paths(points),
        "energies": _energies(points),
        "scaling": _scaling(points),
        "energyParts": {name: _energy_parts(points, name) for name in comparison.workload_names(points)},
    }


def _scaling(points: Sequence[PointResult]) -> dict[str, Any] | None:
    """MAC per cycle over the cores, if kernels ran on clusters of several numbers of them."""
    records = [record for point in points for record in point.kernels if clustered(record)]
    return scaling_figure(records) if len({record["cores"] for record in records}) > 1 else None


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


def _axes(points: Sequence[PointResult]) -> dict[str, dict[str, Any]]:
    """Heading and one value per point of every figure that a trade-off can show, by ``figure|choice``."""
    axes: dict[str, dict[str, Any]] = {}
    fpga = comparison.fpga_flows(points)

    def add(
        key: str,
        title: str,
        digits: int,
        values: list[float | None],
        spreads: Sequence[comparison.Spread | None] = (),
    ) -> None:
        axes[key] = {"title": title, "digits": digits, "values": [_rounded(value) for value in values]}
        if any(spreads):
            ends = [spread or (value, value) for spread, value in zip(spreads, values, strict=True)]
            axes[key] |= {name: [_rounded(end[place]) for end in ends] for place, name in enumerate(("low", "high"))}

    for name in comparison.flow_names(points):
        flows = [comparison.flow_of(point, name) for point in points]
        area, delay = ("area [LUT]", "clock period [ns]") if name in fpga else ("area [kGE]", "delay [FO4]")
        add(
            f"area|{name}",
            f"{area} {LESS}",
            0 if name in fpga else 2,
            [comparison.size(flow) for flow in flows],
            [comparison.size_spread(flow) for flow in flows],
        )
        add(
            f"delay|{name}",
            f"{delay} {LESS}",
            1,
            [comparison.delay(flow) for flow in flows],
            [comparison.delay_spread(flow) for flow in flows],
        )
    for name in comparison.kernel_names(points):
        records = [comparison.best_record(point, name) for point in points]
        add(
            f"rate|{name}",
            f"MAC/cycle {MORE}",
            2,
            [None if record is None else record["macs_per_cycle"] for record in records],
        )
    for name in comparison.workload_names(points):
        energies = [comparison.per_mac_pj(comparison.best_energy(point, name)) for point in points]
        if any(energy is not None for energy in energies):
            add(f"energy|{name}", f"energy [pJ/MAC] {LESS}", 3, energies)
    return axes


def _keys(axes: Mapping[str, Any], figure: str) -> list[str]:
    return [key for key in axes if key.startswith(f"{figure}|")]


def _trade_offs(
    points: Sequence[PointResult], axes: Mapping[str, dict[str, Any]]
) -> tuple[list[dict[str, str]], dict[str, list[int]]]:
    """Trade-offs that some two points can be compared in, and the Pareto front for each pair of axes."""
    shown: list[dict[str, str]] = []
    fronts: dict[str, list[int]] = {}
    for name, title, figure_x, figure_y in _TRADE_OFFS:
        comparable = False
        for x, y in product(_keys(axes, figure_x), _keys(axes, figure_y)):
            if figure_x == "delay" and x.partition("|")[2] != y.partition("|")[2]:
                continue
            xs, ys = axes[x]["values"], axes[y]["values"]
            both = sum(a is not None and b is not None for a, b in zip(xs, ys, strict=True))
            comparable |= both > 1
            fronts[f"{x}&{y}"] = comparison.front(xs, ys, more_x=figure_x == "rate")
        if comparable:
            shown.append({"id": name, "title": title, "x": figure_x, "y": figure_y})
    return shown, fronts


def _parents(modules: Sequence[ModuleArea]) -> list[int]:
    """Position of the nearest instance above each one; -1 for the top."""
    positions = {module.path: i for i, module in enumerate(modules)}
    parents: list[int] = []
    for i, module in enumerate(modules):
        above = module.path
        parent = -1 if i == 0 else 0
        while "." in above:
            above = above.rpartition(".")[0]
            if above in positions:
                parent = positions[above]
                break
        parents.append(parent)
    return parents


def _leaf(path: str) -> str:
    return path.rpartition(".")[2]


def _kge(ge: float) -> float:
    return round(ge / _GE_PER_KGE, 4)


def _areas(points: Sequence[PointResult]) -> dict[str, dict[str, Any]]:
    """Instances of each point and flow: name, position of the one above, module, own and total size in kGE, cells.

    ``figure`` is the size that tables show, ``run`` the run it is of and ``runs`` their number, ``origins`` what told
    the instances.
    """
    return {
        f"{number}|{flow.name}": {
            "figure": _rounded(comparison.size(flow)),
            "run": flow.area_run,
            "runs": len(flow.runs),
            "origins": flow.origins,
            "rows": [
                [_leaf(one.path), parent, one.module, _kge(one.own_ge), _kge(one.total_ge), one.own_cells]
                for one, parent in zip(flow.modules, _parents(flow.modules), strict=True)
            ],
        }
        for number, point in enumerate(points)
        for flow in point.flows
        if flow.modules
    }


def _blocks(points: Sequence[PointResult], name: str) -> list[tuple[str, list[float]]]:
    """Size in kGE of the top's direct parts in every point, largest part first; empty without hierarchies."""
    parts: dict[str, list[float]] = {}
    for number, point in enumerate(points):
        flow = comparison.flow_of(point, name)
        modules = flow.modules if flow is not None else []
        for module, parent in zip(modules, _parents(modules), strict=True):
            if parent <= 0:
                part, size = ("(top itself)", module.own_ge) if parent < 0 else (_leaf(module.path), module.total_ge)
                part = block_of(part) if is_cluster(flow) else part
                parts.setdefault(part, [0.0] * len(points))[number] += size / _GE_PER_KGE
    rounded = {part: [round(size, 4) for size in sizes] for part, sizes in parts.items()}
    return sorted(rounded.items(), key=lambda item: -max(item[1]))


def _part_of(points: Sequence[PointResult]) -> dict[str, str]:
    """Block that the direct parts of clusters are shown under, by their names."""
    flows = [flow for point in points for flow in point.flows if is_cluster(flow)]
    names = {_leaf(module.path) for flow in flows for module in flow.modules if module.path.count(".") == 1}
    return {name: block_of(name) for name in sorted(names) if block_of(name) != name}


def _paths(points: Sequence[PointResult]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for number, point in enumerate(points):
        for flow in point.flows:
            if flow.path is None:
                continue
            path = flow.path
            found[f"{number}|{flow.name}"] = {
                "tool": path.tool,
                "netlist": path.netlist,
                "start": path.start,
                "end": path.end,
                "delay": _rounded(path.delay_ps, 1),
                "figure": _rounded(flow.delay_ps, 1),
                "run": flow.delay_run,
                "runs": len(flow.runs),
                "others": {tool: _rounded(delay, 1) for tool, delay in path.others.items()},
                "steps": [
                    [step.net, step.cell, _rounded(step.delay_ps, 1), _rounded(step.arrival_ps, 1)]
                    for step in path.steps
                ],
            }
    return found


def _parts(module: ModuleEnergy) -> list[float]:
    return [getattr(module, part) / comparison.FJ_PER_PJ for part in _ENERGY_PARTS]


def _by_module(energy: EnergyResult) -> list[list[Any]]:
    """Path and the four parts in pJ per cycle of the instances that take most, then of all others together."""
    ordered = sorted(energy.modules, key=lambda module: -module.total)
    shown, others = ordered[:_SHOWN_MODULES], ordered[_SHOWN_MODULES:]
    rows: list[list[Any]] = [[module.path, *(_rounded(part) for part in _parts(module))] for module in shown]
    if others:
        sums = [sum(column) for column in zip(*(_parts(module) for module in others), strict=True)]
        rows.append([f"({len(others)} others)", *(_rounded(part) for part in sums)])
    return rows


def _energies(points: Sequence[PointResult]) -> dict[str, list[list[Any]]]:
    return {
        f"{number}|{name}": _by_module(energy)
        for number, point in enumerate(points)
        for name in comparison.workload_names(points)
        if (energy := comparison.best_energy(point, name)) is not None and energy.modules
    }


def _energy_parts(points: Sequence[PointResult], workload: str) -> list[list[float | None] | None]:
    """The four parts in pJ per cycle of the whole netlist for each point that has the workload."""
    found: list[list[float | None] | None] = []
    for point in points:
        energy = comparison.best_energy(point, workload)
        if energy is None:
            found.append(None)
        else:
            columns = zip(*(_parts(module) for module in energy.modules), strict=True)
            found.append([_rounded(sum(column)) for column in columns])
    return found
