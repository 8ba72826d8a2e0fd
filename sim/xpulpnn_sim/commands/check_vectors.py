"""``xpulpnn check-vectors``: single-instruction vectors on the design or on the reference models."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.api.vectors import DEFAULT_CONFIG, ENGINES, check_vectors
from xpulpnn_sim.commands.common import (
    BOTH_FORMS,
    FAILED,
    OK,
    add_configuration,
    add_json,
    configuration,
    output,
    progress_bar,
    require_writable,
    write_json,
)
from xpulpnn_sim.harness.vectors import VectorMismatch
from xpulpnn_sim.verify.drawn_vectors import write_vectors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl[.gz]", help="vector file, JSON lines")
    parser.add_argument(
        "--draw",
        type=int,
        metavar="N",
        help="first write the file: N random vectors of the Mac&Loads with both factors from the NN-RF and of the "
        "requantisation, computed with plain integers",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the vectors of --draw (default 0)")
    parser.add_argument("--engine", choices=ENGINES, default="rtl", help="what executes them (default rtl)")
    add_configuration(parser, DEFAULT_CONFIG, BOTH_FORMS)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check every file; fails if a vector does."""
    require_writable(arguments.json)
    config = configuration(arguments)
    if arguments.draw is not None:
        _draw(arguments, config)
    with progress_bar("vectors", None) as (progress, task):
        report = check_vectors(
            arguments.files,
            engine=arguments.engine,
            config=config,
            progress=lambda done: progress.advance(task, done),
        )
    console = output()
    for line in _lines(report.first):
        console.print(line, markup=False)
    console.print(
        f"{report.vectors} vectors on {arguments.engine}, {report.mismatches} mismatches, {report.skipped} skipped, "
        f"{report.vectors_per_s:,.0f} per second"
    )
    write_json(arguments.json, report.record())
    return FAILED if report.mismatches else OK


def _draw(arguments: argparse.Namespace, config: CoreConfig) -> None:
    for name, low in (("draw", 1), ("seed", 0)):
        if getattr(arguments, name) < low:
            raise InputError(f"--{name} must be at least {low}, not {getattr(arguments, name)}")
    if len(arguments.files) != 1:
        raise InputError(f"FILE must be a single one with --draw, not {len(arguments.files)}")
    (path,) = arguments.files
    require_writable(path, "FILE")
    write_vectors(path, config, arguments.draw, arguments.seed)


def _lines(mismatches: Iterable[VectorMismatch]) -> Iterator[str]:
    for mismatch in mismatches:
        file, line = mismatch.vector.origin
        yield (
            f"{file} line {line}: {mismatch.vector.insn.mnemonic} 0x{mismatch.vector.word:08x}: {mismatch.what} "
            f"must be 0x{mismatch.expected:08x}, not 0x{mismatch.got:08x}"
        )
