"""OBI: a manager that makes transfers, and subordinates that grant and answer them at random times.

Memory is ordered by grants: an access takes effect when it is granted, whatever the order of requests, and its answer
comes later. All subordinates of a bench may share one memory.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from cocotb.triggers import Event

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.benches.agents.base import Agent, Dut, PortDriver, sample
from xpulpnn_sim.reference.golden.tcdm import Request

ALL_BYTES = (1 << WORD_BYTES) - 1
OUTSTANDING_LIMIT = {"instr": 4}  # largest number of outstanding requests by port; one at other ports
_BYTE_MASK = 0xFF
_SPREAD = 0x9E37_79B1


def masks(size: int) -> list[int]:
    """Return, for each value of the byte enables, the mask of the enabled bits of a word of ``size`` bytes."""
    places = [_BYTE_MASK << BYTE_BITS * byte for byte in range(size)]
    return [sum(mask for byte, mask in enumerate(places) if enables >> byte & 1) for enables in range(1 << size)]


ENABLED = masks(WORD_BYTES)


class WordMemory(dict[int, int]):
    """Words by aligned byte address; the initial value of a word depends on its address."""

    def __init__(self, failing: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__()
        self._failing = failing  # first address and size of regions that answer with an error

    def fails(self, address: int) -> bool:
        return any(first <= address < first + size for first, size in self._failing)

    def __missing__(self, address: int) -> int:
        return (address * _SPREAD + _SPREAD) & WORD_MASK

    def load(self, address: int) -> int:
        """Return the four bytes at any address, little-endian."""
        base, byte = address & ~(WORD_BYTES - 1), address % WORD_BYTES
        both = self[base] | self[(base + WORD_BYTES) & WORD_MASK] << XLEN
        return both >> BYTE_BITS * byte & WORD_MASK

    def bytes_at(self, address: int, size: int) -> bytes:
        return b"".join(self[at].to_bytes(WORD_BYTES, "little") for at in range(address, address + size, WORD_BYTES))

    def store(self, address: int, size: int, value: int) -> None:
        """Write the low ``size`` bytes of a value to any address."""
        for offset in range(size):
            at, byte = (address + offset) & WORD_MASK, value >> BYTE_BITS * offset & _BYTE_MASK
            self.write(at & ~(WORD_BYTES - 1), 1 << at % WORD_BYTES, byte * 0x0101_0101)

    def write(self, address: int, enables: int, value: int) -> None:
        """Write the bytes of the word at an aligned address whose bit in ``enables`` is 1."""
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


@dataclass(slots=True)
class ObiTransfer:
    """Transfer of up to four bytes: the request, and once it is answered cycles, data and error."""

    address: int  # aligned byte address
    # request attributes
    write: int = 0
    enables: int = ALL_BYTES
    value: int = 0
    gap: int = 0  # cycles without a request before the transfer
    beats: int = 1  # remaining transfers of its run, at ports with runs
    # cycle numbers of the first request, the grant and the answer
    requested: int = -1
    granted: int = -1
    answered: int = -1
    data: int = 0  # data read
    failed: bool = False  # the answer was an error
    ended: Event = field(default_factory=Event, repr=False)  # set with the answer

    @property
    def as_request(self) -> Request:
        return Request(self.address, self.write, self.enables, self.value)


class ObiSubordinate(Agent):
    """OBI subordinate, the only writer of grant and response; rejects requests that break the protocol.

    The address is in units of ``1 << shift`` bytes; if ``noisy``, data and error change in every cycle without an
    answer. When the agent stops, outstanding accesses are dropped: the unit must then be reset.
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
        noisy: bool = False,
    ) -> None:
        super().__init__(dut)
        self.log: list[Request] = []  # granted requests
        self.transfers: list[ObiTransfer] = []  # requests by their first cycle, with cycle and error of the answer
        self.cycle = 0
        self._port, self.timing, self._rng = port, timing, rng
        self._size, self._shift, self._outstanding = size, shift, outstanding
        self._driver, self._noisy = PortDriver(dut, f"{port}__"), noisy
        fields = ("addr", "we", "be", "wdata") if hasattr(dut, f"{port}__we") else ("addr",)
        self._request = [getattr(dut, f"{port}__{name}") for name in ("req", *fields)]
        answer = {name: getattr(dut, f"{port}__{name}", None) for name in ("rdata", "err")}
        self._widths = {name: len(handle) for name, handle in answer.items() if handle is not None}
        self._answers: deque[tuple[int, int, int, ObiTransfer]] = deque()  # cycle, data, error
        self._pending: Request | None = None  # not granted yet
        self._grants, self._draws_noise = 0, True

    @property
    def unanswered(self) -> int:
        return len(self._answers)

    @abstractmethod
    def _serve(self, request: Request) -> tuple[int, int]:
        """Perform a granted access; return the data and error bits of its response."""

    def drive(self) -> None:
        """Grant at random, and send a response when it is due; without a response data and error are noise."""
        rng, timing = self._rng, self.timing
        self._grants = int(timing.grant >= 1 or rng.random() < timing.grant)
        answers = bool(self._answers) and self._answers[0][0] <= self.cycle
        self._driver.drive(gnt=self._grants, rvalid=int(answers))
        if answers:
            _, data, error, transfer = self._answers.popleft()
            self._driver.drive(**{name: (data, error)[name == "err"] for name in self._widths})
            transfer.answered, transfer.failed = self.cycle, error > 0
        elif self._draws_noise:
            self._driver.drive(**{name: rng.getrandbits(width) for name, width in self._widths.items()})
        # noise follows directly after an answer
        self._draws_noise = answers or self._noisy

    def sample(self) -> None:
        req, *fields = self._request
        if sample(req):
            address, *rest = (sample(field) for field in fields)
            self._requested(Request(address << self._shift, *rest))
        else:
            assert self._pending is None, f"{self._port}: {self._pending} withdrawn before its grant"
        self.cycle += 1

    def _requested(self, request: Request) -> None:
        assert request.address % self._size == 0, f"{self._port}: {request} is not aligned"
        assert self._pending in (None, request), f"{self._port}: {self._pending} becomes {request} before its grant"
        if self._pending is None:
            self.transfers.append(ObiTransfer(request.address, requested=self.cycle))
        self._pending = None if self._grants else request
        if self._grants:
            self.log.append(request)
            answer_at = self.cycle + self._rng.randint(self.timing.fastest, self.timing.slowest)
            self._answers.append((answer_at, *self._serve(request), self.transfers[-1]))
            assert len(self._answers) <= self._outstanding, f"{self._port}: {len(self._answers)} outstanding"

    def release(self) -> None:
        self._driver.drive(gnt=0, rvalid=0, **dict.fromkeys(self._widths, 0))


