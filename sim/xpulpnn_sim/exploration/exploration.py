"""A whole exploration: from options to results, tables and files."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.finished_run import FILES, FinishedRun, require_report_packages
from xpulpnn_sim.exploration.flows import FLOWS, INFERRED, FlowStep, Request, flow_steps, library, parse_clock
from xpulpnn_sim.exploration.kernels import EnergyStep, KernelSpec, KernelStep
from xpulpnn_sim.exploration.loop import Loop, Watcher, run_search, run_sweep
from xpulpnn_sim.exploration.mapping import SCRIPTS
from xpulpnn_sim.exploration.objectives import objectives, pareto_table
from xpulpnn_sim.exploration.options import CLUSTER, WHOLE_CLUSTERS, ExploreOptions
from xpulpnn_sim.exploration.paper import paper_points, paper_table
from xpulpnn_sim.exploration.paper_cluster import cluster_paper_table, cluster_points
from xpulpnn_sim.exploration.report.cluster_blocks import cluster_tables
from xpulpnn_sim.exploration.report.csv_file import write_csv
from xpulpnn_sim.exploration.report.run_info import RunInfo
from xpulpnn_sim.exploration.results import Configuration, PointResult
from xpulpnn_sim.exploration.search import PRESET, Search, structures
from xpulpnn_sim.exploration.space import Point, Space, build_space, parse_space, plain_key
from xpulpnn_sim.exploration.task import PointStep
from xpulpnn_sim.tools.dask_workers import require_dask
from xpulpnn_sim.tools.files import folder_lock, require_folder, write_text
from xpulpnn_sim.tools.lists import chosen
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
    notes: list[str] = []
    plan = _plan(options, notes)
    if options.dask:
        require_dask(options.dask)
    if not options.no_report:
        require_report_packages()
    require_folder(options.output, "--output")
    with folder_lock(options.output, "--output"):
        loop = Loop(options, watcher or Watcher())
        space, extra = plan(loop)
        finished = _finished(options, space, loop, notes, extra, perf_counter() - started)
        _write(options, finished)
    return finished


Plan = Callable[[Loop], tuple[Space, tuple[NamedTable, ...]]]
"""Runs points in a loop; returns them, and tables to show before all others."""


def _plan(options: ExploreOptions, notes: list[str]) -> Plan:
    """Check the options and make the plan; remarks are added to ``notes``."""
    if options.search:
        return _search(options, options.search, notes)
    space, steps = _paper(options) if options.paper else _sweep(options, notes)

    def plan(loop: Loop) -> tuple[Space, tuple[NamedTable, ...]]:
        run_sweep(loop, space.points, steps)
        table = cluster_paper_table if options.component == CLUSTER else paper_table
        return space, (table(loop.results),) if options.paper else ()

    return plan


def _search(options: ExploreOptions, proposed: int, notes: list[str]) -> Plan:
    top = options.component
    names, common, swept = parse_space(top, options.presets, options.settings or [], options.sweep or [])
    choices = {PRESET: names, **(swept or structures(top, common))}
    figures = _figures(options)
    wanted = objectives(
        options.objective or "",
        [step.name for step in figures.flows],
        kernels=bool(figures.specs),
        energies=bool(figures.energies),
    )
    search = Search(
        top=top,
        common=common,
        choices=choices,
        obstacle=figures.obstacle,
        objectives=wanted,
        points=proposed,
        seed=options.search_seed,
    )

    def plan(loop: Loop) -> tuple[Space, tuple[NamedTable, ...]]:
        found = run_search(loop, search, lambda points: figures.steps(points, notes))
        return Space(points=found.points, skipped=found.skipped), (pareto_table(loop.results, wanted),)

    return plan


def _finished(
    options: ExploreOptions,
    space: Space,
    loop: Loop,
    notes: Sequence[str],
    extra: tuple[NamedTable, ...],
    wall_s: float,
) -> FinishedRun:
    what = "Search" if options.search else "Exploration"
    title = "Table II of the XpulpNN paper" if options.paper else f"{what} of {space.points[0].top}"
    info = RunInfo(
        title=f"{title} (incomplete: {loop.interrupted})" if loop.interrupted else title,
        command=options.command,
        date=datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"),
        baseline=options.baseline or space.points[0].label,
        tools=tools_of(loop.results),
        wall_s=wall_s,
        cached=loop.cached,
    )
    return FinishedRun(
        info=info,
        points=tuple(loop.results),
        skipped=space.skipped,
        notes=tuple(notes),
        extra=(*extra, *cluster_tables(loop.results)),
        interrupted=loop.interrupted,
        lost=loop.lost,
    )


def _write(options: ExploreOptions, finished: FinishedRun) -> None:
    """Write the files of a run into its folder."""
    write_text(options.output / FILES[0], json.dumps(finished.record(), indent=2) + "\n")
    write_csv(options.output / FILES[1], finished.points, finished.info)
    if not options.no_report:
        finished.write_report(options.output)


def _request(options: ExploreOptions) -> Request:
    default = "asic" if options.liberty is not None else "builtin"
    names = chosen(options.flow or default, FLOWS, "--flow")
    if "asic" in names and options.liberty is None:
        raise InputError("--liberty must be given for the flow asic")
    script = options.script or SCRIPTS[0]
    scripts = SCRIPTS if script == "both" else (script,)
    return _requested(options, tuple(names), scripts)


def _requested(options: ExploreOptions, flows: tuple[str, ...], scripts: tuple[str, ...]) -> Request:
    keys = [text.partition("=")[0].strip() for text in (*(options.settings or ()), *(options.sweep or ()))]
    if options.search is not None and not options.sweep:
        # the search chooses all structures itself
        keys += INFERRED
    return Request(
        flows=flows,
        scripts=scripts,
        liberty=options.liberty,
        seeds=options.seeds,
        repeat=options.repeat,
        clock_ns=None if options.clock is None else parse_clock(options.clock),
        yosys=options.yosys,
        chosen=frozenset(plain_key(key) for key in keys),
    )


def _sweep(options: ExploreOptions, notes: list[str]) -> tuple[Space, list[list[PointStep]]]:
    """The points of the options and the steps of each; ``notes`` are added to."""
    space = build_space(options.component, options.presets, options.settings or [], options.sweep or [])
    labels = [point.label for point in space.points]
    if options.baseline is not None and options.baseline not in labels:
        raise InputError(f"--baseline must be one of {', '.join(labels)}, not {options.baseline}")
    return space, _figures(options).steps(space.points, notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """The steps that the options ask for, each once for all points."""

    flows: list[FlowStep]
    kernels: dict[KernelSpec, KernelStep]
    energies: dict[KernelSpec | None, EnergyStep]

    @property
    def specs(self) -> list[KernelSpec]:
        return list(self.kernels)

    def obstacle(self, config: Configuration) -> str:
        """Why a configuration cannot run one of the kernels; empty if it can run all."""
        return next((f"{spec}: {rule}" for spec in self.specs if (rule := spec.obstacle(config))), "")

    def steps(self, points: Sequence[Point], notes: list[str]) -> list[list[PointStep]]:
        """The steps of each point; ``notes`` are added to."""
        steps: list[list[PointStep]] = []
        for able in _runnable(self.specs, points, notes):
            listed: list[PointStep] = [*self.flows, *(self.kernels[spec] for spec in able)]
            listed += [step for spec, step in self.energies.items() if spec is None or spec in able]
            steps.append(listed)
        return steps


def _figures(options: ExploreOptions) -> _Figures:
    specs = list(dict.fromkeys(KernelSpec.parse(text) for text in options.kernel or []))
    request = _request(options)
    energies: dict[KernelSpec | None, EnergyStep] = {}
    if options.energy or options.general:
        cells = library(request)
        on_core = options.component in ("core", *WHOLE_CLUSTERS)
        energies = {spec: EnergyStep(cells, spec, on_core, options.yosys) for spec in specs if options.energy}
        if options.general:
            energies[None] = EnergyStep(cells, None, yosys=options.yosys)
    return _Figures(
        flows=flow_steps(request, options.component),
        kernels={spec: KernelStep(spec) for spec in specs},
        energies=energies,
    )


def _runnable(specs: Sequence[KernelSpec], points: Sequence[Point], notes: list[str]) -> list[list[KernelSpec]]:
    """The kernels each point can run; raises :class:`InputError` for one that none can, else notes who cannot."""
    able: list[list[KernelSpec]] = [[] for _ in points]
    for spec in specs:
        rules: list[str] = []
        for listed, point in zip(able, points, strict=True):
            rule = spec.obstacle(point.config)
            if rule:
                rules.append(rule)
                notes.append(f"not run: {spec} on {point.label} ({rule})")
            else:
                listed.append(spec)
        if len(rules) == len(points):
            raise InputError(f"--kernel {spec}: {rules[0]}")
    return able


def _paper(options: ExploreOptions) -> tuple[Space, list[list[PointStep]]]:
    """The points of Table II and the steps of each."""
    flow = "asic" if options.liberty is not None else "builtin"
    request = _requested(options, (flow,), SCRIPTS)
    if options.component == CLUSTER:
        return cluster_points(request)
    return paper_points(request, energy=not options.no_energy)


def tools_of(results: Sequence[PointResult]) -> dict[str, str]:
    """Versions of all tools behind some results."""
    found = [one.tools for result in results for one in (*result.flows, *result.energies)]
    return {name: version for tools in found for name, version in tools.items()}
