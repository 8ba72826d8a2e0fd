from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.utils import exact_log2

from xpulpnn.cluster.dma.chunk import BEATS, OFFSET_BITS, WINDOW_BYTES, Chunk, Errand
from xpulpnn.cluster.ports import RUN_BYTES
from xpulpnn.component import Component, In, Out


class LineWalker(Component):
    """Divides the lines of a transfer into chunks, the bytes of a line that lie in one window.

    A window is an aligned block of 8 bytes. One chunk per cycle. A line length of 0 means one line of all bytes; a
    transfer of no bytes has no chunks. The windows of a line up to the next multiple of 256 bytes form a run, which a
    bridge may make a burst; with a fixed address every chunk is a run of its own.
    """

    errand: In(stream.Signature(Errand))  #: Side to divide; accepted when the one before is done.
    busy: Out(1)  #: Chunks are left.
    chunk: Out(stream.Signature(Chunk))  #: The next chunk.

    def __init__(self, *, registered: bool = False):
        self.registered = registered  # chunks come from a register, a cycle later
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        errand, side = self.errand.payload, self.errand.payload.side
        way = Signal(Errand)
        line_left = Signal.like(errand.length)
        address = Signal.like(side.address)
        left = way.length
        chunk, goes = self._offered(m, left)

        nearest = Signal.like(left)
        room = Signal.like(chunk.size)
        offset = address[:OFFSET_BITS]
        m.d.comb += [
            nearest.eq(Mux(line_left < left, line_left, left)),
            room.eq(WINDOW_BYTES - offset),
            chunk.external.eq(way.side.external),
            chunk.address.eq(address),
            chunk.size.eq(Mux(nearest < room, nearest, room)),
        ]
        self._beats(m, chunk.beats, way.side.fixed, address, nearest)

        line_start = way.side.address
        next_line = Signal.like(address)
        one_line = Signal()
        line = Signal.like(line_left)
        m.d.comb += [
            next_line.eq(line_start + way.side.stride),
            one_line.eq(~side.in_lines | ~side.count.any()),
            line.eq(side.count | one_line.replicate(len(line))),
        ]
        with m.If(self.errand.valid & self.errand.ready):
            m.d.sync += [way.eq(errand), way.side.count.eq(line), line_left.eq(line), address.eq(side.address)]
        with m.Elif(goes):
            m.d.sync += left.eq(left - chunk.size)
            with m.If(line_left == chunk.size):
                m.d.sync += [line_left.eq(way.side.count), line_start.eq(next_line), address.eq(next_line)]
            with m.Else():
                m.d.sync += line_left.eq(line_left - chunk.size)
                with m.If(~way.side.fixed):
                    m.d.sync += address.eq(Cat(Const(0, OFFSET_BITS), address[OFFSET_BITS:] + 1))
        return m

    def _offered(self, m, left):
        if not self.registered:
            m.d.comb += [self.busy.eq(left.any()), self.errand.ready.eq(~self.busy), self.chunk.valid.eq(self.busy)]
            return self.chunk.payload, self.chunk.ready & self.busy
        made = Signal(Chunk)
        free = ~self.chunk.valid | self.chunk.ready
        with m.If(free):
            m.d.sync += [self.chunk.valid.eq(left.any()), self.chunk.payload.eq(made)]
        m.d.comb += [self.busy.eq(left.any() | self.chunk.valid), self.errand.ready.eq(~left.any())]
        return made, free & left.any()

    def _beats(self, m, beats, fixed, address, nearest):
        """Count the windows that are left in the run: up to the end of the line or the next multiple of 256 bytes."""
        block_windows = RUN_BYTES // WINDOW_BYTES
        touched = Signal(len(nearest) + 1)
        windows = touched[OFFSET_BITS:]
        in_block = Signal(BEATS)
        m.d.comb += [
            touched.eq(nearest + address[:OFFSET_BITS] + WINDOW_BYTES - 1),
            in_block.eq(block_windows - address[OFFSET_BITS : exact_log2(RUN_BYTES)]),
            beats.eq(Mux(fixed, 1, Mux(windows < in_block, windows, in_block))),
        ]
