"""The command ports of the DMA engine by cycles, without gates, and when ends are told (guide, "The DMA engine")."""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import NamedTuple

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import BLOCK_BYTES, Dma
from xpulpnn_sim.reference.golden.dma import told_of_end, word_count
from xpulpnn_sim.reference.golden.tcdm import Queue, Request

_DEPTH = 8  # commands that wait at most, beside the one that is carried out
_REGISTERS = {*map(int, Dma)}
_ALLOCATED = 16  # bit of the status from which on it tells the allocated identifiers


class Answer(NamedTuple):
    """Answer to an access: None where the data mean nothing."""

    data: int | None
    failed: bool


class Seen(NamedTuple):
    """Values that the ports show in a cycle."""

    granted: Set[int]  # Ports whose requests are granted.
    answers: Mapping[int, Answer]  # Answers in the next cycle, by port.
    told: tuple[int, int]  # Cores that are told of an end, by event and by interrupt, a bit each.
    busy: bool


class _Command(NamedTuple):
    number: int
    told: tuple[int, int]
    writes: list[set[int]]


class PortsModel:
    """Identifiers, status and commands.

    An end is told two cycles after the last answer to a write of the transfer, when all of its accesses have left their
    queue, one in a cycle.
    """

    def __init__(self, config: ClusterConfig, begin: Callable[[Sequence[int]], list[set[int]]]) -> None:
        # begin: Told the words of each command; returns the ports of memory to which each access writes for it.
        self._cores, self._begin = config.cores, begin
        inputs = config.cores + 1
        self._turns, self._gifts = (Queue("counter", inputs) for _ in range(2))
        self._in_use = [0] * config.dma_transfers
        self._active = self._allocated = 0  # Identifiers in use, and allocated, a bit each.
        self._numbers = [0] * inputs  # Identifier that each port was given last.
        self._readers: set[int] = set()  # Ports that wait for an identifier.
        self._owner: int | None = None  # Port within a command, and the words of it.
        self._words: list[int] = []
        self._waiting: deque[_Command] = deque()
        self._current: _Command | None = None
        self._left = 0  # Writes of the current transfer that are not answered.
        self._queue: deque[set[int]] = deque()  # Of its accesses, the ports that have not granted them.
        self._told = 0, 0

    @property
    def to_tell(self) -> tuple[int, int]:
        """Cores that will be told in the cycle behind the next one; of the end in the next cycle."""
        return (0, 0) if self._current is None or self._left or self._queue else self._current.told

    @property
    def begun(self) -> int:
        """Words of a command of which more must come."""
        return 0 if self._owner is None else len(self._words)

    def cycle(self, asking: Mapping[int, Request], written: int, taking: Collection[int] = ()) -> Seen:
        """A cycle with the requests of some ports, and of the engine's writes so many answers, and grants of ports."""
        active, allocated, told = self._active, self._allocated, self._told
        requests = {port: request for port, request in asking.items() if port not in self._readers}
        answers = self._give(active | allocated) if self._readers else {}
        given = self._allocated & ~allocated
        granted = self._granted(requests) if requests else set[int]()
        for port in granted:
            _, write, _, value = requests[port]
            offset = requests[port].address % BLOCK_BYTES
            answers[port] = Answer(None, offset not in _REGISTERS)
            if offset == Dma.STATUS and write:
                self._allocated &= ~value | given
            elif offset == Dma.STATUS:
                answers[port] = Answer(active | allocated << _ALLOCATED, failed=False)
            elif offset == Dma.COMMAND and not write:
                del answers[port]
                self._readers.add(port)
        self._go_on(written)
        self._grant(taking)
        for port in granted:
            if _is_word(requests[port]):
                self._take(port, requests[port].value)
        return Seen(granted, answers, told, active > 0)

    def _give(self, used: int) -> dict[int, Answer]:
        """Give the lowest identifier that is not used to one of the ports that wait for one."""
        free = [number for number in range(len(self._in_use)) if not used >> number & 1]
        if not free:
            return {}
        port, number = self._gifts.next(self._readers), free[0]
        self._readers.discard(port)
        self._numbers[port] = number
        self._allocated |= 1 << number
        return {port: Answer(number, failed=False)}

    def _granted(self, requests: Mapping[int, Request]) -> set[int]:
        """The ports that are granted their requests: of those that write commands one at most."""
        commanding = {port for port, request in requests.items() if _is_word(request)}
        others = {*requests} - commanding
        if self._owner is not None:
            return others | commanding & {self._owner}
        has_room = len(self._waiting) < _DEPTH
        return others | {self._turns.next(commanding)} if commanding and has_room else others

    def _take(self, port: int, word: int) -> None:
        """Take a word of a command."""
        if self._owner is None:
            self._owner, self._words = port, []
            self._count(self._numbers[port], 1)
        self._words.append(word)
        command = self._words[0]
        if len(self._words) == word_count(command):
            self._owner = None
            told = told_of_end(command, port, self._cores)
            self._waiting.append(_Command(self._numbers[port], told, self._begin(self._words)))

    def _count(self, number: int, change: int) -> None:
        """Count the transfers of an identifier."""
        self._in_use[number] += change
        bit = 1 << number
        self._active = self._active | bit if self._in_use[number] else self._active & ~bit

    def _go_on(self, written: int) -> None:
        """End a transfer, or begin the next one; the first can be seen in the next cycle."""
        self._told = 0, 0
        if self._current is not None and not self._left and not self._queue:
            self._count(self._current.number, -1)
            self._told = self._current.told
            self._current = None
        elif self._current is None and self._waiting:
            self._current = self._waiting.popleft()
            self._queue = deque(self._current.writes)
            self._left = sum(map(len, self._queue))
        self._left -= written

    def _grant(self, taking: Collection[int]) -> None:
        """Ports grant the first access each that needs them; one that needs none leaves, if it is the first."""
        for port in taking:
            next(waiting for waiting in self._queue if port in waiting).discard(port)
        if self._queue and not self._queue[0]:
            self._queue.popleft()


def _is_word(request: Request) -> bool:
    """Return whether a word of a command is written."""
    return bool(request.write) and request.address % BLOCK_BYTES == Dma.COMMAND
