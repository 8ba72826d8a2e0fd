"""A command port of the DMA engine, seen from a core."""

from collections import deque
from dataclasses import dataclass, field
from random import Random

from cocotb.triggers import Event

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.bench.cadence import Dut, sample
from xpulpnn_sim.bench.obi_initiator import Requester

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


class CommandPort(Requester[_Access]):
    """Makes accesses one after the other, the next one at the earliest in the cycle of the response to the last."""

    def __init__(self, dut: Dut, port: str, rng: Random, pause: float = 0.0) -> None:
        super().__init__(dut, port, under_way=_PATIENCE, patience=_PATIENCE)
        self._rng, self._pause = rng, pause
        self._pending: deque[_Access] = deque()

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

    def _next(self) -> _Access | None:
        pauses = not self._pending or (self._pause and self._rng.random() < self._pause)
        return None if pauses else self._pending.popleft()

    def _fields(self, request: _Access) -> dict[str, int]:
        return {"addr": request.address, "we": int(request.write), "be": _ALL_BYTES, "wdata": request.value}

    def _answered(self, request: _Access) -> None:
        request.failed = bool(sample(self._seen["err"]))
        if not request.write:
            request.value = sample(self._seen["rdata"])
        request.answered.set()
