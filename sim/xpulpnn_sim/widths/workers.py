"""Methods of a subject for many assignments, here or in processes of their own."""

import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from xpulpnn_sim.widths.point import Assignment
from xpulpnn_sim.widths.subject import Subject


class Workers(AbstractContextManager["Workers"]):
    """So many processes; none with a single job."""

    def __init__(self, jobs: int) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._files: dict[Subject, Path] = {}
        if jobs > 1:
            # a fresh interpreter for each process: threads of the caller must not be forked
            self._pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
            self._folder = TemporaryDirectory(prefix="xpulpnn-widths-")

    def __enter__(self) -> Self:
        """Nothing starts before it is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._folder is not None:
            self._folder.cleanup()

    def each(self, subject: Subject, method: str, wanted: Sequence[Assignment]) -> Iterator[Any]:
        """What a method of the subject returns for each assignment, in their order, as soon as it is known."""
        if self._pool is None or self._folder is None:
            return map(getattr(subject, method), wanted)
        if subject not in self._files:
            # once for all calls: it has images and more
            path = Path(self._folder.name) / f"{len(self._files)}.pickle"
            path.write_bytes(pickle.dumps(subject))
            self._files[subject] = path
        return self._pool.map(partial(_call, self._files[subject], method), wanted)


def _call(path: Path, method: str, widths: Assignment) -> Any:
    return getattr(_subject(path), method)(widths)


@lru_cache(2)
def _subject(path: Path) -> Subject:
    return pickle.loads(path.read_bytes())
