"""``xpulpnn check-vectors``: single-instruction vectors on the design or on the reference models."""

import argparse
import time
from collections.abc import Callable, Iterator
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
from xpulpnn_sim.harness.vector_stream import VectorBench
from xpulpnn_sim.harness.vectors import Vector, VectorMismatch, VectorReader, check_golden

Check = Callable[[list[Vector]], list[VectorMismatch]]

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
    reader = VectorReader(config)
    source = (vector for path in arguments.files for vector in reader.read(path))
    check: Check | None = None
    vectors = mismatching = 0
    seconds = 0.0
    first: list[VectorMismatch] = []
    with progress_bar("vectors", None) as (progress, task):
        while True:
            begin = time.perf_counter()
            batch = list(islice(source, _BATCH))
            seconds += time.perf_counter() - begin
            if not batch:
                break
            # a mistake in the file is told before a model is compiled, and compiling is not part of the speed
            check = check or _engine(arguments.engine, config)
            begin = time.perf_counter()
            found = check(batch)
            seconds += time.perf_counter() - begin
            vectors += len(batch)
            mismatching += len({id(mismatch.vector) for mismatch in found})
            first += found[: _FIRST - len(first)]
            progress.advance(task, len(batch))
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


def _engine(name: str, config: CoreConfig) -> Check:
    if name == "golden":
        return check_golden
    return VectorBench(config).check


def _lines(mismatches: list[VectorMismatch]) -> Iterator[str]:
    for mismatch in mismatches:
        file, line = mismatch.vector.origin
        yield (
            f"{file} line {line}: {mismatch.vector.insn.mnemonic} 0x{mismatch.vector.word:08x}: {mismatch.what} "
            f"must be 0x{mismatch.expected:08x}, not 0x{mismatch.got:08x}"
        )
