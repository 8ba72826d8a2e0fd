from amaranth.hdl import Module
from amaranth.lib import stream

from xpulpnn.cluster.dma.access_queue import HALVES, AccessQueue
from xpulpnn.cluster.dma.aligner import Aligner
from xpulpnn.cluster.dma.chunk import OFFSET_BITS, Errand, enables
from xpulpnn.cluster.dma.external_share import ExternalShare
from xpulpnn.cluster.dma.line_walker import LineWalker
from xpulpnn.cluster.dma.reader import Reader
from xpulpnn.cluster.ports import DmaPortSignature
from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped, set_and_clear, signals
from xpulpnn.core.obi import ObiSignature


class Engine(Component):
    """Copies bytes from sources to targets: eight per cycle where both have whole aligned blocks of 8 bytes.

    The writes of a transfer begin when all writes of the previous transfer are answered. Reads run ahead, so a transfer
    may read bytes that an earlier transfer has not yet written: software that needs the order waits for the end of the
    earlier transfer.
    """

    #: sources, targets: Bytes to read and bytes to write, of the same transfers in the same order.
    sources: In(stream.Signature(Errand))
    targets: In(stream.Signature(Errand))
    done: Out(1)  #: The last accepted target has ended: all bytes are written.
    reads: Out(ObiSignature()).array(HALVES)  #: Ports that read the even and the odd words of the TCDM.
    writes: Out(ObiSignature()).array(HALVES)  #: Ports that write the even and the odd words of the TCDM.
    ext: Out(DmaPortSignature())  #: External port.

    def __init__(self, *, registered: bool = False):
        self.registered = registered  # chunks of both sides come from registers
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.source = source = LineWalker(registered=self.registered)
        m.submodules.target = target = LineWalker(registered=self.registered)
        m.submodules.reader = reader = Reader()
        m.submodules.aligner = aligner = Aligner()
        m.submodules.writer = writer = AccessQueue(writes=True)
        m.submodules.share = share = ExternalShare()
        connect(m, flipped(self.sources), source.errand)
        connect(m, source.chunk, reader.chunk)
        connect(m, reader.row, aligner.row)
        connect(m, reader.ext, share.reads)
        connect(m, writer.ext, share.writes)
        connect(m, share.ext, flipped(self.ext))
        for half in range(HALVES):
            connect(m, reader.tcdm[half], flipped(self.reads[half]))
            connect(m, writer.tcdm[half], flipped(self.writes[half]))

        chunk, access = target.chunk.payload, writer.access
        m.d.comb += [
            aligner.offset.eq(chunk.address[:OFFSET_BITS]),
            aligner.size.eq(chunk.size),
            access.valid.eq(target.chunk.valid & aligner.valid),
            target.chunk.ready.eq(access.ready & aligner.valid),
            aligner.take.eq(access.valid & access.ready),
            *assign_by_name(access.payload, chunk, "external", "address", "beats"),
            access.payload.be.eq(enables(chunk)),
            access.payload.wdata.eq(aligner.data),
        ]
        under_way, idle = signals(1, "under_way idle")
        m.d.comb += [
            idle.eq(~target.busy & writer.idle),
            self.done.eq(under_way & idle),
            target.errand.payload.eq(self.targets.payload),
            target.errand.valid.eq(self.targets.valid & ~under_way),
            self.targets.ready.eq(target.errand.ready & ~under_way),
        ]
        set_and_clear(m, under_way, self.targets.valid & self.targets.ready, self.done)
        return m
