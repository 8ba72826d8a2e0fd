"""An exploration: a search, the accuracy of what it found on images it had not, runs on the design, and a page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.networks.images import Images
from xpulpnn_sim.exploration.widths.subject import (
    Assignment,
    MeasuredWidths,
    Studied,
    Subject,
    WidthPoint,
    WidthSpace,
    cheapest,
    search_widths,
    widths_front,
    widths_text,
)
from xpulpnn_sim.tools.jobs import Pool, executor
from xpulpnn_sim.tools.named_table import Column, NamedTable
from xpulpnn_sim.tools.pages import INK, Page, Plot, layout
from xpulpnn_sim.tools.results import cached_results, digest

_Value = TypeVar("_Value")


class Evaluation:
    """Points of a model: studies by the reference and runs on the design, kept on disk."""

    def __init__(self, subject: Subject, pool: Pool, progress: Callable[[int, int], None]) -> None:
        self.subject = subject
        self.reports: list[str] = []
        self._kept = cached_results("widths")
        self._pool, self._progress = pool, progress
        self._shared: dict[Subject, Any] = {}
        self._studies: dict[Assignment, Studied] = {}
        self._layers: dict[str, tuple[int, int]] = {}
        self._runs = 0

    def points(self, wanted: Sequence[Assignment]) -> list[WidthPoint]:
        """The points of these assignments, in this order."""
        self._study([one for one in wanted if one not in self._studies])
        runnable = [one for one in wanted if not self._studies[one].problem]
        for key in {key for one in runnable for key in self._studies[one].layers} - {*self._layers}:
            if (found := self._kept.find(digest(key, self.subject.design))) is not None:
                self._layers[key] = (int(found[0]), int(found[1]))
        while chosen := self._cover(runnable):
            self.measure(chosen)
        return [self._point(one) for one in wanted]

    def each(
        self, subject: Subject, method: Callable[[Subject, Assignment], _Value], wanted: Sequence[Assignment]
    ) -> Iterator[_Value]:
        """Results of a method of the subject for each assignment, in order, as soon as they are known."""
        if subject not in self._shared:
            # it travels once
            self._shared[subject] = self._pool.share(subject)
        return self._pool.map(method, repeat(self._shared[subject]), wanted)

    def _kept_each(
        self, subject: Subject, method: Callable[[Subject, Assignment], _Value], keys: Mapping[Assignment, str]
    ) -> Iterator[tuple[Assignment, Any]]:
        """The same as JSON values through the cache, what is known first."""
        new: list[Assignment] = []
        for one, key in keys.items():
            if (found := self._kept.find(key)) is not None:
                yield one, found
            else:
                new.append(one)
        for one, result in zip(new, self.each(subject, method, new), strict=True):
            self._kept.keep(keys[one], result)
            yield one, result

    def _study(self, wanted: Sequence[Assignment]) -> None:
        keys = {one: digest(self.subject.identity, self.subject.design, widths_text(one)) for one in wanted}
        for one, found in self._kept_each(self.subject, Subject.study, keys):
            self._studies[one] = Studied(*found)
            self._progress(len(self._studies), self._runs)

    def right(self, subject: Subject, wanted: Sequence[Assignment]) -> list[int]:
        """Images of a subject that are classified as labelled."""
        keys = {one: digest(subject.identity, widths_text(one), "right") for one in wanted}
        known = dict(self._kept_each(subject, Subject.right, keys))
        return [known[one] for one in wanted]

    def _cover(self, runnable: Sequence[Assignment]) -> list[Assignment]:
        """Few assignments that have all the layers whose cycles are not known."""
        missing = {key for one in runnable for key in self._studies[one].layers} - {*self._layers}
        chosen: list[Assignment] = []
        while missing:
            best = max(runnable, key=lambda one: len(missing & {*self._studies[one].layers}))
            chosen.append(best)
            missing -= {*self._studies[best].layers}
        return chosen

    def measure(self, wanted: Sequence[Assignment]) -> list[MeasuredWidths]:
        """Whole networks on the design, the results of every layer compared with the reference."""
        if wanted:
            # compiled once, before several processes need it
            config = self.subject.config
            model_library("cluster" if isinstance(config, ClusterConfig) else "core", config)
        found: list[MeasuredWidths] = []
        for measured in self.each(self.subject, Subject.measure, wanted):
            self._runs += 1
            self.reports += measured.reports
            for key, cycles, weight_bytes in measured.layers:
                self._layers[key] = (cycles, weight_bytes)
                if not measured.reports:
                    self._kept.keep(digest(key, self.subject.design), [cycles, weight_bytes])
            self._progress(len(self._studies), self._runs)
            found.append(measured)
        return found

    def _point(self, widths: Assignment) -> WidthPoint:
        studied = self._studies[widths]
        figures = [self._layers[key] for key in studied.layers]
        return WidthPoint(
            widths=widths,
            right=studied.right,
            images=len(self.subject.images.samples),
            cycles=sum(cycles for cycles, _ in figures),
            weight_bytes=sum(size for _, size in figures),
            problem=studied.problem,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """A point that is looked at more closely."""

    point: WidthPoint  # by the images that decided
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
    points: tuple[WidthPoint, ...]  # all that was evaluated
    best: tuple[Best, ...]  # the front, the fastest first
    widest: Best | None  # the assignment with most bits, unless it is on the front or cannot run
    tested: int  # images of Best.right
    chosen: WidthPoint | None  # the fastest that is accurate enough
    reports: tuple[str, ...]  # what was wrong in runs on the design

    def record(self) -> dict[str, Any]:
        """All of it for a JSON file."""
        return {
            "layers": list(self.layers),
            "chosen": None if self.chosen is None else widths_text(self.chosen.widths),
            "widest": None if self.widest is None else _best_record(self.widest, self.tested),
            "front": [_best_record(one, self.tested) for one in self.best],
            "points": [point.record() for point in self.points],
            "reports": list(self.reports),
        }


def _best_record(best: Best, tested: int) -> dict[str, Any]:
    found = best.point.record() | {"test_right": best.right, "test_images": tested}
    if best.error is None:
        return found
    return found | {"measured_cycles": best.measured, "prediction_error": round(best.error, 6)}


def explore_widths(
    subject: Subject,
    space: WidthSpace,
    test: Images,
    *,
    floor: float,
    trials: int,
    runs: int,
    jobs: int,
    progress: Callable[[int, int], None],
) -> Exploration:
    """Search, evaluating ``trials`` assignments at most, and look at what was found.

    The share ``floor`` of the images must be classified as labelled. ``test`` are the images that the front is measured
    with; ``runs`` points are run on the design as whole networks. ``progress`` takes the number of points that are
    known and of runs on the design.
    """
    with executor(jobs) as pool:
        evaluation = Evaluation(subject, pool, progress)
        points = search_widths(space, evaluation.points, trials, floor)
        found = widths_front(points)
        chosen = cheapest(points, floor) if floor else None
        widest = [point for point in points if point.widths == space.uniform()[0] and not point.problem]
        shown = list(dict.fromkeys([*found, *widest]))
        run = [point.widths for point in verified(shown, chosen, runs)]
        measured = {widths: one.cycles for widths, one in zip(run, evaluation.measure(run), strict=True)}
        tested = evaluation.right(replace(subject, images=test), [point.widths for point in shown])
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


def verified(found: Sequence[WidthPoint], chosen: WidthPoint | None, count: int) -> list[WidthPoint]:
    """So many of some points: the chosen one, and others from end to end."""
    first = [] if chosen is None else [chosen]
    spread = [found[round(place)] for place in np.linspace(len(found) - 1, 0, count)] if found else []
    return list(dict.fromkeys([*first, *spread, *found]))[:count]


_FRONT, _CHOSEN = "#0072b2", "#d55e00"
_HEIGHT = 560
_KIB = 1024
_MILLION = 1e6
_PERCENT = 100


def write_widths_page(path: Path, model: str, found: Exploration, command: str = "xpulpnn net explore") -> None:
    """Write a page with all points, by cycles and by weights, and the front as a table."""
    images = found.points[0].images if found.points else 0
    note = (
        f"Bits of weights and, behind a stroke, of the maps that a layer reads; layers: {', '.join(found.layers)}. "
        f"Each point is an assignment, its accuracy that of {images} images, its cycles the sum of its layers', each "
        f"of which was measured once on the RTL. The table has the accuracy of {found.tested} other images."
    )
    page = Page(title=f"{model}: bits of the layers", command=command, writer="xpulpnn net explore", notes=[note])
    for name, title, figure in (
        ("cycles", "Accuracy over cycles", cycles_figure(found)),
        ("memory", "Accuracy over memory", weights_figure(found)),
    ):
        page.section(name, title, Plot(name=name, variants={(): figure}))
    page.section("front", "The front, and the most bits", front_table(found))
    page.write(path)


def front_table(found: Exploration) -> NamedTable:
    """Accuracies, cycles and weights of the front, and of the assignment with most bits."""
    rows = [*found.best, *([found.widest] if found.widest else [])]
    images = found.points[0].images if found.points else 0
    return NamedTable(
        title="The front, and the most bits",
        columns=[
            Column(name="bits"),
            Column(name=f"of {images} images", unit="%", digits=2),
            Column(name=f"of {found.tested} other images", unit="%", digits=2),
            Column(name="cycles", digits=0, grouped=True),
            Column(name="weights", unit="KiB", digits=1),
            Column(name="cycles of the whole network on the RTL", digits=0, grouped=True),
            Column(name="sum above these by", unit="%", digits=2, signed=True),
        ],
        rows=[
            [
                widths_text(best.point.widths),
                _PERCENT * best.point.accuracy,
                _PERCENT * best.right / found.tested,
                best.point.cycles,
                best.point.weight_bytes / _KIB,
                best.measured,
                None if best.error is None else _PERCENT * best.error,
            ]
            for best in rows
        ],
        marked=frozenset(number for number, best in enumerate(rows) if best.point == found.chosen),
    )


def cycles_figure(found: Exploration) -> dict[str, Any]:
    """Accuracy over cycles: all points, the front, those that were run as whole networks, the chosen one."""
    runnable = [point for point in found.points if not point.problem]
    whole = [((one.measured or 0) / _MILLION, one.point) for one in found.best if one.measured is not None]
    shade = {
        "color": [point.weight_bytes / _KIB for point in runnable],
        "colorbar": {"title": {"text": "KiB of weights"}},
    }
    traces = [
        _dots("assignments", _placed(runnable, "cycles"), size=7, opacity=0.7, **shade),
        _dots("front", _placed([one.point for one in found.best], "cycles"), size=9, color=_FRONT) | _stairs(_FRONT),
        _dots("whole network on the RTL", whole, symbol="circle-open", size=15, color=INK, line={"width": 2}),
    ]
    if found.chosen is not None:
        traces.append(_dots("chosen", _placed([found.chosen], "cycles"), symbol="star", size=15, color=_CHOSEN))
    return {"data": traces, "layout": _layout("Mcycles of an image")}


def weights_figure(found: Exploration) -> dict[str, Any]:
    """Accuracy over the memory of the weights, with a front of its own."""
    runnable = [point for point in found.points if not point.problem]
    lightest = _placed(widths_front(runnable, lambda point: point.weight_bytes), "weight_bytes")
    fastest = _placed([one.point for one in found.best], "weight_bytes")
    traces = [
        _dots("assignments", _placed(runnable, "weight_bytes"), color="#9aa5b1", size=6),
        _dots("front by memory", lightest, color=_CHOSEN, size=9) | _stairs(_CHOSEN),
        _dots("front by cycles", fastest, color=_FRONT, size=9),
    ]
    return {"data": traces, "layout": _layout("KiB of weights and parameters")}


def _placed(points: Sequence[WidthPoint], cost: str) -> list[tuple[float, WidthPoint]]:
    """Points with their places: Mcycles or KiB."""
    return [(getattr(point, cost) / (_MILLION if cost == "cycles" else _KIB), point) for point in points]


def _stairs(colour: str) -> dict[str, Any]:
    return {"mode": "lines+markers", "line": {"shape": "hv", "color": colour, "width": 2}}


def _dots(name: str, placed: Sequence[tuple[float, WidthPoint]], **marker: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [place for place, _ in placed],
        "y": [_PERCENT * point.accuracy for _, point in placed],
        "customdata": [[widths_text(point.widths), point.weight_bytes / _KIB] for _, point in placed],
        "marker": marker,
        "hovertemplate": "%{customdata[0]}<br>%{y:.2f} %, %{x:.3f}<br>%{customdata[1]:.1f} KiB"
        "<extra>%{fullData.name}</extra>",
    }


def _layout(across: str) -> dict[str, Any]:
    shown = layout("", _HEIGHT)
    shown["xaxis"] |= {"title": {"text": across}}
    shown["yaxis"] |= {"title": {"text": "% of the images classified as labelled"}}
    return shown
