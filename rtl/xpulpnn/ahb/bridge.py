from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.utils import exact_log2

from xpulpnn.ahb.ports import AhbSignature, Burst, Transfer
from xpulpnn.cluster.words import collect_words
from xpulpnn.component import Component, In, Out, PortSignature, signals
from xpulpnn.isa.machine import WORD_BYTES, XLEN

_OFFSET_BITS = exact_log2(WORD_BYTES)
_DATA, _FETCH = 3, 2  # protection
_ALIGNED = (0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b1100, 0b1111)  # enabled bytes of a single transfer


class AhbBridge(Component):
    """AHB-Lite manager for a port: OBI, fetches of a core, or lines of an instruction cache.

    One access is outstanding at a time; AHB-Lite sees its address in the cycle after its grant. It is answered in the
    cycle in which its last transfer ends; the next access is granted in that cycle. A line is a burst of words. Where
    the enabled bytes are no aligned byte, half-word or word, a write is two transfers, the lower first, and a read is
    one of the whole word, as is a write of no byte. A failed transfer ends a write, but no burst. Reset drops the
    outstanding access.
    """

    def __init__(self, signature: PortSignature):
        self.words = len(signature.create().rdata) // XLEN  # words of an access
        self.module_variant = f"{XLEN * self.words}"
        #: port: Accesses to answer.
        #: bus: AHB-Lite port.
        super().__init__(ports={"port": In(signature), "bus": Out(AhbSignature())})

    def elaborate(self, platform):
        m = Module()
        port, bus = self.port, self.bus
        granted, requested, in_data_phase, ended = signals(1, "granted requested in_data_phase ended")
        m.d.comb += [
            granted.eq(port.req & port.gnt),
            port.gnt.eq(~requested & (~in_data_phase | bus.hready)),
            ended.eq(in_data_phase & bus.hready),
        ]
        with m.If(bus.hready):
            m.d.sync += in_data_phase.eq(requested)
        with m.If(requested):
            m.d.comb += bus.htrans.eq(Transfer.NONSEQ)
        if "we" in port.signature.members:
            self._bytes(m, granted, requested, ended)
        else:
            self._words(m, granted, requested, ended)
        return m

    def _place(self, m, granted, low):
        """Store the address of an access, and drive the bus with it; ``low`` are the bits of the current transfer."""
        # an address may be a line number instead of a byte address
        place = Signal(XLEN - len(low), name="place")
        with m.If(granted):
            m.d.sync += place.eq(self.port.addr[-len(place) :])
        m.d.comb += self.bus.haddr.eq(Cat(low, place))

    def _words(self, m, granted, requested, ended):
        port, bus = self.port, self.bus
        left = Signal(range(self.words + 1))  # words without an address phase
        collect_words(m, port, ended, bus.hrdata, bus.hresp)
        m.d.comb += [requested.eq(left.any()), bus.hsize.eq(_OFFSET_BITS), bus.hprot.eq(_FETCH)]
        with m.If(granted):
            m.d.sync += left.eq(self.words)
        with m.Elif(requested & bus.hready):
            m.d.sync += left.eq(left - 1)
        self._place(m, granted, Cat(Const(0, _OFFSET_BITS), (-left)[: exact_log2(self.words)]))
        if self.words > 1:
            m.d.comb += bus.hburst.eq(Burst.INCR4)
            with m.If(requested & (left != self.words)):
                m.d.comb += bus.htrans.eq(Transfer.SEQ)

    def _bytes(self, m, granted, requested, ended):
        port, bus = self.port, self.bus
        left, now = signals(WORD_BYTES, "left now")  # bytes without an address phase, and those of the current one
        offset = Signal(_OFFSET_BITS)
        collect_words(m, port, ended & ~requested, bus.hrdata, bus.hresp)
        writes = port.we & port.be.any()
        m.d.comb += [requested.eq(left.any()), bus.hprot.eq(_DATA)]
        for half in (2, 0):  # the lower half wins
            with m.If(left[half : half + 2].any()):
                both = left[half : half + 2].all()
                m.d.comb += [
                    bus.hsize.eq(both),
                    offset.eq(half | ~left[half]),
                    now.eq(Mux(left[half], 1 | both << 1, 2) << half),
                ]
        with m.If(left.all()):
            m.d.comb += [bus.hsize.eq(_OFFSET_BITS), now.eq(-1)]
        self._place(m, granted, offset)
        with m.If(granted):
            aligned = Cat(port.be == enables for enables in _ALIGNED).any()
            m.d.sync += [bus.hwrite.eq(writes), bus.hwdata.eq(port.wdata), left.eq(Mux(writes | aligned, port.be, -1))]
        with m.Elif(bus.hresp):
            # in the first of the two cycles of an error the next address can be withdrawn
            m.d.sync += left.eq(0)
        with m.Elif(bus.hready):
            m.d.sync += left.eq(left & ~now)