class ObiMemory(ObiSubordinate):
    """Memory at an OBI port of the unit, the only writer of ``gnt``, ``rvalid``, ``rdata`` and ``err``.

    It checks OBI's rules for managers in every cycle. :attr:`log` holds the granted requests in order.

    Parameters
    ----------
    dut : handle
        Unit under test with the ports ``<port>__req``, ``__gnt``, ``__addr``, ``__rvalid``, ``__rdata``, and, where the
        port has them, ``__we``, ``__be``, ``__wdata`` and ``__err``; addresses are in bytes, data have 32 bits.
    port : str
        Name of the port.
    memory : WordMemory
        Content, which several ports may share.
    timing : ObiTiming
        When requests are granted and answered.
    rng : Random
        Source of grants, delays, and of data without meaning, which are noise.
    outstanding : int
        Largest number of unanswered requests; at least 4 at a port ``instr``.

    Raises
    ------
    AssertionError
        A request changes or falls before its grant, or too many are outstanding.
    """

    def __init__(
        self, dut: Dut, port: str, memory: WordMemory, timing: ObiTiming, rng: Random, *, outstanding: int = 1
    ) -> None:
        limit = max(outstanding, OUTSTANDING_LIMIT.get(port, 1))
        super().__init__(dut, port, timing, rng, outstanding=limit, noisy=True)
        self._memory = memory

    def _serve(self, request: Request) -> tuple[int, int]:
        # the enabled bytes of a successful read are valid, everything else is noise
        noise = self._rng.getrandbits(32)
        if self._memory.fails(request.address):
            return noise, 1
        if request.write:
            self._memory.write(request.address, request.enables, request.value)
            return noise, 0
        mask = ENABLED[request.enables]
        return self._memory[request.address] & mask | noise & ~mask, 0


def expected_answer(transfer: ObiTransfer, memory: WordMemory, *, absent: bool) -> tuple[int, bool]:
    """Return the data that a transfer must read and whether it must fail; call it for transfers in the order of grants.

    An ``absent`` memory fails and reads as 0.
    """
    if memory.fails(transfer.address):
        return transfer.data, True
    if transfer.write:
        memory.write(transfer.address, transfer.enables, transfer.value)
        return 0, absent
    mask = ENABLED[transfer.enables]
    return (0 if absent else memory[transfer.address]) & mask | transfer.data & ~mask, absent


_PATIENCE = 8000  # cycles without a grant or an answer after which the unit counts as stuck
ANY_NUMBER = _PATIENCE  # for outstanding transfers: the unit itself must limit its grants


