"""Records by which the parts of the DMA engine describe bytes of a transfer."""

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import data

from xpulpnn.cluster.ports import DmaPortSignature
from xpulpnn.config import EXT_DATA_BITS
from xpulpnn.isa.cluster import DMA_LENGTH_BITS
from xpulpnn.isa.machine import BYTE_BITS, XLEN

WINDOW_BYTES = EXT_DATA_BITS // BYTE_BITS
"""Bytes that are moved at a time at most: an aligned window of them, on either side."""

OFFSET_BITS = (WINDOW_BYTES - 1).bit_length()
BEATS = DmaPortSignature().members["beats"].shape


class Side(data.Struct):
    """Places of the bytes of a transfer, on one of its sides."""

    external: 1  # Outside; else in the TCDM.
    fixed: 1  # All windows are the same one: a port of a peripheral.
    address: XLEN  # Address of the first byte.
    in_lines: 1  # Lines of ``count`` bytes, ``stride`` bytes from one to the next; else one line of all bytes.
    count: DMA_LENGTH_BITS
    stride: XLEN


class Errand(data.Struct):
    """Work of one side of the engine."""

    side: Side
    length: DMA_LENGTH_BITS  # Bytes.


class Chunk(data.Struct):
    """Bytes of one window."""

    external: 1
    address: XLEN  # Address of the first byte.
    size: range(WINDOW_BYTES + 1)  # Bytes, 1 to 8; none crosses the end of the window.
    beats: BEATS  # Chunks left of the run, outside.


class Row(data.Struct):
    """A window that was read, and which of its bytes count."""

    data: EXT_DATA_BITS
    offset: OFFSET_BITS
    size: range(WINDOW_BYTES + 1)


def window(address: Value) -> Value:
    """The address of the window that a byte is in."""
    return Cat(Const(0, OFFSET_BITS), address[OFFSET_BITS:])


def enables(chunk) -> Value:
    """The bytes of a :class:`Chunk` within their window, a bit each."""
    mask = Cat(chunk.size > byte for byte in range(WINDOW_BYTES))
    return (mask << chunk.address[:OFFSET_BITS])[:WINDOW_BYTES]
