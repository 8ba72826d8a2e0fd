"""Memories around the DMA engine, which check what it asks them for."""

from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from xpulpnn.config import TCDM_SPACE
from xpulpnn.isa.cluster import L2_BASE, TCDM_BASE
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.benches.cadence import Dut, sample
from xpulpnn_sim.benches.obi import PROMPT, Grant, ObiTiming, Responder

TCDM_BYTES = 1 << 16
L2_BYTES = 1 << 16
OUTSTANDING_LIMIT = 16
RUN_BYTES = 256
WRITE_BLOCK_BYTES = 64  # No read comes between the writes of a run to such an aligned block
_PAGE_BYTES, _PRIME = 1 << 16, 1021
Bytes = npt.NDArray[np.uint8]


def _place(address: Any, size: int) -> Any:
    """Return the place of a byte in a memory, or those of several: another place if any bit is another one."""
    # the remainders of all powers of two differ from 0
    return (address + address // _PAGE_BYTES % _PRIME * WRITE_BLOCK_BYTES) % size


class Memories:
    """Both memories, as bytes; beyond their ends they begin again, at another place."""

    def __init__(self, rng: Random) -> None:
        self.tcdm = np.frombuffer(rng.randbytes(TCDM_BYTES), np.uint8).copy()
        self.l2 = np.frombuffer(rng.randbytes(L2_BYTES), np.uint8).copy()

    def move(self, sources: npt.NDArray[np.uint32], targets: npt.NDArray[np.uint32]) -> None:
        """Copy bytes, those of a lower index first."""
        found = self._at(sources)
        for inside, memory, size in ((True, self.tcdm, TCDM_BYTES), (False, self.l2, L2_BYTES)):
            here = (targets // TCDM_SPACE == TCDM_BASE // TCDM_SPACE) == inside
            # of several writes to one byte the last one counts: in reverse order the first of each
            places, last = np.unique(_place(targets[here], size)[::-1], return_index=True)
            memory[places] = found[here][::-1][last]

    def _at(self, addresses: npt.NDArray[np.uint32]) -> Bytes:
        inside = addresses // TCDM_SPACE == TCDM_BASE // TCDM_SPACE
        return np.where(inside, self.tcdm[_place(addresses, TCDM_BYTES)], self.l2[_place(addresses, L2_BYTES)])


class _Port(Responder):
    """A port of the engine, and the memory behind it."""

    def __init__(self, dut: Dut, name: str, memory: Bytes, size: int, timing: ObiTiming, rng: Random) -> None:
        super().__init__(dut, name, timing, rng, size=size, outstanding=OUTSTANDING_LIMIT)
        self._memory = memory
        self._beats = getattr(dut, f"{name}__beats") if name == "ext" else None
        self._runs: dict[int, tuple[int, int]] = {}

    def _serve(self, access: Grant) -> tuple[int, int]:
        self._check(access.address, access.write, access.enables)
        place = _place(access.address, len(self._memory))
        window = self._memory[place : place + self._size]
        bits = np.array([access.enables >> byte & 1 for byte in range(self._size)], np.bool_)
        answer = np.frombuffer(self._rng.randbytes(self._size), np.uint8)
        if access.write:
            window[bits] = np.frombuffer(access.value.to_bytes(self._size, "little"), np.uint8)[bits]
        else:
            answer = np.where(bits, window, answer)
        return int.from_bytes(answer.tobytes(), "little"), 0

    def _check(self, address: int, writes: int, enables: int) -> None:
        where = f"{self._port}: {'write' if writes else 'read'} of {enables:b} at {address:#x}"
        assert address % self._size == 0, where
        if self._beats is None:
            number = int(self._port[-1])
            assert writes == number // 2, f"{where} on the wrong side"
            assert address // WORD_BYTES % 2 == number % 2, f"{where} in the wrong word"
            assert address // TCDM_SPACE == TCDM_BASE // TCDM_SPACE, f"{where} outside the TCDM"
            assert enables or not writes, f"{where} writes nothing"
            return
        assert address >= L2_BASE, f"{where} of the TCDM"
        # without trailing zeros a run of ones is one less than a power of two
        packed = enables // (enables & -enables)
        assert not packed & (packed + 1), f"{where} has gaps"
        open_left, open_at = self._runs.get(1, (0, 0))
        assert writes or not open_left or not open_at % WRITE_BLOCK_BYTES, f"{where} between writes of one block"
        beats = sample(self._beats)
        left, following = self._runs.get(writes, (0, 0))
        if left:
            assert (address, beats) == (following, left), f"{where}, {beats} beats: run broken, {left} left"
        else:
            assert beats >= 1, f"{where}: a run of nothing"
            last = address + (beats - 1) * self._size
            assert address // RUN_BYTES == last // RUN_BYTES, f"{where}: run of {beats} beats too long"
        self._runs[writes] = beats - 1, address + self._size


def memory_ports(
    dut: Dut, memories: Memories, rng: Random, tcdm: ObiTiming = PROMPT, ext: ObiTiming = PROMPT
) -> list[Responder]:
    """All memories around the engine."""
    inside = [_Port(dut, f"tcdm__{number}", memories.tcdm, WORD_BYTES, tcdm, rng) for number in range(4)]
    return [*inside, _Port(dut, "ext", memories.l2, 2 * WORD_BYTES, ext, rng)]
