"""Memories at AXI4 ports of benches."""

import warnings
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from cocotbext.axi import AxiReadBus, AxiSlaveRead, AxiSlaveWrite, AxiWriteBus

from xpulpnn_sim.benches.agents.base import Dut

_DEEP = 64  # queue depth of each channel: more than the outstanding transfers of any manager


class Stalls(NamedTuple):
    """Random stalls of up to ``still`` cycles, with 1 to ``going`` cycles between them; none if ``still`` is 0."""

    still: int = 0
    going: int = 1

    def cycles(self, rng: Random) -> Iterator[bool]:
        while True:
            yield from (True for _ in range(rng.randint(0, self.still)))
            yield from (False for _ in range(rng.randint(1, self.going)))


class AxiSubordinate:
    """Memory at an AXI port of the unit; cocotbext-axi drives the signals."""

    def __init__(
        self,
        dut: Dut,
        port: str,
        content: npt.NDArray[np.uint8],
        base: int,
        stalls: Stalls,
        rng: Random,
        failing: range = range(0),
    ) -> None:
        self._content, self._base, self._failing = content, base, failing
        self.read_from = set[int]()
        prefix = f"{port}_"
        reads = AxiSlaveRead(AxiReadBus.from_prefix(dut, prefix), dut.clk, target=self)
        self._sides: list[AxiSlaveRead | AxiSlaveWrite] = [reads]
        self.answers, self.channels = [reads.r_channel], [reads.ar_channel, reads.r_channel]
        if hasattr(dut, f"{port}__awvalid"):
            writes = AxiSlaveWrite(AxiWriteBus.from_prefix(dut, prefix), dut.clk, target=self)
            self._sides.append(writes)
            self.answers.append(writes.b_channel)
            self.channels += [writes.aw_channel, writes.w_channel, writes.b_channel]
        for channel in self.channels:
            channel.queue_occupancy_limit = _DEEP
            channel.log.setLevel("WARNING")
            if stalls.still:
                channel.set_pause_generator(stalls.cycles(Random(rng.getrandbits(32))))

    def _place(self, address: int, size: int) -> slice:
        place = address - self._base
        if address in self._failing or not 0 <= place <= len(self._content) - size:
            raise LookupError(f"nothing at {address:#x}")
        return slice(place, place + size)

    def reset(self) -> None:
        with warnings.catch_warnings():
            # it cancels its coroutines by a deprecated method of cocotb
            warnings.simplefilter("ignore", DeprecationWarning)
            for part in (*self.channels, *self._sides):
                part.assert_reset()

    async def read(self, address: int, length: int) -> bytes:
        self.read_from.add(address)
        return self._content[self._place(address, length)].tobytes()

    async def write(self, address: int, data: bytes) -> None:
        self._content[self._place(address, len(data))] = np.frombuffer(data, np.uint8)
