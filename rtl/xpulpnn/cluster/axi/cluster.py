# amaranth: UnusedElaboratable=no
"""The cluster with AXI4 ports."""

from xpulpnn.cluster.axi.bridge import AxiBridge
from xpulpnn.cluster.axi.refill import AxiRefill
from xpulpnn.cluster.cluster import Cluster
from xpulpnn.component import Component, Out, connect, flipped
from xpulpnn.config import EXT_DATA_BITS, ClusterConfig
from xpulpnn.isa.machine import XLEN


class ClusterAxi(Component):
    """The cluster, with AXI4 managers where it leads outside: for instructions, for data and for the DMA engine.

    All else is as in :class:`~xpulpnn.cluster.cluster.Cluster`. An access outside takes a cycle more than there.
    """

    #: cluster_id: Number of the cluster, from bit 5 of mhartid up; constant.
    #: boot_addr: Address of the first instruction of every core that software has given no other.
    #: fetch_enable: All cores may start; a core ignores it afterwards.
    #: eoc: End of computation: software has said that it is done.
    #: return_value: Result that software has written; bit 31 says that there is one.
    #: busy: The clock of a core that was started is needed, or the DMA engine works.
    #: core_clock_en: The clock of each core is needed; the others may be stopped.
    #: events: Events from outside for all cores, lines 22 and 23 of the event unit; pulses.
    #: host: Access from outside to the TCDM and the shared peripherals, at the addresses at which the cores see them.
    #:   The next access is granted when the one before is answered.
    #: instr: Port of the instruction memory of each core, if there are none.
    #: banks: The banks of the TCDM, if they are outside.

    def __init__(self, config: ClusterConfig):  # Cores, memory and peripherals.
        self.cluster = cluster = Cluster(config)
        self.PORT_MEANINGS = cluster.PORT_MEANINGS
        #: ext: Data accesses of the cores to everything outside.
        self.bridges = {"ext": AxiBridge(XLEN)}
        if config.dma:
            #: dma: Accesses of the DMA engine to everything outside, if there is one.
            self.bridges["dma"] = AxiBridge(EXT_DATA_BITS)
        if config.icache_private:
            #: refill: Instruction memory, if there are instruction caches.
            self.bridges["refill"] = AxiRefill()
        ports = dict(cluster.signature.members.items())
        ports |= {name: bridge.signature.members["axi"] for name, bridge in self.bridges.items()}
        super().__init__(config, ports)

    def _build(self, m):
        m.submodules.cluster = cluster = self.cluster
        for name, bridge in self.bridges.items():
            m.submodules[f"{name}_bridge"] = bridge
            connect(m, getattr(cluster, name), bridge.port)
            connect(m, bridge.axi, flipped(getattr(self, name)))
        for name, member in cluster.signature.members.items():
            inner, outer = getattr(cluster, name), getattr(self, name)
            if name in self.bridges:
                continue
            if not member.is_signature:
                m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
                continue
            pairs = zip(inner, outer, strict=True) if member.dimensions else [(inner, outer)]
            for inside, outside in pairs:
                connect(m, inside, flipped(outside))
