"""Golden model of the DMA engine: the bytes that a command moves, and its memory accesses (guide, "The DMA engine")."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xpulpnn.config import EXT_DATA_BITS, TCDM_SPACE, ClusterConfig
from xpulpnn.isa.cluster import DMA_LENGTH_BITS, TCDM_BASE, Dma, DmaCommand
from xpulpnn.isa.machine import BYTE_BITS, WORD_MASK

Addresses = npt.NDArray[np.uint32]

_WINDOW_BYTES = EXT_DATA_BITS // BYTE_BITS
_RUN_WINDOWS = 256 // _WINDOW_BYTES
_LENGTH_MASK = (1 << DMA_LENGTH_BITS) - 1
_PLAIN_WORDS = 3
_LINE_WORDS = 2
_ALLOCATED = 16  # lowest bit of the allocated identifiers in the status


class Moves(NamedTuple):
    """Source and target address of each byte of a transfer, in order."""

    sources: Addresses
    targets: Addresses

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """Yield source address, target address and length of each contiguous part of the transfer."""
        ends = [np.diff(side.astype(np.int64)) != 1 for side in self]
        starts = [0, *(np.flatnonzero(ends[0] | ends[1]) + 1).tolist(), len(self.sources)]
        for start, end in pairwise(starts):
            if end > start:
                yield int(self.sources[start]), int(self.targets[start]), end - start


class Access(NamedTuple):
    external: bool
    address: int
    enables: int  # byte enables
    beats: int  # remaining accesses of the run, in external memory


class _Side(NamedTuple):
    base: int
    line: int
    stride: int


def word_count(command: int) -> int:
    return _PLAIN_WORDS + sum(_LINE_WORDS for lines in (DmaCommand.EXTERNAL_2D, DmaCommand.TCDM_2D) if command & lines)


def _addresses(side: _Side, length: int) -> npt.NDArray[np.int64]:
    byte = np.arange(length, dtype=np.int64)
    return side.base + byte // side.line * side.stride + byte % side.line


def _in_tcdm(addresses: npt.NDArray[np.int64]) -> Addresses:
    return (TCDM_BASE + addresses % TCDM_SPACE).astype(np.uint32)


def _fixed(side: _Side, length: int) -> npt.NDArray[np.int64]:
    """Return the addresses without increment: a line repeats its first byte to the end of the byte's 8-byte word."""
    starts = _addresses(side, length)
    byte = np.arange(length, dtype=np.int64) % side.line
    first = starts - byte
    return first + byte % (_WINDOW_BYTES - first % _WINDOW_BYTES)


def moves(words: Sequence[int]) -> Moves:
    """Return the bytes that a command moves. TCDM addresses wrap at 1 MiB; both addresses may be in the TCDM."""
    (outside, inside), _ = _both_sides(words)
    return Moves(outside, inside) if words[0] & DmaCommand.FROM_EXTERNAL else Moves(inside, outside)


def _both_sides(words: Sequence[int]) -> tuple[tuple[Addresses, Addresses], tuple[int, int]]:
    """Return the external and the TCDM address of every byte, and the length of a line on each side."""
    command, tcdm_address, ext_address, *lines = words
    length = command & _LENGTH_MASK
    sides: list[_Side] = []
    for flag, base in ((DmaCommand.EXTERNAL_2D, ext_address), (DmaCommand.TCDM_2D, tcdm_address)):
        count, stride = (lines.pop(0), lines.pop(0)) if command & flag else (0, 0)
        sides.append(_Side(base, count & _LENGTH_MASK or max(length, 1), stride))
    outside, inside = sides
    external = (_addresses if command & DmaCommand.INCREMENT else _fixed)(outside, length)
    reduced = (external & WORD_MASK).astype(np.uint32) if _is_outside(ext_address) else _in_tcdm(external)
    return (reduced, _in_tcdm(_addresses(inside, length))), (outside.line, inside.line)


def _is_outside(address: int) -> bool:
    return address // TCDM_SPACE != TCDM_BASE // TCDM_SPACE


def accesses(words: Sequence[int]) -> tuple[list[Access], list[Access]]:
    """Return the reads and the writes of a command. An access ends with its 8-byte word, line or transfer; a burst ends
    at the end of the line or at a multiple of 256 bytes."""
    command, _, ext_address = words[:_PLAIN_WORDS]
    sides, lines = _both_sides(words)
    kinds = (_is_outside(ext_address), not command & DmaCommand.INCREMENT), (False, False)
    both = [list(_walk(side.tolist(), line, *kind)) for side, line, kind in zip(sides, lines, kinds, strict=True)]
    outside, inside = both
    return (outside, inside) if command & DmaCommand.FROM_EXTERNAL else (inside, outside)


def _walk(side: list[int], line: int, external: bool, fixed: bool) -> Iterator[Access]:
    byte = 0
    while byte < len(side):
        left = min(line - byte % line, len(side) - byte)
        window, offset = divmod(side[byte], _WINDOW_BYTES)
        size = min(_WINDOW_BYTES - offset, left)
        touched = (offset + left - 1) // _WINDOW_BYTES + 1
        beats = 1 if fixed else min(touched, _RUN_WINDOWS - window % _RUN_WINDOWS)
        yield Access(external, window * _WINDOW_BYTES, (1 << size) - 1 << offset, beats)
        byte += size


def notified_cores(command: int, port: int, cores: int) -> tuple[int, int]:
    """Return bit masks of the cores that the end of a transfer notifies by event and by interrupt."""
    everybody = (1 << cores) - 1
    notified = everybody if command & DmaCommand.BROADCAST else 1 << port & everybody
    return notified if command & DmaCommand.EVENT else 0, notified if command & DmaCommand.INTERRUPT else 0


class DmaModel:
    """The command ports of a DMA engine whose transfers take no time."""

    def __init__(self, config: ClusterConfig, move: Callable[[Moves], None]) -> None:
        self._cores = config.cores
        self._identifiers = config.dma_transfers
        self._move = move
        self._allocated = 0
        self._words: dict[int, list[int]] = {}
        self._waiting: set[int] = set()

    def waiting(self, port: int) -> bool:
        """Return whether a load at the port waits for an identifier and none is free."""
        return port in self._waiting and self._free() is None

    def read(self, port: int, offset: int) -> int | None:
        """Load a register; None if the load must wait for an identifier. Then :meth:`answer` returns it later."""
        if offset == Dma.STATUS:
            return self._allocated << _ALLOCATED
        if offset != Dma.COMMAND:
            return 0
        self._waiting.add(port)
        return self.answer(port)

    def answer(self, port: int) -> int | None:
        """Return the identifier for which a load at the port waits, or None if none is free."""
        number = self._free()
        if number is not None:
            self._allocated |= 1 << number
            self._waiting.discard(port)
        return number

    def write(self, port: int, offset: int, value: int) -> tuple[int, int]:
        """Store to a register. Returns bit masks of the cores notified by event and by interrupt."""
        if offset == Dma.STATUS:
            self._allocated &= ~value
        if offset != Dma.COMMAND:
            return 0, 0
        words = self._words.setdefault(port, [])
        words.append(value)
        if len(words) < word_count(words[0]):
            return 0, 0
        del self._words[port]
        self._move(moves(words))
        return notified_cores(words[0], port, self._cores)

    def _free(self) -> int | None:
        return next((number for number in range(self._identifiers) if not self._allocated >> number & 1), None)
