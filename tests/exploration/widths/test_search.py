"""The search, on points that are made up: all of a small space, the front of a large one."""

from collections.abc import Sequence

import pytest

from xpulpnn_sim.exploration.widths.width_search import (
    Assignment,
    Choices,
    WidthPoint,
    WidthSpace,
    cheapest,
    search_widths,
    widths_front,
    widths_text,
)
from xpulpnn_sw.networks.importers.registry import LayerWidths

IMAGES = 10_000
LADDER = (2, 4, 8)


def space(layers: int) -> WidthSpace:
    free = Choices(weights=LADDER, activations=LADDER)
    return WidthSpace(layers=(Choices(weights=LADDER, activations=(8,)), *[free] * (layers - 1)))


class Bowl:
    """Layers that cost and lose more the further behind they are, and remembers what it was asked."""

    def __init__(self) -> None:
        self.evaluated: list[Assignment] = []

    def __call__(self, assignments: Sequence[Assignment]) -> list[WidthPoint]:
        self.evaluated += assignments
        return [self.point(widths) for widths in assignments]

    @staticmethod
    def point(widths: Assignment) -> WidthPoint:
        cycles, lost = 0, 0
        for number, own in enumerate(widths, start=1):
            # kernels compute with the wider of both
            cycles += 100 * max(own.weights, own.activations) * (len(widths) - number + 1)
            lost += sum({8: 0, 4: 7, 2: 150}[bits] * number for bits in (own.weights, own.activations))
        return WidthPoint(widths=widths, right=IMAGES - lost, images=IMAGES, cycles=cycles, weight_bytes=cycles)


def test_a_small_space_is_evaluated_whole() -> None:
    bowl = Bowl()
    points = search_widths(space(2), bowl, trials=27, floor=0.0)
    assert len(points) == len({point.widths for point in points}) == len(space(2)) == 27
    assert bowl.evaluated[0] == (LayerWidths(8, 8), LayerWidths(8, 8))


@pytest.mark.flow
def test_a_search_finds_most_of_the_front() -> None:
    whole = [Bowl.point(widths) for widths in space(4)]
    bowl = Bowl()
    points = search_widths(space(4), bowl, trials=300, floor=0.9)
    assert len(bowl.evaluated) == len({*bowl.evaluated}) == len(points) <= 300 < len(whole)
    accurate = [point for point in widths_front(whole) if point.accuracy >= 0.9]
    missed = [point for point in accurate if point not in widths_front(points)]
    assert len(missed) <= len(accurate) // 10
    assert cheapest(points, 0.98) == cheapest(whole, 0.98)


@pytest.mark.flow
def test_a_descent_takes_what_costs_the_fewest_images_for_a_cycle() -> None:
    """A few points of 19,683 are enough for the fastest ones; without a sense of price they would not be."""
    points = search_widths(space(5), Bowl(), trials=40, floor=0.9)
    whole = [Bowl.point(widths) for widths in space(5)]
    for floor in (0.98, 0.985, 0.99):
        fastest, best = cheapest(points, floor), cheapest(whole, floor)
        assert fastest.cycles == best.cycles


def test_a_search_ends_with_its_trials_or_below_the_floor() -> None:
    bowl = Bowl()
    assert len(search_widths(space(5), bowl, trials=17, floor=0.0)) == len(bowl.evaluated) == 17
    # with all bits too little is right already: nothing but uniform assignments, and no neighbours
    assert len(search_widths(space(4), Bowl(), trials=300, floor=1.1)) == 3


def test_layers_without_a_choice_keep_their_bits() -> None:
    fixed = WidthSpace(layers=(Choices(weights=(8,), activations=(8,)), Choices(weights=LADDER, activations=(4, 8))))
    assert [widths_text(widths) for widths in fixed] == ["8,8", "8,8/4", "8,4/8", "8,4", "8,2/8", "8,2/4"]
    assert [widths_text(widths) for widths in fixed.uniform()] == ["8,8", "8,4", "8,2/4"]
    start = fixed.uniform()[0]
    assert {widths_text(widths) for widths in fixed.changes(start).values()} == {"8,4/8", "8,8/4", "8,4"}
    above = fixed.changes(fixed.uniform()[1], up=True).values()
    assert {widths_text(widths) for widths in above} == {"8,2/4", "8,8/4", "8,4/8", "8,8"}


def test_the_front_has_what_nothing_is_better_than() -> None:
    def point(cycles: int, right: int, size: int = 0, problem: str = "") -> WidthPoint:
        return WidthPoint(widths=(), right=right, images=100, cycles=cycles, weight_bytes=size, problem=problem)

    best = [point(10, 50), point(20, 60, 5), point(40, 90)]
    others = [point(20, 60, 6), point(30, 60), point(15, 50), point(40, 80), point(1, 99, problem="too large")]
    assert widths_front([*others, *best]) == best
    assert cheapest([*others, *best], 0.6) == best[1]
    assert cheapest(best, 0.95) is None
