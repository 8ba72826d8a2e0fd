"""Environment of the DMA engine: managers, memories that check every access, model and scoreboard."""

from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from random import Random
from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.task import Task

from xpulpnn.config import EXT_DATA_BITS, TCDM_SPACE
from xpulpnn.isa.cluster import DMA, L2_BASE, PRIVATE_DMA, TCDM_BASE, Dma
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.benches.agents import PROMPT, Agent, AgentGroup, Dut, ObiTiming, Scoreboard, obi, sample
from xpulpnn_sim.benches.launcher_data import configuration
from xpulpnn_sim.reference.golden.dma import Addresses, accesses, moves
from xpulpnn_sim.reference.golden.dma_ports import Answer, PortsModel
from xpulpnn_sim.reference.golden.tcdm import Request
from xpulpnn_sim.reference.stimuli import near_offsets

TCDM_BYTES = L2_BYTES = 1 << 16
OUTSTANDING_LIMIT = 16
WINDOW_BYTES = EXT_DATA_BITS // BYTE_BITS
WRITE_BLOCK_BYTES = 64  # aligned block; no read comes between the writes of a run to it
_PAGE_BYTES, _PRIME = 1 << 16, 1021
_STATUS_IDS = 16
_PATIENCE = 8000
Bytes = npt.NDArray[np.uint8]
Expected = deque[tuple[int, int, int | None]]
"""Expected accesses of a port: address, byte enables and, on the external port, remaining transfers of the run."""

_ENABLED = obi.masks(WINDOW_BYTES)


