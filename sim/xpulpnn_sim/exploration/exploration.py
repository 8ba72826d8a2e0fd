"""A whole exploration: from options to results, tables and files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.finished_run import FinishedRun, require_report_packages
from xpulpnn_sim.exploration.flows import (
    EnergyStep,
    FlowStep,
    KernelSpec,
    KernelStep,
    flow_steps,
    library,
)
from xpulpnn_sim.exploration.loop import ExplorationLoop, Watcher
from xpulpnn_sim.exploration.options import CLUSTER, WHOLE_CLUSTERS, ExploreOptions
from xpulpnn_sim.exploration.paper import cluster_paper_table, cluster_points, paper_points, paper_table
from xpulpnn_sim.exploration.report.headlines import cluster_tables
from xpulpnn_sim.exploration.results import Configuration, PointResult
from xpulpnn_sim.exploration.search import PRESET, Search, objectives, pareto_table, structures
from xpulpnn_sim.exploration.space import Point, Space, build_space, parse_space
from xpulpnn_sim.exploration.task import PointStep
from xpulpnn_sim.tools.dask_workers import require_dask
from xpulpnn_sim.tools.files import folder_lock, require_folder
from xpulpnn_sim.tools.named_table import NamedTable


def explore(options: ExploreOptions, watcher: Watcher | None = None) -> FinishedRun:
    """Run what the options ask for, and write its files into ``options.output``.

    Points with results of an earlier run in that folder are not run again. An interrupted run is finished as far as it
    came, and says so.

    Parameters
    ----------
    options : ExploreOptions
        Configurations, figures, and how they are run.
    watcher : Watcher or None
        Told how far the run is.

    Returns
    -------
    FinishedRun
        Results by point, and what cannot be built. A point that failed has its ``error``; the others are complete.

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
    plan = _search(options, loop, options.search) if options.search else _sweep(options, loop)
    if options.dask:
        require_dask(options.dask)
    if not options.no_report:
        require_report_packages()
    require_folder(options.output, "output")
    with folder_lock(options.output, "output"):
        space, extra = plan()
        what = "Search" if options.search else "Exploration"
        title = "Table II of the XpulpNN paper" if options.paper else f"{what} of {space.points[0].top}"
        tools = [one.tools for result in loop.results for one in (*result.flows, *result.energies)]
        finished = FinishedRun(
            title=f"{title} (incomplete: {loop.interrupted})" if loop.interrupted else title,
            command=options.command,
            date=datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"),
            baseline=options.baseline or space.points[0].label,
            tools={name: version for one in tools for name, version in one.items()},
            wall_s=perf_counter() - started,
            cached=loop.cached,
            points=tuple(loop.results),
            skipped=space.skipped,
            notes=tuple(loop.notes),
            extra=(*extra, *cluster_tables(loop.results)),
            interrupted=loop.interrupted,
            lost=loop.lost,
        )
        finished.write(options.output, report=not options.no_report)
    return finished


Plan = Callable[[], tuple[Space, tuple[NamedTable, ...]]]
"""Runs points in the loop; returns them, and tables to show before all others."""


def _sweep(options: ExploreOptions, loop: ExplorationLoop) -> Plan:
    """Check the options and make the plan of all combinations, or of a paper."""
    table = None
    if not options.paper:
        space = build_space(options.component, options.presets, options.settings, options.sweep)
        labels = [point.label for point in space.points]
        if options.baseline is not None and options.baseline not in labels:
            raise InputError(f"baseline must be one of {', '.join(labels)}, not {options.baseline}")
        steps = _figures(options).steps(space.points, loop.notes)
    else:
        is_cluster = options.component == CLUSTER
        table = cluster_paper_table if is_cluster else paper_table
        space, steps = cluster_points(options) if is_cluster else paper_points(options)

    def plan() -> tuple[Space, tuple[NamedTable, ...]]:
        loop.run(space.points, steps)
        return space, (table(loop.results),) if table else ()

    return plan


def _search(options: ExploreOptions, loop: ExplorationLoop, proposed: int) -> Plan:
    top = options.component
    names, common, swept = parse_space(top, options.presets, options.settings, options.sweep)
    figures = _figures(options)
    wanted = objectives(
        options.objective or "",
        [step.name for step in figures.flows],
        kernels=bool(options.kernel),
        energies=options.energy or options.general,
    )
    search = Search(
        top=top,
        common=common,
        choices={PRESET: names, **(swept or structures(top, common))},
        obstacle=figures.obstacle,
        objectives=wanted,
        points=proposed,
        seed=options.search_seed,
    )

    def evaluate(points: Sequence[Point]) -> Sequence[PointResult]:
        return loop.run(points, figures.steps(points, loop.notes), min(search.points, search.size))

    def plan() -> tuple[Space, tuple[NamedTable, ...]]:
        found = search.run(evaluate, lambda: bool(loop.interrupted))
        return found, (pareto_table(loop.results, wanted),)

    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """The steps that the options ask for, each once for all points."""

    flows: list[FlowStep]
    runs: list[tuple[KernelSpec | None, PointStep]]  # with the kernels that they run

    def obstacle(self, config: Configuration) -> str:
        """Why a configuration cannot run one of the kernels; empty if it can run all."""
        specs = [spec for spec, _ in self.runs if spec is not None]
        return next((f"{spec}: {rule}" for spec in specs if (rule := spec.obstacle(config))), "")

    def steps(self, points: Sequence[Point], notes: list[str]) -> list[list[PointStep]]:
        """The steps of each point; ``notes`` are told who cannot run what.

        Raises :class:`InputError` for a kernel that no point can run.
        """
        rules: dict[KernelSpec | None, list[str]] = {None: [""] * len(points)}
        for spec in dict.fromkeys(spec for spec, _ in self.runs if spec is not None):
            rules[spec] = [spec.obstacle(point.config) for point in points]
            if all(rules[spec]):
                raise InputError(f"kernel {spec}: {rules[spec][0]}")
            told = zip(points, rules[spec], strict=True)
            notes += [f"not run: {spec} on {point.label} ({rule})" for point, rule in told if rule]
        return [
            [*self.flows, *(step for spec, step in self.runs if not rules[spec][number])]
            for number in range(len(points))
        ]


def _figures(options: ExploreOptions) -> _Figures:
    specs = list(dict.fromkeys(map(KernelSpec.parse, options.kernel)))
    runs: list[tuple[KernelSpec | None, PointStep]] = [(spec, KernelStep(spec)) for spec in specs]
    if options.energy or options.general:
        cells = library(options.liberty)
        on_core = options.component in ("core", *WHOLE_CLUSTERS)
        runs += [(spec, EnergyStep(cells, spec, on_core, options.yosys)) for spec in specs if options.energy]
        runs += [(None, EnergyStep(cells, None, yosys=options.yosys))] if options.general else []
    return _Figures(flows=flow_steps(options), runs=runs)
