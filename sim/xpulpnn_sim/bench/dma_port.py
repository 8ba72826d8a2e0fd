"""A command port of the DMA engine, seen from a core."""

from collections import deque
from dataclasses import dataclass, field
from random import Random

from cocotb.triggers import Event, FallingEdge, RisingEdge

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.bench.cadence import Background, Dut, drive, sample

_ALL_BYTES = (1 << WORD_BYTES) - 1
_PATIENCE = 20_000
"""Cycles without a grant or an answer after which the unit counts as stuck."""


@dataclass(slots=True)
class _Access:
    address: int
    write: bool
    value: int
    failed: bool = False
    answered: Event = field(default_factory=Event)


class CommandPort(Background):
    """Makes accesses one after the other, the next one at the earliest in the cycle of the response to the last.

    Parameters
    ----------
    dut : handle
        Unit with the port.
    port : str
        Begins the names of its signals.
    rng : Random
        Source of pauses.
    pause : float
        Probability of a cycle without a request before each.
    """

    def __init__(self, dut: Dut, port: str, rng: Random, pause: float = 0.0) -> None:
        self._dut, self._port, self._rng, self._pause = dut, port, rng, pause
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
        """Whether an access is answered with an error; ones are written."""
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

    async def _run(self) -> None:
        clk, port = self._dut.clk, self._port
        req, gnt = (getattr(self._dut, f"{port}__{name}") for name in ("req", "gnt"))
        rvalid, rdata, err = (getattr(self._dut, f"{port}__{name}") for name in ("rvalid", "rdata", "err"))
        under_way: deque[_Access] = deque()
        shown: _Access | None = None
        waited = 0
        while True:
            waited = waited + 1 if shown or under_way else 0
            assert waited < _PATIENCE, f"{port}: {under_way or shown} for {waited} cycles"
            if shown is None and self._pending and not (self._pause and self._rng.random() < self._pause):
                shown = self._pending.popleft()
                request = {"req": 1, "addr": shown.address, "we": int(shown.write), "wdata": shown.value}
                drive(self._dut, {f"{port}__{name}": value for name, value in (request | {"be": _ALL_BYTES}).items()})
            await FallingEdge(clk)
            if sample(rvalid):
                assert under_way, f"{port} is answered without a request"
                access, waited = under_way.popleft(), 0
                access.failed = bool(sample(err))
                if not access.write:
                    access.value = sample(rdata)
                access.answered.set()
            if shown is not None and sample(gnt):
                under_way.append(shown)
                shown, waited = None, 0
                await RisingEdge(clk)
                req.value = 0
            else:
                await RisingEdge(clk)
