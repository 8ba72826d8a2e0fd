"""``xpulpnn explore``: area, timing, energy and cycles of configurations, side by side."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import perf_counter

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.commands import explore_options
from xpulpnn_sim.commands.common import (
    FAILED,
    INTERRUPTED,
    OK,
    comma_list,
    output,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.commands.explore_loop import Loop, run_search, run_sweep
from xpulpnn_sim.commands.explore_options import DEFAULT_PRESET, DEFAULT_TOP, check_arguments, command_line
from xpulpnn_sim.explorer.finished_run import FILES, REPORT, FinishedRun, require_report_packages
from xpulpnn_sim.explorer.flows import FLOWS, INFERRED, FlowStep, Request, flow_steps, library, parse_clock
from xpulpnn_sim.explorer.kernels import EnergyStep, KernelSpec, KernelStep
from xpulpnn_sim.explorer.mapping import SCRIPTS
from xpulpnn_sim.explorer.objectives import objectives, pareto_table
from xpulpnn_sim.explorer.paper import paper_points, paper_table
from xpulpnn_sim.explorer.report.csv_file import write_csv
from xpulpnn_sim.explorer.report.named_table import NamedTable
from xpulpnn_sim.explorer.report.run_info import RunInfo
from xpulpnn_sim.explorer.results import PointResult
from xpulpnn_sim.explorer.search import PRESET, Search, structures
from xpulpnn_sim.explorer.space import Point, Space, build_space, parse_space, plain_key
from xpulpnn_sim.explorer.task import POINTS, PointStep
from xpulpnn_sim.farm.dask_pool import require_dask
from xpulpnn_sim.folder_lock import folder_lock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    explore_options.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every point; fails if one does."""
    started = perf_counter()
    check_arguments(arguments)
    notes: list[str] = []
    plan = _plan(arguments, notes)
    if arguments.dask:
        require_dask(arguments.dask)
    if not arguments.no_report:
        require_report_packages()
    require_writable(arguments.json)
    require_folder(arguments.output, "--output")
    with folder_lock(arguments.output, "--output"):
        loop = Loop(arguments)
        space, extra = plan(loop)
        finished = _finished(arguments, space, loop, notes, extra, perf_counter() - started)
        _write(arguments, finished)
    if loop.lost:
        raise ToolError(loop.lost)
    if loop.interrupted:
        return INTERRUPTED
    return FAILED if any(result.error for result in finished.points) else OK


Plan = Callable[[Loop], tuple[Space, tuple[NamedTable, ...]]]
"""Runs points in a loop; returns them, and tables to show before all others."""


def _plan(arguments: argparse.Namespace, notes: list[str]) -> Plan:
    """What the options ask for, checked; ``notes`` are added to."""
    if arguments.search:
        return _search(arguments, notes)
    space, steps = _paper(arguments) if arguments.paper else _sweep(arguments, notes)

    def plan(loop: Loop) -> tuple[Space, tuple[NamedTable, ...]]:
        run_sweep(loop, space.points, steps)
        return space, (paper_table(loop.results),) if arguments.paper else ()

    return plan


def _search(arguments: argparse.Namespace, notes: list[str]) -> Plan:
    names, common, swept = parse_space(
        arguments.preset or [DEFAULT_PRESET], arguments.settings or [], arguments.sweep or []
    )
    top = arguments.top or DEFAULT_TOP
    choices = {PRESET: names, **(swept or structures(top, common))}
    figures = _figures(arguments, choices)
    wanted = objectives(
        arguments.objective or "",
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
        points=arguments.search,
        seed=arguments.search_seed,
    )

    def plan(loop: Loop) -> tuple[Space, tuple[NamedTable, ...]]:
        found = run_search(loop, search, lambda points: figures.steps(points, notes))
        return Space(points=found.points, skipped=found.skipped), (pareto_table(loop.results, wanted),)

    return plan


def _finished(
    arguments: argparse.Namespace,
    space: Space,
    loop: Loop,
    notes: Sequence[str],
    extra: tuple[NamedTable, ...],
    wall_s: float,
) -> FinishedRun:
    what = "Search" if arguments.search else "Exploration"
    title = "Table II of the XpulpNN paper" if arguments.paper else f"{what} of {space.points[0].top}"
    info = RunInfo(
        title=f"{title} (incomplete: {loop.interrupted})" if loop.interrupted else title,
        command=command_line(arguments),
        date=datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"),
        baseline=arguments.baseline or space.points[0].label,
        tools=tools_of(loop.results),
        wall_s=wall_s,
        cached=loop.cached,
    )
    return FinishedRun(
        info=info,
        points=tuple(loop.results),
        skipped=space.skipped,
        notes=tuple(notes),
        extra=extra,
        interrupted=loop.interrupted,
    )


