"""``xpulpnn verify``: random programs on the core in lock step with the simulator."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from xpulpnn.config import PRESETS
from xpulpnn.errors import InputError
from xpulpnn_sim.commands import verify_c, verify_cluster, verify_coverage
from xpulpnn_sim.commands.common import (
    BOTH_FORMS,
    FAILED,
    INTERRUPTED,
    OK,
    add_json,
    comma_list,
    configuration,
    output,
    progress_bar,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.coverage.covered_trials import CoveredResult, run_covered_chunk
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.files import write_text
from xpulpnn_sim.interrupts import single_interrupt
from xpulpnn_sim.tools.dask_workers import WorkersLostError, require_dask
from xpulpnn_sim.verify.coverage import Coverage
from xpulpnn_sim.verify.designs import DESIGNS, prepare
from xpulpnn_sim.verify.elf_file import elf_bytes
from xpulpnn_sim.verify.spread import Runner, results, run_chunk, runner, work
from xpulpnn_sim.verify.trials import Plan, Result, excerpt, listing, run_case, shrink

DEFAULT_INSTRUCTIONS = 100_000
DEFAULT_PRESET = "xpulpnn-full"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument(
        "--instructions",
        type=int,
        default=DEFAULT_INSTRUCTIONS,
        metavar="N",
        help=f"retired instructions to reach (default {DEFAULT_INSTRUCTIONS})",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="number of the first program (default 0)")
    parser.add_argument(
        "--preset",
        default=DEFAULT_PRESET,
        metavar="LIST",
        help=f"configurations, taken in turn: out of {','.join(PRESETS)}, or all "
        f"(default {DEFAULT_PRESET}, {BOTH_FORMS})",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        help="change one parameter of the configurations; repeatable",
    )
    for option, kind, text in (
        ("--grant-stalls", float, "probability of a withheld grant of a data access"),
        ("--response-latency", int, "data responses take 1 to N cycles"),
        ("--fetch-grant-stalls", float, "probability of a withheld grant of a fetch"),
        ("--fetch-latency", int, "fetched words take 1 to N cycles"),
        ("--irq-rate", float, "probability per cycle that an interrupt line rises"),
    ):
        metavar = "N" if kind is int else "P"
        parser.add_argument(option, type=kind, metavar=metavar, help=f"{text} (default: differs between programs)")
    parser.add_argument("--engine", choices=tuple(DESIGNS), default="rtl", help="what is checked (default rtl)")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--no-shrink", action="store_true", help="leave a failing program as it is")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    parser.add_argument(
        "--dask", default="", metavar="ADDRESS", help="run on the workers of this Dask scheduler instead"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write minimal failing programs there")
    verify_c.add_arguments(parser)
    verify_cluster.add_arguments(parser)
    verify_coverage.add_arguments(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run programs until there are enough instructions; fails if one of them does."""
    verify_coverage.require(arguments)
    if arguments.c_programs is not None:
        if arguments.dask:
            raise InputError("--dask must be left out with --c-programs")
        return verify_c.run(arguments, _plans(arguments)[0].config)
    if arguments.cores is not None:
        return verify_cluster.run(arguments)
    verify_cluster.require_cores(arguments)
    plans = _plans(arguments)
    require_writable(arguments.json)
    if arguments.output is not None:
        require_folder(arguments.output, "--output")
    covered = None
    if arguments.coverage is not None:
        if len(plans) > 1:
            raise InputError(f"--coverage must be of one preset at a time, not {len(plans)}")
        covered = verify_coverage.CoverageRun(arguments, plans[0])
    elif arguments.dask:
        require_dask(arguments.dask)
    else:
        prepare(arguments.engine, [plan.config for plan in plans])
    found: list[Result | CoveredResult] = []
    console = output()
    stopped, lost = False, None
    with progress_bar("instructions", arguments.instructions) as (progress, task):
        try:
            with single_interrupt(), _runner(arguments) as processes:
                for result in covered.results(processes) if covered else _results(processes, arguments, plans):
                    found.append(result)
                    progress.advance(task, result.verdict.instructions)
        except (KeyboardInterrupt, WorkersLostError) as stop:
            stopped, lost = True, stop if isinstance(stop, WorkersLostError) else None
    failures = [result for result in found if result.verdict.reason is not Reason.PASS]
    for failure in failures:
        _report(failure, arguments, console)
    summary = _summary(found, plans) | {"complete": not stopped}
    _print(summary, console)
    wrong = False
    if covered is not None:
        covered.show(console)
        reached = covered.summary()
        summary |= {"coverage": reached}
        wrong = bool(reached["impossible"])
        covered.write(summary)
    write_json(arguments.json, summary)
    if stopped:
        console.print(f"INCOMPLETE: interrupted after {len(found)} programs", markup=False, soft_wrap=True)
        if lost is not None:
            raise lost
        return INTERRUPTED
    return FAILED if failures or wrong else OK


