# amaranth: UnusedElaboratable=no
from amaranth.hdl import Module

from xpulpnn.cluster.axi.bridge import AxiBridge
from xpulpnn.cluster.axi.host import AxiHost
from xpulpnn.cluster.cluster import Cluster
from xpulpnn.component import Wrapper, connect, flipped, pass_ports
from xpulpnn.config import EXT_DATA_BITS, ClusterConfig
from xpulpnn.isa.machine import XLEN


class ClusterAxi(Wrapper):
    """The cluster with AXI4 managers as external ports, for instructions, for data and for the DMA engine, and an AXI4
    subordinate for the host.

    Everything else is as in :class:`~xpulpnn.cluster.cluster.Cluster`. An external access takes one cycle longer.
    """

    #: host: Accesses of the host, at the addresses at which the cores see TCDM and shared peripherals.

    def __init__(self, config: ClusterConfig):
        cluster = Cluster(config)
        self.bridges = {name: self._bridge(name, cluster) for name in self.BRIDGED if name in cluster.signature.members}
        ports = {name: bridge.signature.members[self.BUS] for name, bridge in self.bridges.items()}
        super().__init__(config, (cluster,), (), ports)

    BRIDGED = ("ext", "dma", "refill", "host")  # ports of the cluster that have bridges
    BUS = "axi"  # port of a bridge that replaces the port of the cluster

    def _bridge(self, name, cluster):
        if name == "host":
            return AxiHost(cluster.config.host_id_bits)
        return AxiBridge(cluster.signature.members[name].signature, XLEN if name == "ext" else EXT_DATA_BITS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.cluster = cluster = self.wrapped[0]
        for name, bridge in self.bridges.items():
            m.submodules[f"{name}_bridge"] = bridge
            connect(m, getattr(cluster, name), bridge.port)
            connect(m, getattr(bridge, self.BUS), flipped(getattr(self, name)))
        pass_ports(m, self, cluster, excluded=self.bridges)
        return m
