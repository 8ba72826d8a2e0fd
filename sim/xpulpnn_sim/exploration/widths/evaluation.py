"""Points of assignments: studies by the reference and runs on the design, kept on disk."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.exploration.widths.point import Assignment, Point
from xpulpnn_sim.exploration.widths.subject import Measured, Studied, Subject
from xpulpnn_sim.exploration.widths.workers import Workers
from xpulpnn_sim.tools.results import cached_results, digest


class Evaluation:
    """Points of a model."""

    def __init__(
        self,
        subject: Subject,
        workers: Workers,
        progress: Callable[[int, int], None],
    ) -> None:
        self.subject = subject
        self.reports: list[str] = []
        self.kept = cached_results("widths")
        self._workers = workers
        self._progress = progress
        self._studies: dict[Assignment, Studied] = {}
        self._layers: dict[str, tuple[int, int]] = {}
        self._runs = 0

    def points(self, wanted: Sequence[Assignment]) -> list[Point]:
        """The points of these assignments, in this order."""
        self._study(wanted)
        runnable = [one for one in wanted if not self._studies[one].problem]
        for key in {key for one in runnable for key in self._studies[one].layers} - {*self._layers}:
            if (found := self.kept.find(self._layer_key(key))) is not None:
                self._layers[key] = (int(found[0]), int(found[1]))
        while chosen := self._cover(runnable):
            self._measure(chosen)
        return [self._point(one) for one in wanted]

    def _study(self, wanted: Sequence[Assignment]) -> None:
        new: list[Assignment] = []
        for one in wanted:
            if (found := self.kept.find(digest(self.subject.study_key(one)))) is not None:
                self._studies[one] = Studied(
                    right=int(found["right"]), layers=tuple(found["layers"]), problem=found["problem"]
                )
            elif one not in self._studies:
                new.append(one)
        self._tell()
        for one, studied in zip(new, self._workers.each(self.subject, "study", new), strict=True):
            self._studies[one] = studied
            self.kept.keep(digest(self.subject.study_key(one)), asdict(studied))
            self._tell()

    def _cover(self, runnable: Sequence[Assignment]) -> list[Assignment]:
        """Few assignments that have all the layers whose cycles are not known."""
        missing = {key for one in runnable for key in self._studies[one].layers} - {*self._layers}
        chosen: list[Assignment] = []
        while missing:
            best = max(runnable, key=lambda one: len(missing & {*self._studies[one].layers}))
            chosen.append(best)
            missing -= {*self._studies[best].layers}
        return chosen

    def runs(self, points: Sequence[Point]) -> list[tuple[Point, Measured]]:
        """Whole networks on the design, the results of every layer compared with the reference."""
        return list(zip(points, self._measure([point.widths for point in points]), strict=True))

    def _measure(self, wanted: Sequence[Assignment]) -> list[Measured]:
        if wanted:
            # compiled once, before several processes need it
            config = self.subject.config
            model_library("cluster" if isinstance(config, ClusterConfig) else "core", config)
        found: list[Measured] = []
        for measured in self._workers.each(self.subject, "measure", wanted):
            self._learn(measured)
            found.append(measured)
        return found

    def _learn(self, measured: Measured) -> None:
        self._runs += 1
        self.reports += measured.reports
        for key, cycles, weight_bytes in measured.layers:
            self._layers[key] = (cycles, weight_bytes)
            if not measured.reports:
                self.kept.keep(self._layer_key(key), [cycles, weight_bytes])
        self._tell()

    def _layer_key(self, key: str) -> str:
        return digest(key, self.subject.design)

    def _tell(self) -> None:
        self._progress(len(self._studies), self._runs)

    def _point(self, widths: Assignment) -> Point:
        studied, images = self._studies[widths], len(self.subject.images.samples)
        if studied.problem:
            return Point(widths=widths, right=studied.right, images=images, problem=studied.problem)
        figures = [self._layers[key] for key in studied.layers]
        return Point(
            widths=widths,
            right=studied.right,
            images=images,
            cycles=sum(cycles for cycles, _ in figures),
            weight_bytes=sum(size for _, size in figures),
        )