def _place(address: Any, size: int) -> Any:
    """Return the memory index of an address, or of an array of addresses; every address bit changes the index."""
    # no power of two is a multiple of the prime
    return (address + address // _PAGE_BYTES % _PRIME * WRITE_BLOCK_BYTES) % size


def _in_tcdm(address: Any) -> Any:
    return address // TCDM_SPACE == TCDM_BASE // TCDM_SPACE


_PAGES = range(L2_BASE // _PAGE_BYTES % _PRIME, 1 << XLEN >> 16, _PRIME)
ALIASES = [page * _PAGE_BYTES for page in _PAGES if not _in_tcdm(page * _PAGE_BYTES)]
"""Addresses with the same index as the start of the external memory."""


def are_disjoint(sources: Addresses, targets: Addresses) -> bool:
    """Return whether all sources are in one memory, all targets are in one memory, and none is a source."""
    insides = [_in_tcdm(side).tolist() for side in (sources, targets)]
    indices = (_place(side, TCDM_BYTES).tolist() for side in (sources, targets))
    places = [{*zip(inside, index, strict=True)} for inside, index in zip(insides, indices, strict=True)]
    return all(len({*inside}) <= 1 for inside in insides) and not places[0] & places[1]


class Memories:
    def __init__(self, rng: Random) -> None:
        self.tcdm = np.frombuffer(rng.randbytes(TCDM_BYTES), np.uint8).copy()
        self.l2 = np.frombuffer(rng.randbytes(L2_BYTES), np.uint8).copy()

    def move(self, sources: Addresses, targets: Addresses) -> None:
        inside = _in_tcdm(sources)
        values = np.where(inside, self.tcdm[_place(sources, TCDM_BYTES)], self.l2[_place(sources, L2_BYTES)])
        for is_inside, memory, size in ((True, self.tcdm, TCDM_BYTES), (False, self.l2, L2_BYTES)):
            targeted = _in_tcdm(targets) == is_inside
            # the last of several writes to one byte counts: the first one in reverse order
            places, last = np.unique(_place(targets[targeted], size)[::-1], return_index=True)
            memory[places] = values[targeted][::-1][last]


class MemoryPort(obi.ObiSubordinate):
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

    def _serve(self, request: Request) -> tuple[int, int]:
        address, write, enables, value = request
        self.takes_write = bool(write)
        assert self.expected[write], f"{self._port}: {request} of no command"
        beats = None if self._beats is None else sample(self._beats)
        observed, expected = (address, enables, beats), self.expected[write].popleft()
        assert observed == expected, f"{self._port}: {'write' if write else 'read'} {observed}, expected {expected}"
        assert write or not self._block_end % WRITE_BLOCK_BYTES, f"{self._port}: read between writes of one block"
        if write:
            self._block_end = 0 if beats in (None, 1) else address + self._size
        place = _place(address, len(self._memory))
        window, mask = self._memory[place : place + self._size], _ENABLED[enables]
        old = int.from_bytes(window.tobytes(), "little")
        if write:
            new = old & ~mask | value & mask
            window[:] = np.frombuffer(new.to_bytes(self._size, "little"), np.uint8)
        noise = self._rng.getrandbits(BYTE_BITS * self._size)
        return (noise if write else old & mask | noise & ~mask), 0


class CommandManager(obi.ObiManager):
    answer: obi.ObiTransfer | None = None  # transfer that is answered in this cycle

    def _noise(self) -> dict[str, int]:
        """Return random request signals with a register's address, which the unit must ignore while ``req`` is 0."""
        return super()._noise() | {"addr": self._rng.choice([*Dma])}

    def _on_answer(self, transfer: obi.ObiTransfer) -> None:
        self.answer = transfer


class _CommandChecker(Agent):
    def __init__(
        self, dut: Dut, ports: Sequence[CommandManager], memories: Sequence[MemoryPort], model: PortsModel
    ) -> None:
        super().__init__(dut)
        self.cycle = 0
        self._board = Scoreboard()
        self._ports, self._memories, self._model = ports, memories, model
        self._outputs = [getattr(dut, name) for name in ("events", "interrupts", "busy")]
        self._answers: Mapping[int, Answer] = {}

    def drive(self) -> None:
        requests = ((port, manager.request) for port, manager in enumerate(self._ports))
        self._asking = {port: request for port, request in requests if request is not None}

    def sample(self) -> None:
        written = sum(memory.written for memory in self._memories)
        asking = {port: transfer.as_request for port, transfer in self._asking.items()}
        taking = [number for number, memory in enumerate(self._memories) if memory.takes_write]
        seen = self._model.cycle(asking, written, taking)
        granted = {port for port, transfer in self._asking.items() if self._ports[port].request is not transfer}
        answered: dict[int, Answer] = {}
        for number, port in enumerate(self._ports):
            if port.answer is not None:
                expected = self._answers.get(number)
                # the data of some answers are don't-cares
                data = None if expected and expected.data is None else port.answer.data
                answered[number], port.answer = Answer(data, port.answer.failed), None
        events, interrupts, busy = (sample(output) for output in self._outputs)
        observed = granted, answered, (events, interrupts), bool(busy)
        self._board.equal(observed, (seen.granted, self._answers, *seen[2:]), f"ports in cycle {self.cycle}")
        self._answers = seen.answers
        self.cycle += 1


class DmaEnv(AgentGroup):
    """The DMA engine after a reset, with managers at its command ports and memories at the others."""

    def __init__(
        self, dut: Dut, rng: Random, timing: tuple[ObiTiming, ObiTiming] = (PROMPT, PROMPT), pause: float = 0.0
    ) -> None:
        self.dut, self.rng, self.board = dut, rng, Scoreboard()
        self.memories, self.expected = Memories(rng), Memories(rng)
        self.expected.tcdm[:], self.expected.l2[:] = self.memories.tcdm, self.memories.l2
        cores = [f"cores__{number}" for number in range(configuration().cores)]
        self.managers = [
            CommandManager(dut, port, outstanding=obi.ANY_NUMBER, pause=pause, rng=rng) for port in (*cores, "shared")
        ]
        self.ports = range(len(self.managers))
        self.addresses = [PRIVATE_DMA] * len(cores) + [DMA]
        tcdm, ext = timing
        inside = [MemoryPort(dut, f"tcdm__{port}", self.memories.tcdm, WORD_BYTES, tcdm, rng) for port in range(4)]
        self.memory_ports = [*inside, MemoryPort(dut, "ext", self.memories.l2, WINDOW_BYTES, ext, rng)]
        self.model = PortsModel(configuration(), self._begin)
        self.monitor = _CommandChecker(dut, self.managers, self.memory_ports, self.model)
        super().__init__(dut, [*self.managers, *self.memory_ports, self.monitor])

    def _begin(self, words: Sequence[int]) -> list[set[int]]:
        self.expected.move(*moves(words))
        outside, writing = len(self.memory_ports) - 1, list[set[int]]()
        for write, side in enumerate(accesses(words)):
            for external, address, enables, beats in side:
                taking = {outside} if external else set[int]()
                if external:
                    self.memory_ports[outside].expected[write].append((address, enables, beats))
                for half in () if external else range(2):
                    enabled, port = enables >> WORD_BYTES * half & obi.ALL_BYTES, 2 * write + half
                    # reads always read both words of a window
                    if enabled or not write:
                        self.memory_ports[port].expected[write].append((address + WORD_BYTES * half, enabled, None))
                        taking.add(port)
                writing += [taking] * write
        return writing

    def run(self, port: int, *transfers: obi.ObiTransfer) -> Coroutine[Any, Any, obi.ObiTransfer]:
        for transfer in transfers:
            transfer.address += self.addresses[port]
        return self.managers[port].run(transfers)

    def start(self, *coroutines: Coroutine[Any, Any, Any]) -> list[Task[Any]]:
        return [cocotb.start_soon(coroutine) for coroutine in coroutines]

    async def identifier(self, port: int = 0) -> int:
        return await self.managers[port].read(self.addresses[port] + Dma.COMMAND)

    async def command(self, words: Sequence[int], port: int = 0) -> None:
        await self.managers[port].write(self.addresses[port] + Dma.COMMAND, *words)

    async def status(self, port: int = 0) -> tuple[int, int]:
        status = await self.managers[port].read(self.addresses[port] + Dma.STATUS)
        return status % (1 << _STATUS_IDS), status >> _STATUS_IDS

    async def wait(self, number: int, port: int = 0, patience: int = _PATIENCE) -> None:
        for _ in range(patience):
            if not (await self.status(port))[0] >> number & 1:
                return
        raise AssertionError(f"identifier {number} in use for {patience} reads of the status")

    async def free(self, bits: int, port: int = 0) -> None:
        await self.managers[port].write(self.addresses[port] + Dma.STATUS, bits)

    async def command_all(self, *commands: Sequence[int]) -> None:
        number = await self.identifier()
        for words in commands:
            await self.command(words)
        await self.wait(number)
        await self.free(1 << number)

    async def nothing_near(self, port: int) -> None:
        for offset in near_offsets(Dma):
            for write in (0, 1):
                access = await self.run(port, obi.ObiTransfer(offset, write, value=WORD_MASK))
                self.board.equal(access.failed, True, f"access to {offset:#x}")

    def check(self, label: str) -> None:
        missing = [len(side) for port in self.memory_ports for side in port.expected]
        self.board.equal(missing, [0] * len(missing), f"{label}: accesses that were not made")
        self.board.compare(vars(self.expected), vars(self.memories), None, label)
