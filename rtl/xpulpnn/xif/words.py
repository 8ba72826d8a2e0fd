"""Words of the coprocessor's NN register file."""

from amaranth.hdl import Array, Module, Mux, Signal

from xpulpnn.component import Component, In, Out
from xpulpnn.isa.machine import NNRF_ACTIVATIONS, NNRF_WEIGHTS, SECOND_PAIR, XLEN
from xpulpnn.xif.config import XifConfig


class Words(Component):
    """Activations ``nn_act0`` to ``nn_act3`` (entries 0, 1, 8, 9) and, with loads, weights ``nn_wgt0`` to ``nn_wgt3``
    (entries 2 to 5).

    Reads are combinational, writes are at the end of the cycle. Reset clears all words.
    """

    def __init__(self, config: XifConfig) -> None:
        self.has_weights = config.memory != "none"
        ports = {
            "later": In(1),  #: The activations of pixels 2 and 3 are read, else those of 0 and 1.
            "act": Out(XLEN),  #: Word of the even pixel.
            "act2": Out(XLEN),  #: Word of the odd pixel.
            "we": In(2),  #: Writes an even entry (bit 0), an odd one; both are in the same pair.
            "waddr": In(4),  #: Entry to write; its lowest bit does not matter.
            "even": In(XLEN),  #: Word for an even entry.
            "odd": In(XLEN),  #: Word for an odd entry.
        }
        if self.has_weights:
            #: wgt_addr: Weight to read; only with loads.
            #: wgt: Its word; only with loads.
            ports |= {"wgt_addr": In(range(NNRF_WEIGHTS)), "wgt": Out(XLEN)}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        acts = [Signal(XLEN, name=f"nn_act{number}") for number in range(2 * NNRF_ACTIVATIONS)]
        weights = [Signal(XLEN, name=f"nn_wgt{number}") for number in range(NNRF_WEIGHTS * self.has_weights)]
        entries = [*enumerate(acts[:2]), *enumerate(weights, NNRF_ACTIVATIONS), *enumerate(acts[2:], SECOND_PAIR)]
        for number, entry in entries:
            odd = number % 2
            with m.If(self.we[odd] & (self.waddr[1:] == number // 2)):
                m.d.sync += entry.eq(self.odd if odd else self.even)
        m.d.comb += [self.act.eq(Mux(self.later, acts[2], acts[0])), self.act2.eq(Mux(self.later, acts[3], acts[1]))]
        if self.has_weights:
            m.d.comb += self.wgt.eq(Array(weights)[self.wgt_addr])
        return m
