"""Which assignments to evaluate: all of them if they are few, else those that a search comes by."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from xpulpnn_sim.widths.point import Assignment, Point, front
from xpulpnn_sw.importers.widths import LayerWidths

Evaluate = Callable[[Sequence[Assignment]], Sequence[Point]]

_LOOKED_AT = 6
"""Changes evaluated for a step of the descent: those that were best when they were last evaluated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """All assignments of a network.

    Parameters
    ----------
    bits : tuple of int
        Widths to choose from.
    fixed : tuple of int or None
        For each layer with weights the bits of the maps it reads, if these are not to be chosen.
    """

    bits: tuple[int, ...]
    fixed: tuple[int | None, ...]

    def __len__(self) -> int:
        """How many there are."""
        return prod(len(self.bits) if fixed else len(self.bits) ** 2 for fixed in self.fixed)

    def __iter__(self) -> Iterator[Assignment]:
        """All of them, those with most bits first."""
        downwards = sorted(self.bits, reverse=True)
        layers = [
            [LayerWidths(w, x) for w in downwards for x in ((fixed,) if fixed else downwards)] for fixed in self.fixed
        ]
        return product(*layers)

    def uniform(self, bits: int) -> Assignment:
        """So many bits everywhere."""
        return tuple(LayerWidths(bits, fixed or bits) for fixed in self.fixed)

    def changes(self, widths: Assignment, *, up: bool = False) -> list["Change"]:
        """What can be changed by a step: of a layer the weights, what it reads, or both; with ``up`` also to more."""
        ladder = sorted(self.bits)
        steps = (-1, 1) if up else (-1,)
        found: list[Change] = []
        for layer, fixed in enumerate(self.fixed):
            for parts in ((True, False), (False, True), (True, True)):
                if fixed and parts[1]:
                    continue
                for step in steps:
                    change = Change(layer=layer, weights=parts[0] * step, activations=parts[1] * step)
                    if change.applied(widths, ladder) is not None:
                        found.append(change)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Steps among the widths to choose from, of a layer's weights and of what it reads."""

    layer: int
    weights: int
    activations: int

    def applied(self, widths: Assignment, ladder: Sequence[int]) -> Assignment | None:
        """The assignment with this change; None if there are no such bits."""
        own = widths[self.layer]
        after = own
        for name in ("weights", "activations"):
            if step := getattr(self, name):
                place = ladder.index(getattr(own, name)) + step
                if not 0 <= place < len(ladder):
                    return None
                after = replace(after, **{name: ladder[place]})
        return (*widths[: self.layer], after, *widths[self.layer + 1 :])


def search(space: Space, evaluate: Evaluate, trials: int, floor: float) -> list[Point]:
    """The points of all assignments, or of ``trials`` at most.

    If there are more, bits are taken from the widest assignment step by step, each time where the fewest images are
    lost per cycle saved; then the neighbours of what is best so far are evaluated. Neither goes on from where less than
    ``floor`` of the images are classified as labelled.
    """
    if len(space) <= trials:
        return [*evaluate([*space])]
    known = _Known(space, evaluate, trials)
    known.points_of([space.uniform(bits) for bits in sorted(space.bits, reverse=True)])
    _descend(known, floor)
    _look_around(known, floor)
    return [*known.points.values()]


class _Known:
    """Points that are evaluated, not more than ``trials``."""

    def __init__(self, space: Space, evaluate: Evaluate, trials: int) -> None:
        self.space = space
        self.ladder = sorted(space.bits)
        self.points: dict[Assignment, Point] = {}
        self._evaluate = evaluate
        self._trials = trials

    @property
    def left(self) -> int:
        """Assignments that may still be evaluated."""
        return self._trials - len(self.points)

    def points_of(self, wanted: Sequence[Assignment]) -> list[Point]:
        """The points of these, as far as there may be more."""
        new = [one for one in dict.fromkeys(wanted) if one not in self.points][: self.left]
        if new:
            self.points.update(zip(new, self._evaluate(new), strict=True))
        return [self.points[one] for one in wanted if one in self.points]


def _descend(known: _Known, floor: float) -> None:
    current = known.points[known.space.uniform(max(known.ladder))]
    price: dict[Change, float] = {}
    while known.left and current.accuracy >= floor:
        changes = known.space.changes(current.widths)
        fresh = [change for change in changes if change not in price]
        chosen = fresh or sorted(changes, key=lambda change: price[change])[:_LOOKED_AT]
        found: dict[Change, Point] = {}
        for change, after in zip(chosen, _after(known, current, chosen), strict=False):
            found[change] = after
            price[change] = _price(current, after)
        best = min(found, key=lambda change: price[change], default=None)
        if best is None or price[best] == float("inf"):
            break
        current = found[best]


def _after(known: _Known, current: Point, changes: Sequence[Change]) -> list[Point]:
    wanted = [change.applied(current.widths, known.ladder) for change in changes]
    return known.points_of([one for one in wanted if one is not None])


def _price(before: Point, after: Point) -> float:
    """Images lost for a cycle saved; infinite if none is saved."""
    saved = before.cycles - after.cycles
    return (before.right - after.right) / saved if saved > 0 and not after.problem else float("inf")


def _look_around(known: _Known, floor: float) -> None:
    seen: set[Assignment] = set()
    while known.left:
        best = [point for point in front(known.points.values()) if point.accuracy >= floor]
        unseen = [point for point in best if point.widths not in seen]
        if not unseen:
            break
        seen.add(unseen[0].widths)
        _after(known, unseen[0], known.space.changes(unseen[0].widths, up=True))