def _write(arguments: argparse.Namespace, finished: FinishedRun) -> None:
    """Write and show the results."""
    for path in (arguments.output / FILES[0], arguments.json):
        write_json(path, finished.record())
    write_csv(arguments.output / FILES[1], finished.points, finished.info)
    files = [*FILES[:2], f"{POINTS}/"]
    if not arguments.no_report:
        finished.write_report(arguments.output)
        files.append(REPORT)
    console = output()
    finished.show(console)
    console.print(f"{arguments.output}: {', '.join(files)}", markup=False, soft_wrap=True)


def _request(arguments: argparse.Namespace) -> Request:
    default = "asic" if arguments.liberty is not None else "builtin"
    names = comma_list(arguments.flow or default, FLOWS, "--flow")
    if "asic" in names and arguments.liberty is None:
        raise InputError("--liberty must be given for the flow asic")
    script = arguments.script or SCRIPTS[0]
    scripts = SCRIPTS if script == "both" else (script,)
    return _requested(arguments, tuple(names), scripts)


def _requested(arguments: argparse.Namespace, flows: tuple[str, ...], scripts: tuple[str, ...]) -> Request:
    keys = [text.partition("=")[0].strip() for text in (*(arguments.settings or ()), *(arguments.sweep or ()))]
    if arguments.search is not None and not arguments.sweep:
        # the search chooses all structures itself
        keys += INFERRED
    return Request(
        flows=flows,
        scripts=scripts,
        liberty=arguments.liberty,
        seeds=arguments.seeds,
        repeat=arguments.repeat,
        clock_ns=None if arguments.clock is None else parse_clock(arguments.clock),
        yosys=arguments.yosys,
        chosen=frozenset(plain_key(key) for key in keys),
    )


def _sweep(arguments: argparse.Namespace, notes: list[str]) -> tuple[Space, list[list[PointStep]]]:
    """The points of the options and the steps of each; ``notes`` are added to."""
    space = build_space(
        arguments.top or DEFAULT_TOP,
        arguments.preset or [DEFAULT_PRESET],
        arguments.settings or [],
        arguments.sweep or [],
    )
    labels = [point.label for point in space.points]
    if arguments.baseline is not None and arguments.baseline not in labels:
        raise InputError(f"--baseline must be one of {', '.join(labels)}, not {arguments.baseline}")
    return space, _figures(arguments).steps(space.points, notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """The steps that the options ask for, each once for all points."""

    flows: list[FlowStep]
    kernels: dict[KernelSpec, KernelStep]
    energies: dict[KernelSpec | None, EnergyStep]

    @property
    def specs(self) -> list[KernelSpec]:
        return list(self.kernels)

    def obstacle(self, config: CoreConfig) -> str:
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


def _figures(arguments: argparse.Namespace, searched: Iterable[str] = ()) -> _Figures:
    """The steps; ``searched`` are settings that a search gives to its points."""
    specs = list(dict.fromkeys(KernelSpec.parse(text) for text in arguments.kernel or []))
    request = _request(arguments)
    request = replace(request, chosen=request.chosen.union(searched))
    energies: dict[KernelSpec | None, EnergyStep] = {}
    if arguments.energy or arguments.general:
        cells = library(request)
        energies = {
            spec: EnergyStep(cells, spec, arguments.top == "core", arguments.yosys)
            for spec in specs
            if arguments.energy
        }
        if arguments.general:
            energies[None] = EnergyStep(cells, None, yosys=arguments.yosys)
    return _Figures(flows=flow_steps(request), kernels={spec: KernelStep(spec) for spec in specs}, energies=energies)


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


def _paper(arguments: argparse.Namespace) -> tuple[Space, list[list[PointStep]]]:
    """The points of Table II and the steps of each."""
    flow = "asic" if arguments.liberty is not None else "builtin"
    request = _requested(arguments, (flow,), SCRIPTS)
    return paper_points(request, energy=not arguments.no_energy)


def tools_of(results: Sequence[PointResult]) -> dict[str, str]:
    """Versions of all tools behind some results."""
    found = [one.tools for result in results for one in (*result.flows, *result.energies)]
    return {name: version for tools in found for name, version in tools.items()}
