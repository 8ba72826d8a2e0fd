"""``xpulpnn verify vectors``: single-instruction vectors on the design or on the reference models."""

from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.api.vectors import DEFAULT_CONFIG, ENGINES, check_vectors
from xpulpnn_sim.cli.common import finish, output, progress_bar, tell
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.options import CorePreset, Count, Json, Seed, arguments, command
from xpulpnn_sim.cosimulation.checks.vectors import VectorMismatch
from xpulpnn_sim.tools.files import require_writable
from xpulpnn_sim.verification.random.drawn_vectors import write_vectors


@arguments
class VectorOptions(Configuration, Seed, Json):
    """Options of the command."""

    files: Annotated[tuple[Path, ...], Parameter(metavar="FILE.jsonl[.gz]")] = field(kw_only=False)
    """Vector files, JSON lines."""
    preset: CorePreset = DEFAULT_CONFIG
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
    for line in _lines(report.first):
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


def _lines(mismatches: Iterable[VectorMismatch]) -> Iterator[str]:
    for mismatch in mismatches:
        file, line = mismatch.vector.origin
        yield (
            f"{file} line {line}: {mismatch.vector.insn.mnemonic} 0x{mismatch.vector.word:08x}: {mismatch.what} "
            f"must be 0x{mismatch.expected:08x}, not 0x{mismatch.got:08x}"
        )
