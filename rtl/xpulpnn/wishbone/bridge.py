from amaranth.hdl import Cat, Const, Module, Mux, Signal

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
        granted, ended, last, under_way = signals(1, "granted ended last under_way")
        word = Signal(range(self.words))
        # an address may be a line number instead of a byte address
        place = Signal(len(bus.adr) - len(word))
        # words and errors of earlier transfers, the oldest lowest; of all transfers if registered
        stored_words = self.words if self.registered else self.words - 1
        words = Signal(XLEN * stored_words)
        failed = Signal(stored_words)
        read, failures = Cat(words, bus.dat_r), Cat(failed, bus.err)
        answer, answer_failures = (words, failed) if self.registered else (read, failures)
        parts = self.words // len(port.err)
        m.d.comb += [
            ended.eq(under_way & (bus.ack | bus.err)),
            last.eq(ended & word.all()),
            port.gnt.eq(~under_way if self.registered else ~under_way | last),
            granted.eq(port.req & port.gnt),
            port.rdata.eq(answer),
            port.err.eq(Cat(answer_failures.word_select(part, parts).any() for part in range(len(port.err)))),
            bus.adr.eq(Cat(word, place)),
            bus.cyc.eq(under_way),
            bus.stb.eq(under_way),
            bus.cti.eq(CycleType.CLASSIC),
        ]
        if self.registered:
            m.d.sync += port.rvalid.eq(last)
        else:
            m.d.comb += port.rvalid.eq(last)
        set_and_clear(m, under_way, granted, last)
        with m.If(granted):
            m.d.sync += place.eq(port.addr[-len(place) :])
        if stored_words:
            with m.If(ended):
                next_word = [word.eq(word + 1)] if self.words > 1 else []
                m.d.sync += [*next_word, words.eq(read[XLEN:]), failed.eq(failures[1:])]
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
