"""A command port of the DMA engine, seen from a core."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from cocotb.triggers import Event, FallingEdge, RisingEdge

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.bench.cadence import Background, Driven, Dut, sample

_ALL_BYTES = (1 << WORD_BYTES) - 1
_PATIENCE = 8000
"""Cycles without a grant or an answer after which the unit counts as stuck."""


@dataclass(slots=True)
class _Access:
    address: int
    write: bool
    value: int
    failed: bool = False
    answered: Event = field(default_factory=Event)


class CommandPort:
    """Makes accesses one after the other, the next one at the earliest in the cycle of the response to the last.

    It is at work while it is one of :class:`CommandPorts`.
    """

    def __init__(self, dut: Dut, port: str, rng: Random, pause: float = 0.0) -> None:
        self._port, self._rng, self._pause = port, rng, pause
        self._driven = Driven(dut, f"{port}__")
        self._seen = {name: getattr(dut, f"{port}__{name}") for name in ("gnt", "rvalid", "rdata", "err")}
        self._pending: deque[_Access] = deque()
        self._under_way: deque[_Access] = deque()
        self._shown: _Access | None = None
        self._waited = 0

    async def read(self, address: int) -> int:
        """The word at ``address``, of an access that must succeed."""
        access = await self._access(_Access(address, False, 0))
        assert not access.failed, f"error at {address:#x}"
        return access.value

    async def write(self, address: int, value: int) -> None:
        """Write a word, and wait for the response; it must succeed."""
        assert not (await self._access(_Access(address, True, value))).failed, f"error at {address:#x}"

    async def fails(self, address: int, *, write: bool) -> bool:
        """Return whether an access is answered with an error; ones are written."""
        return (await self._access(_Access(address, write, WORD_MASK))).failed

    async def write_all(self, address: int, values: list[int]) -> None:
        """Write words to one address, one behind the other."""
        accesses = [_Access(address, True, value) for value in values]
        self._pending += accesses
        for access in accesses:
            await access.answered.wait()
            assert not access.failed, f"error at {address:#x}"

    async def _access(self, access: _Access) -> _Access:
        self._pending.append(access)
        await access.answered.wait()
        return access

    def show(self) -> None:
        """Request what comes next, if it is time for it."""
        if self._shown is None and self._pending and not (self._pause and self._rng.random() < self._pause):
            self._shown = access = self._pending.popleft()
            request = {"addr": access.address, "we": int(access.write), "be": _ALL_BYTES, "wdata": access.value}
            self._driven.drive(req=1, **request)
        else:
            self._driven.drive(req=int(self._shown is not None))

    def see(self) -> None:
        """Take grant and response."""
        if sample(self._seen["rvalid"]):
            assert self._under_way, f"{self._port} is answered without a request"
            access, self._waited = self._under_way.popleft(), 0
            access.failed = bool(sample(self._seen["err"]))
            if not access.write:
                access.value = sample(self._seen["rdata"])
            access.answered.set()
        waiting = self._shown or self._under_way
        self._waited = self._waited + 1 if waiting else 0
        assert self._waited < _PATIENCE, f"{self._port}: {waiting} for {self._waited} cycles"
        if self._shown is not None and sample(self._seen["gnt"]):
            self._under_way.append(self._shown)
            self._shown, self._waited = None, 0


class CommandPorts(Background):
    """Ports at work: one part of the bench for all of them, which saves time."""

    def __init__(self, dut: Dut, ports: Sequence[CommandPort]) -> None:
        self._clk, self._ports = dut.clk, ports

    async def _run(self) -> None:
        while True:
            for port in self._ports:
                port.show()
            await FallingEdge(self._clk)
            for port in self._ports:
                port.see()
            await RisingEdge(self._clk)
