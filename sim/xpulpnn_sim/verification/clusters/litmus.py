"""Litmus tests: small pieces of code of several threads, what sequential consistency allows them to find, and what they
have found.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

MARK = 0xFFFF_FFFF  # what a test&set leaves


class Kind(Enum):
    """Effect of an operation on its variable."""

    WRITE = "W"
    READ = "R"
    TEST_SET = "T"


class Operation(NamedTuple):
    """One access."""

    kind: Kind
    variable: int  # number of the variable; all are 0 at first
    value: int = 0


Thread = tuple[Operation, ...]
Outcome = tuple[int, ...]  # what all reads have found, thread after thread, then what the variables hold in the end

_State = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, ...], ...]]
"""Operations done by each thread, the memory, what each thread has read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Litmus:
    """A test."""

    name: str  # as in the literature
    what: str
    threads: tuple[Thread, ...]  # their accesses in order

    @property
    def variables(self) -> int:
        """Number of variables."""
        return 1 + max(operation.variable for thread in self.threads for operation in thread)

    def reads(self) -> Iterator[tuple[int, int]]:
        """Thread and number, in it, of each read of an outcome."""
        for number, thread in enumerate(self.threads):
            count = sum(operation.kind is not Kind.WRITE for operation in thread)
            yield from ((number, position) for position in range(count))

    def shown(self, outcome: Outcome) -> str:
        """An outcome for people: what each read of a thread found, then the variables."""
        reads = list(self.reads())
        found = [
            f"{thread}:r{position}={_value(value)}" for (thread, position), value in zip(reads, outcome, strict=False)
        ]
        final = [f"{'xyzw'[number]}={_value(value)}" for number, value in enumerate(outcome[len(reads) :])]
        return " ".join([*found, *final])

    def allowed(self) -> set[Outcome]:
        """All outcomes of sequential consistency: every interleaving of the threads, one access after the other."""
        found: set[Outcome] = set()
        seen: set[_State] = set()
        nothing = tuple(tuple[int, ...]() for _ in self.threads)
        waiting: list[_State] = [((0,) * len(self.threads), (0,) * self.variables, nothing)]
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            places, memory, reads = state
            if all(place == len(thread) for place, thread in zip(places, self.threads, strict=True)):
                found.add((*(value for values in reads for value in values), *memory))
            for number, thread in enumerate(self.threads):
                if places[number] < len(thread):
                    waiting.append(_after(state, number, thread[places[number]]))
        return found


def _after(state: _State, number: int, operation: Operation) -> _State:
    """The state after an operation of a thread."""
    places, memory, reads = state
    old = memory[operation.variable]
    new = {Kind.WRITE: operation.value, Kind.READ: old, Kind.TEST_SET: MARK}[operation.kind]
    found = () if operation.kind is Kind.WRITE else (old,)
    return (
        tuple(place + (at == number) for at, place in enumerate(places)),
        tuple(new if at == operation.variable else value for at, value in enumerate(memory)),
        tuple((*values, *found) if at == number else values for at, values in enumerate(reads)),
    )


def _value(value: int) -> str:
    return "-1" if value == MARK else str(value)


def _thread(text: str) -> Thread:
    """The operations that a text like ``Wx1 Ry Tx`` spells."""
    return tuple(Operation(Kind(word[0]), "xyzw".index(word[1]), int(word[2:] or 0)) for word in text.split())


def _litmus(name: str, what: str, *threads: str) -> Litmus:
    return Litmus(name=name, what=what, threads=tuple(map(_thread, threads)))


TESTS: Sequence[Litmus] = (
    _litmus("SB", "store buffering", "Wx1 Ry", "Wy1 Rx"),
    _litmus("MP", "message passing", "Wx1 Wy1", "Ry Rx"),
    _litmus("LB", "load buffering", "Rx Wy1", "Ry Wx1"),
    _litmus("S", "write after a message", "Wx2 Wy1", "Ry Wx1"),
    _litmus("R", "read after two writes", "Wx1 Wy1", "Wy2 Rx"),
    _litmus("2+2W", "two writers", "Wx1 Wy2", "Wy1 Wx2"),
    _litmus("WRC", "write to read causality", "Wx1", "Rx Wy1", "Ry Rx"),
    _litmus("IRIW", "independent readers", "Wx1", "Wy1", "Rx Ry", "Ry Rx"),
    _litmus("CoRR", "reads of one word", "Wx1 Wx2", "Rx Rx"),
    _litmus("CoWW", "writers of one word", "Wx1 Wx2", "Wx3 Rx"),
    _litmus("CoWR", "read of an own write", "Wx1 Rx", "Wx2 Rx"),
    _litmus("TAS", "test&set of one word", "Tx", "Tx Tx"),
    _litmus("TAS+W", "release between test&sets", "Tx Wx0", "Tx Rx"),
    _litmus("TAS+MP", "message behind a lock", "Wy1 Tx", "Tx Ry"),
)
"""All tests; of two to four threads."""

MOST_THREADS = max(len(test.threads) for test in TESTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Outcomes of all rounds of a test."""

    test: Litmus
    counts: Mapping[Outcome, int]  # rounds by outcome

    @property
    def forbidden(self) -> dict[Outcome, int]:
        """Rounds with outcomes that must not be."""
        allowed = self.test.allowed()
        return {outcome: count for outcome, count in self.counts.items() if outcome not in allowed}

    @property
    def unseen(self) -> set[Outcome]:
        """Outcomes that may be and did not happen."""
        return self.test.allowed() - self.counts.keys()
