"""Golden models of the shared memory of a cluster: cycle-accurate banks and arbiters, address map, and caches."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xpulpnn.config import Arbiter, ClusterConfig
from xpulpnn.isa.cluster import ICACHE_LINE_BYTES, NO_MASTER, TEST_SET_BIT
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK


class CacheLevel:
    """A set-associative cache that replaces the oldest line of a set."""

    def __init__(self, size: int, ways: int) -> None:
        self.hits = self.misses = 0
        self._sets = size // ICACHE_LINE_BYTES // ways
        self._ways = ways
        self.flush()

    def flush(self) -> None:
        self._lines: dict[int, deque[int]] = {}

    def flush_address(self, address: int) -> None:
        """Invalidate the whole set that may hold the byte at ``address``."""
        self._lines.pop(self._set_of(address), None)

    def look_up(self, address: int) -> bool:
        """Return whether the byte at ``address`` is cached, and count a hit or a miss."""
        hit = self.holds(address)
        self.hits += hit
        self.misses += not hit
        return hit

    def holds(self, address: int) -> bool:
        """Return whether the byte at ``address`` is cached, without counting."""
        return address // ICACHE_LINE_BYTES in self._lines.get(self._set_of(address), ())

    def fill(self, address: int) -> None:
        """Store the line with the byte at ``address``, replacing the oldest of a full set."""
        lines = self._lines.setdefault(self._set_of(address), deque(maxlen=self._ways))
        lines.append(address // ICACHE_LINE_BYTES)

    def _set_of(self, address: int) -> int:
        return address // ICACHE_LINE_BYTES % self._sets


_MIB = 1 << 20


def ranges(config: ClusterConfig) -> Sequence[tuple[int, int, str]]:
    """Return first address, size and port of the ranges inside the cluster; where some overlap the last applies."""
    tcdm = config.tcdm_bytes
    inside = [
        (0x0000_0000, _MIB, "unmapped"),
        (0x0000_0000, tcdm, "tcdm"),
        (0x1000_0000, 3 * _MIB, "unmapped"),
        (0x1000_0000, tcdm, "tcdm"),
        (0x1010_0000, tcdm, "tcdm"),
        (0x1020_0000, 0x4000, "peripherals"),
        (0x1020_4000, 0x400, "event_unit"),
    ]
    if config.dma:
        inside.append((0x1020_4400, 0x400, "dma"))
    if config.clint:
        inside.append((0x1021_0000, 0x1_0000, "peripherals"))
    return inside


def destination(address: int, config: ClusterConfig) -> str:
    """Return the demultiplexer port of an address, ``ext`` if it is in none of :func:`ranges`."""
    port = "ext"
    for base, size, name in ranges(config):
        if base <= address < base + size:
            port = name
    return port


PATIENCE = 16  # a low-priority master wins after it has lost one cycle less than this


class Request(NamedTuple):
    """The request of a master: aligned byte address, write flag, byte enables, data to be written."""

    address: int
    write: int = 0
    enables: int = (1 << WORD_BYTES) - 1
    value: int = 0


class _BankAccess(NamedTuple):
    master: int
    bank: int
    row: int


@dataclass(slots=True)
class ArbiterModel:
    kind: Arbiter
    inputs: int
    grants: int = 0
    last: int = -1

    def next(self, requesting: set[int]) -> int:
        """Return the winner among ``requesting``, which must not be empty. A tree of arbiters prefers the input
        ``named``, then the number with the smallest exclusive or with ``named``."""
        if self.kind == "fixed":
            return min(requesting)
        if self.kind == "strict":
            winner = min(requesting, key=lambda number: (number - self.last - 1) % self.inputs)
        else:
            named = self.grants % self.inputs
            winner = min(requesting, key=lambda number: number ^ named)
        self.grants += 1
        self.last = winner
        return winner


def place_of(address: int, config: ClusterConfig) -> tuple[int, int]:
    """Return bank and row of a byte address."""
    word = address % config.tcdm_bytes // WORD_BYTES
    row, bank = divmod(word, config.banks)
    if config.bank_hash:
        rest = row
        while rest and config.banks > 1:
            rest, digit = divmod(rest, config.banks)
            bank ^= digit
    return bank, row


@dataclass(slots=True)
class TcdmModel:
    config: ClusterConfig
    masters: int  # number of cores and other masters
    words: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    accesses: list[_BankAccess] = field(default_factory=list[_BankAccess])  # of the last cycle
    _queues: dict[tuple[int, str], ArbiterModel] = field(default_factory=dict[tuple[int, str], ArbiterModel])
    _lost: dict[int, int] = field(default_factory=dict[int, int])
    _setting: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    _claiming: set[int] = field(default_factory=set[int])

    def cycle(self, requests: Mapping[int, Request], claims: Mapping[int, Request] | None = None) -> dict[int, int]:
        """Return the responses, sent in the next cycle, to the masters granted in this cycle; 0 for writes.

        Masters with ``claims`` take part in the arbitration without a request: a bank that they win stays idle.
        """
        waiting: dict[int, dict[int, Request]] = {}
        self._claiming = set(claims or ())
        for master, request in (dict(requests) | dict(claims or {})).items():
            waiting.setdefault(place_of(request.address, self.config)[0], {})[master] = request
        setting, self._setting = self._setting, {}
        self.accesses = []
        answers: dict[int, int] = {}
        for bank in range(self.config.banks):
            if bank in setting:
                row, enables = setting[bank]
                self._write(bank, row, enables, WORD_MASK)
                self.accesses.append(_BankAccess(NO_MASTER, bank, row))
                self._lose(bank, waiting.get(bank, {}))
            elif bank in waiting:
                self._serve(bank, waiting[bank], answers)
            else:
                self._lost[bank] = 0
        return answers

    def _serve(self, bank: int, waiting: dict[int, Request], answers: dict[int, int]) -> None:
        winner = self._winner(bank, waiting)
        if winner in self._claiming:
            return
        request = waiting[winner]
        row = place_of(request.address, self.config)[1]
        self.accesses.append(_BankAccess(winner, bank, row))
        old = self.words.get((bank, row), 0)
        answers[winner] = 0 if request.write else old
        if request.write:
            self._write(bank, row, request.enables, request.value)
        elif _sets(request):
            self._setting[bank] = row, request.enables
        elif self.config.broadcast:
            for master, other in waiting.items():
                idle = master in self._claiming or other.write or _sets(other)
                if not idle and place_of(other.address, self.config)[1] == row:
                    answers[master] = old

    def _winner(self, bank: int, waiting: dict[int, Request]) -> int:
        cores = self.config.cores
        yields = self.config.dma_priority == "low" and self.masters > cores
        if not yields:
            return self._queue(bank, "all", self.masters).next(set(waiting))
        requesting = {master for master in waiting if master < cores}
        others = {master - cores for master in waiting if master >= cores}
        if requesting and not (others and self._lost.get(bank, 0) == PATIENCE - 1):
            self._lose(bank, waiting)
            return self._queue(bank, "cores", cores).next(requesting)
        self._lost[bank] = 0
        return self._queue(bank, "others", self.masters - cores).next(others) + cores

    def _lose(self, bank: int, waiting: Mapping[int, Request]) -> None:
        others = any(master >= self.config.cores for master in waiting)
        self._lost[bank] = min(self._lost.get(bank, 0) + 1, PATIENCE - 1) if others else 0

    def _queue(self, bank: int, group: str, inputs: int) -> ArbiterModel:
        return self._queues.setdefault((bank, group), ArbiterModel(self.config.arbiter, inputs))

    def _write(self, bank: int, row: int, enables: int, value: int) -> None:
        old = self.words.get((bank, row), 0).to_bytes(WORD_BYTES, "little")
        new = value.to_bytes(WORD_BYTES, "little")
        chosen = bytes(new[byte] if enables >> byte & 1 else old[byte] for byte in range(WORD_BYTES))
        self.words[bank, row] = int.from_bytes(chosen, "little")


def _sets(request: Request) -> bool:
    return not request.write and bool(request.address >> TEST_SET_BIT & 1)
