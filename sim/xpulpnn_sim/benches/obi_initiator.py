"""Initiators on ports of a unit: one that makes transfers in order, as the core does, and the base of others."""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from cocotb.triggers import Event

from xpulpnn_sim.benches.cadence import Driven, Dut, Stepwise, sample
from xpulpnn_sim.benches.obi import ALL_BYTES, ENABLED, WordMemory

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
    # cycles from the beginning to the first request, the grant and the answer
    requested: int = -1
    granted: int = -1
    answered: int = -1
    data: int = 0  # what was read
    failed: bool = False  # whether the answer was an error
    ended: Event = field(default_factory=Event, repr=False)  # set with the answer


def expected_data(transfer: Transfer, memory: WordMemory, *, absent: bool) -> int:
    """Data that a transfer must read, in the order of the grants; what does not matter is as it was seen.

    Nothing is there if it is ``absent``.
    """
    if memory.fails(transfer.address):
        return transfer.data
    if transfer.write:
        memory.write(transfer.address, transfer.enables, transfer.value)
        return 0
    mask = ENABLED[transfer.enables]
    return (0 if absent else memory[transfer.address]) & mask | transfer.data & ~mask


Request = TypeVar("Request")


class Requester(Stepwise, Generic[Request]):
    """An initiator with several accesses under way: the only writer of the request."""

    def __init__(self, dut: Dut, port: str, *, under_way: int, patience: int) -> None:
        super().__init__(dut)
        self.cycle = 0
        self.most = 0
        self._port, self._limit, self._patience = port, under_way, patience
        self._driven = Driven(dut, f"{port}__")
        self._seen = {name: getattr(dut, f"{port}__{name}") for name in ("gnt", "rvalid", "rdata", "err")}
        self._shown: Request | None = None
        self._under_way: deque[Request] = deque()
        self._waited = 0

    @abstractmethod
    def _next(self) -> Request | None:
        """The request to begin with in this cycle, if there is one."""

    @abstractmethod
    def _fields(self, request: Request) -> dict[str, int]:
        """Ports of a request by the rest of their names."""

    def _granted(self, request: Request) -> None:
        """Note that a request is granted."""

    @abstractmethod
    def _answered(self, request: Request) -> None:
        """Take the answer to a request."""

    def _look(self, answered: Request | None) -> None:
        """Look at other ports in every cycle; ``answered`` is the request that is answered."""

    @property
    def idle(self) -> bool:
        """Return whether nothing is under way."""
        return self._shown is None and not self._under_way

    def show(self) -> None:
        """Request what comes next, if it is time for it, until it is granted."""
        if self._shown is None and len(self._under_way) < self._limit:
            self._shown = self._next()
        self._show()

    def settle(self) -> None:
        """Request what comes next in the cycle of the answer that it waits for."""
        if self._shown is None and len(self._under_way) == self._limit and sample(self._seen["rvalid"]):
            self._shown = self._next()
            self._show()

    def _show(self) -> None:
        if self._shown is not None:
            self._driven.drive(**self._fields(self._shown))
        self._driven.drive(req=int(self._shown is not None))

    def rest(self) -> None:
        """Request nothing."""
        self._driven.drive(req=0)

    def see(self) -> None:
        """Take grant and response."""
        self._waited = 0 if self.idle else self._waited + 1
        assert self._waited < self._patience, f"{self._port}: {self._shown or self._under_way[0]} waits too long"
        answered = None
        if sample(self._seen["rvalid"]):
            assert self._under_way, f"{self._port}: an answer to nothing in cycle {self.cycle}"
            answered, self._waited = self._under_way.popleft(), 0
        self._look(answered)
        if answered is not None:
            self._answered(answered)
        if self._shown is not None and sample(self._seen["gnt"]):
            self._granted(self._shown)
            self._under_way.append(self._shown)
            self.most = max(self.most, len(self._under_way))
            self._shown, self._waited = None, 0
        self.cycle += 1


class ObiInitiator(Requester[Transfer]):
    """Makes transfers in order, the next one in the cycle of the answer to the last at the earliest.

    One that does not ``wait`` leaves it to the unit to grant nothing before its answer.
    """

    def __init__(
        self, dut: Dut, port: str, *, wait: bool = True, pause: float = 0.0, rng: Random | None = None
    ) -> None:
        super().__init__(dut, port, under_way=1 if wait else _PATIENCE, patience=_PATIENCE)
        self.settles = wait
        self.done: list[Transfer] = []
        self._waiting: deque[Transfer] = deque()
        self._pause, self._rng = pause, rng or Random(0)

    async def make(self, transfers: Iterable[Transfer]) -> Transfer:
        """Make transfers behind those that wait, and return the last one in the middle of the cycle of its answer."""
        self._waiting += transfers
        last = self._waiting[-1]
        await last.ended.wait()
        return last

    async def read(self, address: int) -> int:
        """The word at ``address``, of a transfer that must succeed."""
        read = await self.make([Transfer(address)])
        assert not read.failed, f"error at {address:#x}"
        return read.data

    async def write(self, address: int, *values: int) -> None:
        """Write words to one address, one behind the other; all must succeed."""
        transfers = [Transfer(address, 1, value=value) for value in values]
        await self.make(transfers)
        assert not any(transfer.failed for transfer in transfers), f"error at {address:#x}"

    def _next(self) -> Transfer | None:
        if not self._waiting or (self._pause and self._rng.random() < self._pause):
            return None
        if self._waiting[0].gap:
            self._waiting[0].gap -= 1
            return None
        self._waiting[0].requested = self.cycle
        return self._waiting.popleft()

    def _fields(self, request: Transfer) -> dict[str, int]:
        return {"addr": request.address, "we": request.write, "be": request.enables, "wdata": request.value}

    def _granted(self, request: Transfer) -> None:
        request.granted = self.cycle

    def _answered(self, request: Transfer) -> None:
        request.answered, request.failed = self.cycle, bool(sample(self._seen["err"]))
        request.data = 0 if request.write else sample(self._seen["rdata"])
        self.done.append(request)
        request.ended.set()
