"""Transfers of the DMA engine: from the words of a command to the bytes that move (guide, "The DMA engine")."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xpulpnn.config import EXT_DATA_BITS, TCDM_SPACE, ClusterConfig
from xpulpnn.isa.cluster import DMA_LENGTH_BITS, TCDM_BASE, Dma, DmaCommand
from xpulpnn.isa.machine import WORD_MASK

Addresses = npt.NDArray[np.uint32]

_WINDOW_BYTES = EXT_DATA_BITS // 8
_RUN_WINDOWS = 256 // _WINDOW_BYTES
_LENGTH_MASK = (1 << DMA_LENGTH_BITS) - 1
_PLAIN_WORDS = 3
_LINE_WORDS = 2
_ALLOCATED = 16  # bit of the status from which on it tells the allocated identifiers


class Moves(NamedTuple):
    """The bytes of a transfer in their order: the address each comes from and the one it goes to."""

    sources: Addresses
    targets: Addresses

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """First source, first target and length of the pieces that lie in one line on both sides."""
        ends = [np.diff(side.astype(np.int64)) != 1 for side in self]
        starts = [0, *(np.flatnonzero(ends[0] | ends[1]) + 1).tolist(), len(self.sources)]
        for start, end in pairwise(starts):
            if end > start:
                yield int(self.sources[start]), int(self.targets[start]), end - start


class Access(NamedTuple):
    """An access of the engine to a window of eight bytes."""

    external: bool
    address: int
    enables: int  # The bytes of the window that are read or written, a bit each.
    beats: int  # Accesses left of its run, outside.


class _Side(NamedTuple):
    base: int
    line: int
    stride: int


def word_count(command: int) -> int:
    """Words of a command, by its first."""
    return _PLAIN_WORDS + sum(_LINE_WORDS for lines in (DmaCommand.EXTERNAL_2D, DmaCommand.TCDM_2D) if command & lines)


def _addresses(side: _Side, length: int) -> npt.NDArray[np.int64]:
    byte = np.arange(length, dtype=np.int64)
    return side.base + byte // side.line * side.stride + byte % side.line


def _in_tcdm(addresses: npt.NDArray[np.int64]) -> Addresses:
    return (TCDM_BASE + addresses % TCDM_SPACE).astype(np.uint32)


def _fixed(side: _Side, length: int) -> npt.NDArray[np.int64]:
    """Addresses if those of each line stay within the window of its first byte."""
    starts = _addresses(side, length)
    byte = np.arange(length, dtype=np.int64) % side.line
    first = starts - byte
    return first + byte % (_WINDOW_BYTES - first % _WINDOW_BYTES)


def moves(words: Sequence[int]) -> Moves:
    """Return the bytes that the command that ``words`` spell moves. Addresses of the TCDM are reduced to its 1 MiB at
    the base. An external address there makes both sides inside."""
    (there, here), _ = _both_sides(words)
    return Moves(there, here) if words[0] & DmaCommand.FROM_EXTERNAL else Moves(here, there)


def _both_sides(words: Sequence[int]) -> tuple[tuple[Addresses, Addresses], tuple[int, int]]:
    """Addresses of all bytes outside and inside, and the bytes of a line of each."""
    command, tcdm_address, ext_address, *lines = words
    length = command & _LENGTH_MASK
    sides: list[_Side] = []
    for flag, base in ((DmaCommand.EXTERNAL_2D, ext_address), (DmaCommand.TCDM_2D, tcdm_address)):
        count, stride = (lines.pop(0), lines.pop(0)) if command & flag else (0, 0)
        sides.append(_Side(base, count & _LENGTH_MASK or max(length, 1), stride))
    outside, inside = sides
    external = (_addresses if command & DmaCommand.INCREMENT else _fixed)(outside, length)
    there = (external & WORD_MASK).astype(np.uint32) if _is_outside(ext_address) else _in_tcdm(external)
    return (there, _in_tcdm(_addresses(inside, length))), (outside.line, inside.line)


def _is_outside(address: int) -> bool:
    return address // TCDM_SPACE != TCDM_BASE // TCDM_SPACE


def accesses(words: Sequence[int]) -> tuple[list[Access], list[Access]]:
    """Return what the engine reads and what it writes for a command: what is left of a window, of the line and of the
    transfer each time. A run ends with the line, or at a multiple of 256 bytes."""
    command, _, ext_address = words[:_PLAIN_WORDS]
    sides, lines = _both_sides(words)
    kinds = (_is_outside(ext_address), not command & DmaCommand.INCREMENT), (False, False)
    there, here = (
        list(_walk(side.tolist(), line, *kind)) for side, line, kind in zip(sides, lines, kinds, strict=True)
    )
    return (there, here) if command & DmaCommand.FROM_EXTERNAL else (here, there)


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


def told_of_end(command: int, port: int, cores: int) -> tuple[int, int]:
    """The cores that are told of the end of a transfer, by event and by interrupt, a bit each."""
    everybody = (1 << cores) - 1
    told = everybody if command & DmaCommand.BROADCAST else 1 << port & everybody
    return told if command & DmaCommand.EVENT else 0, told if command & DmaCommand.INTERRUPT else 0


class DmaModel:
    """The command ports of the engine, as software sees them if every transfer is done at once."""

    def __init__(self, config: ClusterConfig, move: Callable[[Moves], None]) -> None:
        self._cores = config.cores
        self._identifiers = config.dma_transfers
        self._move = move
        self._allocated = 0
        self._words: dict[int, list[int]] = {}
        self._waiting: set[int] = set()

    def waiting(self, port: int) -> bool:
        """Return whether the port waits for an identifier and there is still none."""
        return port in self._waiting and self._free() is None

    def read(self, port: int, offset: int) -> int | None:
        """A load; None: it waits for an identifier, see :meth:`answer`."""
        if offset == Dma.STATUS:
            return self._allocated << _ALLOCATED
        if offset != Dma.COMMAND:
            return 0
        self._waiting.add(port)
        return self.answer(port)

    def answer(self, port: int) -> int | None:
        """The identifier that the port waits for, if there is one now."""
        number = self._free()
        if number is not None:
            self._allocated |= 1 << number
            self._waiting.discard(port)
        return number

    def write(self, port: int, offset: int, value: int) -> tuple[int, int]:
        """A store; returns the cores that are told of the end of a transfer, by event and by interrupt, a bit each."""
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
        return told_of_end(words[0], port, self._cores)

    def _free(self) -> int | None:
        return next((number for number in range(self._identifiers) if not self._allocated >> number & 1), None)
