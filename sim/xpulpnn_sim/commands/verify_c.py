"""``xpulpnn verify --c-programs``: random C programs with and without the loop pass, and on this machine."""

import argparse
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.commands.common import FAILED, OK, comma_list, output, progress_bar, require_writable, write_json
from xpulpnn_sim.cprograms.comparison import BATCH, LEVELS, Comparison, Setting, host_compiler, run_seeds, shrink
from xpulpnn_sim.tools.jobs import completed, executor
from xpulpnn_sw.compilers import COMPILERS, find


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for C programs."""
    group = parser.add_argument_group("random C programs instead of random instructions")
    group.add_argument(
        "--c-programs",
        type=int,
        metavar="N",
        help="compile N programs with and without the loop pass of cc, and for this machine; compare their results",
    )
    group.add_argument(
        "--c-compilers",
        metavar="LIST",
        help=f"compilers, taken in turn: out of {','.join(COMPILERS)}, or all (default: all that are installed)",
    )
    levels = ",".join(level.removeprefix("-O") for level in LEVELS)
    group.add_argument("--c-levels", default="all", metavar="LIST", help=f"levels, taken in turn: out of {levels}")
    group.add_argument(
        "--c-rtl",
        type=int,
        default=0,
        metavar="K",
        help=f"run one of K groups of {BATCH} programs on the RTL in lock step, others on the ISS (default 0: none)",
    )


def run(arguments: argparse.Namespace, config: CoreConfig) -> int:
    """Run the programs; fails if a result differs."""
    for name, low in (("c_programs", 1), ("seed", 0), ("jobs", 1), ("c_rtl", 0)):
        if getattr(arguments, name) < low:
            raise InputError(f"--{name.replace('_', '-')} must be at least {low}, not {getattr(arguments, name)}")
    if not config.xpulpv2:
        raise InputError("--preset must have XpulpV2, not leave it out")
    require_writable(arguments.json)
    host_compiler()
    settings = _settings(arguments, config)
    total, console = Comparison(), output()
    groups = range(arguments.seed, arguments.seed + arguments.c_programs, BATCH)
    with progress_bar("programs", arguments.c_programs) as (progress, task):
        for result in _results(arguments, groups, settings):
            total.merge(result)
            progress.advance(task, result.programs)
    for failure in total.failures:
        small = failure if arguments.no_shrink else shrink(failure)
        console.print(small.text, markup=False, soft_wrap=True)
    summary = _summary(total)
    console.print(_table(summary))
    write_json(arguments.json, summary)
    return FAILED if total.failures else OK


def _settings(arguments: argparse.Namespace, config: CoreConfig) -> list[Setting]:
    if arguments.c_compilers is None:
        # those that are not installed are left out; one there must be
        kinds = [kind for kind in COMPILERS if _is_installed(kind)] or [find().kind]
    else:
        kinds = [find(kind).kind for kind in comma_list(arguments.c_compilers, COMPILERS, "--c-compilers")]
    names = tuple(level.removeprefix("-O") for level in LEVELS)
    levels = comma_list(arguments.c_levels, names, "--c-levels")
    return [Setting(config=config, compiler=kind, level=f"-O{level}") for level in levels for kind in kinds]


def _is_installed(kind: str) -> bool:
    try:
        find(kind)
    except ToolError:
        return False
    return True


def _results(arguments: argparse.Namespace, groups: range, settings: list[Setting]) -> Iterator[Comparison]:
    work: list[tuple[range, Setting]] = []
    for number, start in enumerate(groups):
        setting = settings[number % len(settings)]
        if arguments.c_rtl and number % arguments.c_rtl == 0:
            setting = Setting(config=setting.config, compiler=setting.compiler, level=setting.level, engine="rtl")
        work.append((range(start, min(start + BATCH, groups.stop)), setting))
    with executor(arguments.jobs) as pool:
        for _, result in completed(pool, _run_group, work):
            yield result


def _run_group(group: tuple[range, Setting]) -> Comparison:
    return run_seeds(*group)


def _summary(total: Comparison) -> dict[str, Any]:
    report = total.report
    return {
        "programs": total.programs,
        "differences": len(total.failures),
        "failing_seeds": sorted({failure.seed for failure in total.failures}),
        "loops": len(report.loops),
        "hardware_loops": report.turned,
        "refusals": report.refusals(),
        "increments": report.tally.increments,
        "sums": report.tally.sums,
        "executed": total.instructions,
    }


def _table(summary: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column()
    executed = summary["executed"]
    rows = {
        "programs": str(summary["programs"]),
        "differences": str(summary["differences"]),
        "loops": f"{summary['loops']}, of them hardware loops {summary['hardware_loops']}",
        "left alone": ", ".join(f"{count} {reason}" for reason, count in summary["refusals"].items()) or "none",
        "accesses": f"{summary['increments']} with increment, {summary['sums']} with a sum for their address",
        "executed": f"{executed['without']:,} instructions without the pass, {executed['with']:,} with it",
    }
    for name, text in rows.items():
        table.add_row(name, text)
    return table
