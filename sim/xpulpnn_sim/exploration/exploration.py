"""Run an exploration: evaluate its points in processes or on Dask workers, then write tables and files."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean
from time import perf_counter, time

from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.finished_run import FinishedRun
from xpulpnn_sim.exploration.flows import PROGRAMS, KernelSpec, energy_step, flow_steps, kernel_step, libraries
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.paper import paper_points, paper_table
from xpulpnn_sim.exploration.report.cluster_blocks import cluster_tables
from xpulpnn_sim.exploration.report.files import FILES, require_report_packages, write_run
from xpulpnn_sim.exploration.results import Configuration, Constraint, PointResult
from xpulpnn_sim.exploration.search import PRESET, Search, objectives, pareto_table, structures
from xpulpnn_sim.exploration.space import WHOLE_CLUSTERS, Point, Space, build_space, parse_space
from xpulpnn_sim.exploration.task import POINTS, PointStep, ResultField, Task, earlier_files, run_tasks
from xpulpnn_sim.tools.dask_workers import WorkersLostError, require_dask
from xpulpnn_sim.tools.files import folder_lock, output_folder
from xpulpnn_sim.tools.named_table import NamedTable
from xpulpnn_sim.tools.results import cached_results
from xpulpnn_sim.tools.yosys import first_run_s

_DEFAULTS_S = {"flows": 30.0, "kernels": 20.0, "energies": 120.0}
"""Estimated seconds of a step without an earlier run, by type of result."""

_CLUSTER_S = {"flows": 240.0, "kernels": 120.0, "energies": 300.0}  # the same for a whole cluster
_MINUTE_S, _HOUR_S = 60, 3600


def _size_text(points: int, steps: int, known: int, seconds: float, jobs: int, first_s: float) -> str:
    counted = [f"{n:,} {what}{'' if n == 1 else 's'}" for n, what in ((points, "point"), (steps, "step"))]
    at_once = max(1, min(jobs, points))
    seconds = seconds / at_once + first_s
    lasting = f"{seconds:.0f} s"
    if seconds >= 2 * _MINUTE_S:
        lasting = f"{seconds / _MINUTE_S:.0f} min" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.1f} h"
    shared = f"{lasting} with {at_once} process{'es' if at_once > 1 else ''}" if jobs else f"{lasting} of work"
    return f"{counted[0]} to run, {counted[1]}{f', {known:,} known' * bool(known)}, about {shared}"


def _remember(tasks: Iterable[Task]) -> None:
    measured: defaultdict[str, list[float]] = defaultdict(list)
    for task in tasks:
        for key in task.known.keys() - task.missing:
            result = task.known[key]
            own = float(result.get("wall_s", 0.0) if isinstance(result, dict) else result.wall_s)
            wall_s = max(own, task.seconds.get(key, 0.0))
            if wall_s:
                step = task.steps[key]
                measured[f"{task.point.top} {step.name}"].append(wall_s / int(step.settings().get("repeat", 1)))
    for name, values in measured.items():
        cached_results("times").store(name, round(fmean(values), 2))


def remove_earlier(output: Path) -> None:
    for folder in sorted((output / POINTS).glob("*/")):
        for name in earlier_files(folder):
            (folder / name).unlink(missing_ok=True)
    for folder in [*sorted((output / POINTS).rglob("*/"), reverse=True), output / POINTS]:
        with suppress(OSError):
            folder.rmdir()
    with suppress(OSError, ValueError, TypeError, LookupError):
        record = json.loads((output / FILES[0]).read_text())
        if "points" in record and str(record["command"]).startswith("xpulpnn explore"):
            for name in FILES:
                (output / name).unlink(missing_ok=True)


_LONG_RUN_S = 60.0  # estimated time from which the size of a run is shown before it starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Callbacks for the progress of a run; they do nothing by default."""

    remark: Callable[[str], object] = lambda text: None  # a message about the run
    # number of steps to run: at the start, and whenever a result turns out to be cached
    expect: Callable[[int], object] = lambda total: None
    step_begins: Callable[[str, str], object] = lambda label, step: None  # point and step that begins
    step_ends: Callable[[str, str], object] = lambda label, step: None  # point and step that is done
    remaining: Callable[[float], object] = lambda seconds: None  # estimated seconds to the end


