"""Networks of depthwise and pointwise convolutions by turns: maps change their order in memory between them."""

from dataclasses import replace

import numpy as np
import pytest

from xpulpnn.config import ClusterConfig, preset
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.models import simulated
from xpulpnn_sim.harness.network_case import NetworkCase
from xpulpnn_sim.harness.network_run import run_network
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.networks.network import Network, Stage
from xpulpnn_sw.precision import Precision

ONE = simulated(preset("xpulpnn2"))
EVERYTHING = simulated(replace(preset("xpulpnn-full"), mac_load_cross=True, mac_load_dot=True, requantise=True))
FOUR = ClusterConfig(core=EVERYTHING, cores=4, icache_private=0)
"""As other tests use them, so that models are shared."""

LAYERS = (
    ("conv", "8x8x3:12x3x3", "8x8x{bits}"),
    ("depthwise", "8x8x12:3x3", "{bits}x{bits}x{bits}"),
    ("pointwise", "8x8x12:20", "{bits}x{bits}x{bits}"),
    ("depthwise", "8x8x20:3x3:s=2", "{bits}x{bits}x{bits}"),
    ("pointwise", "4x4x20:20", "{bits}x{bits}x{bits}"),
    ("avgpool", "4x4x20:4x4:scaled", "{bits}x{bits}x{bits}"),
    ("linear", "20:10:raw", "{bits}x{bits}xi32"),
)


def separable(bits: int) -> Network:
    rng, stages = np.random.default_rng(bits), []
    for number, (kernel, text, precision) in enumerate(LAYERS):
        chosen, widths = kind(kernel), Precision.parse(precision.format(bits=bits))
        layer = chosen.layer.parse(text)
        widths = chosen.precision(layer, widths)
        tensors = chosen.tensors(layer, widths, rng)
        stages.append(Stage(name=f"{kernel}{number}", layer=layer, precision=widths, tensors=tensors))
    return Network(name="separable", stages=tuple(stages))


@pytest.mark.cosim
@pytest.mark.parametrize("bits", [8, 4, 2])
@pytest.mark.parametrize("config", [ONE, FOUR], ids=["one", "four"])
def test_every_layer(config: ClusterConfig, bits: int):
    """All are as the reference says, and transpositions take less than a fifth of what is behind them."""
    image = np.random.default_rng(9).integers(0, 256, (8, 8, 3))
    result = run_network(NetworkCase(network=separable(bits), image=image, config=config, machine=Machine()))
    layers = {layer["name"]: layer for layer in result.record["layers"]}
    assert (result.record["mismatches"], result.reports) == (0, [])
    assert list(layers) == [
        *("conv0", "conv0.planes", "depthwise1", "pointwise2", "pointwise2.planes", "depthwise3", "pointwise4"),
        *("avgpool5", "linear6"),
    ]
    for before, after in (("conv0.planes", "depthwise1"), ("pointwise2.planes", "depthwise3")):
        assert layers[before]["cycles"] < layers[after]["cycles"] / 5
