"""AXI4 agents of benches: memories that answer, and a checker of the rules for managers."""

import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from cocotbext.axi import AxiReadBus, AxiSlaveRead, AxiSlaveWrite, AxiWriteBus, axi_channels

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES
from xpulpnn_sim.benches.agents.base import Agent, Dut, sample
from xpulpnn_sim.benches.agents.obi import ALL_BYTES

_DEEP = 64  # queue depth of each channel: more than the outstanding transfers of any manager


class Stalls(NamedTuple):
    """Random stalls of up to ``still`` cycles, with 1 to ``going`` cycles between them; none if ``still`` is 0."""

    still: int = 0
    going: int = 1

    def cycles(self, rng: Random) -> Iterator[bool]:
        while True:
            yield from (True for _ in range(rng.randint(0, self.still)))
            yield from (False for _ in range(rng.randint(1, self.going)))


_PROMPT = Stalls()


class AxiSubordinate:
    """Memory at an AXI port ``<port>__arvalid``, ... of the unit; cocotbext-axi drives the signals.

    ``content`` holds the bytes from the address ``base`` on, and gets those that are written. Accesses to other
    addresses, or of a burst that begins in ``failing``, are answered with an error. Call :meth:`reset` when the unit is
    reset during transfers.
    """

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


class AxiManager:
    """Manager at an AXI port ``<port>__arvalid``, ... of the unit; cocotbext-axi drives the signals.

    :attr:`channels` are its channels ``aw``, ``w``, ``b``, ``ar`` and ``r``.
    """

    def __init__(self, dut: Dut, port: str, stalls: Stalls = _PROMPT, rng: Random | None = None) -> None:
        self.channels: dict[str, Any] = {}
        self.accesses = 0
        for name, end in (("aw", "Source"), ("w", "Source"), ("b", "Sink"), ("ar", "Source"), ("r", "Sink")):
            bus = getattr(axi_channels, f"Axi{name.upper()}Bus").from_prefix(dut, f"{port}_")
            self.channels[name] = channel = getattr(axi_channels, f"Axi{name.upper()}{end}")(bus, dut.clk)
            channel.log.setLevel("WARNING")
            if rng and stalls.still:
                channel.set_pause_generator(stalls.cycles(Random(rng.getrandbits(32))))

    def send(self, channel: str, **fields: int) -> None:
        """Send on a channel; the fields are named without that of the channel, such as ``addr``."""
        source = self.channels[channel]
        source.send_nowait(source._transaction_obj(**{channel + name: value for name, value in fields.items()}))

    async def access(self, address: int, value: int | None = None) -> tuple[bool, int]:
        """Read, or write a value to, the word at an aligned address; return whether it fails, and the data read."""
        self.accesses += 1
        self.send("ar" if value is None else "aw", addr=address, size=WORD_BYTES.bit_length() - 1, burst=_INCREMENTING)
        if value is None:
            answer = await self.channels["r"].recv()
            return answer.rresp != 0, int(answer.rdata)
        self.send("w", data=value, strb=ALL_BYTES, last=1)
        return (await self.channels["b"].recv()).bresp != 0, 0

    async def read(self, address: int) -> int:
        """Return the word at an aligned address; the access must succeed."""
        failed, data = await self.access(address)
        assert not failed, f"error at {address:#x}"
        return data

    async def write(self, address: int, value: int) -> None:
        """Write a word to an aligned address; the access must succeed."""
        failed, _ = await self.access(address, value)
        assert not failed, f"error at {address:#x}"


_ADDRESS = ["id", "addr", "len", "size", "burst", "lock", "cache", "prot"]
_PAYLOADS = {"ar": _ADDRESS, "aw": _ADDRESS, "w": ["data", "strb", "last"]}  # fields of the channels of a manager
_INCREMENTING, _BOUNDARY = 1, 4096  # kind of burst; no burst crosses a multiple of this number of bytes


class AxiChecker(Agent):
    """Checks AXI's rules for managers in every cycle: bursts, their lengths, payloads that are stable until accepted,
    write data that come with or after their address and end with ``wlast``.

    ``longest`` is the largest number of bytes of a burst by channel, ``ar`` or ``aw``. A broken rule raises
    ``AssertionError``.
    """

    def __init__(self, dut: Dut, port: str, longest: Mapping[str, int]) -> None:
        super().__init__(dut)
        self._rst, self._longest = dut.rst, longest
        self._handles = {
            channel: [getattr(dut, f"{port}__{channel}{name}") for name in ("valid", "ready", *fields)]
            for channel, fields in _PAYLOADS.items()
            if hasattr(dut, f"{port}__{channel}valid")
        }
        self._bytes = len(getattr(dut, f"{port}__rdata")) // BYTE_BITS
        self._waiting: dict[str, dict[str, int]] = {}  # payloads that are not accepted yet, by channel
        self._left: deque[int] = deque()  # transfers left of each burst of writes

    def sample(self) -> None:
        if sample(self._rst):
            self._waiting.clear()
            self._left.clear()
            return
        for channel, (valid, ready, *payload) in self._handles.items():
            waiting = self._waiting.pop(channel, None)
            if not sample(valid):
                assert waiting is None, f"{channel}valid falls before {waiting} is accepted"
                continue
            shown = dict(zip(_PAYLOADS[channel], map(sample, payload), strict=True))
            assert waiting in (None, shown), f"{channel}: {waiting} becomes {shown} before it is accepted"
            accepted = sample(ready)
            if not accepted:
                self._waiting[channel] = shown
            if channel == "w":
                self._check_data(shown, accepted=accepted > 0)
            elif waiting is None:
                self._check_burst(channel, shown)

    def _check_burst(self, channel: str, shown: Mapping[str, int]) -> None:
        address, transfers = shown["addr"], shown["len"] + 1
        size = transfers * self._bytes
        rules = {
            "whole words": 1 << shown["size"] == self._bytes and address % self._bytes == 0,
            "an incrementing burst": shown["burst"] == _INCREMENTING,
            f"at most {self._longest[channel]} bytes": size <= self._longest[channel],
            f"within {_BOUNDARY} bytes": address // _BOUNDARY == (address + size - 1) // _BOUNDARY,
        }
        broken = [rule for rule, holds in rules.items() if not holds]
        assert not broken, f"{channel} must be {broken}: {shown}"
        if channel == "aw":
            self._left.append(transfers)

    def _check_data(self, shown: Mapping[str, int], *, accepted: bool) -> None:
        assert self._left, f"w: {shown} belongs to no burst"
        assert shown["last"] == (self._left[0] == 1), f"wlast is {shown['last']} with {self._left[0]} transfers left"
        if accepted:
            self._left[0] -= 1
        if not self._left[0]:
            self._left.popleft()
