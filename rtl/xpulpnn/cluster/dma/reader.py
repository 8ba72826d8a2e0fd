from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory

from xpulpnn.cluster.dma.access_queue import HALVES, OUTSTANDING, AccessQueue
from xpulpnn.cluster.dma.chunk import OFFSET_BITS, Chunk, Row, enables
from xpulpnn.cluster.ports import DmaPortSignature
from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped, signals
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.machine import XLEN

ROWS = OUTSTANDING  # largest number of windows requested and not delivered


class Reader(Component):
    """Reads chunks ahead of the writes and delivers them in order.

    A chunk lies in one window, an aligned block of 8 bytes. At most 16 windows are requested or stored. At a change
    between TCDM and external memory, reading waits until all answers have come. Reads one window per cycle, with a
    latency of two cycles more than that of the memory.
    """

    chunk: In(stream.Signature(Chunk))  #: Chunks to read.
    row: Out(stream.Signature(Row))  #: Windows that were read.
    tcdm: Out(ObiSignature()).array(HALVES)  #: Ports of the even and of the odd words of the TCDM.
    ext: Out(DmaPortSignature())  #: External port.

    def elaborate(self, platform):
        m = Module()
        m.submodules.accesses = accesses = AccessQueue(writes=False)
        for inner, outer in zip(accesses.tcdm, self.tcdm, strict=True):
            connect(m, inner, flipped(outer))
        connect(m, accesses.ext, flipped(self.ext))
        # positions in the ring, with one bit more to tell full from empty
        requested = Signal(range(2 * ROWS))
        delivered = Signal(range(2 * ROWS))
        external, may_go = signals(1, "external may_go")
        chunk, row = self.chunk.payload, self.row.payload
        access = accesses.access
        occupied = Signal.like(requested)
        m.d.comb += [
            occupied.eq(requested - delivered),
            may_go.eq((occupied != ROWS) & ((chunk.external == external) | accesses.idle)),
            access.valid.eq(self.chunk.valid & may_go),
            self.chunk.ready.eq(access.ready & may_go),
            *assign_by_name(access.payload, chunk, "external", "address"),
            access.payload.be.eq(enables(chunk)),
            access.payload.beats.eq(chunk.beats),
        ]
        which = data.StructLayout({"offset": OFFSET_BITS, "size": len(chunk.size)})
        m.submodules.parts = parts = Memory(shape=which, depth=ROWS, init=[])
        written, read = parts.write_port(), parts.read_port(domain="comb")
        m.d.comb += [
            written.en.eq(access.valid & access.ready),
            written.addr.eq(requested),
            written.data.offset.eq(chunk.address),
            written.data.size.eq(chunk.size),
            read.addr.eq(delivered),
            *assign_by_name(row, read.data, "offset", "size"),
        ]
        with m.If(access.valid & access.ready):
            m.d.sync += [requested.eq(requested + 1), external.eq(chunk.external)]
        filled = [self._half(m, half, delivered) for half in range(HALVES)]
        m.d.comb += self.row.valid.eq(Cat(place != delivered for place in filled).all())
        with m.If(self.row.valid & self.row.ready):
            m.d.sync += delivered.eq(delivered + 1)
        return m

    def _half(self, m, half, delivered):
        port = self.tcdm[half]
        filled = Signal(range(2 * ROWS), name=f"filled{half}")
        m.submodules[f"words{half}"] = words = Memory(shape=XLEN, depth=ROWS, init=[])
        write, read = words.write_port(), words.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.ext.rvalid | port.rvalid),
            write.addr.eq(filled),
            read.addr.eq(delivered),
            self.row.payload.data.word_select(half, XLEN).eq(read.data),
        ]
        with m.If(self.ext.rvalid):
            m.d.comb += write.data.eq(self.ext.rdata.word_select(half, XLEN))
        with m.Else():
            m.d.comb += write.data.eq(port.rdata)
        m.d.sync += filled.eq(filled + write.en)
        return filled
