"""Judges what the DMA engine of a cluster moves, and when it says that it is done.

Every byte that the engine writes must be one that a command asks for, with a value that its source has had since the
command; once the engine says that a transfer has ended, no byte of it may be missing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import TCDM_SPACE, ClusterConfig
from xpulpnn.isa.cluster import BLOCK_BYTES, DMA, NO_MASTER, PRIVATE_DMA, TCDM_BASE, Dma, DmaCommand
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES
from xpulpnn_sim.cosimulation.checks.events import DeviceAccess, device_accesses, line_events
from xpulpnn_sim.cosimulation.checks.retirements import FirstDifference
from xpulpnn_sim.cosimulation.model.model import Block, Windows
from xpulpnn_sim.reference.golden.dma import moves, word_count
from xpulpnn_sim.reference.programs.exits import DifferenceError, NameOf

_ANSWER = 1  # cycles between the grant of an access at a command port and its retirement

_PATIENCE = 10_000  # cycles after the last byte within which the end of a transfer must be told

_PORTS = 4
_STATUS_IDS = 16
_LANES = np.arange(WORD_BYTES)
_WRITE, _LINES, _ACCESS = range(3)  # what happens in a cycle, in its order: memory first


@dataclass(slots=True)
class _Transfer:
    """A command."""

    number: int
    tells: list[int]  # cores that are told of its end by event and by interrupt, a bit each; 0 once they are
    pending: dict[int, list[int]]  # sources of the bytes still to be written, by target
    allowed: dict[int, bytes]  # values that each source has had since the command was complete
    ended: int | None = None  # cycle of the last byte


class DmaCheck(FirstDifference):
    """A checker of the DMA engine."""

    def __init__(self, config: ClusterConfig, memory: Windows, name_of: NameOf = lambda pc: "") -> None:
        self._cores = config.cores
        self._tcdm_bytes = config.tcdm_bytes
        self._memory = memory
        self._name_of = name_of
        self._transfers: list[_Transfer] = []
        self._words: dict[int, list[int]] = {}
        self._given: dict[int, int] = {}
        self._owners: dict[int, int] = {}
        self._late: list[tuple[int, int, Any]] = []

    def judge(self, block: Block) -> None:
        """Judge a block, but for its last cycle."""
        last = [int(block.records(core)["cycle"][-1]) for core in range(self._cores) if block.filled[core]]
        if not last:
            return
        grants = block.grants
        writes = grants[(grants["hart"] <= NO_MASTER) & (grants["we"] != 0)]
        rest = [(cycle, _LINES, (kind, word)) for cycle, kind, word in line_events(grants) if kind < 2]
        for core in range(self._cores):
            rest += [
                (one.retired - _ANSWER, _ACCESS, (one, port))
                for one in device_accesses(block, core)
                if (port := self._port(one)) is not None
            ]
        if not (rest or self._late or self._transfers or self._words):
            self._apply_all(writes)
            return
        rest += [(int(write["cycle"]), _WRITE, write) for write in writes]
        happened = sorted(self._late + rest, key=lambda one: one[:2])
        end = max(last) - _ANSWER
        self._late = [one for one in happened if one[0] >= end]
        for cycle, kind, what in happened[: len(happened) - len(self._late)]:
            if kind == _WRITE:
                self._write(cycle, what)
            elif kind == _LINES:
                self._told(cycle, *what)
            elif what[0].write:
                self._store(*what)
            else:
                self._load(*what)
        for transfer in self._transfers:
            if any(transfer.tells) and transfer.ended is not None and transfer.ended + _PATIENCE < end:
                raise DifferenceError(
                    f"difference in cycle {end}: the end of transfer {transfer.number} of the DMA engine in cycle "
                    f"{transfer.ended} must be told"
                )
        self._transfers = [one for one in self._transfers if one.pending or any(one.tells)]

    def _port(self, one: DeviceAccess) -> int | None:
        """The command port of an access; the shared one has the number behind the cores."""
        if PRIVATE_DMA <= one.address < PRIVATE_DMA + BLOCK_BYTES:
            return one.core
        return self._cores if DMA <= one.address < DMA + BLOCK_BYTES else None

    def _apply_all(self, writes: NDArray[Any]) -> None:
        """Stores while nothing is transferred, all at once; of several to a byte the last one stays."""
        for base, content in self._memory.items():
            at = writes["address"].astype(np.int64) - base
            here = writes[(at >= 0) & (at < content.size)]
            at = here["address"].astype(np.int64) - base
            for lane in _LANES.tolist():
                enabled = here["be"] >> lane & 1 != 0
                content[at[enabled] + lane] = (here["wdata"][enabled] >> BYTE_BITS * lane & 0xFF).astype(np.uint8)

    def _write(self, cycle: int, write: Any) -> None:
        address, enables, value = int(write["address"]), int(write["be"]), int(write["wdata"])
        moved = self._cores <= int(write["hart"]) < self._cores + _PORTS
        content, base = self._window(address)
        for lane in range(WORD_BYTES):
            if not enables >> lane & 1:
                continue
            byte = value >> BYTE_BITS * lane & 0xFF
            if moved:
                self._moved(cycle, address + lane, byte)
            if content is not None:
                content[address + lane - base] = byte
            for transfer in self._transfers:
                if byte not in transfer.allowed.get(address + lane, range(256)):
                    transfer.allowed[address + lane] += bytes([byte])

    def _window(self, address: int) -> tuple[NDArray[np.uint8] | None, int]:
        for base, content in self._memory.items():
            if base <= address < base + content.size:
                return content, base
        return None, 0

    def _moved(self, cycle: int, address: int, value: int) -> None:
        """The engine has written a byte: it must be the next of a transfer, and right."""
        for transfer in self._transfers:
            sources = transfer.pending.get(address)
            if sources is None:
                continue
            source = sources.pop(0)
            if not sources:
                del transfer.pending[address]
            if value not in transfer.allowed[source]:
                shown = " or ".join(f"0x{byte:02x}" for byte in sorted(set(transfer.allowed[source])))
                raise DifferenceError(
                    f"difference in cycle {cycle}: the DMA engine, transfer {transfer.number}\n"
                    f"  byte at 0x{address:08x} from 0x{source:08x} must be {shown}, not 0x{value:02x}"
                )
            if not transfer.pending:
                transfer.ended = cycle
            return
        raise DifferenceError(
            f"difference in cycle {cycle}: the DMA engine must write what it is told, not the byte at 0x{address:08x}"
        )

    def _store(self, one: DeviceAccess, port: int) -> None:
        if one.address % BLOCK_BYTES == Dma.STATUS:
            for number in range(_STATUS_IDS):
                if one.data >> number & 1:
                    self._owners.pop(number, None)
            return
        words = self._words.setdefault(port, [])
        words.append(one.data)
        if len(words) == word_count(words[0]):
            del self._words[port]
            self._begin(port, words, one.retired)

    def _begin(self, port: int, words: list[int], cycle: int) -> None:
        made = moves(words)
        sources, targets = (self._wrapped(side).tolist() for side in made)
        pending: dict[int, list[int]] = {}
        for source, target in zip(sources, targets, strict=True):
            pending.setdefault(target, []).append(source)
        allowed: dict[int, bytes] = {}
        for source in sources:
            content, base = self._window(source)
            allowed[source] = bytes(1) if content is None else content[source - base].tobytes()
        everybody = (1 << self._cores) - 1
        told = everybody if words[0] & DmaCommand.BROADCAST else 1 << port & everybody
        tells = [told if words[0] & flag else 0 for flag in (DmaCommand.EVENT, DmaCommand.INTERRUPT)]
        transfer = _Transfer(self._given.get(port, 0), tells, pending, allowed)
        transfer.ended = None if pending else cycle
        self._transfers = [*(one for one in self._transfers if one.pending or any(one.tells)), transfer]

    def _wrapped(self, addresses: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Addresses of the TCDM begin again behind its end."""
        inside = addresses - np.uint32(TCDM_BASE) < TCDM_SPACE
        return np.where(inside, TCDM_BASE + addresses % self._tcdm_bytes, addresses)

    def _load(self, one: DeviceAccess, port: int) -> None:
        if one.address % BLOCK_BYTES == Dma.COMMAND:
            owner = self._owners.get(one.data)
            if owner is not None or any(each.pending for each in self._transfers if each.number == one.data):
                raise DifferenceError(
                    f"{one.where(self._name_of)}\n"
                    f"  DMA engine: the identifier given away must be free, not {one.data}, which port "
                    f"{owner if owner is not None else 'of an earlier command'} has"
                )
            self._owners[one.data] = port
            self._given[port] = one.data
            return
        if one.address % BLOCK_BYTES != Dma.STATUS:
            return
        status = one.data << BYTE_BITS * (one.address % WORD_BYTES)
        for number, owner in self._owners.items():
            if owner == port and not status >> _STATUS_IDS + number & 1:
                raise DifferenceError(
                    f"{one.where(self._name_of)}\n  DMA engine: identifier {number} must be allocated, not free"
                )
        for transfer in self._transfers:
            # the engine says that it has done all transfers of an identifier
            if transfer.pending and not status >> transfer.number & 1:
                raise DifferenceError(_missing(transfer, one.where(self._name_of)))

    def _told(self, cycle: int, kind: int, cores: int) -> None:
        where = f"difference in cycle {cycle}"
        transfer = next((one for one in self._transfers if one.tells[kind]), None)
        if transfer is None or transfer.tells[kind] != cores:
            expected = 0 if transfer is None else transfer.tells[kind]
            raise DifferenceError(
                f"{where}: the DMA engine must tell the cores 0x{expected:x} of an end, not 0x{cores:x}"
            )
        if transfer.pending:
            raise DifferenceError(_missing(transfer, where))
        transfer.tells[kind] = 0


def _missing(transfer: _Transfer, where: str) -> str:
    return (
        f"{where}\n  DMA engine: transfer {transfer.number} must not have ended, {len(transfer.pending)} bytes are "
        f"to be written, the first at 0x{min(transfer.pending):08x}"
    )