class ExplorationLoop:
    def __init__(self, options: ExploreOptions, watcher: Watcher) -> None:
        self._options, self.watcher = options, watcher
        self._fresh_since = time() if options.fresh else None
        self.results: list[PointResult] = []
        self.notes: list[str] = []  # such as kernels that a point cannot run
        self.known: list[str] = []  # points and steps whose results were cached
        self._expected = 0  # steps to run
        self._tasks: list[Task] = []
        # kind and usual seconds by point and step; seconds of the steps to run, by kind
        self._expected_s: dict[tuple[str, str], tuple[ResultField, float]] = {}
        self._pending_s = defaultdict[ResultField, float](float)
        self._started = 0.0
        self.interrupted = ""
        self.lost = ""

    def run(
        self, points: Sequence[Point], steps: Sequence[Sequence[PointStep]], total_points: int | None = None
    ) -> list[PointResult]:
        """Evaluate points; raise :class:`InputError` if ``total_points``, the points of all calls, exceed the limit."""
        options = self._options
        pairs = zip(points, steps, strict=True)
        tasks = [Task(point, listed, options.output, fresh_since=self._fresh_since) for point, listed in pairs]
        missing = [(task, key) for task in tasks for key in task.missing]
        for task, key in missing:
            step, usual = task.steps[key], _CLUSTER_S if task.point.top in WHOLE_CLUSTERS else _DEFAULTS_S
            once = cached_results("times").find(f"{task.point.top} {step.name}") or usual[step.kind]
            repeats = int(step.settings().get("repeat", 1))
            self._expected_s[task.point.label, step.name] = step.kind, once * repeats
        if not self.results:
            self._start(tasks, 1.0 if total_points is None else total_points / len(points))
        self._tasks += tasks
        try:
            run_tasks(
                tasks,
                self._step_ended,
                on_begin=self.watcher.step_begins,
                jobs=options.jobs,
                timeout_s=options.timeout,
                dask=options.dask,
            )
        except (KeyboardInterrupt, WorkersLostError) as stop:
            done = sum(not task.left for task in self._tasks)
            total = sum(len(task.steps) for task in self._tasks)
            ended = total - sum(len(task.left) for task in self._tasks)
            self.interrupted = f"interrupted after {done} of {len(self._tasks)} points, {ended} of {total} steps"
            self.lost = str(stop) if isinstance(stop, WorkersLostError) else ""
        results = [task.unfinished() if task.left else task.result() for task in tasks]
        self.results += results
        _remember(tasks)
        return results

    def _start(self, tasks: Sequence[Task], factor: float) -> None:
        """Report the size of the run, ``factor`` times the size of ``tasks``; raise InputError if it is too large."""
        options = self._options
        self._started = perf_counter()
        for kind, usual in self._expected_s.values():
            self._pending_s[kind] += factor * usual
        seconds = sum(self._pending_s.values())
        counted = sum(bool(task.left) for task in tasks), len(self._expected_s), sum(len(task.known) for task in tasks)
        count, steps, known = (round(factor * number) for number in counted)
        first_s = 0.0 if options.dask or self._pending_s.keys() <= {"kernels"} else first_run_s(options.yosys)
        text = _size_text(count, steps, known, seconds, 0 if options.dask else options.jobs, first_s)
        if count > options.max_points and not options.yes:
            raise InputError(
                f"max_points must be at least {count}, or --yes be given, not {options.max_points} ({text})"
            )
        if seconds + first_s >= _LONG_RUN_S:
            self.watcher.remark(text)
        if options.fresh:
            remove_earlier(options.output)
        # cached results count as steps until they are reported
        self._expected = steps + known
        self.watcher.expect(self._expected)

    def _step_ended(self, label: str, step: str, known: bool) -> None:
        if (label, step) in self._expected_s:
            kind, usual = self._expected_s[label, step]
            self._pending_s[kind] -= usual
        if known:
            self.known.append(f"{label}: {step}")
            self._expected -= 1
        self.watcher.expect(self._expected)
        if not known:
            self.watcher.step_ends(label, step)
            self.watcher.remaining(self._left_s())

    def _left_s(self) -> float:
        took, usual = (defaultdict[ResultField, float](float) for _ in range(2))
        for task in self._tasks:
            for key, seconds in task.seconds.items():
                if seconds:
                    kind, usual_s = self._expected_s[task.point.label, task.steps[key].name]
                    took[kind] += seconds
                    usual[kind] += usual_s
        all_s = sum(took.values())
        slower = max(1.0, all_s / (sum(usual.values()) or 1.0))
        work = sum(s * (took[kind] / usual[kind] if usual[kind] else slower) for kind, s in self._pending_s.items())
        at_once = all_s / (perf_counter() - self._started)
        return work / max(1.0, at_once)


def explore(options: ExploreOptions, watcher: Watcher | None = None) -> FinishedRun:
    """Run the exploration, and write its files into ``options.output``.

    Points with results of an earlier run in that folder are not run again. An interrupted run reports the points that
    it completed.

    Parameters
    ----------
    options : ExploreOptions
        Configurations, figures, and how they are run.
    watcher : Watcher or None
        Called with the progress of the run.

    Returns
    -------
    FinishedRun
        Results by point, and combinations that cannot be built. A point that failed has an ``error``.

    Raises
    ------
    InputError
        For bad options, before anything is written.
    ToolError
        If a tool is missing.
    """
    started = perf_counter()
    options.check()
    loop = ExplorationLoop(options, watcher or Watcher())
    run_points = _search(options, loop, options.search) if options.search else _sweep(options, loop)
    if options.dask:
        require_dask(options.dask)
    if not options.no_report:
        require_report_packages()
    with output_folder(options.output, "output"), folder_lock(options.output, "output"):
        space, extra = run_points()
        what = "Search" if options.search else "Exploration"
        title = "Table II of the XpulpNN paper" if options.paper else f"{what} of {space.points[0].top}"
        tools = [result_of.tools for result in loop.results for result_of in (*result.flows, *result.energies)]
        finished = FinishedRun(
            title=f"{title} (incomplete: {loop.interrupted})" if loop.interrupted else title,
            command=options.command,
            date=datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"),
            baseline=options.baseline or space.points[0].label,
            tools={name: version for versions in tools for name, version in versions.items()},
            wall_s=perf_counter() - started,
            known=tuple(loop.known),
            points=tuple(loop.results),
            skipped=space.skipped,
            notes=tuple(loop.notes),
            outside={
                text: [point.label for point in loop.results if not Constraint(text).met(point)]
                for text in options.constraint
            },
            extra=(*extra, *cluster_tables(loop.results)),
            interrupted=loop.interrupted,
            lost=loop.lost,
        )
        write_run(options.output, finished, report=not options.no_report)
    return finished


