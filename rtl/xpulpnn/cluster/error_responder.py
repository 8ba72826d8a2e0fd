from amaranth.hdl import Module

from xpulpnn.component import Component, In
from xpulpnn.core.obi import ObiSignature


class ErrorResponder(Component):
    """Grants every access at once and answers in the next cycle with an error; reads return 0, writes do nothing."""

    port: In(ObiSignature())  #: Accesses to unmapped addresses.

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.port.gnt.eq(1), self.port.err.eq(self.port.rvalid)]
        m.d.sync += self.port.rvalid.eq(self.port.req)
        return m
