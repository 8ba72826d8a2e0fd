"""Fetches of a core, and the memory behind a cache of instructions."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.isa.cluster import ICACHE_LINE_BYTES
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.bench.cadence import Background, Driven, Dut, sample
from xpulpnn_sim.bench.obi import OUTSTANDING_LIMIT, ObiTiming

PART_BYTES = 8
"""What can be read or not as a whole."""

NEVER = 1 << 30
"""Cycle of an answer that does not come."""

_SPREAD, _CHANGE = 0x9E37_79B1, 0x85EB_CA6B
_PATIENCE = 600
"""Cycles without an answer that count as a hang."""


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


class ReadResponder(Background):
    """Memory on a read-only port: the only writer of grant and response. Rejects requests that break the protocol."""

    def __init__(
        self,
        dut: Dut,
        port: str,
        code: ChangingCode,
        timing: ObiTiming,
        rng: Random,
        *,
        size: int,
        shift: int = 0,
        outstanding: int,
    ) -> None:
        self.requests: list[int] = []
        self.asked: list[Asked] = []
        self._dut, self._port, self._code, self._timing, self._rng = dut, port, code, timing, rng
        self._size, self._shift, self._limit = size, shift, outstanding

    def _errors(self, address: int) -> int:
        parts = range(0, self._size, PART_BYTES)
        return sum(self._code.fails(address + offset) << number for number, offset in enumerate(parts))

    async def _run(self) -> None:
        clk, rng, timing = self._dut.clk, self._rng, self._timing
        req, addr = getattr(self._dut, f"{self._port}__req"), getattr(self._dut, f"{self._port}__addr")
        responses: deque[tuple[int, int, int]] = deque()
        waiting: int | None = None
        bits, parts = self._size * BYTE_BITS, self._size // PART_BYTES
        driven = Driven(self._dut, f"{self._port}__")
        cycle = answers = 0
        answered = True
        while True:
            ready = bool(responses) and responses[0][0] <= cycle
            grant = timing.grant >= 1 or rng.random() < timing.grant
            driven.drive(gnt=int(grant), rvalid=int(ready))
            if ready:
                _, data, error = responses.popleft()
                driven.drive(rdata=data, err=error)
                self.asked[answers].answer = cycle, error > 0
                answers += 1
            elif answered:
                # nothing of an answer stays
                driven.drive(rdata=rng.getrandbits(bits), err=rng.getrandbits(parts))
            answered = ready
            await FallingEdge(clk)
            if sample(req):
                address = sample(addr) << self._shift
                assert address % self._size == 0, f"{address:#x} is not aligned"
                assert waiting in (None, address), f"{waiting} changed to {address} before its grant"
                if waiting is None:
                    self.asked.append(Asked(address, cycle))
                waiting = None if grant else address
                if grant:
                    self.requests.append(address)
                    ready_at = cycle + rng.randint(timing.fastest, timing.slowest)
                    responses.append((ready_at, self._code.read(address, self._size), self._errors(address)))
                    assert len(responses) <= self._limit, f"{len(responses)} requests outstanding"
            else:
                assert waiting is None, f"{waiting} withdrawn before its grant"
            await RisingEdge(clk)
            cycle += 1


@dataclass(slots=True)
class Fetch:
    """A fetch: byte address, cycles of its first request, grant and answer, the answer, and whether it is an error.

    ``oldest`` and ``newest`` are the generations of the code that the word may be of.
    """

    address: int
    requested: int
    granted: int = 0
    oldest: int = 0
    answered: int = 0
    newest: int = 0
    word: int = 0
    error: int = 0


class Fetcher(Background):
    """The fetches of one core: the only writer of request and address."""

    _END = "end"

    def __init__(self, dut: Dut, port: str, code: ChangingCode, addresses: Iterator[int | None]) -> None:
        self.fetches: list[Fetch] = []
        self.done = False
        self._dut, self._port, self._code, self._addresses = dut, port, code, addresses

    async def _run(self) -> None:
        port = {name: getattr(self._dut, f"{self._port}__{name}") for name in ("gnt", "rvalid", "rdata", "err")}
        driven = Driven(self._dut, f"{self._port}__")
        under_way: deque[Fetch] = deque()
        asked: Fetch | None = None
        silence = cycle = 0
        ended = False
        while True:
            if asked is None and not ended and len(under_way) < OUTSTANDING_LIMIT["instr"]:
                address = next(self._addresses, self._END)
                ended = address is self._END
                asked = Fetch(address, requested=cycle) if isinstance(address, int) else None
            driven.drive(req=int(asked is not None))
            if asked is not None:
                driven.drive(addr=asked.address)
            await FallingEdge(self._dut.clk)
            silence = silence + 1 if under_way or asked else 0
            if sample(port["rvalid"]):
                assert under_way, f"answer without a fetch in cycle {cycle}"
                fetch = under_way.popleft()
                fetch.answered, fetch.newest = cycle, self._code.generation
                fetch.word, fetch.error = sample(port["rdata"]), sample(port["err"])
                self.fetches.append(fetch)
                silence = 0
            if asked is not None and sample(port["gnt"]):
                asked.granted, asked.oldest = cycle, self._code.oldest(asked.address)
                under_way.append(asked)
                asked, silence = None, 0
            assert silence < _PATIENCE, f"no grant or answer up to cycle {cycle}"
            self.done = ended and not under_way and asked is None
            await RisingEdge(self._dut.clk)
            cycle += 1

    async def finish(self) -> None:
        """Wait until all fetches are answered."""
        while not self.done:
            await RisingEdge(self._dut.clk)

    def check(self) -> None:
        """Raise ``AssertionError`` for a fetch whose answer is wrong."""
        for fetch in self.fetches:
            failing = self._code.fails(fetch.address)
            assert fetch.error == failing, f"{fetch}: error must be {failing}"
            allowed = range(fetch.oldest, fetch.newest + 1)
            words = [self._code.word(fetch.address, generation) for generation in allowed]
            assert failing or fetch.word in words, f"{fetch}: word must be of {words}"


def wandering(rng: Random, count: int, *, idle: float = 0.0, spread: int = 4) -> Iterator[int | None]:
    """Addresses as a program fetches them: straight on, short loops, and jumps within ``spread`` stretches of code.

    ``count`` addresses, with ``idle`` as the probability of a cycle without one before each.
    """
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
