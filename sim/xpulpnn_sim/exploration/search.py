"""Search a space of configurations with Optuna.

Points are proposed in batches of fixed size, so that proposals depend on seed and results, not on the number of
processes. Repeating an interrupted search continues it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from itertools import chain, product
from math import prod
from operator import lt
from typing import Any, Literal, get_args, get_origin, get_type_hints

from xpulpnn.config import CoreConfig, DotpConfig
from xpulpnn.errors import InputError, ToolError, require
from xpulpnn_sim.exploration.results import Configuration, PointResult
from xpulpnn_sim.exploration.space import WHOLE_CLUSTERS, Point, Skipped, Space, make_point
from xpulpnn_sim.tools.component_names import CLUSTER_NAMES, DEBUG_NAMES, XIF
from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell

_PS_PER_NS = 1e3

_HEADINGS = {
    column.name: column
    for column in (
        Column(name="area", unit="kGE", digits=3, better="less"),
        Column(name="delay", unit="ns", digits=3, better="less"),
        Column(name="luts", digits=0, better="less"),
        Column(name="fmax", unit="MHz", digits=1, better="more"),
        Column(name="cycles", digits=0, better="less"),
        Column(name="energy", unit="pJ", digits=1, better="less"),
    )
}
"""Quantities that a search can optimise, by name."""

OBJECTIVES = tuple(_HEADINGS)

_OF_FLOWS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("asic", "builtin"), ("area", "delay")),
    **dict.fromkeys(("ecp5", "ice40"), ("luts", "fmax")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    name: str
    flow: str  # flow of the figure, such as `asic-area`; empty for figures without a flow

    @property
    def direction(self) -> str:
        return "maximize" if _HEADINGS[self.name].better == "more" else "minimize"

    def value(self, point: PointResult) -> float | None:
        if self.name == "cycles":
            return sum(float(record["cycles"]) for record in point.kernels) if point.kernels else None
        if self.name == "energy":
            energies = point.energies
            return sum(energy.energy_per_cycle_fj * energy.cycles for energy in energies) / 1e3 if energies else None
        flow = next((flow for flow in point.flows if flow.name == self.flow), None)
        if flow is None:
            return None
        delay = flow.delay_ps / _PS_PER_NS if flow.delay_ps else None
        return {"area": flow.area_kge, "delay": delay, "luts": flow.luts, "fmax": flow.fmax}[self.name]


def objectives(names: str, flows: Sequence[str], *, kernels: bool, energies: bool) -> list[Objective]:
    default = [*_OF_FLOWS[flows[0].partition("-")[0]], *(["cycles"] if kernels else [])]
    listed: list[Objective] = []
    for text in names.split(",") if names else default:
        name, at, flow = text.strip().partition("@")
        require(name in _HEADINGS, f"objective must be a list out of {','.join(OBJECTIVES)}, not {name or 'empty'}")
        if at and flow not in flows:
            raise InputError(f"objective {name} must be of a flow out of {','.join(flows)}, not {flow or 'empty'}")
        able = [flow_name for flow_name in flows if name in _OF_FLOWS[flow_name.partition("-")[0]]]
        is_measured = {"cycles": kernels, "energy": energies}.get(name, bool(able))
        if not is_measured or (flow and flow not in able):
            raise InputError(f"objective must be of what the run measures, not {text.strip()}")
        listed.append(Objective(name=name, flow="" if name in ("cycles", "energy") else flow or able[0]))
    return list(dict.fromkeys(listed))


def objective_values(point: PointResult, objectives: Sequence[Objective]) -> list[float] | None:
    known = [value for objective in objectives if (value := objective.value(point)) is not None]
    return known if len(known) == len(objectives) and not point.error else None


def pareto_front(points: Sequence[PointResult], objectives: Sequence[Objective]) -> list[int]:
    signs = [-1 if objective.direction == "maximize" else 1 for objective in objectives]
    costs = {
        number: [sign * value for sign, value in zip(signs, known, strict=True)]
        for number, point in enumerate(points)
        if (known := objective_values(point, objectives)) is not None
    }
    others = costs.values()
    return [n for n, mine in costs.items() if all(mine == other or any(map(lt, mine, other)) for other in others)]


def pareto_table(points: Sequence[PointResult], objectives: Sequence[Objective]) -> NamedTable:
    front = [points[number] for number in pareto_front(points, objectives)]
    rows: list[list[TableCell]] = [
        [point.label, *(objective.value(point) for objective in objectives)] for point in front
    ]
    rows.sort(key=lambda row: [cell for cell in row[1:2] if isinstance(cell, int | float)])
    names = " and ".join(
        f"{'most' if objective.direction == 'maximize' else 'least'} {objective.name}" for objective in objectives
    )
    return NamedTable(
        title=f"Pareto front: {len(front)} of {len(points)} points",
        columns=[
            Column(name="point"),
            *(replace(_HEADINGS[objective.name], group=objective.flow) for objective in objectives),
        ],
        rows=rows,
        notes=[f"No other point of the search is at least as good in all of {names}, and better in one."],
    )


PRESET = "preset"
_BATCH = 8  # points proposed before Optuna gets their results
_PATIENCE = 20  # known or impossible proposals in a row, after which a remaining one is drawn
Choices = Mapping[str, Sequence[str]]


def require_optuna() -> Any:
    try:
        return import_module("optuna")
    except ImportError:
        raise ToolError("optuna must be installed for search: pip install '.[search]'") from None


_OF_TOP: Mapping[str, frozenset[str]] = {
    "dotp": frozenset({"multipliers", "isolation", "adders"}),
    "mult": frozenset({"multiplier"}),
    "simd-alu": frozenset({"shifter"}),
    "nnrf": frozenset(),
    XIF: frozenset(),
    **{top: frozenset[str]() for top in (*CLUSTER_NAMES, *DEBUG_NAMES) if top not in WHOLE_CLUSTERS},
}
"""Structural choices that change a component; for components not listed, every choice does."""


def structures(top: str, given: Mapping[str, str]) -> dict[str, list[str]]:
    hints = [(item.name, get_type_hints(kind)[item.name]) for kind in (CoreConfig, DotpConfig) for item in fields(kind)]
    choices = {
        name: list(get_args(hint))
        for name, hint in hints
        if get_origin(hint) is Literal
        and name not in given
        and name != "regfile"  # for simulators and FPGAs
        and name in _OF_TOP.get(top, frozenset({name}))
    }
    require(choices, f"sweep must be given to search {top}, which has no other structures, not left out")
    return choices


@dataclass(kw_only=True)
class Search:
    top: str
    common: Mapping[str, str]  # settings of all points
    choices: Choices
    objectives: Sequence[Objective]
    obstacle: Callable[[Configuration], str]  # why a configuration is unusable, or empty
    points: int  # to evaluate
    seed: int

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        optuna = require_optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._failed = optuna.trial.TrialState.FAIL
        self._categorical = optuna.distributions.CategoricalDistribution
        directions = [objective.direction for objective in self.objectives]
        self._study = optuna.create_study(directions=directions, sampler=optuna.samplers.TPESampler(seed=self.seed))
        # figures of proposals; None before they are measured, and without figures
        self._known: dict[tuple[str, ...], list[float] | None] = {}
        self._points: list[Point] = []
        self._skipped: list[Skipped] = []
        self._study.enqueue_trial(self._unchanged())

    @property
    def size(self) -> int:
        return prod(len(values) for values in self.choices.values())

    def run(self, evaluate: Callable[[Sequence[Point]], Sequence[PointResult]], stopped: Callable[[], bool]) -> Space:
        """Evaluate points until there are enough or ``stopped()``; raise :class:`InputError` if none can be built."""
        while len(self._points) < self.points and not stopped():
            batch = self._batch(min(_BATCH, self.points - len(self._points)))
            if not batch:
                break
            self._points += (point for _, _, point in batch)
            results = evaluate([point for _, _, point in batch])
            for (trial, key, _), result in zip(batch, results, strict=True):
                self._known[key] = objective_values(result, self.objectives)
                self._tell(trial, key)
        require(self._points, f"search must be of a space with possible points, not none of {self.size}")
        return Space(points=tuple(self._points), skipped=tuple(self._skipped))

    def _unchanged(self) -> dict[str, str]:
        """Return the choices of the first preset as it is, as far as they are among them."""
        first = self.choices[PRESET][0]
        base = make_point(self.top, first, self.common)
        start = {PRESET: first}
        if isinstance(base, Skipped):
            return start
        for name, values in self.choices.items():
            made = {value: make_point(self.top, first, {**self.common, name: value}) for value in values}
            same = [value for value, point in made.items() if isinstance(point, Point) and point.config == base.config]
            start.setdefault(name, (same or values)[0])
        return start

    def _batch(self, room: int) -> list[tuple[Any, tuple[str, ...], Point]]:
        batch: list[tuple[Any, tuple[str, ...], Point]] = []
        in_vain = 0
        while len(batch) < room and len(self._known) < self.size:
            if in_vain >= _PATIENCE:
                self._study.enqueue_trial(dict(zip(self.choices, self._unknown(), strict=True)))
            trial = self._study.ask({name: self._categorical(values) for name, values in self.choices.items()})
            key = tuple(str(trial.params[name]) for name in self.choices)
            point = None if key in self._known else self._point(key)
            self._known.setdefault(key, None)
            if point is None:
                in_vain += 1
                self._tell(trial, key)
            else:
                in_vain = 0
                batch.append((trial, key, point))
        return batch

    def _unknown(self) -> tuple[str, ...]:
        values = list(self.choices.values())
        drawn = (tuple(self._random.choice(listed) for listed in values) for _ in range(_PATIENCE))
        return next(key for key in chain(drawn, product(*values)) if key not in self._known)

    def _point(self, key: tuple[str, ...]) -> Point | None:
        changes = dict(zip(self.choices, key, strict=True))
        made = make_point(self.top, changes.pop(PRESET), {**self.common, **changes})
        if isinstance(made, Point) and (rule := self.obstacle(made.config)):
            made = Skipped(label=made.label, rule=rule)
        if isinstance(made, Skipped):
            self._skipped.append(made)
            return None
        return made

    def _tell(self, trial: Any, key: tuple[str, ...]) -> None:
        values = self._known[key]
        self._study.tell(trial, values, self._failed if values is None else None)
