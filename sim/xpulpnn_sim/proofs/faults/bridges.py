"""Faults of Wishbone bridges and caches that random programs must find."""

from xpulpnn.cluster.icache.private import PrivateCache
from xpulpnn.wishbone.bridge import WishboneBridge
from xpulpnn.wishbone.cluster import ClusterWishbone
from xpulpnn.wishbone.core import CoreWishbone
from xpulpnn_sim.proofs.faults.fault import LOST_RESET, PROGRAMS, Fault


def _faults_of_unit(unit):
    return lambda name, signal, wrong: Fault(unit, name, signal, wrong, PROGRAMS)


_bridge, _core, _cache, _cluster = map(_faults_of_unit, (WishboneBridge, CoreWishbone, PrivateCache, ClusterWishbone))

_OF_BRIDGES = (
    _bridge("a burst is answered at its first word", "port.rvalid", "net.ended"),
    _bridge("a transfer that fails does not end", "net.ended", "right & ~bus.err"),
    _bridge("an error is not told", "port.err", "0"),
    _bridge("the words of a burst are rotated", "port.rdata", "Cat(right[32:], right[:32])"),
    _bridge("a bit of the address is lost", "bus.adr", "right & ~(1 << 12)"),
    _bridge("the words of a burst go down", "bus.adr", "right ^ ((1 << len(net.word)) - 1)"),
    _bridge("an access granted at the end of another is lost", "net.under_way", "right & ~net.last"),
)

BRIDGE_FAULTS = (
    *_OF_BRIDGES,
    _bridge("an access under way is not reset", "net.under_way", LOST_RESET),
    _bridge("the place in a burst is not reset", "net.word", LOST_RESET),
    _core("a write is what the next access is", "dbus.we", "core.data.we"),
    _core("bytes enabled are those of the next access", "dbus.sel", "core.data.be"),
    _core("data written are those of the next access", "dbus.dat_w", "core.data.wdata"),
    _core("whole words are written", "dbus.sel", "0b1111"),
    _core("fence.i keeps the lines", "icache.control.flush", "0"),
    _core("a fetch in the cycle of fence.i hits", "icache.core.req", "core.instr.req"),
    _cache("a line on its way at fence.i is kept", "net.stale", "right & ~control.flush"),
    _cache("a line that fails is kept", "ways.write", "right | (line.rvalid & line.err.any())"),
)
"""Faults of a core with Wishbone ports."""

CLUSTER_BRIDGE_FAULTS = (
    *_OF_BRIDGES,
    _cluster("a write outside is what the next access is", "ext.we", "ext_bridge.port.we"),
    _cluster("bytes enabled outside are those of the next access", "ext.sel", "ext_bridge.port.be"),
    _cluster("data written outside are those of the next access", "ext.dat_w", "ext_bridge.port.wdata"),
    _cluster("whole words are written outside", "ext.sel", "0b1111"),
    _cluster("whole words are written by the DMA engine", "dma.sel", "0b1111"),
    _cluster("words written by the DMA engine are exchanged", "dma.adr", "right ^ dma.we"),
    _cluster("instructions come from two words further", "refill.adr", "right ^ 0b10"),
)
"""Faults of a cluster with Wishbone ports."""
