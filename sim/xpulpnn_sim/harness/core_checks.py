"""Checkers of a run, working on one block of retirements while the next one is simulated."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from xpulpnn_sim.harness.core_abi import Lines
from xpulpnn_sim.iss.lockstep import Lockstep
from xpulpnn_sim.retirement import Records

Checker = Callable[[Records, Lines], tuple[int, str | None]]
"""Takes blocks in program order; returns the number of differences and a report of the first."""


class Checks:
    """The checkers of a run and what they have found.

    Parameters
    ----------
    checkers : sequence of Checker
        Each takes every block, all on one thread.

    Members
    -------
    mismatches : int
        Differences so far.
    first : str or None
        Report of the first.
    """

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self._checkers = checkers
        self._pool = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        self.mismatches = 0
        self.first: str | None = None

    def feed(self, records: Records, lines: Lines) -> None:
        """Check a block, which stays untouched until the next call or :meth:`finish`."""
        self.finish()
        if self._checkers and len(records):
            self._pending = self._pool.submit(self._check, records, lines)

    def _check(self, records: Records, lines: Lines) -> None:
        for checker in self._checkers:
            found, text = checker(records, lines)
            self.mismatches += found
            self.first = self.first or text

    def finish(self) -> None:
        """Wait for the block under way."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def close(self) -> None:
        """Release the thread."""
        self._pool.shutdown()


def comparison(reference: Lockstep) -> Checker:
    """The simulator in lock step as a checker; the first difference ends it."""
    done = False

    def compare(records: Records, lines: Lines) -> tuple[int, str | None]:
        nonlocal done
        difference = None if done else reference.compare(records, lines)
        if difference is None:
            return 0, None
        done = True
        return 1, difference.text

    return compare
