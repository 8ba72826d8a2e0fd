"""``xpulpnn verify costs`` and ``vectors``: cycle costs, and results of single instructions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.api.programs import ENGINES, VECTOR_CONFIG, check_vectors
from xpulpnn_sim.cli.common import finish, output, progress_bar, table, tell
from xpulpnn_sim.cli.configurations import BOTH_FORMS, Configuration
from xpulpnn_sim.cli.options import CorePreset, Count, Json, Seed, arguments, command
from xpulpnn_sim.cosimulation.checks.vectors import VectorMismatch
from xpulpnn_sim.tools.files import require_writable
from xpulpnn_sim.verification.costs.cost_rows import cost_rows
from xpulpnn_sim.verification.costs.measurement import Line, lines_of
from xpulpnn_sim.verification.random.designs import measured_costs
from xpulpnn_sim.verification.random.drawn_vectors import write_vectors


@arguments
class VectorOptions(Configuration, Seed, Json):
    """Options of the command."""

    files: Annotated[tuple[Path, ...], Parameter(metavar="FILE.jsonl[.gz]")] = field(kw_only=False)
    """Vector files, JSON lines."""
    preset: CorePreset = VECTOR_CONFIG
    """Configuration to start from, for both forms of Mac&Load."""
    draw: Count | None = None
    """First write the file: N random vectors of the Mac&Loads with both factors from the NN-RF and of the
    requantisation, computed with plain integers."""
    engine: Annotated[str, Parameter(choices=ENGINES)] = "rtl"
    """Engine that executes them."""


@command
def verify_vectors_command(options: VectorOptions) -> int:
    """Check every file; fails if a vector does."""
    config = options.core
    if options.draw is not None:
        _draw(options, config, options.draw)
    with progress_bar("vectors", None) as bar:
        report = check_vectors(options.files, engine=options.engine, config=config, progress=bar.advance)
    console = output()
    for line in _mismatch_lines(report.first):
        tell(line)
    console.print(
        f"{report.vectors} vectors on {options.engine}, {report.mismatches} mismatches, {report.skipped} skipped, "
        f"{report.vectors_per_s:,.0f} per second"
    )
    return finish(options.json, report.record(), good=not report.mismatches)


def _draw(options: VectorOptions, config: CoreConfig, count: int) -> None:
    if len(options.files) != 1:
        raise InputError(f"FILE must be a single one with --draw, not {len(options.files)}")
    (path,) = options.files
    require_writable(path, "FILE")
    write_vectors(path, config, count, options.seed)


def _mismatch_lines(mismatches: Iterable[VectorMismatch]) -> Iterator[str]:
    for mismatch in mismatches:
        file, line = mismatch.vector.origin
        yield (
            f"{file} line {line}: {mismatch.vector.insn.mnemonic} 0x{mismatch.vector.word:08x}: {mismatch.what} "
            f"must be 0x{mismatch.expected:08x}, not 0x{mismatch.got:08x}"
        )


_SHOWN = 5  # Wrong rows listed of each group


@arguments
class CostOptions(Configuration, Json):
    """Options of the command."""

    preset: CorePreset = BOTH_FORMS
    """Configuration to start from, for both forms of Mac&Load."""


@command
def verify_costs_command(options: CostOptions) -> int:
    """Print the table; fails if a documented figure is not met."""
    config = options.core
    lines = lines_of(measured_costs(config, cost_rows(config)))
    console = output()
    console.print(_cost_table(lines))
    wrong = [one for line in lines for one in line.wrong]
    for line in lines:
        for one in line.wrong[:_SHOWN]:
            console.print(
                f"{line.group}: {one.row.name} must wait {_shown_waits(one.row.waits)}, not {_shown_waits(one.waits)}",
                markup=False,
                soft_wrap=True,
            )
    return finish(options.json, [_cost_record(line) for line in lines], good=not wrong)


def _shown_waits(waits: Mapping[WaitCause, int] | None) -> str:
    return ", ".join(f"{cycles} for {cause.name.lower()}" for cause, cycles in (waits or {}).items()) or "not at all"


def _cost_table(lines: list[Line]) -> Table:
    return table(
        ("event", "documented", "measured", "cases", "wrong"),
        ((one.group, one.documented, one.found, len(one.measured), len(one.wrong)) for one in lines),
        title="cycles; memory grants at once and answers in the next cycle",
    )


def _cost_record(line: Line) -> dict[str, Any]:
    return {
        "event": line.group,
        "documented": line.documented,
        "measured": line.found,
        "cases": [
            {
                "name": one.row.name,
                "documented": one.row.documented,
                "measured": one.cycles,
                "extra": one.row.is_extra,
                "waits": {cause.name.lower(): cycles for cause, cycles in one.waits.items()},
            }
            for one in line.measured
        ],
        "wrong": len(line.wrong),
    }
