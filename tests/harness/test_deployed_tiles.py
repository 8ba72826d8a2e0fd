"""Networks on clusters whose memory is too small for them: tiles, maps that leave and come back; and faults in that."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from xpulpnn.config import ClusterConfig, preset
from xpulpnn_sim.harness import deployed_run
from xpulpnn_sim.harness.deployed_run import cluster_executable
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.models import simulated
from xpulpnn_sim.harness.network_case import NetworkCase, compared
from xpulpnn_sim.harness.network_run import run_network
from xpulpnn_sim.iss.cluster import ClusterSession
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.networks.network import Network, Stage
from xpulpnn_sw.precision import Precision
from xpulpnn_sw.programs.deployed import DeployedProgram, deployed_program

EVERYTHING = simulated(replace(preset("xpulpnn-full"), mac_load_cross=True, mac_load_dot=True, requantise=True))
FOUR = ClusterConfig(core=EVERYTHING, cores=4, icache_private=0)

BRANCHES = (
    ("conv", "12x12x8:16x3x3", "i8x8xi8"),
    ("maxpool", "12x12x16:3x3:s=1,p=1", "i8xi8xi8"),
    ("add", "12x12x16:shift", "i8xi8x8", "conv0", "maxpool1"),
    ("avgpool", "12x12x16:2x2:s=2:scaled", "8x8x8"),
    ("pointwise", "6x6x16:16", "8x8x8"),
    ("linear", "576:32", "8x8x8"),
    ("linear", "32:10:raw", "8x8x8"),
)
"""Of 43 KiB, at most 9 of which are needed for a layer."""


def network_of(layers, seed: int = 0) -> tuple[Network, np.ndarray]:
    rng, stages = np.random.default_rng(seed), []
    for number, (name, text, precision, *sources) in enumerate(layers):
        known = kind(name)
        layer = known.layer.parse(text)
        widths = known.precision(layer, Precision.parse(precision))
        tensors = known.tensors(layer, widths, rng)
        pad = getattr(layer, "outside", 0)
        stage = Stage(
            name=f"{name}{number}", layer=layer, precision=widths, tensors=tensors, sources=tuple(sources), pad=pad
        )
        stages.append(stage)
    return Network(name="branches", stages=tuple(stages)), stages[0].tensors.activations


def case_of(layers, *, checked: bool = False, l2_latency: int = 1) -> NetworkCase:
    network, image = network_of(layers)
    return NetworkCase(
        network=network, image=image, config=FOUR, machine=Machine(l2_latency=l2_latency), checked=checked
    )


def planned(case: NetworkCase, memory: int) -> DeployedProgram:
    return deployed_program(case.computed, case.given, case.variants, cores=FOUR.cores, memory=memory)


def wrong_on_the_simulator(case: NetworkCase, program: DeployedProgram) -> list[int]:
    """Wrong results of each layer."""
    told = bytearray()
    session = ClusterSession(
        cluster_executable(program, "tiles"), case.config, output=lambda one: told.extend(one.data)
    )
    assert session.run(10_000_000).ok
    stored = program.outside.symbols[program.outputs[-1].symbol]
    results = [*program.results(bytes(told)), program.final(session.memory.read_bytes(stored.address, stored.length))]
    return [found.wrong for found in compared(case, results)]


def require_apart(program: DeployedProgram, memory: int) -> None:
    """No two pieces of memory that are needed in the same step have a byte in common."""
    plan = program.deployment
    for step in range(len(plan.steps)):
        here = sorted((plan.places[one.name], one.size) for one in plan.pieces if one.first <= step <= one.last)
        assert all(at + size <= after for (at, size), (after, _) in pairwise(here))
        assert all(at + size <= memory for at, size in here)


@pytest.fixture
def within(monkeypatch):
    """Programs for less memory than the cluster has."""

    def limit(memory: int) -> None:
        right = deployed_run.deployed_program
        monkeypatch.setattr(
            deployed_run, "deployed_program", lambda *given, **named: right(*given, **named | {"memory": memory})
        )

    return limit


MEMORY = 7 << 10


@pytest.mark.cosim
def test_most_layers_in_tiles(within):
    within(MEMORY)
    result = run_network(case_of(BRANCHES, checked=True, l2_latency=20))
    record = result.record
    assert (record["mismatches"], result.reports) == (0, [])
    tiles = {layer["name"]: layer["tiles"] for layer in record["layers"]}
    assert min(tiles[name] for name in ("conv0", "maxpool1", "add2", "linear5")) > 1
    assert tiles["linear6"] == 0
    assert record["data_bytes"] <= MEMORY
    # what is stored is there: each map that leaves does so once, row by row
    moved = {layer["name"]: (layer["loaded"], layer["stored"]) for layer in record["layers"]}
    assert moved["maxpool1"][1] == moved["add2"][1] == 12 * 12 * 16
    assert moved["add2"][0] >= 2 * 12 * 12 * 16
    assert moved["linear5"][0] > 32 * 576
    assert record["cycles"] == sum(step["cycles"] for step in record["steps"])
    last = len(record["steps"]) - 1
    assert all(0 <= piece["first"] <= piece["last"] <= last for piece in record["plan"])
