"""Transfers of the DMA engine: from the words of a command to the bytes that move (guide, "The DMA engine")."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xpulpnn.config import EXT_DATA_BITS, TCDM_SPACE
from xpulpnn.isa.cluster import DMA_LENGTH_BITS, TCDM_BASE, DmaCommand
from xpulpnn.isa.machine import WORD_MASK

Addresses = npt.NDArray[np.uint32]

_WINDOW_BYTES = EXT_DATA_BITS // 8
_LENGTH_MASK = (1 << DMA_LENGTH_BITS) - 1
_PLAIN_WORDS = 3
_LINE_WORDS = 2


class Moves(NamedTuple):
    """The bytes of a transfer in their order: the address each comes from and the one it goes to."""

    sources: Addresses
    targets: Addresses


class _Side(NamedTuple):
    base: int
    line: int
    stride: int


def word_count(command: int) -> int:
    """Words of a command, by its first."""
    return _PLAIN_WORDS + sum(_LINE_WORDS for lines in (DmaCommand.EXTERNAL_2D, DmaCommand.TCDM_2D) if command & lines)


def _addresses(side: _Side, length: int) -> npt.NDArray[np.int64]:
    byte = np.arange(length, dtype=np.int64)
    count = side.line or max(length, 1)
    return side.base + byte // count * side.stride + byte % count


def _in_tcdm(addresses: npt.NDArray[np.int64]) -> Addresses:
    return (TCDM_BASE + addresses % TCDM_SPACE).astype(np.uint32)


def _fixed(side: _Side, length: int) -> npt.NDArray[np.int64]:
    """Addresses if those of each line stay within the window of its first byte."""
    starts = _addresses(side, length)
    count = side.line or max(length, 1)
    byte = np.arange(length, dtype=np.int64) % count
    first = starts - byte
    return first + byte % (_WINDOW_BYTES - first % _WINDOW_BYTES)


def moves(words: Sequence[int]) -> Moves:
    """What the command that ``words`` spell moves.

    Addresses of the TCDM are reduced to its 1 MiB at the base. An external address there makes both sides inside.
    """
    command, tcdm_address, ext_address, *lines = words
    length = command & _LENGTH_MASK
    sides: list[_Side] = []
    for flag, base in ((DmaCommand.EXTERNAL_2D, ext_address), (DmaCommand.TCDM_2D, tcdm_address)):
        count, stride = (lines.pop(0), lines.pop(0)) if command & flag else (0, 0)
        sides.append(_Side(base, count & _LENGTH_MASK, stride))
    outside, inside = sides
    external = (_addresses if command & DmaCommand.INCREMENT else _fixed)(outside, length)
    if ext_address // TCDM_SPACE == TCDM_BASE // TCDM_SPACE:
        there = _in_tcdm(external)
    else:
        there = (external & WORD_MASK).astype(np.uint32)
    here = _in_tcdm(_addresses(inside, length))
    return Moves(there, here) if command & DmaCommand.FROM_EXTERNAL else Moves(here, there)
