"""A command port of the DMA engine, seen from a core."""

from collections import deque
from dataclasses import dataclass, field
from random import Random

from cocotb.triggers import Event, FallingEdge, RisingEdge

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.bench.cadence import Background, Dut, drive, sample

_ALL_BYTES = (1 << WORD_BYTES) - 1


@dataclass(slots=True)
class _Access:
    address: int
    write: bool
    value: int
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
        """The word at ``address``."""
        return (await self._access(_Access(address, False, 0))).value

    async def write(self, address: int, value: int) -> None:
        """Write a word, and wait for the response."""
        await self._access(_Access(address, True, value))

    async def write_all(self, address: int, values: list[int]) -> None:
        """Write words to one address, one behind the other."""
        accesses = [_Access(address, True, value) for value in values]
        self._pending += accesses
        for access in accesses:
            await access.answered.wait()

    async def _access(self, access: _Access) -> _Access:
        self._pending.append(access)
        await access.answered.wait()
        return access

    async def _run(self) -> None:
        clk, port = self._dut.clk, self._port
        req, gnt, rvalid, rdata = (getattr(self._dut, f"{port}__{name}") for name in ("req", "gnt", "rvalid", "rdata"))
        under_way: deque[_Access] = deque()
        shown: _Access | None = None
        while True:
            if shown is None and self._pending and not (self._pause and self._rng.random() < self._pause):
                shown = self._pending.popleft()
                request = {"req": 1, "addr": shown.address, "we": int(shown.write), "wdata": shown.value}
                drive(self._dut, {f"{port}__{name}": value for name, value in (request | {"be": _ALL_BYTES}).items()})
            await FallingEdge(clk)
            if sample(rvalid):
                assert under_way, f"{port} is answered without a request"
                access = under_way.popleft()
                access.value = sample(rdata)
                access.answered.set()
            if shown is not None and sample(gnt):
                under_way.append(shown)
                shown = None
                await RisingEdge(clk)
                req.value = 0
            else:
                await RisingEdge(clk)
