"""Single-instruction vectors on the design or on the reference models."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.api.cosimulation import resolved
from xpulpnn_sim.cosimulation.checks.vector_stream import VectorBench
from xpulpnn_sim.cosimulation.checks.vectors import Vector, VectorMismatch, VectorReader, check_golden

ENGINES = ("rtl", "golden")
DEFAULT_CONFIG = "xpulpnn-full"  # Has every instruction that a vector can be of

_BATCH = 1 << 16
_FIRST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorReport:
    """Outcome of vectors."""

    vectors: int  #: Executed.
    mismatches: int  #: Wrong.
    skipped: int  #: Left out because the configuration has no such instruction.
    vectors_per_s: float  #: Speed, without compiling the model.
    first: tuple[VectorMismatch, ...]  #: The first differences.

    def record(self) -> dict[str, Any]:
        """The same as JSON types."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return own | {"first": [mismatch.record() for mismatch in self.first]}


def check_vectors(
    files: Sequence[str | PathLike[str]],
    *,
    engine: str = "rtl",
    config: CoreConfig | str = DEFAULT_CONFIG,
    progress: Callable[[int], None] | None = None,
) -> VectorReport:
    """Execute every vector of some files and compare what it says is left behind.

    Parameters
    ----------
    files : sequence of paths
        JSON lines, plain or compressed with gzip.
    engine : str
        ``rtl``: the emitted back end; ``golden``: the numpy references.
    config : CoreConfig or str
        The core, or the name of a preset.
    progress : callable or None
        Takes the number of vectors executed since it was last called.

    Raises
    ------
    InputError
        For a line that is no vector, with its number; before a model is compiled if it is among the first 65,536.
    ToolError
        If the model cannot be built.
    """
    if engine not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(ENGINES)}, not {engine}")
    chosen = resolved(config)
    reader = VectorReader(chosen)
    source = (vector for path in files for vector in reader.read(Path(path)))
    check: Callable[[list[Vector]], list[VectorMismatch]] | None = None
    vectors = mismatching = 0
    seconds = 0.0
    first: list[VectorMismatch] = []
    while True:
        begin = time.perf_counter()
        batch = list(islice(source, _BATCH))
        seconds += time.perf_counter() - begin
        if not batch:
            break
        # a mistake in the file is told before a model is compiled, and compiling is not part of the speed
        check = check or (check_golden if engine == "golden" else VectorBench(chosen).check)
        begin = time.perf_counter()
        found = check(batch)
        seconds += time.perf_counter() - begin
        vectors += len(batch)
        mismatching += len({id(mismatch.vector) for mismatch in found})
        first += found[: _FIRST - len(first)]
        if progress is not None:
            progress(len(batch))
    return VectorReport(
        vectors=vectors,
        mismatches=mismatching,
        skipped=reader.skipped,
        vectors_per_s=round(vectors / seconds, 1),
        first=tuple(first),
    )
