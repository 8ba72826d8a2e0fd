"""Random programs on a cluster behind its bridges to Wishbone: no difference, and faults of the bridges found."""

import pytest

from xpulpnn.config import ClusterConfig, preset
from xpulpnn.wishbone.bridge import WishboneBridge
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.proofs.faults.bridges import CLUSTER_BRIDGE_FAULTS
from xpulpnn_sim.proofs.faults.fault import PROGRAMS, Fault
from xpulpnn_sim.verification.clusters.bridge_faults import find_bridge_faults
from xpulpnn_sim.verification.clusters.cluster_runs import ClusterSource

pytestmark = pytest.mark.cosim

CONFIG = simulated(ClusterConfig(core=preset("ri5cy"), cores=2, banks=2, icache_private=512, dma=False))
QUICK = (
    "a burst is answered at its first word",
    "a transfer that fails does not end",
    "an access granted at the end of another is lost",
    "instructions come from two words further",
)


def test_faults_of_bridges_are_found_and_nothing_else():
    none = Fault(WishboneBridge, "none", "port.rvalid", "right", PROGRAMS)
    faults = [none, *(fault for fault in CLUSTER_BRIDGE_FAULTS if fault.name in QUICK)]
    detections = list(find_bridge_faults(ClusterSource(config=CONFIG), faults, 6000))
    assert len(detections) == 1 + len(QUICK)
    assert [(detection.fault.name, detection.text) for detection in detections if not detection.check] == [("none", "")]
