"""A memory behind the OBI ports of a unit: random grants and response times, and the order of the grants.

Memory is ordered by grants: an access takes effect when it is granted, in whatever order ports and harts ask, and its
answer comes later. All responders of a bench may share one memory.
"""

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.cadence import Driven, Dut, Stepwise, sample

ALL_BYTES = (1 << WORD_BYTES) - 1
OUTSTANDING_LIMIT = {"instr": 4}  # Requests granted and not answered at most, by port; one at others

_BYTE_MASK = 0xFF
_SPREAD = 0x9E37_79B1
ENABLED = [
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
        mask = ENABLED[enables]
        self[address] = self[address] & ~mask | value & mask


@dataclass(frozen=True, slots=True)
class ObiTiming:
    """Timing of a memory: probability of a grant per cycle, fewest and most cycles from grant to response."""

    grant: float = 1.0
    fastest: int = 1
    slowest: int = 1


PROMPT = ObiTiming()  # grants at once and answers in the next cycle

SLOW = ObiTiming(0.5, 1, 4)


class Grant(NamedTuple):
    """A granted access: aligned byte address, whether it writes, byte enables, data to be written."""

    address: int
    write: int = 0
    enables: int = ALL_BYTES
    value: int = 0


class Responder(Stepwise):
    """Memory on a port: the only writer of grant and response. Rejects requests that break the protocol.

    When it ends it forgets what is outstanding: the unit must be reset.
    """

    def __init__(
        self,
        dut: Dut,
        port: str,
        timing: ObiTiming,
        rng: Random,
        *,
        size: int = WORD_BYTES,
        shift: int = 0,
        outstanding: int = 1,
        restless: bool = False,
    ) -> None:
        super().__init__(dut)
        self.log: list[Grant] = []
        self.cycle = 0
        self._port, self._timing, self._rng = port, timing, rng
        self._size, self._shift, self._outstanding = size, shift, outstanding
        self._driven, self._restless = Driven(dut, f"{port}__"), restless
        fields = ("addr", "we", "be", "wdata") if hasattr(dut, f"{port}__we") else ("addr",)
        self._request = [getattr(dut, f"{port}__{name}") for name in ("req", *fields)]
        answer = {name: getattr(dut, f"{port}__{name}", None) for name in ("rdata", "err")}
        self._widths = {name: len(handle) for name, handle in answer.items() if handle is not None}
        self._answers: deque[tuple[int, int, int]] = deque()
        self._waiting: Grant | None = None
        self._granting, self._noise = 0, True

    @property
    def unanswered(self) -> int:
        """Accesses under way."""
        return len(self._answers)

    @abstractmethod
    def _serve(self, access: Grant) -> tuple[int, int]:
        """Data of the response to a granted access, and its error bits."""

    def _asked(self, access: Grant) -> None:
        """Note the first cycle of a request."""

    def _answered(self, error: int) -> None:
        """Note the cycle of a response."""

    def show(self) -> None:
        """Grant or not, and answer what is due; between answers there is noise."""
        rng, timing = self._rng, self._timing
        self._granting = int(timing.grant >= 1 or rng.random() < timing.grant)
        ready = bool(self._answers) and self._answers[0][0] <= self.cycle
        self._driven.drive(gnt=self._granting, rvalid=int(ready))
        if ready:
            _, data, error = self._answers.popleft()
            self._driven.drive(**{name: (data, error)[name == "err"] for name in self._widths})
            self._answered(error)
        elif self._noise:
            self._driven.drive(**{name: rng.getrandbits(width) for name, width in self._widths.items()})
        # nothing of an answer stays
        self._noise = ready or self._restless

    def see(self) -> None:
        """Take a request."""
        req, *fields = self._request
        if sample(req):
            address, *rest = (sample(field) for field in fields)
            self._requested(Grant(address << self._shift, *rest))
        else:
            assert self._waiting is None, f"{self._port}: {self._waiting} withdrawn before its grant"
        self.cycle += 1

    def _requested(self, access: Grant) -> None:
        assert access.address % self._size == 0, f"{self._port}: {access} is not aligned"
        assert self._waiting in (None, access), f"{self._port}: {self._waiting} becomes {access} before its grant"
        if self._waiting is None:
            self._asked(access)
        self._waiting = None if self._granting else access
        if self._granting:
            self.log.append(access)
            ready_at = self.cycle + self._rng.randint(self._timing.fastest, self._timing.slowest)
            self._answers.append((ready_at, *self._serve(access)))
            assert len(self._answers) <= self._outstanding, f"{self._port}: {len(self._answers)} outstanding"

    def rest(self) -> None:
        """Grant and answer nothing."""
        self._driven.drive(gnt=0, rvalid=0, **dict.fromkeys(self._widths, 0))


class ObiResponder(Responder):
    """Memory on one OBI port."""

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
        most = max(outstanding, OUTSTANDING_LIMIT.get(port, 1))
        super().__init__(dut, port, timing, rng, outstanding=most, restless=True)
        self._memory, self._asleep = memory, asleep

    def see(self) -> None:
        """Take a request; there is none in a core that sleeps, and nothing under way."""
        if self._asleep is not None and sample(self._asleep):
            under_way = self.unanswered + self._driven.values["rvalid"] + sample(self._request[0])
            assert not under_way, f"{under_way} accesses under way in a sleeping core"
        super().see()

    def _serve(self, access: Grant) -> tuple[int, int]:
        """The enabled bytes of a read that does not fail mean something, everything else is anything."""
        noise = self._rng.getrandbits(32)
        if self._memory.fails(access.address):
            return noise, 1
        if access.write:
            self._memory.write(access.address, access.enables, access.value)
            return noise, 0
        mask = ENABLED[access.enables]
        return self._memory[access.address] & mask | noise & ~mask, 0
