"""The cluster with :class:`ClusterFault`, one compiled model for all tests."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from xpulpnn.config import ClusterConfig, preset
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn_sim.cosimulation.model.build import build_model
from xpulpnn_sim.cosimulation.model.libraries import rig_of, simulated
from xpulpnn_sim.proofs.cluster.faulty_cluster import FaultyCluster

CONFIG = simulated(
    ClusterConfig(
        core=preset("ri5cy"), cores=4, banks=8, tcdm_bytes=0x1_0000, icache_private=512, memories="ports", rvfi=True
    )
)


@cache
def emitted() -> EmittedVerilog:
    return emit(FaultyCluster(CONFIG), "cluster", config=CONFIG, both_edges=True)


@cache
def faulty_model() -> Path:
    rig = rig_of(emitted().text, emitted().manifest)
    return build_model(replace(rig, both_edges=True))