class ObiManager(Agent):
    """Makes transfers in order: the only writer of the request signals of a port.

    If at most one transfer may be ``outstanding``, the next transfer may begin in the cycle of an answer, else in the
    cycle after it.

    Parameters
    ----------
    dut : handle
        Unit under test with the ports ``<port>__req``, ``__gnt``, ``__addr``, ``__rvalid``, ``__rdata``, ``__err``,
        and, where the port has them, ``__we``, ``__be``, ``__wdata``.
    port : str
        Name of the port.
    shift : int
        Logarithm of the bytes that addresses at the port count.
    outstanding : int
        Largest number of transfers that wait for an answer.
    pause : float
        Probability of a cycle without a new request.
    rng : Random, optional
        Source of pauses, and of request signals while ``req`` is 0, which are noise.

    Raises
    ------
    AssertionError
        An answer belongs to no transfer, or a transfer waits for 8,000 cycles.
    """

    def __init__(
        self,
        dut: Dut,
        port: str,
        *,
        outstanding: int = 1,
        pause: float = 0.0,
        rng: Random | None = None,
        shift: int = 0,
    ) -> None:
        super().__init__(dut)
        self.responds, self._shift = outstanding == 1, shift
        self.cycle = self.most_outstanding = 0
        self.completed: list[ObiTransfer] = []
        self.request: ObiTransfer | None = None  # transfer that is requested in this cycle
        self._port, self._limit, self._pause, self._rng = port, outstanding, pause, rng or Random(0)
        self._driver = PortDriver(dut, f"{port}__")
        self._outputs = {name: getattr(dut, f"{port}__{name}") for name in ("gnt", "rvalid", "rdata", "err")}
        self._queue: deque[ObiTransfer] = deque()
        self._granted: deque[ObiTransfer] = deque()
        self._waited = 0
        ports = {name: getattr(dut, f"{port}__{name}", None) for name in ("addr", "we", "be", "wdata", "beats")}
        self._widths = {name: len(handle) for name, handle in ports.items() if handle is not None}

    async def run(self, transfers: Iterable[ObiTransfer]) -> ObiTransfer:
        """Queue transfers; return the last one of them in the middle of the cycle in which it is answered."""
        self._queue += transfers
        last = self._queue[-1]
        await last.ended.wait()
        return last

    async def read(self, address: int) -> int:
        """Return the word at an aligned address; the transfer must succeed."""
        # the write data of a read are don't-cares
        transfer = await self.run([ObiTransfer(address, value=self._rng.getrandbits(32))])
        assert not transfer.failed, f"error at {address:#x}"
        return transfer.data

    async def write(self, address: int, *values: int) -> None:
        """Write words to one address, one after the other; all transfers must succeed."""
        transfers = [ObiTransfer(address, 1, value=value) for value in values]
        await self.run(transfers)
        assert not any(transfer.failed for transfer in transfers), f"error at {address:#x}"

    def _next(self) -> ObiTransfer | None:
        if not self._queue or (self._pause and self._rng.random() < self._pause):
            return None
        if self._queue[0].gap:
            self._queue[0].gap -= 1
            return None
        return self._queue.popleft()

    def _fields(self, transfer: ObiTransfer) -> dict[str, int]:
        values = {"addr": transfer.address >> self._shift, "we": transfer.write, "be": transfer.enables}
        values |= {"wdata": transfer.value, "beats": transfer.beats}
        return {name: value for name, value in values.items() if name in self._widths}

    def _noise(self) -> dict[str, int]:
        """Return random values for the request signals while ``req`` is 0, when the unit must ignore them."""
        return {name: self._rng.getrandbits(width) for name, width in self._widths.items()}

    def _on_grant(self, transfer: ObiTransfer) -> None:
        """Override to act on the grant of a transfer."""

    def _on_answer(self, transfer: ObiTransfer) -> None:
        """Override to act on the answer to a transfer."""

    def _check_cycle(self, answered: ObiTransfer | None) -> None:
        """Override to check each cycle before an answer is processed; ``answered`` is the transfer answered in it."""

    def drive(self) -> None:
        self._drive(begins=len(self._granted) < self._limit)

    def respond(self) -> None:
        self._drive(begins=len(self._granted) == self._limit and sample(self._outputs["rvalid"]) > 0)

    def _drive(self, *, begins: bool) -> None:
        if self.request is None and begins and (transfer := self._next()) is not None:
            transfer.requested, self.request = self.cycle, transfer
            self._driver.drive(**self._fields(transfer))
        elif self.request is None and self._driver.values.get("req"):
            self._driver.drive(**self._noise())
        self._driver.drive(req=int(self.request is not None))

    def release(self) -> None:
        self._driver.drive(req=0)

    def sample(self) -> None:
        self._waited = 0 if self.request is None and not self._granted else self._waited + 1
        assert self._waited < _PATIENCE, f"{self._port}: {self.request or self._granted[0]} waits too long"
        answered = None
        if sample(self._outputs["rvalid"]):
            assert self._granted, f"{self._port}: an answer to nothing in cycle {self.cycle}"
            answered, self._waited = self._granted.popleft(), 0
        self._check_cycle(answered)
        if answered is not None:
            answered.answered, answered.failed = self.cycle, bool(sample(self._outputs["err"]))
            answered.data = 0 if answered.write else sample(self._outputs["rdata"])
            self._on_answer(answered)
            self.completed.append(answered)
            answered.ended.set()
        if self.request is not None and sample(self._outputs["gnt"]):
            self.request.granted = self.cycle
            self._on_grant(self.request)
            self._granted.append(self.request)
            self.most_outstanding = max(self.most_outstanding, len(self._granted))
            self.request, self._waited = None, 0
        self.cycle += 1
