"""Shared view of the event unit (guide, "The event unit")."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.utils import ceil_log2

from xpulpnn.cluster.event_unit.access import OFFSET_BITS, REGION_BITS, SlotSignature, aligned_offset
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import ClusterConfig
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.machine import WORD_BYTES

VIEW_BITS = 13  # address bits that distinguish the registers of the view


class SharedView(Component):
    """Converts accesses of the shared view to accesses of cores' private views.

    A slot is a request to the private view of a core. The registers of a core are accessed through the slot of that
    core, barriers and triggers of software events through the slot of core 0. One access at a time; it is answered two
    cycles after its grant, and later while the core uses its slot itself. Registers whose reads wait or trigger are not
    in this view. Where there is no register the answer is an error.
    """

    def __init__(self, config: ClusterConfig):
        #: port: Accesses of the shared view; bits 12:0 of the address count.
        #: slots: Accesses of the private views.
        super().__init__(config, {"port": In(ObiSignature()), "slots": Out(SlotSignature()).array(config.cores)})

    def elaborate(self, platform):
        m = Module()
        pending, write, exists, over = signals(1, "pending write exists over")
        view = Signal(VIEW_BITS)
        offset = Signal(OFFSET_BITS)
        core = Signal(ceil_log2(isa.MAX_CORES))
        m.d.comb += self.port.gnt.eq(~pending)
        with m.If(self.port.req & self.port.gnt):
            # the data to write are stored in the register of the answer
            m.d.sync += [
                pending.eq(1),
                write.eq(self.port.we),
                view.eq(self.port.addr[:VIEW_BITS] - isa.EVENT_UNIT % (1 << VIEW_BITS)),
                self.port.rdata.eq(self.port.wdata),
            ]
        read = Array(slot.rdata for slot in self.slots)
        with m.Elif(over):
            m.d.sync += [pending.eq(0), self.port.rdata.eq(Mux(exists, read[core], 0))]
        m.d.sync += [self.port.rvalid.eq(over), self.port.err.eq(over & ~exists)]
        self._translate(m, view, core, offset, exists)
        m.d.comb += over.eq(pending & (~exists | Cat(slot.taken for slot in self.slots).any()))
        for number, slot in enumerate(self.slots):
            m.d.comb += [
                slot.valid.eq(pending & exists & (core == number)),
                slot.write.eq(write),
                slot.offset.eq(offset),
                slot.wdata.eq(self.port.rdata),
            ]
        return m

    def _translate(self, m, view, core, offset, exists):
        config = self.config
        register = view[: ceil_log2(isa.BARRIER_BYTES)]
        with m.If(view < isa.SHARED_BARRIERS):
            m.d.comb += [
                core.eq(view[REGION_BITS:]),
                offset.eq(aligned_offset(view[:REGION_BITS])),
                exists.eq((core < config.cores) & (offset < isa.EventRegister.WAIT)),
            ]
        with m.Elif(view < isa.SHARED_SW_TRIGGERS):
            barrier = view - isa.SHARED_BARRIERS
            m.d.comb += [
                offset.eq(isa.EventRegister.BARRIER + aligned_offset(barrier)),
                exists.eq((barrier < isa.BARRIER_BYTES * config.barriers) & (register < isa.Barrier.TRIGGER_SELF)),
            ]
        with m.Else():
            trigger = view - isa.SHARED_SW_TRIGGERS
            m.d.comb += [
                offset.eq(isa.EventRegister.SW_TRIGGER + aligned_offset(trigger)),
                exists.eq(trigger < WORD_BYTES * config.sw_events),
            ]
