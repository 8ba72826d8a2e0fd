from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.fifo import SyncFIFO
from amaranth.utils import exact_log2

from xpulpnn.cluster.axi.address_channel import AddressChannel
from xpulpnn.cluster.axi.ports import AxiSignature, constants, failed
from xpulpnn.cluster.ports import RUN_BYTES, WRITE_BLOCK_BYTES, DmaPortSignature
from xpulpnn.component import Component, In, Out
from xpulpnn.config import EXT_DATA_BITS
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.machine import BYTE_BITS

OUTSTANDING = 16  # largest number of outstanding transfers

_KIND = data.StructLayout({"write": 1, "last": 1})


class AxiBridge(Component):
    """AXI4 manager for a port with reads and writes, which are answered in the order of their grants.

    The DMA engine announces transfers to consecutive addresses as a run. A run of reads becomes a burst of up to 256
    bytes. A run of writes becomes a burst for each aligned block of 64 bytes, since a write burst is answered only
    after its last transfer. No burst crosses 4 KiB. On an OBI port every transfer is a burst of its own. All channels
    to AXI come from registers: a request appears there in the cycle after its grant, and an answer is passed on in the
    cycle in which it arrives. Up to 16 transfers of several read and write bursts are outstanding together; AXI does
    not order reads and writes.

    A failed write burst fails for all of its transfers. Reset drops all outstanding transfers: the connected
    subordinate must be reset too.
    """

    def __init__(self, bits: int):
        self.bits = bits  # width of the data: 64 for the port of the DMA engine, 32 for an OBI port
        self.module_variant = f"{bits}"
        self.has_runs = bits == EXT_DATA_BITS
        port = DmaPortSignature() if self.has_runs else ObiSignature()
        #: port: Accesses to answer.
        #: axi: AXI4 port.
        super().__init__(ports={"port": In(port), "axi": Out(AxiSignature(bits))})

    def elaborate(self, platform):
        m = Module()
        port, axi = self.port, self.axi
        m.submodules.order = order = SyncFIFO(width=_KIND.size, depth=OUTSTANDING)
        kind = Signal(_KIND)
        oldest = Signal(_KIND)
        channel, first, _ends = self._burst(m, "r", port.req & port.gnt & ~port.we, RUN_BYTES)
        may_read = channel.free | ~first
        may_write = self._writes(m, port.req & port.gnt & port.we, kind.last)
        m.d.comb += [
            port.gnt.eq(order.w_rdy & Mux(port.we, may_write, may_read)),
            kind.write.eq(port.we),
            order.w_data.eq(kind),
            order.w_en.eq(port.req & port.gnt),
            oldest.eq(order.r_data),
            axi.rready.eq(order.r_rdy & ~oldest.write),
            # the response to a burst answers each of its writes; it is accepted with the last of them
            axi.bready.eq(order.r_rdy & oldest.write & oldest.last),
            port.rvalid.eq(order.r_rdy & Mux(oldest.write, axi.bvalid, axi.rvalid)),
            port.rdata.eq(axi.rdata),
            port.err.eq(port.rvalid & Mux(oldest.write, failed(axi.bresp), failed(axi.rresp))),
            order.r_en.eq(port.rvalid),
        ]
        return m

    def _channel(self, m, name):
        m.submodules[name] = channel = AddressChannel()
        axi = self.axi
        m.d.comb += [
            *constants(axi, name),
            channel.addr.eq(self.port.addr),
            getattr(axi, f"{name}addr").eq(channel.valid_addr),
            getattr(axi, f"{name}len").eq(channel.valid_len),
            getattr(axi, f"{name}valid").eq(channel.valid),
            channel.ready.eq(getattr(axi, f"{name}ready")),
        ]
        return channel

    def _burst(self, m, name, granted, block):
        channel = self._channel(m, f"a{name}")
        if not self.has_runs:
            m.d.comb += [channel.put.eq(granted), channel.len.eq(0)]
            return channel, Const(1), Const(1)
        port = self.port
        # transfers of the burst after the first
        to_come = Signal(range(RUN_BYTES * BYTE_BITS // self.bits), name=f"{name}_to_come")
        run, others = (Signal.like(to_come, name=f"{name}_{part}") for part in ("run", "others"))
        first = Signal(name=f"{name}_first")
        low = exact_log2(self.bits // BYTE_BITS)
        in_block = ~port.addr[low : exact_log2(block)]
        m.d.comb += [
            first.eq(~to_come.any()),
            run.eq(port.beats - 1),
            others.eq(Mux(run < in_block, run, in_block)),
            channel.put.eq(granted & first),
            channel.len.eq(others),
        ]
        with m.If(granted):
            m.d.sync += to_come.eq(Mux(first, others, to_come - 1))
        return channel, first, Mux(first, ~others.any(), to_come == 1)

    def _writes(self, m, granted, last):
        channel, first, ends = self._burst(m, "w", granted, WRITE_BLOCK_BYTES)
        port, axi = self.port, self.axi
        free = Signal()
        m.d.comb += [free.eq(~axi.wvalid | axi.wready), last.eq(ends)]
        with m.If(free):
            m.d.sync += axi.wvalid.eq(granted)
        with m.If(granted):
            m.d.sync += [axi.wdata.eq(port.wdata), axi.wstrb.eq(port.be), axi.wlast.eq(last)]
        return free & (channel.free | ~first)
