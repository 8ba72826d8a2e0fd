"""``xpulpnn check-vectors``: single-instruction vectors on the design or on the reference models."""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn_sim.commands.common import (
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
from xpulpnn_sim.harness.models import model_library
from xpulpnn_sim.harness.vector_stream import VectorBench
from xpulpnn_sim.harness.vectors import Vector, VectorMismatch, VectorReader, check_golden

NAME = "check-vectors"
HELP = "execute single-instruction vectors and report mismatches"

_BATCH = 1 << 16
_FIRST = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl[.gz]", help="vector file, JSON lines")
    parser.add_argument("--engine", choices=("rtl", "golden"), default="rtl", help="what executes them (default rtl)")
    add_configuration(parser, "xpulpnn-full")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check every file; fails if a vector does."""
    require_writable(arguments.json)
    config = configuration(arguments)
    check = _engine(arguments.engine, config)
    reader = VectorReader(config)
    vectors = mismatching = 0
    first: list[VectorMismatch] = []
    begin = time.perf_counter()
    with progress_bar("vectors", None) as (progress, task):
        source = (vector for path in arguments.files for vector in reader.read(path))
        while batch := list(islice(source, _BATCH)):
            found = check(batch)
            vectors += len(batch)
            mismatching += len({id(mismatch.vector) for mismatch in found})
            first += found[: _FIRST - len(first)]
            progress.advance(task, len(batch))
    seconds = time.perf_counter() - begin
    result = {
        "vectors": vectors,
        "mismatches": mismatching,
        "skipped": reader.skipped,
        "vectors_per_s": round(vectors / seconds, 1),
        "first": [mismatch.record() for mismatch in first],
    }
    console = output()
    for line in _lines(first):
        console.print(line, markup=False)
    console.print(
        f"{vectors} vectors on {arguments.engine}, {mismatching} mismatches, {reader.skipped} skipped, "
        f"{result['vectors_per_s']:,.0f} per second"
    )
    write_json(arguments.json, result)
    return FAILED if mismatching else OK


def _engine(name: str, config: CoreConfig) -> Callable[[list[Vector]], list[VectorMismatch]]:
    if name == "golden":
        return check_golden

    @cache
    def bench() -> VectorBench:
        # made for the first batch only, so that a mistake in the file is told before a model is compiled
        return VectorBench(config, model_library(config, checked=True))

    return lambda vectors: bench().check(vectors)


def _lines(mismatches: list[VectorMismatch]) -> Iterator[str]:
    for mismatch in mismatches:
        file, line = mismatch.vector.origin
        yield (
            f"{file} line {line}: {mismatch.vector.insn.mnemonic} 0x{mismatch.vector.word:08x}: {mismatch.what} "
            f"must be 0x{mismatch.expected:08x}, not 0x{mismatch.got:08x}"
        )
