"""Methods of a subject for many assignments, here or in processes of their own."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from xpulpnn_sim.exploration.widths.point import Assignment
from xpulpnn_sim.exploration.widths.subject import Subject
from xpulpnn_sim.tools.jobs import Pool, executor


class Workers:
    """Runs methods of subjects, each of which travels once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._shared: dict[Subject, Any] = {}

    def each(self, subject: Subject, method: str, wanted: Sequence[Assignment]) -> Iterator[Any]:
        """Results of a method of the subject for each assignment, in order, as soon as they are known."""
        if subject not in self._shared:
            self._shared[subject] = self._pool.share(subject)
        return self._pool.map(_call, repeat(self._shared[subject]), repeat(method), wanted)


@contextmanager
def workers(jobs: int) -> Generator[Workers]:
    """So many processes; with a single job this very process."""
    with executor(jobs) as pool:
        yield Workers(pool)


def _call(subject: Subject, method: str, widths: Assignment) -> Any:
    return getattr(subject, method)(widths)
