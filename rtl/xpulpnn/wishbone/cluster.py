# amaranth: UnusedElaboratable=no
from xpulpnn.cluster.axi.cluster import ClusterAxi
from xpulpnn.wishbone.bridge import WishboneBridge


class ClusterWishbone(ClusterAxi):
    """The cluster with Wishbone managers as external ports: for instructions, for data and for the DMA engine.

    Everything else is as in :class:`~xpulpnn.cluster.cluster.Cluster`. An external access takes one cycle longer; an
    access of 64 bits is a burst of two words.
    """

    BRIDGED = ("ext", "dma", "refill")
    BUS = "bus"

    def _bridge(self, name, cluster):
        return WishboneBridge(cluster.signature.members[name].signature, registered=cluster.config.core.late_results)
