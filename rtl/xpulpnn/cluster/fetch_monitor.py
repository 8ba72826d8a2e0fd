from amaranth.hdl import Module, Signal

from xpulpnn.component import Component, In, Out
from xpulpnn.core.prefetch import DEPTH


class FetchMonitor(Component):
    """Counts the fetches of a core that are granted but not yet answered."""

    #: req, gnt, rvalid: Handshake signals of the core's instruction port.
    req: In(1)
    gnt: In(1)
    rvalid: In(1)
    idle: Out(1)  #: No fetch is requested or outstanding.

    def elaborate(self, platform):
        m = Module()
        under_way = Signal(range(DEPTH + 1))
        m.d.sync += under_way.eq(under_way + (self.req & self.gnt) - self.rvalid)
        m.d.comb += self.idle.eq(~self.req & (under_way == 0))
        return m
