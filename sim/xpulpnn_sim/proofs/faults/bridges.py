"""Faults of Wishbone bridges and caches that random programs must find."""

from amaranth.hdl import Cat

from xpulpnn.cluster.icache.private import PrivateCache
from xpulpnn.isa.machine import XLEN
from xpulpnn.wishbone.bridge import WishboneBridge
from xpulpnn.wishbone.cluster import ClusterWishbone
from xpulpnn.wishbone.core import CoreWishbone
from xpulpnn_sim.proofs.faults.fault import PROGRAMS, Fault, lost_reset


def _of(unit):
    return lambda name, signal, wrong: Fault(name, unit, {signal: wrong}, PROGRAMS)


_bridge, _core, _cache = _of(WishboneBridge), _of(CoreWishbone), _of(PrivateCache)
_cluster = _of(ClusterWishbone)


def _next(field, port="core.data"):
    """Replace a signal by a field of the port's next request."""
    return lambda _, u: u(f"{port}.{field}")


_OF_BRIDGES = (
    _bridge("a burst is answered at its first word", "port.rvalid", lambda _, u: u(".ended")),
    _bridge("a transfer that fails does not end", ".ended", lambda right, u: right & ~u("bus.err")),
    _bridge("an error is not told", "port.err", lambda *_: 0),
    _bridge("the words of a burst are rotated", "port.rdata", lambda right, _: Cat(right[XLEN:], right[:XLEN])),
    _bridge("a bit of the address is lost", "bus.adr", lambda right, _: right & ~(1 << 12)),
    _bridge("the words of a burst go down", "bus.adr", lambda right, u: right ^ ((1 << len(u(".word"))) - 1)),
    _bridge("an access granted at the end of another is lost", ".under_way", lambda right, u: right & ~u(".last")),
)

BRIDGE_FAULTS = (
    *_OF_BRIDGES,
    _bridge("an access under way is not reset", ".under_way", lost_reset),
    _bridge("the place in a burst is not reset", ".word", lost_reset),
    _core("a write is what the next access is", "dbus.we", _next("we")),
    _core("bytes enabled are those of the next access", "dbus.sel", _next("be")),
    _core("data written are those of the next access", "dbus.dat_w", _next("wdata")),
    _core("whole words are written", "dbus.sel", lambda *_: 0b1111),
    _core("fence.i keeps the lines", "icache.control.flush", lambda *_: 0),
    _core("a fetch in the cycle of fence.i hits", "icache.core.req", lambda _, u: u("core.instr.req")),
    _cache("a line on its way at fence.i is kept", ".stale", lambda right, u: right & ~u("control.flush")),
    _cache(
        "a line that fails is kept", "ways.write", lambda right, u: right | (u("line.rvalid") & u("line.err").any())
    ),
)
"""Faults of a core with Wishbone ports."""

CLUSTER_BRIDGE_FAULTS = (
    *_OF_BRIDGES,
    _cluster("a write outside is what the next access is", "ext.we", _next("we", "ext_bridge.port")),
    _cluster("bytes enabled outside are those of the next access", "ext.sel", _next("be", "ext_bridge.port")),
    _cluster("data written outside are those of the next access", "ext.dat_w", _next("wdata", "ext_bridge.port")),
    _cluster("whole words are written outside", "ext.sel", lambda *_: 0b1111),
    _cluster("whole words are written by the DMA engine", "dma.sel", lambda *_: 0b1111),
    _cluster("words written by the DMA engine are exchanged", "dma.adr", lambda right, u: right ^ u("dma.we")),
    _cluster("instructions come from two words further", "refill.adr", lambda right, _: right ^ 0b10),
)
"""Faults of a cluster with Wishbone ports."""
