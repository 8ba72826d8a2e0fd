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
    """The cluster with AXI4 managers as external ports: for instructions, for data and for the DMA engine.

    Everything else is as in :class:`~xpulpnn.cluster.cluster.Cluster`. An external access takes one cycle longer.
    """

    #: cluster_id: Number of the cluster, from bit 5 of mhartid up; constant.
    #: boot_addr: First instruction address of cores without a boot address set by software.
    #: fetch_enable: All cores may start; a core that has started ignores it.
    #: eoc: End of computation, set by software.
    #: return_value: Result written by software; bit 31 marks it as valid.
    #: busy: A core that has started needs its clock, or the DMA engine works.
    #: core_clock_en: Cores that need their clock; the clocks of the other cores may be stopped.
    #: events: External events for all cores, lines 22 and 23 of the event unit; pulses.
    #: host: Access from outside to the TCDM and the shared peripherals, at the addresses at which the cores see them.
    #:   An access is granted when the one before is answered.
    #: instr: Port of the instruction memory of each core, without instruction caches.
    #: banks: The banks of the TCDM, if they are outside.

    def __init__(self, config: ClusterConfig):
        self.cluster = cluster = Cluster(config)
        self.PORT_MEANINGS = cluster.PORT_MEANINGS
        #: ext: Data accesses of the cores to all external addresses.
        #: dma: Accesses of the DMA engine to all external addresses, if there is one.
        #: refill: Instruction memory, with instruction caches.
        self.bridges = {
            name: self._bridge(name, cluster) for name in ("ext", "dma", "refill") if name in cluster.signature.members
        }
        ports = dict(cluster.signature.members.items())
        ports |= {name: bridge.signature.members[self.BUS] for name, bridge in self.bridges.items()}
        super().__init__(config, ports)

    BUS = "axi"  # port of a bridge that replaces the port of the cluster

    def _bridge(self, name, cluster):
        return {"ext": lambda: AxiBridge(XLEN), "dma": lambda: AxiBridge(EXT_DATA_BITS), "refill": AxiRefill}[name]()

    def elaborate(self, platform):
        m = Module()
        m.submodules.cluster = cluster = self.cluster
        for name, bridge in self.bridges.items():
            m.submodules[f"{name}_bridge"] = bridge
            connect(m, getattr(cluster, name), bridge.port)
            connect(m, getattr(bridge, self.BUS), flipped(getattr(self, name)))
        pass_ports(m, self, cluster, excluded=self.bridges)
        return m