def _plans(arguments: argparse.Namespace) -> list[Plan]:
    for name, low in (("instructions", 1), ("seed", 0), ("jobs", 1), ("response_latency", 1), ("fetch_latency", 1)):
        value = getattr(arguments, name)
        if value is not None and value < low:
            raise InputError(f"--{name.replace('_', '-')} must be at least {low}, not {value}")
    for name in ("grant_stalls", "fetch_grant_stalls", "irq_rate"):
        value = getattr(arguments, name)
        if value is not None and not 0 <= value < 1:
            raise InputError(f"--{name.replace('_', '-')} must be a probability below 1, not {value}")
    plans: list[Plan] = []
    for name in comma_list(arguments.preset, tuple(PRESETS), "--preset"):
        config = configuration(argparse.Namespace(preset=name, settings=arguments.settings))
        label = " ".join([f"--preset {name}", *(f"--set {setting}" for setting in arguments.settings)])
        plans.append(
            Plan(
                config=config,
                label=label,
                grant_stalls=arguments.grant_stalls,
                response_latency=arguments.response_latency,
                fetch_grant_stalls=arguments.fetch_grant_stalls,
                fetch_latency=arguments.fetch_latency,
                irq_rate=arguments.irq_rate,
            )
        )
    return plans


def _results(processes: Runner, arguments: argparse.Namespace, plans: list[Plan]) -> Iterator[Result]:
    """Programs one after the other until there are enough instructions."""
    programs = work(arguments.seed, plans)
    return results(processes, programs, arguments.instructions, keep_going=arguments.keep_going)


def _runner(arguments: argparse.Namespace) -> AbstractContextManager[Runner]:
    run = run_chunk if arguments.coverage is None else run_covered_chunk
    return runner(arguments.engine, jobs=arguments.jobs, dask=arguments.dask, run=run)


def _report(failed: Result | CoveredResult, arguments: argparse.Namespace, console: Console) -> None:
    """Tell a failure, and its minimal program."""
    failure = Result(failed.seed, failed.plan, failed.verdict, failed.coverage, failed.wall_s)
    console.print(f"program {failure.seed} fails:", failure.verdict.text, sep="\n", markup=False, soft_wrap=True)
    design = DESIGNS[arguments.engine]()
    case = failure.plan.case(failure.seed)
    if not arguments.no_shrink:
        with progress_bar("shrinking", None) as (progress, task):
            case = shrink(failure, design, lambda left: progress.update(task, completed=left))
        failure = Result(
            failure.seed, failure.plan, run_case(case, failure.plan, design), failure.coverage, failure.wall_s
        )
    console.print(excerpt(case.program, case.machine, failure), markup=False, soft_wrap=True)
    if arguments.output is None:
        console.print("tables, handlers and prologue around it: use --output DIR\n", markup=False)
        return
    text = listing(case.program, case.machine, failure)
    write_text(arguments.output / f"fail{failure.seed}.S", text)
    (arguments.output / f"fail{failure.seed}.elf").write_bytes(elf_bytes(case.program.executable()))


def _summary(results: Sequence[Result | CoveredResult], plans: list[Plan]) -> dict[str, Any]:
    total = Coverage()
    for result in results:
        total.merge(result.coverage)
    rows: dict[str, list[int]] = {}
    missing: set[tuple[str, str]] | None = None
    for plan in plans:
        absent = set(total.missing(plan.config))
        missing = absent if missing is None else missing | absent
        for extension, figures in total.by_extension(plan.config).items():
            rows[extension] = max(rows.get(extension, [0, 0, 0]), list(figures))
    wall = sum(result.wall_s for result in results)
    instructions = sum(result.verdict.instructions for result in results)
    cycles = sum(result.verdict.cycles for result in results)
    return {
        "programs": len(results),
        "instructions": instructions,
        "cycles": cycles,
        "differences": sum(result.verdict.reason is not Reason.PASS for result in results),
        "failing_seeds": [result.seed for result in results if result.verdict.reason is not Reason.PASS],
        "rows": {name: dict(zip(("rows", "executed", "retirements"), row, strict=True)) for name, row in rows.items()},
        "missing_rows": sorted(" ".join(key) for key in missing or ()),
        "traps": {str(cause): number for cause, number in sorted(total.traps.items())},
        "interrupts": {str(line): number for line, number in sorted(total.interrupts.items())},
        "loop_ends": total.loop_ends,
        "taken_branches": total.taken,
        "misaligned": total.misaligned,
        "requantised": total.requantised,
        "requantised_inside": total.inside,
        "compressed": total.compressed,
        "stalls": cycles - instructions,
        "instructions_per_s": round(instructions / wall) if wall else 0,
    }


def _print(summary: dict[str, Any], console: Console) -> None:
    table = Table(box=None, title="instructions executed", title_justify="left")
    for heading in ("extension", "rows", "executed", "retirements"):
        table.add_column(heading, justify="left" if heading == "extension" else "right")
    for name, row in summary["rows"].items():
        table.add_row(name, str(row["rows"]), str(row["executed"]), str(row["retirements"]))
    console.print(table)
    events = Table(box=None, show_header=False)
    events.add_row("programs", str(summary["programs"]))
    for name in ("instructions", "cycles"):
        events.add_row(name, str(summary[name]))
    events.add_row("traps", ", ".join(f"cause {cause}: {number}" for cause, number in summary["traps"].items()) or "0")
    lines = summary["interrupts"]
    events.add_row("interrupts", f"{sum(lines.values())} on {len(lines)} lines")
    for name in ("loop_ends", "taken_branches", "misaligned", "compressed", "stalls"):
        events.add_row(name.replace("_", " "), str(summary[name]))
    if summary["requantised"]:
        inside = f"{summary['requantised']}, {summary['requantised_inside']} of them within the bounds"
        events.add_row("results of pv.rq*", inside)
    events.add_row("differences", str(summary["differences"]))
    console.print(events)
