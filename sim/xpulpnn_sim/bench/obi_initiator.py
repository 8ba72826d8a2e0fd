"""Initiators on ports of a unit: one with a single access outstanding, as the core has, and the base of others."""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cocotb.triggers import FallingEdge, RisingEdge, Timer

from xpulpnn_sim.bench.cadence import SETTLE_NS, Background, Driven, Dut, Stepwise, drive, sample
from xpulpnn_sim.bench.obi import ALL_BYTES, ENABLED, WordMemory

_REQUEST = ("addr", "we", "be", "wdata")


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
        if self._shown is not None:
            self._driven.drive(**self._fields(self._shown))
        self._driven.drive(req=int(self._shown is not None))

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


class ObiInitiator(Background):
    """Makes transfers one after the other, the next one in the cycle of the answer at the earliest."""

    def __init__(self, dut: Dut, port: str) -> None:
        self.done: list[Transfer] = []
        self._waiting: deque[Transfer] = deque()
        self._wanted = 0
        self._dut, self._port = dut, port
        self._seen = {name: getattr(dut, f"{port}__{name}") for name in ("gnt", "rvalid", "rdata", "err")}

    def put(self, transfers: Iterable[Transfer]) -> None:
        """Add to what is to be made."""
        before = len(self._waiting)
        self._waiting.extend(transfers)
        self._wanted += len(self._waiting) - before

    async def finish(self, limit: int) -> None:
        """Wait until everything is answered; raises ``AssertionError`` after ``limit`` cycles."""
        for _ in range(limit):
            if len(self.done) == self._wanted:
                return
            await RisingEdge(self._dut.clk)
        raise AssertionError(f"{self._port}: {len(self.done)} of {self._wanted} transfers answered in {limit} cycles")

    def __exit__(self, *error: object) -> None:
        """End at once."""
        super().__exit__(*error)
        self._show(None)

    def _show(self, transfer: Transfer | None) -> None:
        values = dict.fromkeys(_REQUEST, 0)
        if transfer is not None:
            values = dict(
                zip(_REQUEST, (transfer.address, transfer.write, transfer.enables, transfer.value), strict=True)
            )
        drive(self._dut, {f"{self._port}__{name}": value for name, value in values.items()})
        drive(self._dut, {f"{self._port}__req": int(transfer is not None)})

    async def _run(self) -> None:
        cycle = 0
        asking: Transfer | None = None
        outstanding: Transfer | None = None
        while True:
            # answers come from registers: the next request may depend on them
            await Timer(SETTLE_NS, unit="ns")
            if sample(self._seen["rvalid"]):
                assert outstanding is not None, f"{self._port}: an answer to nothing in cycle {cycle}"
                outstanding.answered = cycle
                outstanding.failed = bool(sample(self._seen["err"]))
                outstanding.data = 0 if outstanding.write else sample(self._seen["rdata"])
                self.done.append(outstanding)
                outstanding = None
            if asking is None and outstanding is None and self._waiting:
                if self._waiting[0].gap:
                    self._waiting[0].gap -= 1
                else:
                    asking = self._waiting.popleft()
                    asking.requested = cycle
                    self._show(asking)
            await FallingEdge(self._dut.clk)
            if asking is not None and sample(self._seen["gnt"]):
                asking.granted = cycle
                asking, outstanding = None, asking
            await RisingEdge(self._dut.clk)
            if asking is None:
                self._show(None)
            cycle += 1
