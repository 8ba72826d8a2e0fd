from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.fifo import SyncFIFO
from amaranth.utils import exact_log2

from xpulpnn.cluster.axi.address_channel import AddressChannel
from xpulpnn.cluster.axi.ports import BURST_INCREMENTING, DEVICE, INSTRUCTION, MEMORY, PRIVILEGED, AxiSignature, failed
from xpulpnn.cluster.ports import (
    LINE_BEATS,
    LINE_OFFSET_BITS,
    REFILL_BYTES,
    RUN_BYTES,
    WRITE_BLOCK_BYTES,
    RefillSignature,
)
from xpulpnn.cluster.words import collect_words
from xpulpnn.component import Component, In, Out, PortSignature, signals
from xpulpnn.isa.machine import BYTE_BITS, XLEN

OUTSTANDING = 16  # largest number of outstanding accesses of a cluster

_KIND = data.StructLayout({"write": 1, "last": 1})


class AxiBridge(Component):
    """AXI4 manager for a port: OBI, the DMA engine, fetches of a core, lines or double words of an instruction cache.

    Accesses are answered in the order of their grants. All channels to AXI come from registers: a request appears there
    in the cycle after its grant, and an answer is passed on in the cycle in which its last word arrives. Several
    accesses are outstanding together; AXI does not order reads and writes.

    An access is a burst of its words. The DMA engine announces transfers to consecutive addresses as a run: a run of
    reads becomes a burst of up to 256 bytes; a run of writes becomes a burst for each aligned block of 64 bytes, since
    a write burst is answered only after its last transfer. The double words of a line, which an instruction cache
    requests whole, from the first on, become one burst. No burst crosses 4 KiB.

    A failed write burst fails for all of its transfers. Reset drops all outstanding transfers: the connected
    subordinate must be reset too.
    """

    def __init__(self, signature: PortSignature, bits: int = XLEN, outstanding: int = OUTSTANDING):
        self.outstanding = outstanding  # largest number of outstanding accesses
        self.bits = bits  # width of the data at AXI
        self.words = len(signature.create().rdata) // bits  # transfers of an access
        self.writes, self.has_runs = "we" in signature.members, "beats" in signature.members
        self.in_lines = isinstance(signature, RefillSignature)
        self.module_variant = f"{bits * self.words}"
        #: port: Accesses to answer.
        #: axi: AXI4 port.
        super().__init__(ports={"port": In(signature), "axi": Out(AxiSignature(bits, writes=self.writes))})

    def elaborate(self, platform):
        m = Module()
        if self.writes:
            self._accesses(m)
        else:
            self._reads(m)
        return m

    def _reads(self, m):
        port, axi = self.port, self.axi
        channel = self._channel(m, "ar")
        first, granted, arrives = signals(1, "first granted arrives")
        under_way = Signal(range(self.outstanding + 1))
        _, answered = collect_words(m, port, arrives, axi.rdata, failed(axi.rresp))
        within_line = port.addr[exact_log2(REFILL_BYTES) : LINE_OFFSET_BITS] if self.in_lines else Const(0)
        m.d.comb += [
            first.eq(~within_line.any()),
            port.gnt.eq((under_way != self.outstanding) & (channel.free | ~first)),
            granted.eq(port.req & port.gnt),
            channel.put.eq(granted & first),
            channel.len.eq((LINE_BEATS if self.in_lines else self.words) - 1),
            axi.rready.eq(under_way.any()),
            arrives.eq(axi.rvalid & axi.rready),
        ]
        m.d.sync += under_way.eq(under_way + granted - answered)

    def _accesses(self, m):
        port, axi = self.port, self.axi
        m.submodules.order = order = SyncFIFO(width=_KIND.size, depth=self.outstanding)
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

    def _channel(self, m, name):
        m.submodules[name] = channel = AddressChannel()
        axi, address = self.axi, self.port.addr
        constants = {
            "size": exact_log2(self.bits // BYTE_BITS),
            "burst": BURST_INCREMENTING,
            # the order and number of accesses to a device matter
            "cache": DEVICE if self.writes and not self.has_runs else MEMORY,
            "prot": PRIVILEGED if self.writes else PRIVILEGED | INSTRUCTION,
        }
        m.d.comb += [
            *(getattr(axi, f"{name}{field}").eq(value) for field, value in constants.items()),
            # an address may be a line number instead of a byte address
            channel.addr[-len(address) :].eq(address),
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
