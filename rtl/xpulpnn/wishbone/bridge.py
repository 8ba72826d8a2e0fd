from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.cluster.words import collect_words
from xpulpnn.component import Component, In, Out, PortSignature, set_and_clear, signals
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn.wishbone.ports import CycleType, WishboneSignature


class WishboneBridge(Component):
    """Wishbone manager for a port: OBI, fetches of a core, lines or double words of an instruction cache, or the DMA.

    One access is outstanding at a time; Wishbone sees it in the cycle after its grant. An access of several words is a
    burst of reads, or of writes. The access is answered in the cycle in which its last transfer ends; the next access
    is granted in that cycle. A failed transfer does not end a burst. Reset drops the outstanding access.
    """

    def __init__(self, signature: PortSignature, *, registered: bool = False):
        self.words = len(signature.create().rdata) // XLEN  # words of an access
        self.module_variant = f"{XLEN * self.words}"
        # registered: Answers come from registers, a cycle later, and grants do not depend on Wishbone.
        self.registered = registered
        #: port: Accesses to answer.
        #: bus: Wishbone port.
        super().__init__(ports={"port": In(signature), "bus": Out(WishboneSignature())})

    def elaborate(self, platform):
        m = Module()
        port, bus = self.port, self.bus
        granted, ended, under_way = signals(1, "granted ended under_way")
        word, last = collect_words(m, port, ended, bus.dat_r, bus.err, registered=self.registered)
        # an address may be a line number instead of a byte address
        place = Signal(len(bus.adr) - len(word))
        m.d.comb += [
            ended.eq(under_way & (bus.ack | bus.err)),
            port.gnt.eq(~under_way if self.registered else ~under_way | last),
            granted.eq(port.req & port.gnt),
            bus.adr.eq(Cat(word, place)),
            bus.cyc.eq(under_way),
            bus.stb.eq(under_way),
            bus.cti.eq(CycleType.CLASSIC),
        ]
        set_and_clear(m, under_way, granted, last)
        with m.If(granted):
            m.d.sync += place.eq(port.addr[-len(place) :])
        if self.words > 1:
            m.d.comb += bus.cti.eq(Mux(word.all(), CycleType.END_OF_BURST, CycleType.INCREMENTING))
        if "we" not in port.signature.members:
            m.d.comb += bus.sel.eq(Const(-1, WORD_BYTES))
            return m
        data = Signal.like(port.wdata)
        enables = Signal.like(port.be)
        m.d.comb += [bus.dat_w.eq(data.word_select(word, XLEN)), bus.sel.eq(enables.word_select(word, WORD_BYTES))]
        with m.If(granted):
            m.d.sync += [bus.we.eq(port.we), data.eq(port.wdata), enables.eq(port.be)]
        return m
