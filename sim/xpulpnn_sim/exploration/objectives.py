"""Objectives of a search, and the points that no other beats."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.report.comparison import fmax
from xpulpnn_sim.exploration.results import FlowResult, PointResult
from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell

_PS_PER_NS = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    """A figure of a point: unit, whether more of it is better, decimals, and where it comes from."""

    unit: str
    more: bool
    digits: int
    flow: Callable[[FlowResult], float | None] | None = None
    point: Callable[[PointResult], float | None] | None = None


def _cycles(point: PointResult) -> float | None:
    return sum(float(record["cycles"]) for record in point.kernels) if point.kernels else None


def _energy(point: PointResult) -> float | None:
    return sum(one.energy_per_cycle_fj * one.cycles for one in point.energies) / 1e3 if point.energies else None


_FIGURES: Mapping[str, _Figure] = {
    "area": _Figure(unit="kGE", more=False, digits=3, flow=lambda flow: flow.area_kge),
    "delay": _Figure(
        unit="ns", more=False, digits=3, flow=lambda flow: flow.delay_ps / _PS_PER_NS if flow.delay_ps else None
    ),
    "luts": _Figure(unit="", more=False, digits=0, flow=lambda flow: flow.luts),
    "fmax": _Figure(unit="MHz", more=True, digits=1, flow=fmax),
    "cycles": _Figure(unit="", more=False, digits=0, point=_cycles),
    "energy": _Figure(unit="pJ", more=False, digits=1, point=_energy),
}

OBJECTIVES = tuple(_FIGURES)

_OF_FLOWS: Mapping[str, tuple[str, ...]] = {
    "asic": ("area", "delay"),
    "builtin": ("area", "delay"),
    "ecp5": ("luts", "fmax"),
    "ice40": ("luts", "fmax"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A figure to make small or large."""

    name: str
    flow: str  # name of the flow it is taken from, such as `asic-area`; empty for figures that are of no flow

    @property
    def direction(self) -> str:
        """``minimize`` or ``maximize``."""
        return "maximize" if _FIGURES[self.name].more else "minimize"

    def value(self, point: PointResult) -> float | None:
        """The figure of a point; None if it has none."""
        figure = _FIGURES[self.name]
        if figure.point is not None:
            return figure.point(point)
        flow = next((one for one in point.flows if one.name == self.flow), None)
        return None if flow is None or figure.flow is None else figure.flow(flow)

    def column(self) -> Column:
        """Heading of the figure in a table."""
        figure = _FIGURES[self.name]
        better = "more" if figure.more else "less"
        return Column(name=self.name, unit=figure.unit, group=self.flow, digits=figure.digits, better=better)


def objectives(names: str, flows: Sequence[str], *, kernels: bool, energies: bool) -> list[Objective]:
    """The objectives of a search."""
    default = [*_OF_FLOWS[flows[0].partition("-")[0]], *(["cycles"] if kernels else [])]
    listed: list[Objective] = []
    for text in names.split(",") if names else default:
        name, at, flow = text.strip().partition("@")
        if name not in _FIGURES:
            raise InputError(f"--objective must be a list out of {','.join(OBJECTIVES)}, not {name or 'empty'}")
        if at and flow not in flows:
            raise InputError(f"--objective {name} must be of a flow out of {','.join(flows)}, not {flow or 'empty'}")
        able = [one for one in flows if name in _OF_FLOWS[one.partition("-")[0]]]
        wanted = {"cycles": kernels, "energy": energies}.get(name, bool(able))
        if not wanted or (flow and flow not in able):
            raise InputError(f"--objective must be of what the run measures, not {text.strip()}")
        listed.append(Objective(name=name, flow="" if name in ("cycles", "energy") else flow or able[0]))
    return list(dict.fromkeys(listed))


def pareto_front(points: Sequence[PointResult], wanted: Sequence[Objective]) -> list[int]:
    """Numbers of the points that no other one is at least as good as in all objectives, and better in one."""
    costs: dict[int, tuple[float, ...]] = {}
    for number, point in enumerate(points):
        values = [objective.value(point) for objective in wanted]
        known = [value for value in values if value is not None]
        if len(known) == len(values) and not point.error:
            signs = [-1 if objective.direction == "maximize" else 1 for objective in wanted]
            costs[number] = tuple(sign * value for sign, value in zip(signs, known, strict=True))

    def beaten(mine: tuple[float, ...]) -> bool:
        return any(other != mine and all(a <= b for a, b in zip(other, mine, strict=True)) for other in costs.values())

    return [number for number, mine in costs.items() if not beaten(mine)]


def pareto_table(points: Sequence[PointResult], wanted: Sequence[Objective]) -> NamedTable:
    """The points that no other one beats, sorted by the first objective."""
    front = [points[number] for number in pareto_front(points, wanted)]
    rows: list[list[TableCell]] = [[point.label, *(one.value(point) for one in wanted)] for point in front]
    rows.sort(key=lambda row: [cell for cell in row[1:2] if isinstance(cell, int | float)])
    names = " and ".join(f"{'most' if one.direction == 'maximize' else 'least'} {one.name}" for one in wanted)
    return NamedTable(
        title=f"Pareto front: {len(front)} of {len(points)} points",
        columns=[Column(name="point"), *(one.column() for one in wanted)],
        rows=rows,
        notes=[f"No other point of the search is at least as good in all of {names}, and better in one."],
    )
