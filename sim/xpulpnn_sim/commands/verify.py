"""``xpulpnn verify``: random programs on the core in lock step with the simulator."""

import argparse
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from xpulpnn.config import PRESETS
from xpulpnn.errors import InputError
from xpulpnn_sim.commands import verify_c
from xpulpnn_sim.commands.common import (
    FAILED,
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
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.files import write_text
from xpulpnn_sim.verify.campaign import Plan, Result, excerpt, listing, run_case, run_seed, shrink
from xpulpnn_sim.verify.coverage import Coverage
from xpulpnn_sim.verify.designs import DESIGNS, prepare
from xpulpnn_sim.verify.elf_file import elf_bytes
from xpulpnn_sim.verify.generator import BUDGET

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
        help=f"configurations, taken in turn: out of {','.join(PRESETS)}, or all (default {DEFAULT_PRESET})",
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
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write minimal failing programs there")
    verify_c.add_arguments(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run programs until there are enough instructions; fails if one of them does."""
    if arguments.c_programs is not None:
        return verify_c.run(arguments, _plans(arguments)[0].config)
    plans = _plans(arguments)
    require_writable(arguments.json)
    if arguments.output is not None:
        require_folder(arguments.output, "--output")
    prepare(arguments.engine, [plan.config for plan in plans])
    results: list[Result] = []
    console = output()
    with progress_bar("instructions", arguments.instructions) as (progress, task):
        for result in _results(arguments, plans):
            results.append(result)
            progress.advance(task, result.verdict.instructions)
    failures = [result for result in results if result.verdict.reason is not Reason.PASS]
    for failure in failures:
        _report(failure, arguments, console)
    summary = _summary(results, plans)
    _print(summary, console)
    write_json(arguments.json, summary)
    return FAILED if failures else OK


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


def _run(seed: int, plan: Plan, engine: str) -> Result:
    """One program in a process of its own."""
    return run_seed(seed, plan, DESIGNS[engine]())


def _work(arguments: argparse.Namespace, plans: list[Plan]) -> Iterator[tuple[int, Plan]]:
    """Programs without end; the configurations take turns."""
    return ((seed, plans[index % len(plans)]) for index, seed in enumerate(count(arguments.seed)))


def _left(left: int, result: Result, arguments: argparse.Namespace) -> int:
    """Instructions still to run after ``result``; none after a failure unless asked for."""
    if result.verdict.reason is not Reason.PASS and not arguments.keep_going:
        return 0
    return left - result.verdict.instructions


def _results(arguments: argparse.Namespace, plans: list[Plan]) -> Iterator[Result]:
    """Programs until the instructions are reached, or one fails."""
    left, work = arguments.instructions, _work(arguments, plans)
    while arguments.jobs == 1 and left > 0:
        result = _run(*next(work), arguments.engine)
        left = _left(left, result, arguments)
        yield result
    if left <= 0:
        return
    # a fresh interpreter for each process: the progress bar's thread must not be forked
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        running: set[Future[Result]] = set()
        while left > 0 or running:
            while left > 0 and len(running) < min(2 * arguments.jobs, 1 + left // BUDGET):
                running.add(pool.submit(_run, *next(work), arguments.engine))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                left = _left(left, result, arguments)
                yield result
            if left <= 0:
                running = {future for future in running if not future.cancel()}


def _report(failure: Result, arguments: argparse.Namespace, console: Console) -> None:
    """Tell a failure, and its minimal program."""
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


def _summary(results: list[Result], plans: list[Plan]) -> dict[str, Any]:
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
    events.add_row("differences", str(summary["differences"]))
    console.print(events)
