"""``xpulpnn verify c``: random C programs with and without the loop pass, and on this machine."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.cli.common import finish, output, pairs, progress_bar, tell
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.options import Count, Jobs, Json, Natural, Seed, arguments, command, listed
from xpulpnn_sim.tools.jobs import completed, executor
from xpulpnn_sim.verification.c_programs import comparison
from xpulpnn_sim.verification.c_programs.comparison import ProgramComparison, Setting
from xpulpnn_sw.toolchain.compilers import COMPILERS, find_compiler

_NAMES = tuple(level.removeprefix("-O") for level in comparison.LEVELS)


@arguments
class CProgramsOptions(Configuration, Seed, Jobs, Json):
    """Options of the command."""

    programs: Count = 1000
    """C programs to draw, compile and run; --seed is the number of the first."""
    no_shrink: bool = False
    """Leave a failing program as it is."""
    compilers: Annotated[tuple[str, ...], listed(COMPILERS)] = ()
    """Compilers, taken in turn, or all (default: all that are installed)."""
    levels: Annotated[tuple[str, ...], listed(_NAMES, "Levels, taken in turn")] = _NAMES
    rtl: Annotated[Natural, Parameter(metavar="K")] = 0
    """Run one of K groups of programs on the RTL in lock step, others on the ISS; 0: none."""


@command
def verify_c_command(options: CProgramsOptions) -> int:
    """Run the programs; fails if a result differs."""
    config = options.core
    if not config.xpulpv2:
        raise InputError("--preset must have XpulpV2, not leave it out")
    comparison.host_compiler()
    settings = _settings(options, config)
    total = ProgramComparison()
    groups = range(options.seed, options.seed + options.programs, comparison.BATCH)
    with progress_bar("programs", options.programs) as bar:
        for result in _results(options, groups, settings):
            total.merge(result)
            bar.advance(result.programs)
    for failure in total.failures:
        small = failure if options.no_shrink else comparison.shrink_c_program(failure)
        tell(small.text)
    summary = _summary(total)
    output().print(_table(summary))
    return finish(options.json, summary, good=not total.failures)


def _settings(options: CProgramsOptions, config: CoreConfig) -> list[Setting]:
    kinds = [find_compiler(kind).kind for kind in options.compilers]
    if not kinds:
        # those that are not installed are left out; one there must be
        for kind in COMPILERS:
            with suppress(ToolError):
                kinds.append(find_compiler(kind).kind)
    kinds = kinds or [find_compiler().kind]
    return [Setting(config=config, compiler=kind, level=f"-O{level}") for level in options.levels for kind in kinds]


def _results(options: CProgramsOptions, groups: range, settings: list[Setting]) -> Iterator[ProgramComparison]:
    work: list[tuple[range, Setting]] = []
    for number, start in enumerate(groups):
        setting = settings[number % len(settings)]
        if options.rtl and number % options.rtl == 0:
            setting = replace(setting, engine="rtl")
        work.append((range(start, min(start + comparison.BATCH, groups.stop)), setting))
    with executor(options.jobs) as pool:
        for _, result in completed(pool, _run_group, work):
            yield result


def _run_group(group: tuple[range, Setting]) -> ProgramComparison:
    return comparison.run_seeds(*group)


def _summary(total: ProgramComparison) -> dict[str, Any]:
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
    executed = summary["executed"]
    rows = {
        "programs": str(summary["programs"]),
        "differences": str(summary["differences"]),
        "loops": f"{summary['loops']}, of them hardware loops {summary['hardware_loops']}",
        "left alone": ", ".join(f"{count} {reason}" for reason, count in summary["refusals"].items()) or "none",
        "accesses": f"{summary['increments']} with increment, {summary['sums']} with a sum for their address",
        "executed": f"{executed['without']:,} instructions without the pass, {executed['with']:,} with it",
    }
    return pairs(rows)
