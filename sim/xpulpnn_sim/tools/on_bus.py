# amaranth: UnusedElaboratable=no
"""Core and cluster with ports of a bus that are converted back to memory ports, so that programs test the bridges."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal

from xpulpnn.ahb.ports import AhbSignature, Transfer
from xpulpnn.bus.core import CoreOnBus
from xpulpnn.cluster.axi.host import AxiHost
from xpulpnn.cluster.axi.ports import AxiSignature
from xpulpnn.cluster.ports import DmaPortSignature, RefillSignature
from xpulpnn.component import Component, Out, PortSignature, pass_ports, set_and_clear
from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature
from xpulpnn.isa.machine import XLEN
from xpulpnn.wishbone.cluster import ClusterWishbone
from xpulpnn.wishbone.ports import WORD_OFFSET_BITS, WishboneSignature

_CACHE_BYTES = 512


class _OnBus(Component):
    """A design with bridges to a bus inside that has the memory ports of the design without bridges.

    Each transfer of the bus becomes an access to one word of a memory port, and ends with the response to that access.
    """

    def __init__(self, config: Any, inner: Any, served: Mapping[str, tuple[str, PortSignature]]) -> None:
        self.inner, self._served = inner, served  # memory port name and signature by bus port
        ports = {name: member for name, member in inner.signature.members.items() if name not in served}
        super().__init__(config, ports | {name: Out(signature) for name, signature in served.values()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inner = self.inner
        for bus, (port, _) in self._served.items():
            outside, access = getattr(self, port), Signal(name=f"{port}_asked")
            set_and_clear(m, access, outside.req & outside.gnt, outside.rvalid)
            _CONVERTERS[type(getattr(self.inner, bus).signature)](m, getattr(self.inner, bus), outside, access)
        pass_ports(m, self, self.inner, excluded=(*self._served, "ext_hart"))
        return m


def _serve_wishbone(m: Module, bus: Any, port: Any, requested: Signal) -> None:
    """Convert each transfer on ``bus`` to an access on ``port``; ``requested`` is 1 between grant and response."""
    words = len(port.rdata) // XLEN
    word = bus.adr[: (words - 1).bit_length()]
    m.d.comb += [
        port.req.eq(bus.cyc & bus.stb & ~requested),
        port.addr[WORD_OFFSET_BITS + len(word) :].eq(bus.adr[len(word) :]),
        bus.dat_r.eq(port.rdata.word_select(word, XLEN)),
        bus.ack.eq(requested & port.rvalid & ~port.err),
        bus.err.eq(requested & port.rvalid & port.err),
    ]
    if "we" in port.signature.members:
        m.d.comb += [
            port.we.eq(bus.we),
            port.be.eq(Cat(Mux(word == number, bus.sel, 0) for number in range(words))),
            port.wdata.eq(bus.dat_w.replicate(words)),
        ]
    if "beats" in port.signature.members:
        m.d.comb += port.beats.eq(1)


def _serve_axi(m: Any, bus: Any, port: Any, requested: Signal) -> None:
    """Likewise of AXI4, by the bridge of a cluster's host; a port without writes uses a part of it."""
    host: Any = AxiHost()
    m.submodules += host
    for outer, inner in ((bus, host.axi), (port, host.port)):
        for name, member in outer.signature.members.items():
            source, target = (inner, outer) if (member.flow is Out) == (outer is port) else (outer, inner)
            m.d.comb += getattr(target, name).eq(getattr(source, name))


def _serve_ahb(m: Any, bus: Any, port: Any, requested: Signal) -> None:
    """Likewise of AHB-Lite, whose errors take two cycles."""
    in_data_phase, failed, writes = (
        Signal(name=f"{port.req.name}_{name}") for name in ("data_phase", "fails", "writes")
    )
    address, size = Signal.like(bus.haddr), Signal.like(bus.hsize)
    answered, low = requested & port.rvalid, address[:WORD_OFFSET_BITS]
    m.d.comb += [
        bus.hready.eq(~in_data_phase | answered & ~port.err | failed),
        bus.hresp.eq(answered & port.err | failed),
        bus.hrdata.eq(port.rdata),
        port.req.eq(in_data_phase & ~requested & ~failed),
        port.addr.eq(address - low),
    ]
    m.d.sync += failed.eq(answered & port.err)
    with m.If(bus.hready):
        begins = bus.htrans != Transfer.IDLE
        m.d.sync += [in_data_phase.eq(begins), address.eq(bus.haddr), size.eq(bus.hsize), writes.eq(bus.hwrite)]
    if "we" in port.signature.members:
        enables = (1 << (1 << size)) - 1 << low
        m.d.comb += [port.we.eq(writes), port.be.eq(enables), port.wdata.eq(bus.hwdata)]


_CONVERTERS = {WishboneSignature: _serve_wishbone, AxiSignature: _serve_axi, AhbSignature: _serve_ahb}


class CoreBehindBus(_OnBus):
    """The core with bridges to a bus and a small instruction cache."""

    def __init__(self, config: CoreConfig, *, bus: str, clint: bool = False) -> None:
        inner = CoreOnBus(ClusterConfig(core=config, icache_private=_CACHE_BYTES, clint=clint), bus)
        served = {"ibus": ("instr", InstructionPortSignature()), "dbus": ("data", ObiSignature())}
        super().__init__(config, inner, served)


class ClusterOnWishbone(_OnBus):
    def __init__(self, config: ClusterConfig) -> None:
        inner = ClusterWishbone(config)
        kinds = {"ext": ObiSignature(), "dma": DmaPortSignature(), "refill": RefillSignature()}
        super().__init__(config, inner, {name: (name, kinds[name]) for name in inner.bridges})

    def elaborate(self, platform: object) -> Module:
        m: Any = super().elaborate(platform)
        if self.config.rvfi:
            # the hart of the current access, since the next request may be granted in the cycle of its end
            bus, outside = self.inner.ext, vars(self)["ext_hart"]
            with m.If(~bus.cyc | bus.ack | bus.err):
                m.d.sync += outside.eq(self.inner.ext_hart)
        return m
