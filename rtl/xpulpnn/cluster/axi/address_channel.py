"""An address channel of AXI, from a register."""

from amaranth.hdl import Module

from xpulpnn.cluster.axi.ports import LENGTH_BITS
from xpulpnn.component import Component, In, Out
from xpulpnn.isa.machine import XLEN


class AddressChannel(Component):
    """Keeps the address of a burst until it is taken; takes the next one in the cycle in which it is."""

    put: In(1)  #: Take ``addr`` and ``len``; only with ``free``.
    free: Out(1)  #: There is a place.
    addr: In(XLEN)  #: Address of the burst.
    len: In(LENGTH_BITS)  #: Its transfers, less one.
    valid: Out(1)  #: There is an address, from the cycle after ``put`` until it is taken.
    ready: In(1)  #: It is taken.
    valid_addr: Out(XLEN)  #: Address, with ``valid``.
    valid_len: Out(LENGTH_BITS)  #: Transfers less one, with ``valid``.

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.free.eq(~self.valid | self.ready)
        with m.If(self.free):
            m.d.sync += self.valid.eq(self.put)
        with m.If(self.put):
            m.d.sync += [self.valid_addr.eq(self.addr), self.valid_len.eq(self.len)]
        return m
