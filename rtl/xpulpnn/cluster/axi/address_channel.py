from amaranth.hdl import Module

from xpulpnn.cluster.axi.ports import LENGTH_BITS
from xpulpnn.component import Component, In, Out
from xpulpnn.isa.machine import XLEN


class AddressChannel(Component):
    """Holds the address of a burst until AXI accepts it; can load the next address in the cycle of acceptance."""

    put: In(1)  #: Store ``addr`` and ``len``; only with ``free``.
    free: Out(1)  #: The register can be loaded.
    addr: In(XLEN)  #: Address of the burst.
    len: In(LENGTH_BITS)  #: Transfers of the burst, less one.
    valid: Out(1)  #: The register holds an address, from the cycle after ``put`` until it is accepted.
    ready: In(1)  #: The address is accepted.
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
