"""Networks of depthwise and pointwise convolutions by turns: maps change their order in memory between them."""

import numpy as np
import pytest
from tests.designs import BEYOND, FOUR
from tests.networks import network_of

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import run_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase

LAYERS = (
    ("conv", "8x8x3:12x3x3", "8x8x{bits}"),
    ("depthwise", "8x8x12:3x3", "{bits}x{bits}x{bits}"),
    ("pointwise", "8x8x12:20", "{bits}x{bits}x{bits}"),
    ("depthwise", "8x8x20:3x3:s=2", "{bits}x{bits}x{bits}"),
    ("pointwise", "4x4x20:20", "{bits}x{bits}x{bits}"),
    ("avgpool", "4x4x20:4x4:scaled", "{bits}x{bits}x{bits}"),
    ("linear", "20:10:raw", "{bits}x{bits}xi32"),
)


@pytest.mark.cosim
@pytest.mark.parametrize(("config", "bits"), [(BEYOND, 8), (BEYOND, 2), (FOUR, 4)], ids=["one-8", "one-2", "four-4"])
def test_every_layer(config: ClusterConfig, bits: int):
    """All are as the reference says, and transpositions take less than a fifth of what is behind them."""
    image = np.random.default_rng(9).integers(0, 256, (8, 8, 3))
    network, _ = network_of(
        [(name, layer, precision.format(bits=bits)) for name, layer, precision in LAYERS], seed=bits
    )
    result = run_network(NetworkCase(network=network, image=image, config=config, machine=Machine()))
    layers = {layer["name"]: layer for layer in result.record["layers"]}
    assert (result.record["mismatches"], result.reports) == (0, [])
    assert list(layers) == [
        *("conv0", "conv0.planes", "depthwise1", "pointwise2", "pointwise2.planes", "depthwise3", "pointwise4"),
        *("avgpool5", "linear6"),
    ]
    for before, after in (("conv0.planes", "depthwise1"), ("pointwise2.planes", "depthwise3")):
        assert layers[before]["cycles"] < layers[after]["cycles"] / 5
