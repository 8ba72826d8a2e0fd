"""Instruction fetching: a memory behind the fetch port, random programs, and the order in which they are delivered."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import cocotb
from cocotb.task import Task
from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn_sim.bench.parts import Dut, sample

WORD_BYTES = 4
HALF_BYTES = 2
HALF_BITS = 16
LENGTH_BITS = 0b11
ADDRESS_MASK = 0xFFFF_FFFF
OUTSTANDING_LIMIT = 4
"""Words buffered or under way at most."""

_FULL_LENGTH_PROBABILITY = 0.5


@dataclass(frozen=True, slots=True)
class FetchTiming:
    """How the memory answers: probability of a grant per cycle, fewest and most cycles from grant to response."""

    grant: float = 1.0
    fastest: int = 1
    slowest: int = 1


PROMPT = FetchTiming()
"""Grants at once and answers in the next cycle."""

SLOWEST = FetchTiming(0.25, 1, 6)
FETCH_TIMINGS = (PROMPT, FetchTiming(1.0, 1, 6), FetchTiming(0.4, 1, 1), FetchTiming(0.6, 5, 6), SLOWEST)
"""From ideal to slow: late answers, late grants, both."""


class InstructionMemory:
    """Responder on ``instr__*``: the only writer of grant and response. Rejects requests that break the protocol.

    Parameters
    ----------
    dut : handle
        Unit with an instruction port ``instr``.
    timing : FetchTiming
        Grant and response stalls.
    word_at : callable
        The word at an aligned byte address, asked for at the grant.
    rng : Random
        Source of stalls and of the data shown while there is no response.
    asleep : handle, optional
        Port with which the unit promises that nothing is under way.
    """

    def __init__(
        self, dut: Dut, timing: FetchTiming, word_at: Callable[[int], int], rng: Random, asleep: Dut = None
    ) -> None:
        self.dut = dut
        self.timing = timing
        self.word_at = word_at
        self.rng = rng
        self.asleep = asleep
        self.granted = 0
        self._task: Task[None] | None = None

    def start(self) -> None:
        """Serve requests from the current cycle on."""
        self._task = cocotb.start_soon(self._serve())

    def stop(self) -> None:
        """Forget what is outstanding and stop; the unit must be reset."""
        if self._task is not None:
            self._task.cancel()
        self.dut.instr__gnt.value = 0
        self.dut.instr__rvalid.value = 0

    async def _serve(self) -> None:
        dut, rng, timing = self.dut, self.rng, self.timing
        responses: deque[tuple[int, int]] = deque()
        waiting: int | None = None
        cycle = 0
        while True:
            ready = bool(responses) and responses[0][0] <= cycle
            grant = timing.grant >= 1 or rng.random() < timing.grant
            dut.instr__gnt.value = int(grant)
            dut.instr__rvalid.value = int(ready)
            dut.instr__rdata.value = responses.popleft()[1] if ready else rng.getrandbits(32)
            await FallingEdge(dut.clk)
            if self.asleep is not None and sample(self.asleep):
                under_way = len(responses) + ready + sample(dut.instr__req)
                assert not under_way, f"{under_way} fetches under way in a sleeping core"
            if sample(dut.instr__req):
                address = sample(dut.instr__addr)
                assert address % WORD_BYTES == 0, f"address {address:#x} of a request is not aligned"
                assert waiting in (None, address), f"request of {waiting:#x} changed to {address:#x} before its grant"
                waiting = None if grant else address
                if grant:
                    self.granted += 1
                    responses.append((cycle + rng.randint(timing.fastest, timing.slowest), self.word_at(address)))
                    assert len(responses) <= OUTSTANDING_LIMIT, f"{len(responses)} requests outstanding"
            else:
                assert waiting is None, f"request of {waiting:#x} withdrawn before its grant"
            await RisingEdge(dut.clk)
            cycle += 1


class RandomProgram(dict[int, int]):
    """Half-words by address, half of them the beginning of a four-byte instruction; made when first looked at."""

    def __init__(self, rng: Random, full_length: float = _FULL_LENGTH_PROBABILITY) -> None:
        super().__init__()
        self.rng = rng
        self.full_length = full_length

    def __missing__(self, address: int) -> int:
        """Draw the half-word."""
        half = self.rng.getrandbits(HALF_BITS) & ~LENGTH_BITS | self.rng.randrange(LENGTH_BITS)
        self[address] = half | LENGTH_BITS if self.rng.random() < self.full_length else half
        return self[address]

    def word_at(self, address: int) -> int:
        """The four bytes at any even address."""
        return self[address] | self[(address + HALF_BYTES) & ADDRESS_MASK] << HALF_BITS

    def size_at(self, address: int) -> int:
        """Bytes of the instruction at ``address``."""
        return WORD_BYTES if self[address] & LENGTH_BITS == LENGTH_BITS else HALF_BYTES

    def instruction_at(self, address: int) -> int:
        """The instruction at ``address``, upper half 0 if it is compressed."""
        return self.word_at(address) if self.size_at(address) == WORD_BYTES else self[address]

    def after(self, address: int) -> int:
        """Address of the instruction behind that at ``address``."""
        return (address + self.size_at(address)) & ADDRESS_MASK

    def words_of(self, address: int) -> int:
        """Memory words that the instruction at ``address`` lies in: 1, or 2 across a word boundary."""
        return 1 + (address % WORD_BYTES + self.size_at(address) > WORD_BYTES)


def random_target(rng: Random) -> int:
    """An address in one of a few short stretches, one of them around the end of the address space; bit 0 random."""
    base = rng.choice((0x100, 0x1C00_0080, 0xFFFF_FFE0))
    return (base + rng.randrange(64)) & ADDRESS_MASK
