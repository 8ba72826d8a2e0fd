"""Places of the numbers beside marks of a plot, where they cover neither marks nor lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot

_WIDTH = 520  # pixels of the plot's inside, usually; it depends on the window
_NEAR = 5  # Pixels within which marks count as one
_MOST = 4  # numbers that are written beside a mark; of more the first ones
_PLACES = (
    ("top center", 0, -13),
    ("middle right", 1, 0),
    ("middle left", -1, 0),
    ("bottom center", 0, 13),
    ("top right", 1, -11),
    ("top left", -1, -11),
    ("bottom right", 1, 11),
    ("bottom left", -1, 11),
)
"""Positions as plotly calls them, best first, each with its side and pixels downwards."""

_Box = tuple[float, float, float, float]
Position = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of a plot."""

    point: int  # its number from 0 on
    at: Position
    ends: tuple[Position | None, Position | None]  # of its bars, to the sides and upwards
    is_best: bool  # whether it is on the front


def placed(
    marks: Sequence[Mark], line: Sequence[Position], ranges: Sequence[Sequence[float]], height: float
) -> dict[int, tuple[str, str]]:
    """Text and position for the points that have one: those that coincide share it, one without room has none."""

    def pixel(at: Position) -> Position:
        x, y = ((value - low) / (high - low) for value, (low, high) in zip(at, ranges, strict=True))
        return x * _WIDTH, height - y * height

    groups: list[tuple[Position, list[Mark]]] = []
    for mark in marks:
        at = pixel(mark.at)
        near = next((group for place, group in groups if hypot(place[0] - at[0], place[1] - at[1]) < _NEAR), None)
        if near is None:
            groups.append((at, [mark]))
        else:
            near.append(mark)
    taken: list[_Box] = [(x - 5, y - 5, x + 5, y + 5) for (x, y), _ in groups]
    corners = list(map(pixel, line))
    taken += [_box(*pair) for pair in pairwise(corners)]
    for mark in marks:
        across, up = mark.ends
        if across:
            left, right = (pixel((end, mark.at[1])) for end in across)
            taken.append((left[0], left[1] - 3, right[0], left[1] + 3))
        if up:
            low, high = (pixel((mark.at[0], end)) for end in up)
            taken.append((low[0] - 3, high[1], low[0] + 3, low[1]))
    found: dict[int, tuple[str, str]] = {}
    for at, group in sorted(groups, key=lambda one: -any(mark.is_best for mark in one[1])):
        numbers = [str(mark.point + 1) for mark in group]
        text = ",".join(numbers) if len(numbers) <= _MOST else ",".join(numbers[: _MOST - 1]) + ",\u2026"
        half = 3.6 * len(text) + 2.5
        for position, side, down in _PLACES:
            x, y = at[0] + side * (half + 7), at[1] + down
            box = (x - half, y - 7, x + half, y + 7)
            inside = box[0] > 2 and box[2] < _WIDTH + 14 and box[1] > -20 and box[3] < height
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                found[group[0].point] = text, position
                break
    return found


def _box(one: Position, other: Position) -> _Box:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[0], other[0]), max(one[1], other[1])


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
