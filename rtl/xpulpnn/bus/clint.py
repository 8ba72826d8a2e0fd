from amaranth.hdl import Module, Mux
from amaranth.utils import exact_log2

from xpulpnn.cluster.peripherals.clint import CoreLocalInterruptor
from xpulpnn.cluster.ports import REQUEST_FIELDS, RESPONSE_FIELDS
from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.machine import CLINT_BASE, CLINT_SPACE, IRQ_LINES, Interrupt


class CoreClint(Component):
    """Core-local interruptor on the way from the data port of a core to a bus, for one hart.

    Accesses to its 64 KiB at 0x02000000 are granted at once and answered in the next cycle; all others pass unchanged.
    The core has one access outstanding at a time.
    """

    port: In(ObiSignature())  #: Accesses of the core.
    outside: Out(ObiSignature())  #: Accesses to other addresses.
    irq: Out(IRQ_LINES)  #: Interrupt lines of the hart, bits as in mip.

    def elaborate(self, platform):
        m = Module()
        m.submodules.clint = clint = CoreLocalInterruptor(1)
        port, outside = self.port, self.outside
        inside = port.addr[exact_log2(CLINT_SPACE) :] == CLINT_BASE // CLINT_SPACE
        m.d.comb += [
            *assign_by_name(outside, port, *REQUEST_FIELDS),
            *assign_by_name(clint.port, port, *REQUEST_FIELDS),
            outside.req.eq(port.req & ~inside),
            clint.port.req.eq(port.req & inside),
            port.gnt.eq(Mux(inside, clint.port.gnt, outside.gnt)),
            port.rvalid.eq(clint.port.rvalid | outside.rvalid),
            *(
                getattr(port, name).eq(Mux(clint.port.rvalid, getattr(clint.port, name), getattr(outside, name)))
                for name in RESPONSE_FIELDS
            ),
            self.irq[Interrupt.TIMER].eq(clint.timer),
            self.irq[Interrupt.SOFTWARE].eq(clint.software),
        ]
        return m
