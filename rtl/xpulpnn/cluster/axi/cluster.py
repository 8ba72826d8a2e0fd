# amaranth: UnusedElaboratable=no
"""The cluster with AXI4 ports."""

from amaranth.hdl import Module

from xpulpnn.cluster.axi.bridge import AxiBridge
from xpulpnn.cluster.axi.refill import AxiRefill
from xpulpnn.cluster.cluster import Cluster
from xpulpnn.component import Component, connect, flipped, pass_ports
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
        #: dma: Accesses of the DMA engine to everything outside, if there is one.
        #: refill: Instruction memory, if there are instruction caches.
        self.bridges = {
            name: self._bridge(name, cluster) for name in ("ext", "dma", "refill") if name in cluster.signature.members
        }
        ports = dict(cluster.signature.members.items())
        ports |= {name: bridge.signature.members[self.BUS] for name, bridge in self.bridges.items()}
        super().__init__(config, ports)

    BUS = "axi"  # The port of a bridge that becomes the cluster's.

    def _bridge(self, name, cluster):
        return {"ext": lambda: AxiBridge(XLEN), "dma": lambda: AxiBridge(EXT_DATA_BITS), "refill": AxiRefill}[name]()

    def elaborate(self, platform):
        m = Module()
        m.submodules.cluster = cluster = self.cluster
        for name, bridge in self.bridges.items():
            m.submodules[f"{name}_bridge"] = bridge
            connect(m, getattr(cluster, name), bridge.port)
            connect(m, getattr(bridge, self.BUS), flipped(getattr(self, name)))
        pass_ports(m, self, cluster, without=self.bridges)
        return m
