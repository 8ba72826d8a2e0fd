from amaranth.hdl import Module, Mux, Signal
from amaranth.utils import exact_log2

from xpulpnn.cluster.dma.access_queue import OUTSTANDING
from xpulpnn.cluster.dma.chunk import WINDOW_BYTES
from xpulpnn.cluster.ports import WRITE_BLOCK_BYTES, DmaPortSignature
from xpulpnn.component import Component, In, Out, signals

REQUEST_FIELDS = ("addr", "we", "be", "wdata", "beats")


class ExternalShare(Component):
    """Arbitrates reads and writes for the external port; writes win, and up to 16 transfers are outstanding.

    Combinational. A request stays until it is granted. Writes that are announced as a run and are in one aligned block
    of 64 bytes are granted without a read between them, since a bridge may answer them all together.
    """

    #: reads, writes: Accesses of the reading and of the writing side of the engine.
    reads: In(DmaPortSignature())
    writes: In(DmaPortSignature())
    ext: Out(DmaPortSignature())  #: External port.

    def elaborate(self, platform):
        m = Module()
        ext = self.ext
        writing, reading_on, granted, within, ends = signals(1, "writing reading_on granted within ends")
        under_way = Signal(range(OUTSTANDING + 1))
        for_writes, later = signals(OUTSTANDING, "for_writes later")
        window = self.writes.addr[exact_log2(WINDOW_BYTES) : exact_log2(WRITE_BLOCK_BYTES)]
        m.d.comb += [
            writing.eq(within | self.writes.req & ~reading_on),
            ends.eq(window.all() | (self.writes.beats == 1)),
            ext.req.eq((self.writes.req | self.reads.req & ~within) & (under_way != OUTSTANDING)),
            granted.eq(ext.req & ext.gnt),
            self.writes.gnt.eq(granted & writing),
            self.reads.gnt.eq(granted & ~writing),
        ]
        for name in REQUEST_FIELDS:
            m.d.comb += getattr(ext, name).eq(Mux(writing, getattr(self.writes, name), getattr(self.reads, name)))
        m.d.sync += reading_on.eq(ext.req & ~ext.gnt & ~writing)
        with m.If(self.writes.req & self.writes.gnt):
            m.d.sync += within.eq(~ends)
        # oldest in bit 0
        place = Signal.like(under_way)
        m.d.comb += [
            later.eq(for_writes >> ext.rvalid),
            place.eq(under_way - ext.rvalid),
            self.writes.rvalid.eq(ext.rvalid & for_writes[0]),
            self.reads.rvalid.eq(ext.rvalid & ~for_writes[0]),
        ]
        for port in (self.reads, self.writes):
            m.d.comb += [port.rdata.eq(ext.rdata), port.err.eq(ext.err)]
        m.d.sync += [
            under_way.eq(place + granted),
            for_writes.eq(later & ~(1 << place)[:OUTSTANDING] | (granted & writing) << place),
        ]
        return m
