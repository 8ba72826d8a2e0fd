"""An exploration: a search, the accuracy of what it found on images it had not, and runs on the design."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpulpnn_sim.cosimulation.networks.images import Images
from xpulpnn_sim.exploration.widths.evaluation import Evaluation
from xpulpnn_sim.exploration.widths.point import Assignment, Point, cheapest, front, text_of
from xpulpnn_sim.exploration.widths.search import Space, search
from xpulpnn_sim.exploration.widths.subject import Subject
from xpulpnn_sim.exploration.widths.workers import Workers
from xpulpnn_sim.tools.results import Results, digest

_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Aims and limits of a search for bits of layers."""

    floor: float  # share of the images that must be classified as labelled
    trials: int  # assignments that are evaluated at most
    runs: int  # points that are run on the design as whole networks


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """A point that is looked at more closely."""

    point: Point  # by the images that decided
    right: int  # of the images that did not, how many are classified as labelled
    # cycles of the whole network on the design, if it was run; the results of every layer were compared then
    measured: int | None = None

    @property
    def error(self) -> float | None:
        """Excess of the sum of the layers' cycles over those measured, as a part of these."""
        return None if self.measured is None else self.point.cycles / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """Points that a search has found."""

    layers: tuple[str, ...]  # the layers that have bits
    points: tuple[Point, ...]  # all that was evaluated
    best: tuple[Best, ...]  # the front, the fastest first
    widest: Best | None  # the assignment with most bits, unless it is on the front or cannot run
    tested: int  # images of Best.right
    chosen: Point | None  # the fastest that is accurate enough
    reports: tuple[str, ...]  # what was wrong in runs on the design

    def record(self) -> dict[str, Any]:
        """All of it for a JSON file."""
        return {
            "layers": list(self.layers),
            "chosen": None if self.chosen is None else text_of(self.chosen.widths),
            "widest": None if self.widest is None else _best_record(self.widest, self.tested),
            "front": [_best_record(one, self.tested) for one in self.best],
            "points": [point.record() for point in self.points],
            "reports": list(self.reports),
        }


def _best_record(best: Best, tested: int) -> dict[str, Any]:
    found = best.point.record() | {"test_right": best.right, "test_images": tested}
    if best.error is None:
        return found
    return found | {"measured_cycles": best.measured, "prediction_error": round(best.error, _DIGITS)}


def explore(
    subject: Subject,
    space: Space,
    test: Images,
    settings: Settings,
    workers: Workers,
    progress: Callable[[int, int], None],
) -> Exploration:
    """Search, and look at what was found.

    ``test`` are the images that the front is measured with; ``progress`` takes the number of points that are known and
    of runs on the design.
    """
    evaluation = Evaluation(subject, workers, progress)
    points = search(space, evaluation.points, settings.trials, settings.floor)
    found = front(points)
    chosen = cheapest(points, settings.floor) if settings.floor else None
    widest = [point for point in points if point.widths == space.uniform()[0] and not point.problem]
    shown = list(dict.fromkeys([*found, *widest]))
    measured = {point.widths: run.cycles for point, run in evaluation.runs(verified(shown, chosen, settings.runs))}
    tested = _tested(subject, test, workers, evaluation.kept, [point.widths for point in shown])
    closely = [
        Best(point=point, right=right, measured=measured.get(point.widths))
        for point, right in zip(shown, tested, strict=True)
    ]
    return Exploration(
        layers=tuple(reader.name for reader in subject.model.readers if reader.weights),
        points=tuple(points),
        best=tuple(closely[: len(found)]),
        widest=next(iter(closely[len(found) :]), None),
        tested=len(test.samples),
        chosen=chosen,
        reports=tuple(evaluation.reports),
    )


def verified(found: Sequence[Point], chosen: Point | None, count: int) -> list[Point]:
    """So many of some points: the chosen one, and others from end to end."""
    first = [] if chosen is None else [chosen]
    spread = [found[round(place)] for place in np.linspace(len(found) - 1, 0, count)] if found else []
    return list(dict.fromkeys([*first, *spread, *found]))[:count]


def _tested(subject: Subject, test: Images, workers: Workers, kept: Results, wanted: Sequence[Assignment]) -> list[int]:
    """Images that are classified as labelled, of those that had no say in the choice."""
    other = replace(subject, images=test)
    known = {one: found for one in wanted if (found := kept.find(_test_key(other, one))) is not None}
    new = [one for one in wanted if one not in known]
    for one, right in zip(new, workers.each(other, "right", new), strict=True):
        known[one] = right
        kept.keep(_test_key(other, one), right)
    return [known[one] for one in wanted]


def _test_key(subject: Subject, widths: Assignment) -> str:
    return digest(subject.identity, text_of(widths), "right")
