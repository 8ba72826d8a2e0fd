"""Faults in a design with all of them, one of which is chosen, are found by programs or costs."""

import pytest

from xpulpnn.cluster.icache.private import PrivateCache
from xpulpnn.config import PRESETS, ClusterConfig
from xpulpnn.errors import InputError
from xpulpnn.field_values import apply_settings
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.proofs.faults.catalog import BRIDGE_FAULTS, CLUSTER_BRIDGE_FAULTS, COUNTER_FAULTS, PROGRAM_FAULTS
from xpulpnn_sim.proofs.faults.fault import PROGRAMS, Fault
from xpulpnn_sim.verification.clusters.cluster_runs import ClusterSource, find_bridge_faults
from xpulpnn_sim.verification.random.faulty_core import faults_of, find_faults
from xpulpnn_sim.verification.random.program_runs import CoreSource

pytestmark = pytest.mark.flow

SOURCE = CoreSource(config=simulated(apply_settings(PRESETS["ri5cy"], {"performance_counters": "true"})))
QUICK = (
    "jump_register_stalls never counts",
    "fetch_stalls counts redirects",
    "jump_register_stalls counts killed instructions",
    "load_use_stalls counts while a multiplication computes",
    "jumps counts killed instructions",
    "cycles is always enabled",
    "pcmr does not stop the counters",
    "elw_stalls counts every load",
    "bubbles of jumps are told as those of branches",
    "core_sleep falls a cycle late",
    "an interrupt is taken asleep",
    "a fifth word is fetched",
    "mip does not show line 29",
)


def test_faults_of_counters_and_around_the_core_are_found():
    faults = [fault for fault in (*COUNTER_FAULTS, *PROGRAM_FAULTS) if fault.name in QUICK]
    detections = list(find_faults(SOURCE, faults, 6000, seed=3))
    assert len(detections) == len(QUICK)
    assert [detection.fault.name for detection in detections if not detection.check] == []


def test_a_core_gets_the_faults_that_fit_it():
    left_out = set(PROGRAM_FAULTS) - set(faults_of(PRESETS["xpulpnn3"]))
    assert {fault.name for fault in left_out} == {"mulhsu of the smallest by the largest"}
    with pytest.raises(InputError, match="must have Mac&Load or performance counters"):
        faults_of(PRESETS["ri5cy"])


QUICK_AXI = (
    "a write is answered before AXI answers",
    "an error of a read is not told",
    "an error of a write is not told",
    "whole words are written",
    "a line is answered at its first word",
    "a burst is a word too short",
)
QUICK_BRIDGES = (
    "a burst is answered at its first word",
    "an error is not told",
    "a bit of the address is lost",
    "an access granted at the end of another is lost",
    "an access under way is not reset",
    "data written are those of the next access",
    "whole words are written",
    "a fetch in the cycle of fence.i hits",
)
CLUSTER = ClusterConfig(core=PRESETS["ri5cy"], cores=2, banks=2, icache_private=512, dma=False)
QUICK_CLUSTER_BRIDGES = (
    "a burst is answered at its first word",
    "a transfer that fails does not end",
    "an access granted at the end of another is lost",
    "instructions come from two words further",
)


@pytest.mark.cosim
@pytest.mark.parametrize(
    ("catalog", "names", "find"),
    [
        (BRIDGE_FAULTS["wishbone"], QUICK_BRIDGES, lambda faults: find_faults(SOURCE, faults, 2500, engine="wishbone")),
        (BRIDGE_FAULTS["axi"], QUICK_AXI, lambda faults: find_faults(SOURCE, faults, 4000, engine="axi")),
        (
            CLUSTER_BRIDGE_FAULTS,
            QUICK_CLUSTER_BRIDGES,
            lambda faults: find_bridge_faults(ClusterSource(config=simulated(CLUSTER)), faults, 2500),
        ),
    ],
    ids=["core", "core-axi", "cluster"],
)
def test_faults_of_bridges_are_found_and_nothing_else(catalog, names, find):
    none = Fault(PrivateCache, "none", "line.req", "right", [PROGRAMS])
    detections = list(find([none, *(fault for fault in catalog if fault.name in names)]))
    assert len(detections) == 1 + len(names)
    assert [(detection.fault.name, detection.text) for detection in detections if not detection.check] == [("none", "")]
