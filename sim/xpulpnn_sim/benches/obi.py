"""OBI ports of a unit: memories that answer with random grants and response times, and initiators.

Memory is ordered by grants: an access takes effect when it is granted, in whatever order ports and harts ask, and its
answer comes later. All responders of a bench may share one memory.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from cocotb.triggers import Event

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

    def bytes_at(self, address: int, size: int) -> bytes:
        """Some bytes from an aligned address on."""
        return b"".join(self[at].to_bytes(WORD_BYTES, "little") for at in range(address, address + size, WORD_BYTES))

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
    """Memory on a port: the only writer of grant and response. Rejects requests that break the protocol."""

    # when it ends it forgets what is outstanding: the unit must be reset

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
        self.asked: list[Transfer] = []  # addresses of requests, their first cycle, and when and how they were answered
        self.cycle = self.cycles_refused = self.cycles_unanswered = 0
        self._port, self.timing, self._rng = port, timing, rng
        self._size, self._shift, self._outstanding = size, shift, outstanding
        self._driven, self._restless = Driven(dut, f"{port}__"), restless
        fields = ("addr", "we", "be", "wdata") if hasattr(dut, f"{port}__we") else ("addr",)
        self._request = [getattr(dut, f"{port}__{name}") for name in ("req", *fields)]
        answer = {name: getattr(dut, f"{port}__{name}", None) for name in ("rdata", "err")}
        self._widths = {name: len(handle) for name, handle in answer.items() if handle is not None}
        self._answers: deque[tuple[int, int, int, Transfer]] = deque()
        self._waiting: Grant | None = None
        self._granting, self._noise = 0, True

    @property
    def unanswered(self) -> int:
        """Accesses under way."""
        return len(self._answers)

    @abstractmethod
    def _serve(self, access: Grant) -> tuple[int, int]:
        """Data of the response to a granted access, and its error bits."""

    def show(self) -> None:
        """Grant or not, and answer what is due; between answers there is noise."""
        rng, timing = self._rng, self.timing
        self._granting = int(timing.grant >= 1 or rng.random() < timing.grant)
        ready = bool(self._answers) and self._answers[0][0] <= self.cycle
        self._driven.drive(gnt=self._granting, rvalid=int(ready))
        if ready:
            _, data, error, request = self._answers.popleft()
            self._driven.drive(**{name: (data, error)[name == "err"] for name in self._widths})
            request.answered, request.failed = self.cycle, error > 0
        elif self._noise:
            self._driven.drive(**{name: rng.getrandbits(width) for name, width in self._widths.items()})
        # nothing of an answer stays
        self._noise = ready or self._restless

    def see(self) -> None:
        """Take a request."""
        req, *fields = self._request
        self.cycles_unanswered += bool(self._answers)
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
            self.asked.append(Transfer(access.address, requested=self.cycle))
        self._waiting = None if self._granting else access
        self.cycles_refused += not self._granting
        if self._granting:
            self.log.append(access)
            ready_at = self.cycle + self._rng.randint(self.timing.fastest, self.timing.slowest)
            self._answers.append((ready_at, *self._serve(access), self.asked[-1]))
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


_PATIENCE = 8000  # cycles without a grant or an answer after which the unit counts as stuck


@dataclass(slots=True)
class Transfer:
    """An access, and what became of it."""

    address: int  # aligned byte address
    # as in OBI
    write: int = 0
    enables: int = ALL_BYTES
    value: int = 0
    gap: int = 0  # cycles without a request before it
    beats: int = 1  # transfers left of its run, where ports have runs
    # cycles from the beginning to the first request, the grant and the answer
    requested: int = -1
    granted: int = -1
    answered: int = -1
    data: int = 0  # what was read
    failed: bool = False  # whether the answer was an error
    ended: Event = field(default_factory=Event, repr=False)  # set with the answer

    @property
    def grant(self) -> Grant:
        """The access as it must be granted."""
        return Grant(self.address, self.write, self.enables, self.value)


def expected_data(transfer: Transfer, memory: WordMemory, *, absent: bool) -> int:
    """Data that a transfer must read, in the order of the grants; what does not matter is as it was seen."""
    # nothing is there if it is `absent`
    if memory.fails(transfer.address):
        return transfer.data
    if transfer.write:
        memory.write(transfer.address, transfer.enables, transfer.value)
        return 0
    mask = ENABLED[transfer.enables]
    return (0 if absent else memory[transfer.address]) & mask | transfer.data & ~mask


ANY_NUMBER = _PATIENCE  # of accesses under way: the unit must grant nothing that is too much


class ObiInitiator(Stepwise):
    """Makes transfers in order: the only writer of the request.

    One of them may be under way, and the next one begins in the cycle of its answer at the earliest; or as many as
    ``under_way`` says, of which a new one begins behind an answer.
    """

    def __init__(
        self, dut: Dut, port: str, *, under_way: int = 1, pause: float = 0.0, rng: Random | None = None
    ) -> None:
        super().__init__(dut)
        self.settles = under_way == 1
        self.cycle = self.most = 0
        self.done: list[Transfer] = []
        self.shown: Transfer | None = None  # the request in this cycle
        self._port, self._limit, self._pause, self._rng = port, under_way, pause, rng or Random(0)
        self._driven = Driven(dut, f"{port}__")
        self._seen = {name: getattr(dut, f"{port}__{name}") for name in ("gnt", "rvalid", "rdata", "err")}
        self._waiting: deque[Transfer] = deque()
        self._under_way: deque[Transfer] = deque()
        self._waited = 0
        self._noise = [(name, len(getattr(dut, f"{port}__{name}"))) for name in self._fields(Transfer(0))]

    async def make(self, transfers: Iterable[Transfer]) -> Transfer:
        """Make transfers behind those that wait, and return the last one in the middle of the cycle of its answer."""
        self._waiting += transfers
        last = self._waiting[-1]
        await last.ended.wait()
        return last

    async def read(self, address: int) -> int:
        """The word at ``address``, of a transfer that must succeed."""
        # data of a read mean nothing
        read = await self.make([Transfer(address, value=self._rng.getrandbits(32))])
        assert not read.failed, f"error at {address:#x}"
        return read.data

    async def write(self, address: int, *values: int) -> None:
        """Write words to one address, one behind the other; all must succeed."""
        transfers = [Transfer(address, 1, value=value) for value in values]
        await self.make(transfers)
        assert not any(transfer.failed for transfer in transfers), f"error at {address:#x}"

    def _next(self) -> Transfer | None:
        """The request to begin with in this cycle, if there is one."""
        if not self._waiting or (self._pause and self._rng.random() < self._pause):
            return None
        if self._waiting[0].gap:
            self._waiting[0].gap -= 1
            return None
        return self._waiting.popleft()

    def _fields(self, request: Transfer) -> dict[str, int]:
        """Ports of a request by the rest of their names."""
        return {"addr": request.address, "we": request.write, "be": request.enables, "wdata": request.value}

    def _unasked(self) -> dict[str, int]:
        """Noise that a port shows behind a request: nothing of that stays."""
        return {name: self._rng.getrandbits(width) for name, width in self._noise}

    def _granted(self, request: Transfer) -> None:
        """Note that a request is granted."""

    def _answered(self, request: Transfer) -> None:
        """Look at a request that has been answered."""

    def _look(self, answered: Transfer | None) -> None:
        """Look at other ports in every cycle; ``answered`` is the request that is answered."""

    def show(self) -> None:
        """Request what comes next, if it is time for it, until it is granted."""
        self._show(begins=len(self._under_way) < self._limit)

    def settle(self) -> None:
        """Request what comes next in the cycle of the answer that it waits for."""
        self._show(begins=len(self._under_way) == self._limit and sample(self._seen["rvalid"]) > 0)

    def _show(self, *, begins: bool) -> None:
        if self.shown is None and begins and (request := self._next()) is not None:
            request.requested, self.shown = self.cycle, request
            self._driven.drive(**self._fields(request))
        elif self.shown is None and self._driven.values.get("req"):
            self._driven.drive(**self._unasked())
        asks = int(self.shown is not None)
        if self._driven.values.get("req") != asks:
            self._driven.drive(req=asks)

    def rest(self) -> None:
        """Request nothing."""
        self._driven.drive(req=0)

    def see(self) -> None:
        """Take grant and response."""
        self._waited = 0 if self.shown is None and not self._under_way else self._waited + 1
        assert self._waited < _PATIENCE, f"{self._port}: {self.shown or self._under_way[0]} waits too long"
        answered = None
        if sample(self._seen["rvalid"]):
            assert self._under_way, f"{self._port}: an answer to nothing in cycle {self.cycle}"
            answered, self._waited = self._under_way.popleft(), 0
        self._look(answered)
        if answered is not None:
            answered.answered, answered.failed = self.cycle, bool(sample(self._seen["err"]))
            answered.data = 0 if answered.write else sample(self._seen["rdata"])
            self._answered(answered)
            self.done.append(answered)
            answered.ended.set()
        if self.shown is not None and sample(self._seen["gnt"]):
            self.shown.granted = self.cycle
            self._granted(self.shown)
            self._under_way.append(self.shown)
            self.most = max(self.most, len(self._under_way))
            self.shown, self._waited = None, 0
        self.cycle += 1
