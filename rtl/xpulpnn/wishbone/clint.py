from amaranth.hdl import Module, Mux
from amaranth.utils import exact_log2

from xpulpnn.cluster.peripherals.clint import CoreLocalInterruptor
from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.isa.machine import CLINT_BASE, CLINT_SPACE, IRQ_LINES, Interrupt
from xpulpnn.wishbone.ports import WORD_OFFSET_BITS, WishboneSignature


class WishboneClint(Component):
    """Core-local interruptor on the way from a Wishbone manager to the bus, for one hart.

    Transfers to its 64 KiB at 0x02000000 end in the cycle after the first of their cycles; all others pass unchanged.
    """

    manager: In(WishboneSignature())  #: Transfers of the manager.
    bus: Out(WishboneSignature())  #: Transfers to other addresses.
    irq: Out(IRQ_LINES)  #: Interrupt lines of the hart, bits as in mip.

    def elaborate(self, platform):
        m = Module()
        m.submodules.clint = clint = CoreLocalInterruptor(1)
        manager, bus, port = self.manager, self.bus, clint.port
        inside = manager.adr[exact_log2(CLINT_SPACE) - WORD_OFFSET_BITS :] == CLINT_BASE // CLINT_SPACE
        answers = {"ack": port.rvalid & ~port.err, "err": port.rvalid & port.err, "dat_r": port.rdata}
        m.d.comb += [
            *assign_by_name(bus, manager, "adr", "dat_w", "sel", "we", "cti", "bte"),
            bus.cyc.eq(manager.cyc & ~inside),
            bus.stb.eq(manager.stb & ~inside),
            port.req.eq(manager.cyc & manager.stb & inside & ~port.rvalid),
            port.addr[WORD_OFFSET_BITS:].eq(manager.adr),
            *(getattr(manager, name).eq(Mux(inside, answer, getattr(bus, name))) for name, answer in answers.items()),
            port.we.eq(manager.we),
            port.be.eq(manager.sel),
            port.wdata.eq(manager.dat_w),
            self.irq[Interrupt.TIMER].eq(clint.timer),
            self.irq[Interrupt.SOFTWARE].eq(clint.software),
        ]
        return m
