"""Bits of all layers of a network, what comes of them, and which of several are worth having."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xpulpnn_sw.networks.importers.registry import LayerWidths

Assignment = tuple[LayerWidths, ...]  # bits of the layers with weights, in their order


def text_of(widths: Assignment) -> str:
    """As ``--quantise`` takes it."""
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


def front(points: Iterable[Point], cost: Callable[[Point], int] | None = None) -> list[Point]:
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
    return next((point for point in front(points) if point.accuracy >= floor), None)
