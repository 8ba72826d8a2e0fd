"""``xpulpnn explore``: area, timing, energy and cycles of configurations, side by side."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from shlex import join
from time import perf_counter

from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.commands.common import (
    FAILED,
    INTERRUPTED,
    OK,
    add_json,
    comma_list,
    output,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.commands.explore_loop import MOST_POINTS, Loop, run_sweep
from xpulpnn_sim.explorer.finished_run import FILES, REPORT, FinishedRun, require_report_packages
from xpulpnn_sim.explorer.flows import FLOWS, SCRIPTS, Request, flow_steps, library
from xpulpnn_sim.explorer.kernels import SMALL_LAYERS, EnergyStep, KernelSpec, KernelStep
from xpulpnn_sim.explorer.paper import paper_points, paper_table
from xpulpnn_sim.explorer.report.csv_file import write_csv
from xpulpnn_sim.explorer.report.run_info import RunInfo
from xpulpnn_sim.explorer.results import PointResult
from xpulpnn_sim.explorer.space import Point, Space, build_space
from xpulpnn_sim.explorer.task import POINTS, PointStep
from xpulpnn_sim.farm.dask_pool import require_dask
from xpulpnn_sim.folder_lock import folder_lock
from xpulpnn_sim.tops import TOPS

DEFAULT_TOP = "ex-stage"
DEFAULT_PRESET = "xpulpnn"
DEFAULT_SEEDS = 3
DEFAULT_TIMEOUT_S = 3600.0

_SWEPT = ("top", "preset", "settings", "sweep", "kernel", "flow", "script", "energy", "general", "baseline")
"""Options that ``--paper`` decides itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    space = parser.add_argument_group("configurations")
    space.add_argument("--top", metavar="TOP", help=f"component: {', '.join(TOPS)} (default {DEFAULT_TOP})")
    space.add_argument(
        "--preset",
        action="append",
        metavar="LIST",
        help=f"configurations to start from, repeatable (default {DEFAULT_PRESET})",
    )
    space.add_argument(
        "--set",
        action="append",
        dest="settings",
        metavar="KEY=VALUE",
        help="change one parameter in all of them; repeatable",
    )
    space.add_argument(
        "--sweep",
        action="append",
        metavar="KEY=V1,V2,...",
        help="every one of these values with every combination of the others, such as multipliers=shared,replicated "
        "or widths=16+8,16+8+4+2; repeatable",
    )
    space.add_argument("--paper", action="store_true", help="repeat the comparison of Table II of the XpulpNN paper")
    space.add_argument("--baseline", metavar="LABEL", help="point that overheads are relative to (default the first)")
    what = parser.add_argument_group("figures")
    what.add_argument(
        "--flow",
        metavar="LIST",
        help=f"out of {','.join(FLOWS)} (default asic with --liberty, else builtin)",
    )
    what.add_argument("--liberty", type=Path, metavar="FILE", help="cell library of the flow asic and of --energy")
    what.add_argument("--script", choices=(*SCRIPTS, "both"), help="synthesis for area or for speed (default area)")
    what.add_argument(
        "--seeds", type=int, default=DEFAULT_SEEDS, metavar="N", help=f"FPGA placements (default {DEFAULT_SEEDS})"
    )
    what.add_argument(
        "--kernel",
        action="append",
        metavar="KERNEL:BITS:VARIANT[:LAYER]",
        help="cycles of a kernel on the RTL of every configuration, such as matmul:8:nn_4x4; repeatable (default "
        f"layers {' and '.join(f'{name} {layer}' for name, layer in SMALL_LAYERS.items())})",
    )
    what.add_argument("--energy", action="store_true", help="energy of every --kernel")
    what.add_argument("--general", action="store_true", help="energy of general code on the core too")
    what.add_argument("--no-energy", action="store_true", help="leave energy out of --paper")
    how = parser.add_argument_group("run")
    how.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    how.add_argument("--dask", default="", metavar="ADDRESS", help="run on the workers of this Dask scheduler instead")
    how.add_argument(
        "--timeout",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        metavar="S",
        help=f"seconds after which a step counts as failed (default {DEFAULT_TIMEOUT_S:g})",
    )
    how.add_argument(
        "--fresh", action="store_true", help="remove what earlier runs left in the folder, and use no older result"
    )
    how.add_argument("--yes", action="store_true", help="run any number of points")
    how.add_argument(
        "--max-points",
        type=int,
        default=MOST_POINTS,
        metavar="N",
        help=f"points to run at most without --yes (default {MOST_POINTS})",
    )
    how.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("build/explore"),
        metavar="DIR",
        help="folder of the results (default build/explore)",
    )
    how.add_argument("--no-report", action="store_true", help="write no HTML report")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every point; fails if one does."""
    started = perf_counter()
    _check(arguments)
    notes: list[str] = []
    space, steps = _paper(arguments) if arguments.paper else _sweep(arguments, notes)
    if arguments.dask:
        require_dask()
    if not arguments.no_report:
        require_report_packages()
    require_writable(arguments.json)
    require_folder(arguments.output, "--output")
    with folder_lock(arguments.output, "--output"):
        loop = Loop(arguments)
        run_sweep(loop, space.points, steps)
        finished = _finished(arguments, space, loop, notes, perf_counter() - started)
        _write(arguments, finished)
    if loop.lost:
        raise ToolError(loop.lost)
    if loop.interrupted:
        return INTERRUPTED
    return FAILED if any(result.error for result in finished.points) else OK


def _finished(
    arguments: argparse.Namespace, space: Space, loop: Loop, notes: Sequence[str], wall_s: float
) -> FinishedRun:
    title = "Table II of the XpulpNN paper" if arguments.paper else f"Exploration of {space.points[0].top}"
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
        extra=(paper_table(loop.results),) if arguments.paper else (),
        interrupted=loop.interrupted,
    )


def _write(arguments: argparse.Namespace, finished: FinishedRun) -> None:
    """Write and show the results."""
    for path in (arguments.output / FILES[0], arguments.json):
        write_json(path, finished.record())
    write_csv(arguments.output / FILES[1], finished.points)
    files = [*FILES[:2], f"{POINTS}/"]
    if not arguments.no_report:
        finished.write_report(arguments.output)
        files.append(REPORT)
    console = output()
    finished.show(console)
    console.print(f"{arguments.output}: {', '.join(files)}", markup=False, soft_wrap=True)


def _check(arguments: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options that cannot be met, whatever the others say."""
    if arguments.jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {arguments.jobs}")
    if arguments.seeds < 1:
        raise InputError(f"--seeds must be at least 1, not {arguments.seeds}")
    if arguments.max_points < 1:
        raise InputError(f"--max-points must be at least 1, not {arguments.max_points}")
    if not arguments.timeout > 0:
        raise InputError(f"--timeout must be positive, not {arguments.timeout:g}")
    if arguments.top is not None and arguments.top not in TOPS:
        raise InputError(f"--top must be one of {', '.join(TOPS)}, not {arguments.top}")
    if arguments.liberty is not None and not arguments.liberty.is_file():
        raise InputError(f"--liberty must be a file, not {arguments.liberty}")
    if arguments.paper:
        given = [name for name in _SWEPT if getattr(arguments, name)]
        if given:
            raise InputError(f"--{given[0].replace('settings', 'set')} must be left out with --paper")
    elif arguments.no_energy:
        raise InputError("--no-energy must be left out without --paper")
    if arguments.energy and not arguments.kernel:
        raise InputError("--energy must come with a --kernel whose energy it is")


