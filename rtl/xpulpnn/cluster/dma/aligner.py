from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream

from xpulpnn.cluster.dma.chunk import OFFSET_BITS, WINDOW_BYTES, Row
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import EXT_DATA_BITS
from xpulpnn.isa.machine import BYTE_BITS

KEPT_BYTES = 2 * WINDOW_BYTES


class Aligner(Component):
    """Byte queue that changes the alignment of a stream: 1 to 8 bytes enter and 1 to 8 leave in every cycle.

    Entering and leaving bytes are adjacent, at any offset in a window, an aligned block of 8 bytes. Byte i of the
    stream is stored in lane i modulo 8, and a lane holds two bytes. One rotation moves entering bytes to their lanes,
    another moves leaving bytes from their lanes to a window. A byte can leave in the cycle after it entered.
    """

    row: In(stream.Signature(Row))  #: Bytes that enter.
    offset: In(OFFSET_BITS)  #: Offset in its window of the first byte that leaves.
    size: In(range(WINDOW_BYTES + 1))  #: Number of bytes that leave, 1 to 8.
    valid: Out(1)  #: The queue holds ``size`` bytes.
    take: In(1)  #: The bytes leave; only with ``valid``.
    data: Out(EXT_DATA_BITS)  #: Window with the leaving bytes, valid with ``valid``; its other bytes are undefined.

    def elaborate(self, platform):
        m = Module()
        lanes = [[Signal(BYTE_BITS, name=f"lane{lane}_{deep}") for deep in range(2)] for lane in range(WINDOW_BYTES)]
        read, write = signals(range(KEPT_BYTES), "read write")
        count = Signal(range(KEPT_BYTES + 1))
        leaving, coming = signals(self.size.shape(), "leaving coming")
        row = self.row.payload
        m.d.comb += [
            self.valid.eq(count >= self.size),
            leaving.eq(Mux(self.take, self.size, 0)),
            self.row.ready.eq(count - leaving + row.size <= KEPT_BYTES),
            coming.eq(Mux(self.row.valid & self.row.ready, row.size, 0)),
        ]
        m.d.sync += [count.eq(count + coming - leaving), read.eq(read + leaving), write.eq(write + coming)]

        entering, heads = signals(EXT_DATA_BITS, "entering heads")
        turn_in, turn_out = signals(OFFSET_BITS, "turn_in turn_out")
        m.d.comb += [
            turn_in.eq(write - row.offset),
            entering.eq(_rotated(m, "entering", row.data, turn_in)),
            turn_out.eq(self.offset - read),
            self.data.eq(_rotated(m, "leaving", heads, turn_out)),
        ]
        for lane, places in enumerate(lanes):
            index = Signal(OFFSET_BITS, name=f"index{lane}")
            byte = entering.word_select(lane, BYTE_BITS)
            m.d.comb += [
                index.eq(lane - write),
                heads.word_select(lane, BYTE_BITS).eq(Mux(_deep(read, lane), places[1], places[0])),
            ]
            for deep, place in enumerate(places):
                with m.If((index < coming) & (_deep(write, lane) == deep)):
                    m.d.sync += place.eq(byte)
        return m


def _deep(position, lane):
    return position[OFFSET_BITS] ^ (position[:OFFSET_BITS] > lane)


def _rotated(m, name, value, bytes_left):
    for bit in range(OFFSET_BITS):
        turned = Mux(bytes_left[bit], value.rotate_left(BYTE_BITS << bit), value)
        if bit == OFFSET_BITS - 1:
            return turned
        value = Signal(EXT_DATA_BITS, name=f"{name}_turned_{1 << bit}")
        m.d.comb += value.eq(turned)
    return value
