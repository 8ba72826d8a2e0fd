"""Checks the bytes that the DMA engine of a cluster moves, and the notifications it sends.

Every byte written must belong to a command and have a value that its source has had since the command. When the engine
reports the end of a transfer, all of its bytes must have been written.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import TCDM_SPACE, ClusterConfig
from xpulpnn.isa.cluster import BLOCK_BYTES, DMA, NO_MASTER, PRIVATE_DMA, TCDM_BASE, Dma
from xpulpnn.isa.machine import BYTE_BITS, BYTE_MASK, WORD_BYTES
from xpulpnn_sim.cosimulation.checks.events import DeviceAccess, device_accesses, line_events
from xpulpnn_sim.cosimulation.checks.retirements import Checker
from xpulpnn_sim.cosimulation.model.machine import Memory
from xpulpnn_sim.cosimulation.model.model import Block, Windows
from xpulpnn_sim.reference.golden.dma import moves, notified_cores, word_count
from xpulpnn_sim.reference.programs.exits import DifferenceError, NameOf

_ANSWER = 1  # cycles between the grant of an access at a command port and its retirement

_PATIENCE = 10_000  # cycles after the last byte within which the end of a transfer must be reported

_PORTS = 4
_STATUS_IDS = 16
_LANES = np.arange(WORD_BYTES)
_WRITE, _LINES, _ACCESS = range(3)  # kinds of events, in their order within a cycle


@dataclass(slots=True)
class _Transfer:
    number: int  # identifier
    notifies: list[int]  # masks of the cores still to be notified of the end by event and by interrupt
    pending: dict[int, list[int]]  # source addresses of the bytes not yet written, by target address
    allowed: dict[int, bytes]  # values of each source byte since the command was complete
    ended: int | None = None  # cycle of the last byte


class DmaCheck(Checker):
    def __init__(self, config: ClusterConfig, memory: Windows, name_of: NameOf = lambda pc: "") -> None:
        self._cores = config.cores
        self._tcdm_bytes = config.tcdm_bytes
        self._memory = Memory(memory)
        self._name_of = name_of
        self._transfers: list[_Transfer] = []
        self._words: dict[int, list[int]] = {}
        self._given: dict[int, int] = {}
        self._owners: dict[int, int] = {}
        self._late: list[tuple[int, int, Any]] = []

    def __call__(self, block: Block) -> None:
        """Check the events of a block; those of the last cycle are checked together with the next block."""
        last = [int(block.records(core)["cycle"][-1]) for core in range(self._cores) if block.filled[core]]
        if not last:
            return
        grants = block.grants
        writes = grants[(grants["hart"] <= NO_MASTER) & (grants["we"] != 0)]
        rest = [(cycle, _LINES, (kind, word)) for cycle, kind, word in line_events(grants) if kind < 2]
        for core in range(self._cores):
            rest += [
                (access.retired - _ANSWER, _ACCESS, (access, port))
                for access in device_accesses(block, core)
                if (port := self._port(access)) is not None
            ]
        if not (rest or self._late or self._transfers or self._words):
            self._apply_all(writes)
            return
        rest += [(int(write["cycle"]), _WRITE, write) for write in writes]
        happened = sorted(self._late + rest, key=lambda event: event[:2])
        end = max(last) - _ANSWER
        self._late = [event for event in happened if event[0] >= end]
        for cycle, kind, what in happened[: len(happened) - len(self._late)]:
            if kind == _WRITE:
                self._write(cycle, what)
            elif kind == _LINES:
                self._notified(cycle, *what)
            elif what[0].write:
                self._store(*what)
            else:
                self._load(*what)
        for transfer in self._transfers:
            if any(transfer.notifies) and transfer.ended is not None and transfer.ended + _PATIENCE < end:
                raise DifferenceError(
                    f"difference in cycle {end}: the end of transfer {transfer.number} of the DMA engine in cycle "
                    f"{transfer.ended} must be reported"
                )
        self._transfers = [transfer for transfer in self._transfers if transfer.pending or any(transfer.notifies)]

    def _port(self, access: DeviceAccess) -> int | None:
        """Return the command port of an access: a core's number, the number of cores for the shared port, or None."""
        if PRIVATE_DMA <= access.address < PRIVATE_DMA + BLOCK_BYTES:
            return access.core
        return self._cores if DMA <= access.address < DMA + BLOCK_BYTES else None

    def _apply_all(self, writes: NDArray[Any]) -> None:
        """Apply stores to the memory model at once; if several write the same byte, the last one counts."""
        for base, content in self._memory.pieces.items():
            at = writes["address"].astype(np.int64) - base
            inside = writes[(at >= 0) & (at < content.size)]
            at = inside["address"].astype(np.int64) - base
            for lane in _LANES.tolist():
                enabled = inside["be"] >> lane & 1 != 0
                content[at[enabled] + lane] = (inside["wdata"][enabled] >> BYTE_BITS * lane).astype(np.uint8)

    def _write(self, cycle: int, write: Any) -> None:
        address, enables, value = int(write["address"]), int(write["be"]), int(write["wdata"])
        moved = self._cores <= int(write["hart"]) < self._cores + _PORTS
        for lane in range(WORD_BYTES):
            if not enables >> lane & 1:
                continue
            byte = value >> BYTE_BITS * lane & BYTE_MASK
            if moved:
                self._moved(cycle, address + lane, byte)
            if self._memory.inside(address + lane, 1):
                self._memory.write(address + lane, bytes([byte]))
            for transfer in self._transfers:
                if byte not in transfer.allowed.get(address + lane, range(256)):
                    transfer.allowed[address + lane] += bytes([byte])

    def _moved(self, cycle: int, address: int, value: int) -> None:
        """Check a byte that the engine writes: a transfer must expect it, and the source must have had its value."""
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

    def _store(self, access: DeviceAccess, port: int) -> None:
        if access.address % BLOCK_BYTES == Dma.STATUS:
            for number in range(_STATUS_IDS):
                if access.data >> number & 1:
                    self._owners.pop(number, None)
            return
        words = self._words.setdefault(port, [])
        words.append(access.data)
        if len(words) == word_count(words[0]):
            del self._words[port]
            self._begin(port, words, access.retired)

    def _begin(self, port: int, words: list[int], cycle: int) -> None:
        sources, targets = (
            # addresses past the end of the TCDM continue at its start
            np.where(side - np.uint32(TCDM_BASE) < TCDM_SPACE, TCDM_BASE + side % self._tcdm_bytes, side).tolist()
            for side in moves(words)
        )
        pending: dict[int, list[int]] = {}
        for source, target in zip(sources, targets, strict=True):
            pending.setdefault(target, []).append(source)
        allowed = {
            source: self._memory.read(source, 1) if self._memory.inside(source, 1) else bytes(1) for source in sources
        }
        notifies, ended = [*notified_cores(words[0], port, self._cores)], None if pending else cycle
        self._transfers.append(_Transfer(self._given.get(port, 0), notifies, pending, allowed, ended))

    def _load(self, access: DeviceAccess, port: int) -> None:
        if access.address % BLOCK_BYTES == Dma.COMMAND:
            owner = self._owners.get(access.data)
            if owner is not None or any(each.pending for each in self._transfers if each.number == access.data):
                raise DifferenceError(
                    f"{access.where(self._name_of)}\n"
                    f"  DMA engine: the identifier given away must be free, not {access.data}, which port "
                    f"{owner if owner is not None else 'of an earlier command'} has"
                )
            self._owners[access.data] = port
            self._given[port] = access.data
            return
        if access.address % BLOCK_BYTES != Dma.STATUS:
            return
        status = access.data << BYTE_BITS * (access.address % WORD_BYTES)
        for number, owner in self._owners.items():
            if owner == port and not status >> _STATUS_IDS + number & 1:
                raise DifferenceError(
                    f"{access.where(self._name_of)}\n  DMA engine: identifier {number} must be allocated, not free"
                )
        for transfer in self._transfers:
            # status 0: all transfers of the identifier are done
            if transfer.pending and not status >> transfer.number & 1:
                raise DifferenceError(_missing(transfer, access.where(self._name_of)))

    def _notified(self, cycle: int, kind: int, cores: int) -> None:
        where = f"difference in cycle {cycle}"
        transfer = next((pending for pending in self._transfers if pending.notifies[kind]), None)
        if transfer is None or transfer.notifies[kind] != cores:
            expected = 0 if transfer is None else transfer.notifies[kind]
            raise DifferenceError(
                f"{where}: the DMA engine must notify the cores 0x{expected:x} of an end, not 0x{cores:x}"
            )
        if transfer.pending:
            raise DifferenceError(_missing(transfer, where))
        transfer.notifies[kind] = 0


def _missing(transfer: _Transfer, where: str) -> str:
    return (
        f"{where}\n  DMA engine: transfer {transfer.number} must not have ended, {len(transfer.pending)} bytes are "
        f"to be written, the first at 0x{min(transfer.pending):08x}"
    )
