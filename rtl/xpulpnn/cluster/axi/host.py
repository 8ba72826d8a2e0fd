from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO
from amaranth.utils import exact_log2

from xpulpnn.cluster.axi.ports import BURST_FIXED, BURST_WRAPPING, AxiSignature
from xpulpnn.component import Component, In, Out, set_and_clear, signals
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.machine import WORD_BYTES, XLEN

_READ_DEPTH, _WRITE_DEPTH = 4, 2  # words of the queues, enough for one in every cycle
_WRAPPED_BITS = exact_log2(16 * WORD_BYTES)  # address bits in a wrapping burst, which has at most 16 transfers


class AxiHost(Component):
    """AXI4 subordinate that makes an access to an OBI port of each transfer, one after the other.

    One burst is under way at a time, of any kind and length, with transfers of 1, 2 or 4 bytes; reads and writes take
    turns. The first access is requested in the cycle after its address at the earliest, each further one in the cycle
    in which the one before is answered. Transfers that read are accesses to the whole word. An access that fails is
    SLVERR, of its transfer if it reads, else of the burst. Exclusive accesses are normal ones, ``wlast`` is not looked
    at. Nothing is accepted in reset, nor in the cycle after it.
    """

    def __init__(self, id_bits: int = 1):
        #: axi: Bursts to answer.
        #: port: Accesses to words.
        super().__init__(ports={"axi": In(AxiSignature(XLEN, id_bits=id_bits)), "port": Out(ObiSignature())})

    def elaborate(self, platform):
        m = Module()
        axi, port = self.axi, self.port
        m.submodules.read_data = read_data = SyncFIFO(width=XLEN + 2, depth=_READ_DEPTH)
        m.submodules.write_data = write_data = SyncFIFO(width=XLEN + WORD_BYTES, depth=_WRITE_DEPTH)
        busy, writing, failed, under_way, granted, ends = signals(1, "busy writing failed under_way granted ends")
        awake = Signal()  # nothing is accepted in reset, which may end later than that of the manager
        m.d.sync += awake.eq(1)
        left = Signal(len(axi.arlen) + 1)  # transfers that are not requested yet
        # the answer to a read that is under way needs a place too
        free = read_data.level + under_way < _READ_DEPTH
        m.d.comb += [
            axi.awready.eq(awake & ~busy & axi.awvalid & (~axi.arvalid | ~writing)),
            axi.arready.eq(awake & ~busy & axi.arvalid & ~axi.awready),
            axi.wready.eq(awake & write_data.w_rdy),
            write_data.w_en.eq(axi.wvalid & awake),
            write_data.w_data.eq(Cat(axi.wdata, axi.wstrb)),
            write_data.r_en.eq(granted & writing),
            granted.eq(port.req & port.gnt),
            port.req.eq(left.any() & (~under_way | port.rvalid) & Mux(writing, write_data.r_rdy, free)),
            port.we.eq(writing),
            port.wdata.eq(Mux(writing, write_data.r_data[:XLEN], 0)),
            port.be.eq(Mux(writing, write_data.r_data[XLEN:], -1)),
            ends.eq(port.rvalid & ~left.any()),
            read_data.w_en.eq(port.rvalid & ~writing),
            read_data.w_data.eq(Cat(port.rdata, port.err, ends)),
            read_data.r_en.eq(axi.rready),
            axi.rvalid.eq(read_data.r_rdy),
            Cat(axi.rdata, axi.rresp[-1], axi.rlast).eq(read_data.r_data),
            axi.bresp[-1].eq(failed),
        ]
        set_and_clear(m, under_way, granted, port.rvalid)
        set_and_clear(m, axi.bvalid, ends & writing, axi.bready)
        with m.If(port.rvalid & port.err):
            m.d.sync += failed.eq(1)
        with m.If(axi.bvalid & axi.bready | axi.rvalid & axi.rready & axi.rlast):
            m.d.sync += busy.eq(0)
        with m.If(granted):
            m.d.sync += left.eq(left - 1)
        self._bursts(m, granted, left, busy, writing, failed)
        return m

    def _bursts(self, m, granted, left, busy, writing, failed):
        """Store what AXI tells of a burst, and build the address of each transfer."""
        axi = self.axi
        begun = {
            name: Mux(axi.awready, getattr(axi, f"aw{name}"), getattr(axi, f"ar{name}"))
            for name in ("id", "addr", "len", "size", "burst")
        }
        identifier, size, kind = (Signal.like(begun[name], name=name) for name in ("id", "size", "burst"))
        address, following = signals(XLEN, "address following")
        step = Signal(range(WORD_BYTES + 1))
        wrapping = Signal(_WRAPPED_BITS)  # address bits that change in a wrapping burst
        wrapped = address[:_WRAPPED_BITS] & ~wrapping | following[:_WRAPPED_BITS] & wrapping
        m.d.comb += [
            step.eq(1 << size),
            following.eq((address & ~(step - 1)) + step),
            self.port.addr.eq(Cat(Const(0, exact_log2(WORD_BYTES)), address[exact_log2(WORD_BYTES) :])),
            axi.rid.eq(identifier),
            axi.bid.eq(identifier),
        ]
        with m.If(granted & (kind != BURST_FIXED)):
            m.d.sync += address.eq(following)
            with m.If(kind == BURST_WRAPPING):
                m.d.sync += address.eq(Cat(wrapped, address[_WRAPPED_BITS:]))
        with m.If(axi.awready | axi.arready):
            m.d.sync += [
                busy.eq(1),
                failed.eq(0),
                writing.eq(axi.awready),
                left.eq(begun["len"] + 1),
                identifier.eq(begun["id"]),
                address.eq(begun["addr"]),
                size.eq(begun["size"]),
                kind.eq(begun["burst"]),
                wrapping.eq(((begun["len"] + 1) << begun["size"]) - 1),
            ]
