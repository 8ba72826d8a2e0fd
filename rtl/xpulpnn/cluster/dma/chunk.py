"""Structures that describe bytes of a transfer inside the DMA engine."""

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import data

from xpulpnn.cluster.ports import DmaPortSignature
from xpulpnn.config import EXT_DATA_BITS
from xpulpnn.isa.cluster import DMA_LENGTH_BITS
from xpulpnn.isa.machine import BYTE_BITS, XLEN

WINDOW_BYTES = EXT_DATA_BITS // BYTE_BITS
"""Bytes of a window, the aligned block that the DMA engine can move in a cycle."""

OFFSET_BITS = (WINDOW_BYTES - 1).bit_length()
BEATS = DmaPortSignature().members["beats"].shape


class Side(data.Struct):
    """Addresses of the bytes that a transfer reads, or of the bytes that it writes."""

    external: 1  # the side is external; else it is the TCDM
    fixed: 1  # all windows have the same address: a port of a peripheral
    address: XLEN  # address of the first byte
    in_lines: 1  # lines of ``count`` bytes at a distance of ``stride`` bytes; else one line of all bytes
    count: DMA_LENGTH_BITS
    stride: XLEN


class Errand(data.Struct):
    """Transfer as the reading or the writing side of the DMA engine sees it."""

    side: Side
    length: DMA_LENGTH_BITS  # bytes


class Chunk(data.Struct):
    """Bytes of a transfer in one window, an aligned block of 8 bytes."""

    external: 1
    address: XLEN  # address of the first byte
    size: range(WINDOW_BYTES + 1)  # number of bytes, 1 to 8, which do not cross the end of the window
    beats: BEATS  # remaining chunks of the run, on the external side


class Row(data.Struct):
    """A window that was read, and the position of its valid bytes."""

    data: EXT_DATA_BITS
    offset: OFFSET_BITS
    size: range(WINDOW_BYTES + 1)


def window(address: Value) -> Value:
    return Cat(Const(0, OFFSET_BITS), address[OFFSET_BITS:])


def enables(chunk) -> Value:
    mask = Cat(chunk.size > byte for byte in range(WINDOW_BYTES))
    return (mask << chunk.address[:OFFSET_BITS])[:WINDOW_BYTES]
