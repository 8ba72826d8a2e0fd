"""Memories around the DMA engine, which check every access."""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from xpulpnn.config import EXT_DATA_BITS, TCDM_SPACE
from xpulpnn.isa.cluster import L2_BASE, TCDM_BASE
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, XLEN
from xpulpnn_sim.benches.agents.base import Dut, sample
from xpulpnn_sim.benches.agents.obi import ALL_BYTES, ObiRequest, ObiSubordinate, ObiTiming
from xpulpnn_sim.reference.golden.dma import Addresses, accesses

TCDM_BYTES = 1 << 16
L2_BYTES = 1 << 16
OUTSTANDING_LIMIT = 16
WINDOW_BYTES = EXT_DATA_BITS // BYTE_BITS
WRITE_BLOCK_BYTES = 64  # aligned block; no read comes between the writes of a run to it
_PAGE_BYTES, _PRIME = 1 << 16, 1021
Bytes = npt.NDArray[np.uint8]
Expected = deque[tuple[int, int, int | None]]
"""Expected accesses of a port: address, byte enables and, on the external port, remaining transfers of the run."""

_ENABLED = [
    sum(0xFF << BYTE_BITS * byte for byte in range(WINDOW_BYTES) if enables >> byte & 1)
    for enables in range(1 << WINDOW_BYTES)
]


def _place(address: Any, size: int) -> Any:
    """Return the index in a memory of the byte at an address, or of several bytes; it depends on every address bit."""
    # no power of two is a multiple of the prime
    return (address + address // _PAGE_BYTES % _PRIME * WRITE_BLOCK_BYTES) % size


def in_tcdm(address: Any) -> Any:
    return address // TCDM_SPACE == TCDM_BASE // TCDM_SPACE


# addresses with the same index as the start of the external memory
ALIASES = [
    page * _PAGE_BYTES
    for page in range(L2_BASE // _PAGE_BYTES % _PRIME, 1 << XLEN >> 16, _PRIME)
    if not in_tcdm(page * _PAGE_BYTES)
]


def apart(sources: Addresses, targets: Addresses) -> bool:
    """Return whether sources and targets lie in one memory each, and do not overlap."""
    memories, places = [], []
    for side in (sources, targets):
        inside = in_tcdm(side)
        memories.append({*inside.tolist()})
        places.append({*zip(inside.tolist(), _place(side, TCDM_BYTES).tolist(), strict=True)})
    return max(map(len, memories)) == 1 and not places[0] & places[1]


class Memories:
    def __init__(self, rng: Random) -> None:
        self.tcdm = np.frombuffer(rng.randbytes(TCDM_BYTES), np.uint8).copy()
        self.l2 = np.frombuffer(rng.randbytes(L2_BYTES), np.uint8).copy()

    def move(self, sources: npt.NDArray[np.uint32], targets: npt.NDArray[np.uint32]) -> None:
        values = self._at(sources)
        for inside, memory, size in ((True, self.tcdm, TCDM_BYTES), (False, self.l2, L2_BYTES)):
            targeted = in_tcdm(targets) == inside
            # the last of several writes to one byte counts: the first one in reverse order
            places, last = np.unique(_place(targets[targeted], size)[::-1], return_index=True)
            memory[places] = values[targeted][::-1][last]

    def _at(self, addresses: npt.NDArray[np.uint32]) -> Bytes:
        inside = in_tcdm(addresses)
        return np.where(inside, self.tcdm[_place(addresses, TCDM_BYTES)], self.l2[_place(addresses, L2_BYTES)])


class MemoryPort(ObiSubordinate):
    """Memory at a port of the engine; the port must make the expected accesses in order."""

    def __init__(self, dut: Dut, name: str, memory: Bytes, size: int, timing: ObiTiming, rng: Random) -> None:
        super().__init__(dut, name, timing, rng, size=size, outstanding=OUTSTANDING_LIMIT)
        self.written = 0  # a write is answered in this cycle
        self.takes_write = False  # a write is granted in this cycle
        self.expected: tuple[Expected, Expected] = deque(), deque()  # reads and writes
        self._memory = memory
        self._beats = getattr(dut, f"{name}__beats") if name == "ext" else None
        self._block_end = 0  # address after the last write of an incomplete block

    def drive(self) -> None:
        before, self.takes_write = self.unanswered, False
        super().drive()
        self.written = self.unanswered < before and self.log[-before].write

    def _serve(self, request: ObiRequest) -> tuple[int, int]:
        address, write, enables, value = request
        self.takes_write = bool(write)
        assert self.expected[write], f"{self._port}: {request} of no command"
        beats = None if self._beats is None else sample(self._beats)
        observed, expected = (address, enables, beats), self.expected[write].popleft()
        assert observed == expected, f"{self._port}: {'write' if write else 'read'} {observed}, expected {expected}"
        self._follow(address, write, beats)
        place = _place(address, len(self._memory))
        window, mask = self._memory[place : place + self._size], _ENABLED[enables]
        old = int.from_bytes(window.tobytes(), "little")
        if write:
            new = old & ~mask | value & mask
            window[:] = np.frombuffer(new.to_bytes(self._size, "little"), np.uint8)
        noise = self._rng.getrandbits(BYTE_BITS * self._size)
        return (noise if write else old & mask | noise & ~mask), 0

    def _follow(self, address: int, write: int, beats: int | None) -> None:
        """Check that no read comes between the writes of a run to one block."""
        assert write or not self._block_end % WRITE_BLOCK_BYTES, f"{self._port}: read between writes of one block"
        if write:
            self._block_end = 0 if beats in (None, 1) else address + self._size


def memory_ports(dut: Dut, memories: Memories, rng: Random, tcdm: ObiTiming, ext: ObiTiming) -> list[MemoryPort]:
    inside = [MemoryPort(dut, f"tcdm__{number}", memories.tcdm, WORD_BYTES, tcdm, rng) for number in range(4)]
    return [*inside, MemoryPort(dut, "ext", memories.l2, WINDOW_BYTES, ext, rng)]


def expect(ports: Sequence[MemoryPort], words: Sequence[int]) -> list[set[int]]:
    """Add the accesses of a command to those that the ports expect; return the ports that each write uses."""
    outside = len(ports) - 1
    writing: list[set[int]] = []
    for write, side in enumerate(accesses(words)):
        for external, address, enables, beats in side:
            taking = {outside} if external else set[int]()
            if external:
                ports[outside].expected[write].append((address, enables, beats))
            for half in () if external else range(2):
                enabled = enables >> WORD_BYTES * half & ALL_BYTES
                # reads always read both words of a window
                if enabled or not write:
                    ports[2 * write + half].expected[write].append((address + WORD_BYTES * half, enabled, None))
                    taking.add(2 * write + half)
            writing += [taking] * write
    return writing
