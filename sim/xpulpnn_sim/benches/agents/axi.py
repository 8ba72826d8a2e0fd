"""AXI4 agents of benches: memories that answer, and a checker of the rules for managers."""

import warnings
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from cocotbext.axi import AxiReadBus, AxiSlaveRead, AxiSlaveWrite, AxiWriteBus

from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sim.benches.agents.base import Agent, Dut, sample

BOUNDARY = 4096  # bytes; no burst crosses a multiple of it

_FIELDS = {
    "aw": ("awid", "awaddr", "awlen", "awsize", "awburst", "awlock", "awcache", "awprot"),
    "w": ("wdata", "wstrb", "wlast"),
    "ar": ("arid", "araddr", "arlen", "arsize", "arburst", "arlock", "arcache", "arprot"),
}
_INCREMENTING = 1
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
        return self._content[self._place(address, length)].tobytes()

    async def write(self, address: int, data: bytes) -> None:
        self._content[self._place(address, len(data))] = np.frombuffer(data, np.uint8)


class AxiChecker(Agent):
    """Checks AXI's rules for managers in every cycle: bursts, lengths, payloads that are stable until accepted."""

    def __init__(self, dut: Dut, port: str, longest: dict[str, int]) -> None:
        super().__init__(dut)
        self._rst, self._longest = dut.rst, longest
        self.addresses: set[int] = set()
        channels = {name: fields for name, fields in _FIELDS.items() if hasattr(dut, f"{port}__{name}valid")}
        self._handles = {
            channel: {name: getattr(dut, f"{port}__{name}") for name in (*fields, f"{channel}valid", f"{channel}ready")}
            for channel, fields in channels.items()
        }
        self._bytes = len(getattr(dut, f"{port}__rdata")) // BYTE_BITS
        self._writes: deque[int] = deque()
        self._written = 0
        self._waiting: dict[str, dict[str, int]] = {}

    def sample(self) -> None:
        if sample(self._rst):
            self._waiting = {}
            return
        for channel, handles in self._handles.items():
            before = self._waiting.pop(channel, None)
            if not sample(handles[f"{channel}valid"]):
                assert before is None, f"{channel}valid falls before {before} is taken"
                continue
            shown = {name: sample(handles[name]) for name in _FIELDS[channel]}
            assert before in (None, shown), f"{channel}: {before} becomes {shown} before it is taken"
            taken = sample(handles[f"{channel}ready"])
            if not taken:
                self._waiting[channel] = shown
            if before is None and channel != "w":
                self._burst(channel, shown)
            if channel == "w" and taken:
                self._data(shown["wlast"])

    def _burst(self, channel: str, shown: dict[str, int]) -> None:
        address, transfers = shown[f"{channel}addr"], shown[f"{channel}len"] + 1
        size = transfers * self._bytes
        context = f"{channel}: {shown}"
        assert 1 << shown[f"{channel}size"] == self._bytes, context
        assert shown[f"{channel}burst"] == _INCREMENTING, context
        assert address % self._bytes == 0, context
        assert size <= self._longest[channel], context
        assert address // BOUNDARY == (address + size - 1) // BOUNDARY, context
        if channel == "ar":
            self.addresses.add(address)
        else:
            self._writes.append(transfers)

    def _data(self, last: int) -> None:
        """Check that write data come no earlier than the address of their burst, and in the order of the addresses."""
        assert self._writes, "w: data of no burst"
        self._written += 1
        assert last == (self._written == self._writes[0]), f"wlast is {last} at {self._written} of {self._writes[0]}"
        if last:
            self._writes.popleft()
            self._written = 0
