"""The cluster's event unit where cycles do not count: every access has all its consequences before the next."""

from collections.abc import Iterable

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.reference.golden.event_unit import Access, Answer, EventUnit


class SettledEventUnit:
    """The event unit of a simulator of instructions.

    Accesses are made one after the other. One that waits is answered by :meth:`answer`, perhaps at once; until then the
    core must make no other.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._unit = EventUnit(config)
        self._answers: dict[int | None, Answer] = {}

    def read(self, core: int, offset: int) -> int | None:
        """Load from a core's private view: what it finds, or None if it waits."""
        self._pass({core: Access(offset)})
        return self.answer(core)

    def write(self, core: int, offset: int, value: int) -> bool:
        """Store to a core's private view; False if it waits for room in the dispatch queue, until it has an answer."""
        self._pass({core: Access(offset, True, value)})
        return self.answer(core) is not None

    def answer(self, core: int) -> int | None:
        """The answer of an access that waited, once; None if there is none. Stores are answered with 0."""
        found = self._answers.pop(core, None)
        return None if found is None else _data(found)

    def shared_read(self, offset: int) -> int:
        """Load from the shared view."""
        self._pass({}, shared=Access(offset))
        return _data(self._answers.pop(None))

    def shared_write(self, offset: int, value: int) -> None:
        """Store to the shared view."""
        self._pass({}, shared=Access(offset, True, value))
        _data(self._answers.pop(None))

    def pulse(self, core: int, line: int) -> None:
        """An event line of a core is high for a moment."""
        self._pass({}, [(core, line)])

    def irq(self, core: int) -> bool:
        """Return whether the core's interrupt line is high."""
        return bool(self._unit.interrupts() >> core & 1)

    def waiting(self, core: int) -> bool:
        """Return whether the core's access waits."""
        return bool(self._unit.waiting() >> core & 1)

    def _pass(
        self, accesses: dict[int, Access], events: Iterable[tuple[int, int]] = (), shared: Access | None = None
    ) -> None:
        answers = self._unit.cycle(accesses, events, shared)
        while not self._unit.quiet:
            answers += self._unit.cycle({})
        self._answers |= {answer.core: answer for answer in answers}


def _data(answer: Answer) -> int:
    if answer.error:
        raise LookupError("no such register")
    return answer.data or 0