PointRun = Callable[[], tuple[Space, tuple[NamedTable, ...]]]
"""A function that evaluates the points; it returns them and the tables to show first."""


def _sweep(options: ExploreOptions, loop: ExplorationLoop) -> PointRun:
    if not options.paper:
        space = build_space(options.component, options.presets, options.settings, options.sweep)
        labels = [point.label for point in space.points]
        if options.baseline is not None and options.baseline not in labels:
            raise InputError(f"baseline must be one of {', '.join(labels)}, not {options.baseline}")
        steps = _PointSteps(options).steps(space.points, loop.notes)
    else:
        space, steps = paper_points(options)

    def run_points() -> tuple[Space, tuple[NamedTable, ...]]:
        if space.skipped:
            first, size = space.skipped[0], len(space.points) + len(space.skipped)
            told = f"{len(space.skipped)} of {size} combinations are not possible, such as {first.label}: {first.rule}"
            loop.watcher.remark(told)
        loop.run(space.points, steps)
        return space, (paper_table(loop.results),) if options.paper else ()

    return run_points


def _search(options: ExploreOptions, loop: ExplorationLoop, proposed: int) -> PointRun:
    top = options.component
    names, common, swept = parse_space(top, options.presets, options.settings, options.sweep)
    point_steps = _PointSteps(options)
    names_of_flows, measured = [step.name for step in point_steps.flows], point_steps.measured
    chosen = objectives(options.objective or "", names_of_flows, kernels=bool(options.kernel), energies=measured)
    search = Search(
        top=top,
        common=common,
        choices={PRESET: names, **(swept or structures(top, common))},
        obstacle=point_steps.obstacle,
        objectives=chosen,
        points=proposed,
        seed=options.search_seed,
    )

    def evaluate(points: Sequence[Point]) -> Sequence[PointResult]:
        return loop.run(points, point_steps.steps(points, loop.notes), min(search.points, search.size))

    def run_points() -> tuple[Space, tuple[NamedTable, ...]]:
        space = search.run(evaluate, lambda: bool(loop.interrupted))
        return space, (pareto_table(loop.results, chosen),)

    return run_points


class _PointSteps:
    def __init__(self, options: ExploreOptions) -> None:
        self._specs = list(dict.fromkeys(map(KernelSpec.parse, options.kernel)))
        self._of_kernel: list[Callable[[KernelSpec], PointStep]] = [kernel_step]
        self._programs: list[PointStep] = []
        self.measured = options.energy or options.general or options.sleep
        if self.measured:
            cells, yosys = libraries(options)[0], options.yosys
            on_core = options.component == "core"
            if options.energy:
                self._of_kernel.append(lambda spec: energy_step(cells, spec, core=on_core, yosys=yosys))
            named = [name for option, names in PROGRAMS.items() if getattr(options, option) for name in names]
            self._programs += [energy_step(cells, name, yosys=yosys) for name in named]
        self.flows = flow_steps(options)

    def obstacle(self, config: Configuration) -> str:
        """Return why a configuration cannot run one of the kernels; empty if it can run all."""
        return next((f"{spec}: {rule}" for spec in self._specs if (rule := spec.obstacle(config))), "")

    def steps(self, points: Sequence[Point], notes: list[str]) -> list[list[PointStep]]:
        """Return the steps of each point, and note kernels that it cannot run; each kernel must run on some point."""
        obstacles_of = {spec: [spec.obstacle(point.config) for point in points] for spec in self._specs}
        steps: list[list[PointStep]] = [[*self.flows] for _ in points]
        for spec, obstacles in obstacles_of.items():
            if all(obstacles):
                raise InputError(f"kernel {spec}: {obstacles[0]}")
            named = zip(points, obstacles, strict=True)
            notes += [f"-: {spec} does not run on {point.label}: {rule}" for point, rule in named if rule]
        for number, point in enumerate(points):
            able = [spec.for_config(point.config) for spec in self._specs if not obstacles_of[spec][number]]
            steps[number] += [step(spec) for step in self._of_kernel for spec in dict.fromkeys(able)]
            steps[number] += self._programs
        return steps
