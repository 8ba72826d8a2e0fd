"""Fetches of a core, and the memory behind a cache of instructions."""

from collections import defaultdict, deque
from collections.abc import Iterable
from random import Random
from typing import Any

from cocotb.triggers import RisingEdge

from xpulpnn.isa.cluster import ICACHE_LINE_BYTES
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.cadence import Dut
from xpulpnn_sim.benches.obi import OUTSTANDING_LIMIT, Grant, ObiInitiator, ObiTiming, Responder, Transfer

PART_BYTES = 8  # what can be read or not as a whole
_SPREAD, _CHANGE = 0x9E37_79B1, 0x85EB_CA6B


class ChangingCode:
    """Words that depend on their address and on how often the code has been changed."""

    def __init__(self, rng: Random, failing: float = 0.0) -> None:
        self.generation = 0
        self._failures = defaultdict[int, bool](lambda: rng.random() < failing)
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
        return self._failures[address // PART_BYTES]


class ReadResponder(Responder):
    """Memory on a read-only port."""

    def __init__(
        self, dut: Dut, port: str, code: ChangingCode, timing: ObiTiming, rng: Random, **transfers: Any
    ) -> None:
        super().__init__(dut, port, timing, rng, **transfers)
        self.asked: list[Transfer] = []  # requests from their first cycle on
        self._code, self._answers_given = code, 0

    @property
    def requests(self) -> list[int]:
        """Addresses in the order of their grants."""
        return [grant.address for grant in self.log]

    def _asked(self, access: Grant) -> None:
        self.asked.append(Transfer(access.address, requested=self.cycle))

    def _answered(self, error: int) -> None:
        asked = self.asked[self._answers_given]
        asked.answered, asked.failed = self.cycle, error > 0
        self._answers_given += 1

    def _serve(self, access: Grant) -> tuple[int, int]:
        parts = enumerate(range(access.address, access.address + self._size, PART_BYTES))
        errors = sum(self._code.fails(part) << number for number, part in parts)
        return self._code.read(access.address, self._size), errors


class Fetcher(ObiInitiator):
    """The fetches of one core. Rejects what is no word of the code from the grant to the answer."""

    def __init__(self, dut: Dut, port: str, code: ChangingCode, rng: Random, *, idle: float = 0.0) -> None:
        super().__init__(dut, port, under_way=OUTSTANDING_LIMIT["instr"], pause=idle, rng=rng)
        self._code = code
        self._oldest: deque[int] = deque()

    def _fields(self, request: Transfer) -> dict[str, int]:
        return {"addr": request.address}

    def _granted(self, request: Transfer) -> None:
        self._oldest.append(self._code.oldest(request.address))

    def _answered(self, request: Transfer) -> None:
        failing, allowed = self._code.fails(request.address), range(self._oldest.popleft(), self._code.generation + 1)
        assert request.failed == failing, f"{request}: error must be {failing}"
        words = [self._code.word(request.address, generation) for generation in allowed]
        assert failing or request.data in words, f"{request}: word must be of {words}"

    async def fetch(self, addresses: Iterable[int]) -> None:
        """Fetch words, up to the end of the cycle of the last answer."""
        await self.make(map(Transfer, addresses))
        await RisingEdge(self._clk)


def wandering(rng: Random, count: int, *, spread: int = 4) -> list[int]:
    """Addresses as a program fetches them: straight on, short loops, and jumps within ``spread`` stretches of code."""
    stretches = [rng.randrange(1 << 20) * ICACHE_LINE_BYTES * 8 + at for at in range(0, spread * 256, 256)]
    stretches.append(WORD_MASK & -64)
    addresses: list[int] = []
    while len(addresses) < count:
        first = rng.choice(stretches) + rng.randrange(64) * WORD_BYTES
        length, turns = rng.randint(1, 40), rng.choice((1, 1, 3))
        addresses += [(first + at * WORD_BYTES) & WORD_MASK for at in range(length)] * turns
    return addresses[:count]
