"""Search bit widths; then run the Pareto front on test images for accuracy, and on the design for cycles."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.networks.images import Images
from xpulpnn_sim.exploration.widths.studied_model import AssignmentStudy, NetworkRun, StudiedModel
from xpulpnn_sim.exploration.widths.width_search import (
    Assignment,
    WidthPoint,
    WidthSpace,
    cheapest,
    search_widths,
    widths_front,
    widths_text,
)
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.pool import Pool
from xpulpnn_sim.tools.results import cached_results, digest

_Value = TypeVar("_Value")


class Evaluation:
    def __init__(self, model: StudiedModel, pool: Pool, progress: Callable[[int, int], None]) -> None:
        self.model = model
        self.reports: list[str] = []
        self._cache = cached_results("widths")
        self._pool, self._progress = pool, progress
        self._share = cache(pool.share)  # a model is sent to the processes once
        self._studies: dict[Assignment, AssignmentStudy] = {}
        self._layers: dict[str, tuple[int, int]] = {}
        self._runs = 0

    def points(self, assignments: Sequence[Assignment]) -> list[WidthPoint]:
        self._study([widths for widths in assignments if widths not in self._studies])
        runnable = [widths for widths in assignments if not self._studies[widths].problem]
        for key in self._unmeasured(runnable):
            if (figures := self._cache.find(digest(key, self.model.design))) is not None:
                self._layers[key] = (int(figures[0]), int(figures[1]))
        while chosen := self._cover(runnable):
            self.measure(chosen)
        return [self._point(widths) for widths in assignments]

    def _unmeasured(self, runnable: Sequence[Assignment]) -> set[str]:
        return {key for widths in runnable for key in self._studies[widths].layers} - {*self._layers}

    def evaluate(
        self, model: StudiedModel, method: Callable[[StudiedModel, Assignment], _Value], widths: Sequence[Assignment]
    ) -> Iterator[_Value]:
        return self._pool.map(method, repeat(self._share(model)), widths)

    def _cached_each(
        self, model: StudiedModel, method: Callable[[StudiedModel, Assignment], _Value], keys: Mapping[Assignment, str]
    ) -> Iterator[tuple[Assignment, Any]]:
        new: list[Assignment] = []
        for widths, key in keys.items():
            if (cached := self._cache.find(key)) is not None:
                yield widths, cached
            else:
                new.append(widths)
        for widths, result in zip(new, self.evaluate(model, method, new), strict=True):
            self._cache.store(keys[widths], result)
            yield widths, result

    def _study(self, assignments: Sequence[Assignment]) -> None:
        keys = {widths: digest(self.model.identity, self.model.design, widths_text(widths)) for widths in assignments}
        for widths, result in self._cached_each(self.model, StudiedModel.study, keys):
            self._studies[widths] = AssignmentStudy(*result)
            self._progress(len(self._studies), self._runs)

    def count_correct(self, model: StudiedModel, assignments: Sequence[Assignment]) -> list[int]:
        keys = {widths: digest(model.identity, widths_text(widths), "right") for widths in assignments}
        known = dict(self._cached_each(model, StudiedModel.count_correct, keys))
        return [known[widths] for widths in assignments]

    def _cover(self, runnable: Sequence[Assignment]) -> list[Assignment]:
        """Choose a few assignments that together contain every layer whose cycles are not known yet."""
        missing = self._unmeasured(runnable)
        chosen: list[Assignment] = []
        while missing:
            best = max(runnable, key=lambda widths: len(missing & {*self._studies[widths].layers}))
            chosen.append(best)
            missing -= {*self._studies[best].layers}
        return chosen

    def measure(self, assignments: Sequence[Assignment]) -> list[NetworkRun]:
        if assignments:
            # compile the model before several processes need it
            config = self.model.config
            model_library("cluster" if isinstance(config, ClusterConfig) else "core", config)
        runs: list[NetworkRun] = []
        for measured in self.evaluate(self.model, StudiedModel.measure, assignments):
            self._runs += 1
            self.reports += measured.reports
            for key, cycles, weight_bytes in measured.layers:
                self._layers[key] = (cycles, weight_bytes)
                if not measured.reports:
                    self._cache.store(digest(key, self.model.design), [cycles, weight_bytes])
            self._progress(len(self._studies), self._runs)
            runs.append(measured)
        return runs

    def _point(self, widths: Assignment) -> WidthPoint:
        studied = self._studies[widths]
        figures = [self._layers[key] for key in studied.layers]
        return WidthPoint(
            widths=widths,
            right=studied.right,
            images=len(self.model.images.samples),
            cycles=sum(cycles for cycles, _ in figures),
            weight_bytes=sum(size for _, size in figures),
            problem=studied.problem,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    layers: tuple[str, ...]  # layers with weights
    points: tuple[WidthPoint, ...]  # all evaluated points
    best: tuple[WidthPoint, ...]  # Pareto front with figures on test images, fastest first
    widest: WidthPoint | None  # assignment with most bits, unless it is on the front or cannot run
    tested: int  # number of test images
    chosen: WidthPoint | None  # fastest point of sufficient accuracy
    reports: tuple[str, ...]  # mismatches in runs on the design

    def record(self) -> dict[str, Any]:
        return {
            "layers": list(self.layers),
            "chosen": None if self.chosen is None else widths_text(self.chosen.widths),
            "widest": None if self.widest is None else self.widest.record(),
            "front": [best.record() for best in self.best],
            "points": [point.record() for point in self.points],
            "reports": list(self.reports),
        }


def explore_widths(
    model: StudiedModel,
    space: WidthSpace,
    test: Images,
    *,
    floor: float,
    trials: int,
    runs: int,
    jobs: int,
    progress: Callable[[int, int], None],
) -> Exploration:
    """Search for bit widths with accuracies of at least ``floor``; run ``runs`` points of the Pareto front on the
    design, and determine the accuracy of the front on the images ``test``."""
    with executor(jobs) as pool:
        evaluation = Evaluation(model, pool, progress)
        points = search_widths(space, evaluation.points, trials, floor)
        front = widths_front(points)
        chosen = cheapest(points, floor) if floor else None
        widest = [point for point in points if point.widths == space.uniform()[0] and not point.problem]
        shown = list(dict.fromkeys([*front, *widest]))
        verified = [point.widths for point in spread_points(shown, chosen, runs)]
        measured = {widths: run.cycles for widths, run in zip(verified, evaluation.measure(verified), strict=True)}
        tested = evaluation.count_correct(replace(model, images=test), [point.widths for point in shown])
    images = len(test.samples)
    shown = [
        replace(point, test_right=right, test_images=images, measured=measured.get(point.widths))
        for point, right in zip(shown, tested, strict=True)
    ]
    return Exploration(
        layers=tuple(reader.name for reader in model.onnx.readers if reader.weights),
        points=tuple(points),
        best=tuple(shown[: len(front)]),
        widest=next(iter(shown[len(front) :]), None),
        tested=images,
        chosen=chosen,
        reports=tuple(evaluation.reports),
    )


def spread_points(points: Sequence[WidthPoint], chosen: WidthPoint | None, count: int) -> list[WidthPoint]:
    first = [] if chosen is None else [chosen]
    spread = [points[round(place)] for place in np.linspace(len(points) - 1, 0, count)] if points else []
    return list(dict.fromkeys([*first, *spread, *points]))[:count]
