"""A data memory behind the core's OBI port, with random grant and response stalls."""

from collections import deque
from dataclasses import dataclass
from random import Random

import cocotb
from cocotb.task import Task
from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn_sim.bench.parts import Dut, sample

WORD_BYTES = 4
_BYTE_MASK = 0xFF
_SPREAD = 0x9E37_79B1
_WORD_MASK = 0xFFFF_FFFF


class WordMemory(dict[int, int]):
    """Words by aligned byte address; a word never written holds a value that depends on its address."""

    def __missing__(self, address: int) -> int:
        """The initial value: an odd multiple of the address, bytes all different."""
        return (address * _SPREAD + _SPREAD) & _WORD_MASK

    def load(self, address: int) -> int:
        """The little-endian word at any byte address."""
        base, byte = address & ~(WORD_BYTES - 1), address % WORD_BYTES
        both = self[base] | self[(base + WORD_BYTES) & _WORD_MASK] << 32
        return both >> 8 * byte & _WORD_MASK

    def store(self, address: int, size: int, value: int) -> None:
        """Write the low ``size`` bytes of ``value`` at any byte address."""
        for offset in range(size):
            at = (address + offset) & _WORD_MASK
            self.write(at & ~(WORD_BYTES - 1), 1 << at % WORD_BYTES, (value >> 8 * offset & _BYTE_MASK) * 0x0101_0101)

    def write(self, address: int, enables: int, value: int) -> None:
        """Write the enabled bytes of the aligned word at ``address``."""
        mask = sum(_BYTE_MASK << 8 * byte for byte in range(WORD_BYTES) if enables >> byte & 1)
        self[address] = self[address] & ~mask | value & mask


@dataclass(frozen=True, slots=True)
class Timing:
    """How the memory answers: probability of a grant per cycle, and most extra cycles before a response."""

    grant: float = 1.0
    delay: int = 0


IDEAL = Timing()
SLOW = Timing(grant=0.5, delay=3)


class ObiMemory:
    """Responder on ``data__*``: the only writer of grant and response. Rejects requests that break the protocol.

    Parameters
    ----------
    dut : handle
        Unit with an OBI port ``data``.
    timing : Timing
        Grant and response stalls.
    rng : Random
        Source of stalls and of the data shown while there is no response.
    """

    def __init__(self, dut: Dut, timing: Timing, rng: Random) -> None:
        self.dut = dut
        self.timing = timing
        self.rng = rng
        self.words = WordMemory()
        self.requests = 0
        self._task: Task[None] | None = None

    def start(self) -> None:
        """Serve requests from the current cycle on."""
        self._task = cocotb.start_soon(self._serve())

    def stop(self) -> None:
        """Forget what is outstanding and stop; the unit must be reset."""
        if self._task is not None:
            self._task.cancel()
        self.dut.data__gnt.value = 0
        self.dut.data__rvalid.value = 0

    async def _serve(self) -> None:
        dut, rng = self.dut, self.rng
        responses: deque[list[int]] = deque()
        waiting: tuple[int, ...] | None = None
        while True:
            ready = bool(responses) and responses[0][0] <= 0
            for response in responses:
                response[0] -= 1
            grant = self.timing.grant >= 1 or rng.random() < self.timing.grant
            dut.data__gnt.value = int(grant)
            dut.data__rvalid.value = int(ready)
            dut.data__rdata.value = responses.popleft()[1] if ready else rng.getrandbits(32)
            await FallingEdge(dut.clk)
            if sample(dut.data__req):
                request = tuple(sample(port) for port in (dut.data__addr, dut.data__we, dut.data__be, dut.data__wdata))
                assert request[0] % WORD_BYTES == 0, f"address {request[0]:#x} of a request is not aligned"
                assert waiting in (None, request), f"request {waiting} changed to {request} before its grant"
                waiting = None if grant else request
                if grant:
                    responses.append([rng.randint(0, self.timing.delay), self._access(*request)])
            else:
                assert waiting is None, f"request {waiting} withdrawn before its grant"
            await RisingEdge(dut.clk)

    def _access(self, address: int, write: int, enables: int, value: int) -> int:
        """Perform a granted access; only the enabled bytes of a read are meaningful."""
        self.requests += 1
        if write:
            self.words.write(address, enables, value)
            return self.rng.getrandbits(32)
        mask = sum(_BYTE_MASK << 8 * byte for byte in range(WORD_BYTES) if enables >> byte & 1)
        return self.words[address] & mask | self.rng.getrandbits(32) & ~mask & _WORD_MASK
