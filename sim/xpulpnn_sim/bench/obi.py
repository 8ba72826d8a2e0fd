"""A memory behind the OBI ports of a unit: random grants and response times, and the order of the grants.

Memory is ordered by grants: an access takes effect when it is granted, in whatever order ports and harts ask, and its
answer comes later. All responders of a bench may share one memory.
"""

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.bench.cadence import Background, Dut, drive, sample

ALL_BYTES = (1 << WORD_BYTES) - 1
OUTSTANDING_LIMIT = {"instr": 4}
"""Requests granted and not answered at most, by port; one at others."""

_BYTE_MASK = 0xFF
_SPREAD = 0x9E37_79B1
_ENABLED = [
    sum(_BYTE_MASK << BYTE_BITS * byte for byte in range(WORD_BYTES) if enables >> byte & 1)
    for enables in range(ALL_BYTES + 1)
]
"""The bits of a word by the enables of its bytes."""


class WordMemory(dict[int, int]):
    """Words by aligned byte address; a word never written holds a value that depends on its address."""

    def __init__(self, failing: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__()
        self._bad = failing

    def fails(self, address: int) -> bool:
        """Return whether an access to the word at ``address`` is answered with an error."""
        return any(first <= address < first + size for first, size in self._bad)

    def __missing__(self, address: int) -> int:
        """The initial value: an odd multiple of the address, bytes all different."""
        return (address * _SPREAD + _SPREAD) & WORD_MASK

    def load(self, address: int) -> int:
        """The little-endian word at any byte address."""
        base, byte = address & ~(WORD_BYTES - 1), address % WORD_BYTES
        both = self[base] | self[(base + WORD_BYTES) & WORD_MASK] << 32
        return both >> BYTE_BITS * byte & WORD_MASK

    def store(self, address: int, size: int, value: int) -> None:
        """Write the low ``size`` bytes of ``value`` at any byte address."""
        for offset in range(size):
            at, byte = (address + offset) & WORD_MASK, value >> BYTE_BITS * offset & _BYTE_MASK
            self.write(at & ~(WORD_BYTES - 1), 1 << at % WORD_BYTES, byte * 0x0101_0101)

    def write(self, address: int, enables: int, value: int) -> None:
        """Write the enabled bytes of the aligned word at ``address``."""
        mask = _ENABLED[enables]
        self[address] = self[address] & ~mask | value & mask


@dataclass(frozen=True, slots=True)
class ObiTiming:
    """Timing of a memory: probability of a grant per cycle, fewest and most cycles from grant to response."""

    grant: float = 1.0
    fastest: int = 1
    slowest: int = 1


PROMPT = ObiTiming()
"""Grants at once and answers in the next cycle."""

SLOW = ObiTiming(0.5, 1, 4)


class Grant(NamedTuple):
    """A granted access: aligned byte address, whether it writes, byte enables, data to be written."""

    address: int
    write: int = 0
    enables: int = ALL_BYTES
    value: int = 0


class ObiResponder(Background):
    """Memory on one OBI port: the only writer of grant and response. Rejects requests that break the protocol.

    When it ends it forgets what is outstanding: the unit must be reset.
    """

    def __init__(
        self,
        dut: Dut,
        port: str,
        memory: WordMemory,
        timing: ObiTiming,
        rng: Random,
        *,
        outstanding: int = 1,
        asleep: Dut = None,
    ) -> None:
        self.log: list[Grant] = []
        self._dut, self._port, self._memory, self._timing, self._rng = dut, port, memory, timing, rng
        self._asleep, self._outstanding = asleep, max(outstanding, OUTSTANDING_LIMIT.get(port, 1))
        fields = ("addr", "we", "be", "wdata") if hasattr(dut, f"{port}__we") else ("addr",)
        self._request = [getattr(dut, f"{port}__{name}") for name in fields]
        self._may_fail = hasattr(dut, f"{port}__err")

    def _answer(self, grant: int, valid: int, data: int, error: int) -> None:
        answer = {"gnt": grant, "rvalid": valid, "rdata": data} | ({"err": error} if self._may_fail else {})
        drive(self._dut, {f"{self._port}__{name}": value for name, value in answer.items()})

    def __exit__(self, *error: object) -> None:
        """End at once."""
        super().__exit__(*error)
        self._answer(0, 0, 0, 0)

    async def _run(self) -> None:
        clk, rng, timing = self._dut.clk, self._rng, self._timing
        req = getattr(self._dut, f"{self._port}__req")
        responses: deque[tuple[int, int, int]] = deque()
        waiting: Grant | None = None
        cycle = 0
        while True:
            ready = bool(responses) and responses[0][0] <= cycle
            grant = timing.grant >= 1 or rng.random() < timing.grant
            data, error = responses.popleft()[1:] if ready else (rng.getrandbits(32), rng.getrandbits(1))
            self._answer(int(grant), int(ready), data, error)
            await FallingEdge(clk)
            requested = sample(req)
            if self._asleep is not None and sample(self._asleep):
                under_way = len(responses) + ready + requested
                assert not under_way, f"{under_way} accesses under way in a sleeping core"
            if requested:
                access = Grant(*(sample(field) for field in self._request))
                assert access.address % WORD_BYTES == 0, f"{access} is not aligned"
                assert waiting in (None, access), f"{waiting} changed to {access} before its grant"
                waiting = None if grant else access
                if grant:
                    self.log.append(access)
                    ready_at = cycle + rng.randint(timing.fastest, timing.slowest)
                    responses.append((ready_at, self._perform(access), int(self._memory.fails(access.address))))
                    assert len(responses) <= self._outstanding, f"{len(responses)} requests outstanding"
            else:
                assert waiting is None, f"{waiting} withdrawn before its grant"
            await RisingEdge(clk)
            cycle += 1

    def _perform(self, access: Grant) -> int:
        """The data of the response, of which only the enabled bytes of a read that does not fail mean something."""
        if self._memory.fails(access.address):
            return self._rng.getrandbits(32)
        if access.write:
            self._memory.write(access.address, access.enables, access.value)
            return self._rng.getrandbits(32)
        mask = _ENABLED[access.enables]
        return self._memory[access.address] & mask | self._rng.getrandbits(32) & ~mask
