"""The memories on both sides of the DMA engine: random grants and response times, and the rules of its ports."""

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.config import TCDM_SPACE
from xpulpnn.isa.cluster import L2_BASE, TCDM_BASE
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.bench.cadence import Background, Driven, Dut, sample
from xpulpnn_sim.bench.obi import PROMPT, ObiTiming

TCDM_BYTES = 1 << 16
L2_BYTES = 1 << 16
OUTSTANDING_LIMIT = 16
RUN_BYTES = 256
WRITE_BLOCK_BYTES = 64
"""No read comes between the writes of a run to such an aligned block."""

_PAGE_BYTES, _PRIME = 1 << 16, 1021

Bytes = npt.NDArray[np.uint8]


def _place(address: Any, size: int) -> Any:
    """Where the byte at an address is in a memory, or those of several: another place if any bit is another one."""
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


@dataclass(slots=True)
class _Port:
    """A port of the engine, and what is under way on it."""

    name: str
    memory: Bytes
    size: int
    timing: ObiTiming
    driven: Driven
    handles: dict[str, Dut] = field(default_factory=dict[str, Dut])
    answers: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    waiting: tuple[int, ...] | None = None
    runs: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])


class DmaMemories(Background):
    """Answers the ports of the engine: the only writer of their grants and responses."""

    def __init__(
        self, dut: Dut, memories: Memories, rng: Random, tcdm: ObiTiming = PROMPT, ext: ObiTiming = PROMPT
    ) -> None:
        self.cycle = 0
        self._clk, self._rng = dut.clk, rng
        inside = [f"tcdm__{number}" for number in range(4)]
        ports = [_Port(name, memories.tcdm, WORD_BYTES, tcdm, Driven(dut, f"{name}__")) for name in inside]
        ports.append(_Port("ext", memories.l2, 2 * WORD_BYTES, ext, Driven(dut, "ext__")))
        for port in ports:
            names = ["req", "addr", "we", "be", "wdata"]
            names += ["beats"] if port.name == "ext" else []
            port.handles = {name: getattr(dut, f"{port.name}__{name}") for name in names}
        self._ports = ports

    @property
    def unanswered(self) -> int:
        """Accesses under way."""
        return sum(len(port.answers) for port in self._ports)

    async def _run(self) -> None:
        rng, clk = self._rng, self._clk
        while True:
            for port in self._ports:
                ready = bool(port.answers) and port.answers[0][0] <= self.cycle
                if ready:
                    port.driven.drive(rdata=port.answers.popleft()[1])
                grant = port.timing.grant >= 1 or rng.random() < port.timing.grant
                port.driven.drive(gnt=int(grant), rvalid=int(ready))
            await FallingEdge(clk)
            for port in self._ports:
                if sample(port.handles["req"]):
                    self._requested(port)
                else:
                    assert port.waiting is None, f"{port.name}: {port.waiting} withdrawn before its grant"
            await RisingEdge(clk)
            self.cycle += 1

    def _requested(self, port: _Port) -> None:
        fields = ("addr", "we", "be", "wdata") if sample(port.handles["we"]) else ("addr", "we", "be")
        request = tuple(sample(port.handles[name]) for name in fields)
        assert port.waiting in (None, request), f"{port.name}: {port.waiting} changed to {request} before its grant"
        granted = port.driven.values["gnt"]
        port.waiting = None if granted else request
        if not granted:
            return
        address, writes, enables, *value = request
        self._check(port, address, writes, enables)
        timing, rng = port.timing, self._rng
        place = _place(address, len(port.memory))
        window = port.memory[place : place + port.size]
        bits = np.array([enables >> byte & 1 for byte in range(port.size)], np.bool_)
        answer = rng.randbytes(port.size)
        if writes:
            new = np.frombuffer(value[0].to_bytes(port.size, "little"), np.uint8)
            window[bits] = new[bits]
        else:
            answer = np.where(bits, window, np.frombuffer(answer, np.uint8)).tobytes()
        ready = self.cycle + rng.randint(timing.fastest, timing.slowest)
        port.answers.append((ready, int.from_bytes(answer, "little")))
        assert len(port.answers) <= OUTSTANDING_LIMIT, f"{port.name}: {len(port.answers)} accesses under way"

    def _check(self, port: _Port, address: int, writes: int, enables: int) -> None:
        """The rules of a port, but for those of OBI."""
        where = f"{port.name}: {'write' if writes else 'read'} of {enables:b} at {address:#x}"
        assert address % port.size == 0, where
        if port.name != "ext":
            number = int(port.name[-1])
            assert writes == number // 2, f"{where} on the wrong side"
            assert address // WORD_BYTES % 2 == number % 2, f"{where} in the wrong word"
            assert address // TCDM_SPACE == TCDM_BASE // TCDM_SPACE, f"{where} outside the TCDM"
            assert enables or not writes, f"{where} writes nothing"
            return
        assert address >= L2_BASE, f"{where} of the TCDM"
        # without trailing zeros a run of ones is one less than a power of two
        packed = enables // (enables & -enables)
        assert not packed & (packed + 1), f"{where} has gaps"
        open_left, open_at = port.runs.get(1, (0, 0))
        assert writes or not open_left or not open_at % WRITE_BLOCK_BYTES, f"{where} between writes of one block"
        beats = sample(port.handles["beats"])
        left, following = port.runs.get(writes, (0, 0))
        if left:
            assert (address, beats) == (following, left), f"{where}, {beats} beats: run broken, {left} left"
        else:
            assert beats >= 1, f"{where}: a run of nothing"
            last = address + (beats - 1) * port.size
            assert address // RUN_BYTES == last // RUN_BYTES, f"{where}: run of {beats} beats too long"
        port.runs[writes] = beats - 1, address + port.size
