"""Cycle-accurate golden model of the DMA engine's command ports and notifications (guide, "The DMA engine")."""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import NamedTuple

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import BLOCK_BYTES, Dma
from xpulpnn_sim.reference.golden.dma import notified_cores, word_count
from xpulpnn_sim.reference.golden.tcdm import ArbiterModel, Request

_DEPTH = 8  # most commands in the queue, in addition to the current one
_REGISTERS = {*map(int, Dma)}
_ALLOCATED = 16  # lowest bit of the allocated identifiers in the status


class Answer(NamedTuple):
    data: int | None  # None: any
    failed: bool


class PortOutputs(NamedTuple):
    granted: Set[int]  # ports whose requests are granted
    answers: Mapping[int, Answer]  # responses in the next cycle, by port
    notified: tuple[int, int]  # cores notified of an end by event and by interrupt, a bit each
    busy: bool


class _Command(NamedTuple):
    number: int
    notified: tuple[int, int]
    writes: list[set[int]]


class PortsModel:
    """Identifiers, status and commands of the DMA engine.

    Cores are notified two cycles after the last response to a write of a transfer, provided that all accesses of the
    transfer have left the queue. One access leaves the queue per cycle.
    """

    def __init__(self, config: ClusterConfig, begin: Callable[[Sequence[int]], list[set[int]]]) -> None:
        # `begin` takes the words of each command and returns the memory ports to which each access writes
        self._cores, self._begin = config.cores, begin
        inputs = config.cores + 1
        self._command_arbiter, self._identifier_arbiter = (ArbiterModel("counter", inputs) for _ in range(2))
        self._in_use = [0] * config.dma_transfers
        self._active = self._allocated = 0  # identifiers in use, and allocated, a bit each
        self._numbers = [0] * inputs  # last identifier of each port
        self._readers: set[int] = set()  # ports that wait for an identifier
        self._owner: int | None = None  # port that is writing a command
        self._words: list[int] = []  # words of that command
        self._waiting: deque[_Command] = deque()
        self._current: _Command | None = None
        self._left = 0  # writes of the current transfer without response
        self._queue: deque[set[int]] = deque()  # for each of its accesses the ports that have not granted it
        self._notified = 0, 0

    @property
    def next_notified(self) -> tuple[int, int]:
        """Bit masks of the cores to be notified in two cycles if the transfer ends in the next cycle."""
        return (0, 0) if self._current is None or self._left or self._queue else self._current.notified

    @property
    def begun(self) -> int:
        """Number of words that have been received of an incomplete command."""
        return 0 if self._owner is None else len(self._words)

    def cycle(self, offered: Mapping[int, Request], written: int, granting: Collection[int] = ()) -> PortOutputs:
        """Simulate a cycle with the requests ``offered``, ``written`` responses to writes of the engine, and the memory
        ports in ``granting``."""
        active, allocated, notified = self._active, self._allocated, self._notified
        requests = {port: request for port, request in offered.items() if port not in self._readers}
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
        self._advance(written)
        self._grant(granting)
        for port in granted:
            if _is_word(requests[port]):
                self._take(port, requests[port].value)
        return PortOutputs(granted, answers, notified, active > 0)

    def _give(self, used: int) -> dict[int, Answer]:
        free = [number for number in range(len(self._in_use)) if not used >> number & 1]
        if not free:
            return {}
        port, number = self._identifier_arbiter.next(self._readers), free[0]
        self._readers.discard(port)
        self._numbers[port] = number
        self._allocated |= 1 << number
        return {port: Answer(number, failed=False)}

    def _granted(self, requests: Mapping[int, Request]) -> set[int]:
        """Return the ports whose requests are granted. At most one of them writes a command."""
        commanding = {port for port, request in requests.items() if _is_word(request)}
        others = {*requests} - commanding
        if self._owner is not None:
            return others | commanding & {self._owner}
        has_room = len(self._waiting) < _DEPTH
        return others | {self._command_arbiter.next(commanding)} if commanding and has_room else others

    def _take(self, port: int, word: int) -> None:
        if self._owner is None:
            self._owner, self._words = port, []
            self._count(self._numbers[port], 1)
        self._words.append(word)
        command = self._words[0]
        if len(self._words) == word_count(command):
            self._owner = None
            notified = notified_cores(command, port, self._cores)
            self._waiting.append(_Command(self._numbers[port], notified, self._begin(self._words)))

    def _count(self, number: int, change: int) -> None:
        self._in_use[number] += change
        bit = 1 << number
        self._active = self._active | bit if self._in_use[number] else self._active & ~bit

    def _advance(self, written: int) -> None:
        """End a transfer, or begin the next one; the end is visible in the next cycle."""
        self._notified = 0, 0
        if self._current is not None and not self._left and not self._queue:
            self._count(self._current.number, -1)
            self._notified = self._current.notified
            self._current = None
        elif self._current is None and self._waiting:
            self._current = self._waiting.popleft()
            self._queue = deque(self._current.writes)
            self._left = sum(map(len, self._queue))
        self._left -= written

    def _grant(self, granting: Collection[int]) -> None:
        """Let each port grant the first queued access that needs it; an access with all grants leaves the queue."""
        for port in granting:
            next(waiting for waiting in self._queue if port in waiting).discard(port)
        if self._queue and not self._queue[0]:
            self._queue.popleft()


def _is_word(request: Request) -> bool:
    return bool(request.write) and request.address % BLOCK_BYTES == Dma.COMMAND
