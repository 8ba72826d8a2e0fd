"""Search of a space of configurations by Optuna, instead of all of its points.

What is proposed depends on the seed and on results alone, not on how many processes or machines computed them: points
are proposed and told in batches of one size. A search that was interrupted therefore goes on when it is repeated.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from itertools import product
from math import prod
from typing import Any, Literal, get_args, get_origin, get_type_hints

from xpulpnn.config import CoreConfig, DotpConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.exploration.objectives import Objective
from xpulpnn_sim.exploration.options import WHOLE_CLUSTERS
from xpulpnn_sim.exploration.results import Configuration, PointResult
from xpulpnn_sim.exploration.space import Point, Skipped, make_point
from xpulpnn_sim.tools.top_names import CLUSTER_NAMES

PRESET = "preset"  # name of the choice among presets

_BATCH = 8  # Points proposed before any of their results is told

_PATIENCE = 20  # proposals in a row that are known or impossible, after which one is drawn from those left

_FOR_SIMULATORS = "regfile"

Choices = Mapping[str, Sequence[str]]


def require_optuna() -> Any:
    """The package ``optuna``; raises :class:`ToolError` with the command that installs it."""
    try:
        return import_module("optuna")
    except ImportError:
        raise ToolError("optuna must be installed for --search: pip install '.[search]'") from None


_OF_TOP: Mapping[str, frozenset[str]] = {
    "dotp": frozenset({"multipliers", "isolation", "adders"}),
    "mult": frozenset({"multiplier"}),
    "simd-alu": frozenset({"shifter"}),
    "nnrf": frozenset(),
    **{top: frozenset[str]() for top in CLUSTER_NAMES if top not in WHOLE_CLUSTERS},
}
"""Choices of structure that components have; all others have every one."""


def structures(top: str, given: Mapping[str, str]) -> dict[str, list[str]]:
    """Every choice of structure of a component, with its values, but those ``given``: gates change, results do not.

    Raises :class:`InputError` if there is none.
    """
    hints = [(item.name, get_type_hints(kind)[item.name]) for kind in (CoreConfig, DotpConfig) for item in fields(kind)]
    found = {
        name: list(get_args(hint))
        for name, hint in hints
        if get_origin(hint) is Literal
        and name not in given
        and name != _FOR_SIMULATORS
        and name in _OF_TOP.get(top, frozenset({name}))
    }
    if not found:
        raise InputError(f"--sweep must be given to search {top}, which has no other structures, not left out")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Points that a search evaluated."""

    points: tuple[Point, ...]  # in the order they were proposed
    skipped: tuple[Skipped, ...]  # proposals that cannot be built


class Search:
    """A search."""

    def __init__(
        self,
        *,
        top: str,
        common: Mapping[str, str],
        choices: Choices,
        objectives: Sequence[Objective],
        obstacle: Callable[[Configuration], str],
        points: int,
        seed: int,
    ) -> None:
        self._top = top
        self._common = common
        self._choices = choices
        self._objectives = objectives
        self._obstacle = obstacle
        self.points = points
        self._random = random.Random(seed)
        optuna = require_optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._failed = optuna.trial.TrialState.FAIL
        self._categorical = optuna.distributions.CategoricalDistribution
        self._study = optuna.create_study(
            directions=[objective.direction for objective in objectives], sampler=optuna.samplers.TPESampler(seed=seed)
        )
        self._known: dict[tuple[str, ...], list[float] | None] = {}
        self._points: list[Point] = []
        self._skipped: list[Skipped] = []

    @property
    def size(self) -> int:
        """Number of combinations, impossible ones included."""
        return prod(len(values) for values in self._choices.values())

    def run(self, evaluate: Callable[[Sequence[Point]], Sequence[PointResult]], stopped: Callable[[], bool]) -> Found:
        """Propose and evaluate points until there are enough, or all are known, or ``stopped`` says so.

        Raises :class:`InputError` if none can be built.
        """
        while len(self._points) < self.points and not stopped():
            batch = list(self._batch())
            if not batch:
                break
            results = evaluate([point for _, _, point in batch])
            for (trial, key, _), result in zip(batch, results, strict=True):
                values = [objective.value(result) for objective in self._objectives]
                known = [value for value in values if value is not None]
                self._known[key] = known if len(known) == len(values) and not result.error else None
                self._tell(trial, key)
        if not self._points:
            raise InputError(f"--search must be of a space with possible points, not none of {self.size}")
        return Found(points=tuple(self._points), skipped=tuple(self._skipped))

    def _batch(self) -> Iterator[tuple[Any, tuple[str, ...], Point]]:
        """New points that can be built, with their trials."""
        proposed: set[tuple[str, ...]] = set()
        in_vain = 0
        room = min(_BATCH, self.points - len(self._points))
        while len(proposed) < room and len(self._known) + len(proposed) < self.size:
            if in_vain < _PATIENCE:
                trial = self._study.ask({name: self._categorical(values) for name, values in self._choices.items()})
                key = tuple(str(trial.params[name]) for name in self._choices)
            else:
                key = self._unknown(proposed)
                self._study.enqueue_trial(dict(zip(self._choices, key, strict=True)))
                trial = self._study.ask({name: self._categorical(values) for name, values in self._choices.items()})
            in_vain += 1
            if key in proposed:
                self._study.tell(trial, state=self._failed)
            elif key in self._known:
                self._tell(trial, key)
            elif (point := self._point(key)) is None:
                self._known[key] = None
                self._tell(trial, key)
            else:
                in_vain = 0
                proposed.add(key)
                self._points.append(point)
                yield trial, key, point

    def _unknown(self, proposed: set[tuple[str, ...]]) -> tuple[str, ...]:
        """A combination not looked at yet; there is one."""
        values = list(self._choices.values())
        for _ in range(_PATIENCE):
            key = tuple(self._random.choice(one) for one in values)
            if key not in self._known and key not in proposed:
                return key
        return next(key for key in product(*values) if key not in self._known and key not in proposed)

    def _point(self, key: tuple[str, ...]) -> Point | None:
        changes = dict(zip(self._choices, key, strict=True))
        made = make_point(self._top, changes.pop(PRESET), {**self._common, **changes})
        if isinstance(made, Point) and (rule := self._obstacle(made.config)):
            made = Skipped(label=made.label, rule=rule)
        if isinstance(made, Skipped):
            self._skipped.append(made)
            return None
        return made

    def _tell(self, trial: Any, key: tuple[str, ...]) -> None:
        values = self._known[key]
        if values is None:
            self._study.tell(trial, state=self._failed)
        else:
            self._study.tell(trial, values)
