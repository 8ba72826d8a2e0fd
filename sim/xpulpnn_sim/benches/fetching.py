"""Fetches of a core, and the memory behind a cache of instructions."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from cocotb.triggers import RisingEdge

from xpulpnn.isa.cluster import ICACHE_LINE_BYTES
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.cadence import Dut, sample
from xpulpnn_sim.benches.obi import OUTSTANDING_LIMIT, Grant, ObiTiming, Requester, Responder

PART_BYTES = 8  # what can be read or not as a whole
NEVER = 1 << 30  # cycle of an answer that does not come
_SPREAD, _CHANGE = 0x9E37_79B1, 0x85EB_CA6B
_PATIENCE = 600  # cycles without an answer that count as a hang


class ChangingCode:
    """Words that depend on their address and on how often the code has been changed."""

    def __init__(self, rng: Random, failing: float = 0.0) -> None:
        self.generation = 0
        self._rng, self._failing = rng, failing
        self._failures: dict[int, bool] = {}
        self._settled = 0
        self._settled_lines: dict[int, int] = {}

    def settle(self, address: int | None = None) -> None:
        """Let nothing be fetched from now on that is older than now, or of the line with the byte at
        ``address``."""
        if address is None:
            self._settled = self.generation
        else:
            self._settled_lines[address // ICACHE_LINE_BYTES] = self.generation

    def oldest(self, address: int) -> int:
        """The oldest generation that a word fetched at ``address`` may be of."""
        return max(self._settled, self._settled_lines.get(address // ICACHE_LINE_BYTES, 0))

    def word(self, address: int, generation: int) -> int:
        """The aligned word at ``address`` in a generation: every bit is 0 and 1 somewhere."""
        return (address // WORD_BYTES * _SPREAD ^ generation * _CHANGE) & WORD_MASK

    def read(self, address: int, size: int) -> int:
        """The ``size`` bytes at ``address``, now."""
        words = [self.word(address + offset, self.generation) for offset in range(0, size, WORD_BYTES)]
        return sum(word << WORD_BYTES * BYTE_BITS * number for number, word in enumerate(words))

    def fails(self, address: int) -> bool:
        """Return whether the part with the byte at ``address`` cannot be read."""
        part = address // PART_BYTES
        if part not in self._failures:
            self._failures[part] = self._rng.random() < self._failing
        return self._failures[part]


@dataclass(slots=True)
class Asked:
    """A request for a line: byte address, first cycle of it, and cycle of its answer and whether that was an error."""

    address: int
    cycle: int
    answer: tuple[int, bool] = NEVER, False


class ReadResponder(Responder):
    """Memory on a read-only port."""

    def __init__(
        self, dut: Dut, port: str, code: ChangingCode, timing: ObiTiming, rng: Random, **transfers: Any
    ) -> None:
        super().__init__(dut, port, timing, rng, **transfers)
        self.asked: list[Asked] = []
        self._code, self._answers_given = code, 0

    @property
    def requests(self) -> list[int]:
        """Addresses in the order of their grants."""
        return [grant.address for grant in self.log]

    def _asked(self, access: Grant) -> None:
        self.asked.append(Asked(access.address, self.cycle))

    def _answered(self, error: int) -> None:
        self.asked[self._answers_given].answer = self.cycle, error > 0
        self._answers_given += 1

    def _serve(self, access: Grant) -> tuple[int, int]:
        parts = enumerate(range(access.address, access.address + self._size, PART_BYTES))
        errors = sum(self._code.fails(part) << number for number, part in parts)
        return self._code.read(access.address, self._size), errors


@dataclass(slots=True)
class Fetch:
    """A fetch: byte address, cycles of its first request, grant and answer, the answer, and whether it is an error."""

    # `oldest` and `newest` are the generations of the code that the word may be of

    address: int
    requested: int
    granted: int = 0
    oldest: int = 0
    answered: int = 0
    newest: int = 0
    word: int = 0
    error: int = 0


class Fetcher(Requester[Fetch]):
    """The fetches of one core."""

    def __init__(self, dut: Dut, port: str, code: ChangingCode, addresses: Iterator[int | None]) -> None:
        super().__init__(dut, port, under_way=OUTSTANDING_LIMIT["instr"], patience=_PATIENCE)
        self.fetches: list[Fetch] = []
        self._code, self._addresses, self._ended = code, addresses, False

    def _next(self) -> Fetch | None:
        for address in self._addresses:
            return None if address is None else Fetch(address, requested=self.cycle)
        self._ended = True
        return None

    def _fields(self, request: Fetch) -> dict[str, int]:
        return {"addr": request.address}

    def _granted(self, request: Fetch) -> None:
        request.granted, request.oldest = self.cycle, self._code.oldest(request.address)

    def _answered(self, request: Fetch) -> None:
        request.answered, request.newest = self.cycle, self._code.generation
        request.word, request.error = sample(self._seen["rdata"]), sample(self._seen["err"])
        self.fetches.append(request)

    async def finish(self) -> None:
        """Wait until all fetches are answered."""
        while not (self._ended and self.idle):
            await RisingEdge(self._clk)

    def check(self) -> None:
        """Raise ``AssertionError`` for a fetch whose answer is wrong."""
        for fetch in self.fetches:
            failing = self._code.fails(fetch.address)
            assert fetch.error == failing, f"{fetch}: error must be {failing}"
            allowed = range(fetch.oldest, fetch.newest + 1)
            words = [self._code.word(fetch.address, generation) for generation in allowed]
            assert failing or fetch.word in words, f"{fetch}: word must be of {words}"


def wandering(rng: Random, count: int, *, idle: float = 0.0, spread: int = 4) -> Iterator[int | None]:
    """Addresses as a program fetches them: straight on, short loops, and jumps within ``spread`` stretches of code."""
    # `count` addresses, with `idle` as the probability of a cycle without one before each
    stretches = [rng.randrange(1 << 20) * ICACHE_LINE_BYTES * 8 + at for at in range(0, spread * 256, 256)]
    stretches.append(WORD_MASK & -64)
    first = length = turns = 0
    at = 0
    for _ in range(count):
        if at == length:
            at, turns = 0, turns - 1
            if turns <= 0:
                first = rng.choice(stretches) + rng.randrange(64) * WORD_BYTES
                length, turns = rng.randint(1, 40), rng.choice((1, 1, 3))
        while rng.random() < idle:
            yield None
        yield (first + at * WORD_BYTES) & WORD_MASK
        at += 1
