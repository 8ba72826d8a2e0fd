"""Search for the bit widths of each layer."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from math import inf, prod
from typing import Any

from xpulpnn_sw.networks.importers.registry import LayerWidths

Assignment = tuple[LayerWidths, ...]  # bit widths of the layers with weights


def widths_text(widths: Assignment) -> str:
    """Return bit widths as text in the format that network imports read."""
    return ",".join(map(str, widths))


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthPoint:
    widths: Assignment
    right: int  # images that the reference classifies correctly
    images: int
    cycles: int = 0  # sum over the layers
    weight_bytes: int = 0  # weights and parameters of all layers
    problem: str = ""  # why the design cannot run the network, or empty
    test_right: int = 0  # test images that the reference classifies correctly
    test_images: int = 0  # 0 if not tested
    # cycles of the whole network on the design, if it was run with all layers compared
    measured: int | None = None

    @property
    def accuracy(self) -> float:
        return self.right / self.images

    @property
    def error(self) -> float | None:
        """Return the relative error of the cycles that were predicted as a sum over layers; None if not measured."""
        return None if self.measured is None else self.cycles / self.measured - 1

    def record(self) -> dict[str, Any]:
        figures: dict[str, Any] = {"bits": widths_text(self.widths), "right": self.right, "images": self.images}
        if self.problem:
            return figures | {"problem": self.problem}
        figures |= {"cycles": self.cycles, "weight_bytes": self.weight_bytes}
        if self.test_images:
            figures |= {"test_right": self.test_right, "test_images": self.test_images}
        if self.error is not None:
            figures |= {"measured_cycles": self.measured, "prediction_error": round(self.error, 6)}
        return figures


def widths_front(points: Iterable[WidthPoint], cost: Callable[[WidthPoint], int] | None = None) -> list[WidthPoint]:
    """Return the Pareto front of accuracy and cost, cheapest first; equal points with more weight bytes drop out."""
    price = cost or (lambda point: point.cycles)
    runnable = [point for point in points if not point.problem]
    front: list[WidthPoint] = []
    for point in sorted(runnable, key=lambda point: (price(point), -point.right, point.weight_bytes)):
        if not front or point.right > front[-1].right:
            front.append(point)
    return front


def cheapest(points: Sequence[WidthPoint], floor: float) -> WidthPoint | None:
    return next((point for point in widths_front(points) if point.accuracy >= floor), None)


Evaluate = Callable[[Sequence[Assignment]], Sequence[WidthPoint]]
_CANDIDATES = 6  # changes evaluated per step of the descent: those that were best when last evaluated


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    weights: tuple[int, ...]
    activations: tuple[int, ...]  # of the input maps

    def __iter__(self) -> Iterator[LayerWidths]:
        """Yield all pairs of weight and activation widths, the widest first."""
        return (LayerWidths(w, x) for w in reversed(self.weights) for x in reversed(self.activations))

    def stepped(self, own: LayerWidths, weights: int, activations: int) -> LayerWidths | None:
        """Return ``own`` moved by numbers of steps in the lists of weight and activation widths; None past an end."""
        w, x = self.weights.index(own.weights) + weights, self.activations.index(own.activations) + activations
        if not 0 <= w < len(self.weights) or not 0 <= x < len(self.activations):
            return None
        return LayerWidths(self.weights[w], self.activations[x])


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthSpace:
    layers: tuple[Choices, ...]  # layers with weights

    def __len__(self) -> int:
        return prod(len(layer.weights) * len(layer.activations) for layer in self.layers)

    def __iter__(self) -> Iterator[Assignment]:
        """Yield all assignments of bit widths, those with the most bits first."""
        return product(*self.layers)

    def uniform(self) -> list[Assignment]:
        """Return assignments in which all layers with a choice have the same bits, the widest first."""
        depth = max(len(ladder) for layer in self.layers for ladder in (layer.weights, layer.activations))
        rows = [
            tuple(
                LayerWidths(
                    layer.weights[-min(step, len(layer.weights))], layer.activations[-min(step, len(layer.activations))]
                )
                for layer in self.layers
            )
            for step in range(1, depth + 1)
        ]
        return list(dict.fromkeys(rows))

    def changes(self, widths: Assignment, *, up: bool = False) -> dict["Change", Assignment]:
        """Return assignments with weights, activations or both of a layer one step lower (with ``up`` also higher)."""
        changes: dict[Change, Assignment] = {}
        for layer, (choices, own) in enumerate(zip(self.layers, widths, strict=True)):
            for step in (-1, 1) if up else (-1,):
                for change in ((layer, step, 0), (layer, 0, step), (layer, step, step)):
                    if (after := choices.stepped(own, *change[1:])) is not None:
                        changes[change] = (*widths[:layer], after, *widths[layer + 1 :])
        return changes


Change = tuple[int, int, int]  # a layer, and steps of its weights and input maps


def search_widths(space: WidthSpace, evaluate: Evaluate, trials: int, floor: float) -> list[WidthPoint]:
    """Evaluate all assignments, or ``trials``: narrow the widest step by step, then try neighbours of the best."""
    if len(space) <= trials:
        return [*evaluate([*space])]
    known = _EvaluatedPoints(space, evaluate, trials)
    known.points_of(space.uniform())
    _descend(known, floor)
    _search_neighbours(known, floor)
    return [*known.points.values()]


class _EvaluatedPoints:
    def __init__(self, space: WidthSpace, evaluate: Evaluate, trials: int) -> None:
        self.space = space
        self.points: dict[Assignment, WidthPoint] = {}
        self._evaluate = evaluate
        self._trials = trials

    @property
    def trials_left(self) -> int:
        return self._trials - len(self.points)

    def points_of(self, assignments: Sequence[Assignment]) -> list[WidthPoint]:
        """Return the points of assignments in order, up to the first that exceeds the limit of trials."""
        new = [widths for widths in dict.fromkeys(assignments) if widths not in self.points][: self.trials_left]
        if new:
            self.points.update(zip(new, self._evaluate(new), strict=True))
        return [self.points[widths] for widths in takewhile(self.points.__contains__, assignments)]


def _descend(known: _EvaluatedPoints, floor: float) -> None:
    current = known.points[known.space.uniform()[0]]
    price: dict[Change, float] = {}
    while known.trials_left and current.accuracy >= floor:
        changes = known.space.changes(current.widths)
        fresh = [change for change in changes if change not in price]
        chosen = fresh or sorted(changes, key=lambda change: price[change])[:_CANDIDATES]
        # the limit of trials may cut the points at the end
        reached = dict(zip(chosen, known.points_of([changes[change] for change in chosen]), strict=False))
        for change, after in reached.items():
            saved = current.cycles - after.cycles if not after.problem else 0
            price[change] = (current.right - after.right) / saved if saved > 0 else inf
        best = min(reached, key=lambda change: price[change], default=None)
        if best is None or price[best] == inf:
            break
        current = reached[best]


def _search_neighbours(known: _EvaluatedPoints, floor: float) -> None:
    seen: set[Assignment] = set()
    while known.trials_left:
        best = [point for point in widths_front(known.points.values()) if point.accuracy >= floor]
        unseen = [point for point in best if point.widths not in seen]
        if not unseen:
            break
        seen.add(unseen[0].widths)
        known.points_of([*known.space.changes(unseen[0].widths, up=True).values()])
