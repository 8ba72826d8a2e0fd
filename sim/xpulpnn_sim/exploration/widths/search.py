"""Assignments to evaluate: all of them if they are few, else those that a search comes by."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from math import inf, prod
from typing import Any

from xpulpnn_sw.networks.importers.registry import LayerWidths

Assignment = tuple[LayerWidths, ...]  # bits of the layers with weights, in their order


def text_of(widths: Assignment) -> str:
    """Bits as an import of the network takes them."""
    return ",".join(map(str, widths))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Accuracy and cost of an assignment."""

    widths: Assignment
    right: int  # images that the reference classifies as labelled, of so many
    images: int  # images that the reference classifies as labelled, of so many
    cycles: int = 0  # sum of its layers'
    weight_bytes: int = 0  # their weights and parameters in memory
    problem: str = ""  # why the design cannot run the network; empty: it can

    @property
    def accuracy(self) -> float:
        """Share of the images."""
        return self.right / self.images

    def record(self) -> dict[str, Any]:
        """All of it for a JSON file."""
        figures: dict[str, Any] = {"bits": text_of(self.widths), "right": self.right, "images": self.images}
        if self.problem:
            return figures | {"problem": self.problem}
        return figures | {"cycles": self.cycles, "weight_bytes": self.weight_bytes}


def widths_front(points: Iterable[Point], cost: Callable[[Point], int] | None = None) -> list[Point]:
    """The points that no other is better than in images and in what they cost, the cheapest first.

    That is cycles unless said. Of points that are alike in both the one with the fewest bytes is there, and of these
    the first.
    """
    price = cost or (lambda point: point.cycles)
    runnable = [point for point in points if not point.problem]
    found: list[Point] = []
    for point in sorted(runnable, key=lambda one: (price(one), -one.right, one.weight_bytes)):
        if not found or point.right > found[-1].right:
            found.append(point)
    return found


def cheapest(points: Sequence[Point], floor: float) -> Point | None:
    """The fastest point that classifies so much of the images as labelled; None: there is none."""
    return next((point for point in widths_front(points) if point.accuracy >= floor), None)


Evaluate = Callable[[Sequence[Assignment]], Sequence[Point]]

_LOOKED_AT = 6  # Changes evaluated for a step of the descent: those that were best when they were last evaluated


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Widths that a layer may have, ascending; a single one is no choice."""

    weights: tuple[int, ...]  # of its weights, and of the maps it reads
    activations: tuple[int, ...]  # of its weights, and of the maps it reads

    def __iter__(self) -> Iterator[LayerWidths]:
        """All of them, the widest first."""
        return (LayerWidths(w, x) for w in reversed(self.weights) for x in reversed(self.activations))

    def stepped(self, own: LayerWidths, weights: int, activations: int) -> LayerWidths | None:
        """So many steps up; None if there are no such widths."""
        places = (self.weights.index(own.weights) + weights, self.activations.index(own.activations) + activations)
        if not 0 <= places[0] < len(self.weights) or not 0 <= places[1] < len(self.activations):
            return None
        return LayerWidths(self.weights[places[0]], self.activations[places[1]])


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthSpace:
    """All assignments of a network."""

    layers: tuple[Choices, ...]  # of the layers with weights

    def __len__(self) -> int:
        """Number of assignments."""
        return prod(len(one.weights) * len(one.activations) for one in self.layers)

    def __iter__(self) -> Iterator[Assignment]:
        """All of them, those with most bits first."""
        return product(*self.layers)

    def uniform(self) -> list[Assignment]:
        """The same bits everywhere, as far as a layer has a choice; the widest first."""
        depth = max(len(ladder) for one in self.layers for ladder in (one.weights, one.activations))
        rows = [
            tuple(
                LayerWidths(
                    one.weights[-min(step, len(one.weights))], one.activations[-min(step, len(one.activations))]
                )
                for one in self.layers
            )
            for step in range(1, depth + 1)
        ]
        return list(dict.fromkeys(rows))

    def changes(self, widths: Assignment, *, up: bool = False) -> dict["Change", Assignment]:
        """Changes of a step: of a layer the weights, what it reads, or both; with ``up`` also to more bits."""
        found: dict[Change, Assignment] = {}
        for layer, (choices, own) in enumerate(zip(self.layers, widths, strict=True)):
            for step in (-1, 1) if up else (-1,):
                for change in ((layer, step, 0), (layer, 0, step), (layer, step, step)):
                    if (after := choices.stepped(own, *change[1:])) is not None:
                        found[change] = (*widths[:layer], after, *widths[layer + 1 :])
        return found


Change = tuple[int, int, int]  # a layer, and steps of its weights and of what it reads


def search_widths(space: WidthSpace, evaluate: Evaluate, trials: int, floor: float) -> list[Point]:
    """The points of all assignments, or of ``trials`` at most.

    If there are more, bits are taken from the widest assignment step by step, each time where the fewest images are
    lost per cycle saved; then the neighbours of what is best so far are evaluated. Neither goes on from where less than
    ``floor`` of the images are classified as labelled.
    """
    if len(space) <= trials:
        return [*evaluate([*space])]
    known = _Known(space, evaluate, trials)
    known.points_of(space.uniform())
    _descend(known, floor)
    _look_around(known, floor)
    return [*known.points.values()]


class _Known:
    """Points that are evaluated, not more than ``trials``."""

    def __init__(self, space: WidthSpace, evaluate: Evaluate, trials: int) -> None:
        self.space = space
        self.points: dict[Assignment, Point] = {}
        self._evaluate = evaluate
        self._trials = trials

    @property
    def left(self) -> int:
        """Assignments that may still be evaluated."""
        return self._trials - len(self.points)

    def points_of(self, wanted: Sequence[Assignment]) -> list[Point]:
        """The points of these; those at the end are left out if there may not be more."""
        new = [one for one in dict.fromkeys(wanted) if one not in self.points][: self.left]
        if new:
            self.points.update(zip(new, self._evaluate(new), strict=True))
        return [self.points[one] for one in takewhile(self.points.__contains__, wanted)]


def _descend(known: _Known, floor: float) -> None:
    current = known.points[known.space.uniform()[0]]
    price: dict[Change, float] = {}
    while known.left and current.accuracy >= floor:
        changes = known.space.changes(current.widths)
        fresh = [change for change in changes if change not in price]
        chosen = fresh or sorted(changes, key=lambda change: price[change])[:_LOOKED_AT]
        # there may be fewer points than changes, those in front
        found = dict(zip(chosen, known.points_of([changes[change] for change in chosen]), strict=False))
        for change, after in found.items():
            price[change] = _price(current, after)
        best = min(found, key=lambda change: price[change], default=None)
        if best is None or price[best] == inf:
            break
        current = found[best]


def _price(before: Point, after: Point) -> float:
    """Images lost for a cycle saved; infinite if none is saved."""
    saved = before.cycles - after.cycles
    return (before.right - after.right) / saved if saved > 0 and not after.problem else inf


def _look_around(known: _Known, floor: float) -> None:
    seen: set[Assignment] = set()
    while known.left:
        best = [point for point in widths_front(known.points.values()) if point.accuracy >= floor]
        unseen = [point for point in best if point.widths not in seen]
        if not unseen:
            break
        seen.add(unseen[0].widths)
        known.points_of([*known.space.changes(unseen[0].widths, up=True).values()])