def _request(arguments: argparse.Namespace) -> Request:
    default = "asic" if arguments.liberty is not None else "builtin"
    names = comma_list(arguments.flow or default, FLOWS, "--flow")
    if "asic" in names and arguments.liberty is None:
        raise InputError("--liberty must be given for the flow asic")
    script = arguments.script or SCRIPTS[0]
    scripts = SCRIPTS if script == "both" else (script,)
    return Request(flows=tuple(names), scripts=scripts, liberty=arguments.liberty, seeds=arguments.seeds)


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
    specs = list(dict.fromkeys(KernelSpec.parse(text) for text in arguments.kernel or []))
    runnable = _runnable(specs, space.points, notes)
    request = _request(arguments)
    flows = flow_steps(request)
    kernels = {spec: KernelStep(spec) for spec in specs}
    energies: dict[KernelSpec | None, EnergyStep] = {}
    if arguments.energy or arguments.general:
        cells = library(request)
        energies = {spec: EnergyStep(cells, spec, arguments.top == "core") for spec in specs if arguments.energy}
        if arguments.general:
            energies[None] = EnergyStep(cells, None)
    steps: list[list[PointStep]] = []
    for able in runnable:
        listed: list[PointStep] = [*flows, *(kernels[spec] for spec in able)]
        listed += [step for spec, step in energies.items() if spec is None or spec in able]
        steps.append(listed)
    return space, steps


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
    request = Request(
        flows=("asic" if arguments.liberty is not None else "builtin",),
        scripts=SCRIPTS,
        liberty=arguments.liberty,
        seeds=arguments.seeds,
    )
    return paper_points(request, energy=not arguments.no_energy)


def tools_of(results: Sequence[PointResult]) -> dict[str, str]:
    """Versions of all tools behind some results."""
    found = [one.tools for result in results for one in (*result.flows, *result.energies)]
    return {name: version for tools in found for name, version in tools.items()}


def command_line(arguments: argparse.Namespace) -> str:
    """The command that repeats a run, defaults left out."""
    words = ["xpulpnn", "explore"]
    names = {"settings": "set", "json": "json"}
    defaults = {
        "seeds": DEFAULT_SEEDS,
        "jobs": 2,
        "max_points": MOST_POINTS,
        "timeout": DEFAULT_TIMEOUT_S,
        "output": Path("build/explore"),
        "json": None,
    }
    for key, value in vars(arguments).items():
        if key in ("command", "run") or value in (None, False, "") or value == defaults.get(key):
            continue
        option = f"--{names.get(key, key).replace('_', '-')}"
        if value is True:
            words.append(option)
        else:
            for item in value if isinstance(value, list) else [value]:
                words += [option, str(item)]
    return join(words)
