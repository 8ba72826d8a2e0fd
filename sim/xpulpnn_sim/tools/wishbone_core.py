# amaranth: UnusedElaboratable=no
"""The core with Wishbone ports on memory with OBI ports: programs run in lock step through its cache and bridges."""

from typing import Any

from amaranth.hdl import Module, Signal

from xpulpnn.component import Component, Out, pass_ports, set_and_clear
from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature
from xpulpnn.wishbone.core import CoreWishbone
from xpulpnn.wishbone.ports import WORD_OFFSET_BITS

_CACHE_BYTES = 512
_PORTS = {"ibus": ("instr", InstructionPortSignature()), "dbus": ("data", ObiSignature())}
"""OBI ports by the Wishbone ports whose transfers they serve."""


class CoreOnWishbone(Component):
    """The core with a small instruction cache behind its bridges; the ports are those of the core alone.

    Each transfer is an access of an OBI port, and ends with its response.
    """

    def __init__(self, config: CoreConfig) -> None:
        self.inner = inner = CoreWishbone(ClusterConfig(core=config, icache_private=_CACHE_BYTES))
        ports = {name: member for name, member in inner.signature.members.items() if name not in _PORTS}
        super().__init__(config, ports | {name: Out(signature) for name, signature in _PORTS.values()})

    def _build(self, m: Module) -> None:
        m.submodules.inner = inner = self.inner
        for bus, (port, _) in _PORTS.items():
            self._serve(m, getattr(inner, bus), getattr(self, port), Signal(name=f"{port}_asked"))
        pass_ports(m, self, inner, besides=_PORTS)

    def _serve(self, m: Module, bus: Any, port: Any, asked: Signal) -> None:
        """Make an access of each transfer, which is ``asked`` for until it is answered."""
        set_and_clear(m, asked, port.req & port.gnt, port.rvalid)
        m.d.comb += [
            port.req.eq(bus.cyc & bus.stb & ~asked),
            port.addr[WORD_OFFSET_BITS:].eq(bus.adr),
            bus.dat_r.eq(port.rdata),
            bus.ack.eq(asked & port.rvalid & ~port.err),
            bus.err.eq(asked & port.rvalid & port.err),
        ]
        if "we" in port.signature.members:
            m.d.comb += [port.we.eq(bus.we), port.be.eq(bus.sel), port.wdata.eq(bus.dat_w)]
