from amaranth.hdl import Module, Signal
from amaranth.utils import exact_log2

from xpulpnn.cluster.axi.address_channel import AddressChannel
from xpulpnn.cluster.axi.ports import AxiSignature, constants, failed
from xpulpnn.cluster.ports import LINE_BEATS, LINE_OFFSET_BITS, REFILL_BITS, REFILL_BYTES, RefillSignature
from xpulpnn.component import Component, In, Out, signals

OUTSTANDING = 16  # largest number of outstanding transfers
_INSTRUCTION = 4  # protection bit of fetches


class AxiRefill(Component):
    """AXI4 manager for the refill port: reads of 64 bits, a burst of two for each line of 16 bytes.

    A line must be requested whole, from the first double word on, as the cache does. The address appears at AXI in the
    cycle after the first grant, and an answer is passed on in the cycle in which it arrives; up to 16 transfers are
    outstanding. Reset drops them: the connected subordinate must be reset too.
    """

    port: In(RefillSignature())  #: Reads to answer.
    axi: Out(AxiSignature(REFILL_BITS, writes=False))  #: AXI4 port without the channels for writing.

    def elaborate(self, platform):
        m = Module()
        m.submodules.ar = channel = AddressChannel()
        port, axi = self.port, self.axi
        first, granted = signals(1, "first granted")
        under_way = Signal(range(OUTSTANDING + 1))
        m.d.comb += [
            *constants(axi, "ar", _INSTRUCTION),
            first.eq(~port.addr[exact_log2(REFILL_BYTES) : LINE_OFFSET_BITS].any()),
            port.gnt.eq((under_way != OUTSTANDING) & (channel.free | ~first)),
            granted.eq(port.req & port.gnt),
            channel.put.eq(granted & first),
            channel.addr.eq(port.addr),
            channel.len.eq(LINE_BEATS - 1),
            channel.ready.eq(axi.arready),
            axi.arvalid.eq(channel.valid),
            axi.araddr.eq(channel.valid_addr),
            axi.arlen.eq(channel.valid_len),
            axi.rready.eq(under_way.any()),
            port.rvalid.eq(axi.rvalid & axi.rready),
            port.rdata.eq(axi.rdata),
            port.err.eq(port.rvalid & failed(axi.rresp)),
        ]
        m.d.sync += under_way.eq(under_way + granted - port.rvalid)
        return m
