"""A network's program for several inputs, and the bytes that its layers load and store."""

from dataclasses import replace

import numpy as np
import pytest
from tests.designs import BEYOND, FOUR, FULL
from tests.networks import network_of

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import BuiltChain, build_network, run_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase, memory_plan, outside_plan
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.kernels.layout import Symbol
from xpulpnn_sw.kernels.tiling.division import DmaTransfer
from xpulpnn_sw.networks.network import Network


def case(bits: int, config, layers: int = 7) -> NetworkCase:
    network, image = random_network(bits, seed=bits)
    short = Network(name="short", stages=network.stages[:layers])
    return NetworkCase(network=short, image=image, config=config, machine=Machine(max_cycles=1 << 40), checked=False)


@pytest.mark.unit
@pytest.mark.parametrize("config", [FULL, FOUR], ids=["core", "cluster"])
def test_the_program_for_another_input_is_the_one_made_for_it(config):
    first = case(2, config)
    other = replace(first, image=np.flip(first.image, axis=0).copy())
    made, fed = build_network(other).executable, build_network(first).fed(other).executable
    assert [one.data for one in fed.segments] == [one.data for one in made.segments]
    assert made.segments != build_network(first).executable.segments


@pytest.mark.cosim
def test_another_input_has_other_results_and_what_is_expected_counts():
    first = case(2, FULL, layers=2)
    other = replace(first, image=np.flip(first.image, axis=0).copy())
    expected = [values[0] for values in run_reference(other.network, other.image[np.newaxis])]
    result = build_network(first).fed(replace(other, expected=expected)).run()
    assert (result.record["mismatches"], result.reports) == (0, [])
    assert result.scores.tolist() == expected[-1].reshape(-1).tolist()
    assert result.scores.tolist() != run_network(first).scores.tolist()
    expected[1] = expected[1].copy()
    expected[1][3, 4, 5] ^= 1
    wrong = build_network(first).fed(replace(other, expected=expected)).run()
    assert [layer["mismatches"] for layer in wrong.record["layers"]] == [0, 1]
    assert wrong.reports[0].startswith("pool1[3][4][5]: expected ")


@pytest.mark.cosim
@pytest.mark.parametrize("config", [FULL, BEYOND], ids=["full", "beyond"])
def test_bytes_loaded_and_stored_are_those_of_the_retirements(config):
    one = case(2, config, layers=3)
    built = build_network(one)
    assert isinstance(built, BuiltChain)
    layers = built.run().record["layers"]
    text = built.made.function.function
    seen = np.zeros((len(text), 2), np.int64)

    def count(blocks):
        (records,) = blocks
        at = (records["pc_rdata"].astype(np.int64) - int(text.pcs[0])) // 4
        inside = (at >= 0) & (at < len(text))
        for side, field in enumerate(("mem_rmask", "mem_wmask")):
            np.add.at(seen[:, side], at[inside], np.bitwise_count(records[field][inside]))

    assert run_program(built.executable, one.config, one.machine, observer=count).exit.ok
    for layer in layers:
        here = text.region(layer["name"])
        assert (layer["read"], layer["written"]) == tuple(seen[here].sum(axis=0).tolist()), layer["name"]
        assert min(layer["read"], layer["written"]) > 0


@pytest.mark.unit
def test_memory_by_lifetime():
    network = case(2, FULL).network
    names = ("im2col", "input", "conv1.output", "conv1.ahead", "conv1.weights", "pool1.output", "stack")
    symbols = {name: Symbol(64 * number, 64 * (name != "conv1.ahead")) for number, name in enumerate(names)}
    found = {
        piece["name"]: (piece["address"], piece["first"], piece["last"]) for piece in memory_plan(network, symbols)
    }
    assert found == {
        "im2col": (0, 0, 6),
        "input": (64, 0, 0),
        "conv1.output": (128, 0, 1),
        "conv1.weights": (256, 0, 0),
        "pool1.output": (320, 1, 2),
        "stack": (384, 0, 6),
    }


@pytest.mark.unit
def test_memory_outside_by_transfer():
    symbols = {"weights": Symbol(300, 60), "input": Symbol(100, 200), "call": Symbol(360, 32)}

    def moved(outside):
        return DmaTransfer(inside=0, outside=outside, line=20, inwards=True)

    found = outside_plan(symbols, [(moved(100), moved(300)), (), (moved(299), moved(359)), (moved(340),)])
    assert found == [
        {"name": "input", "address": 100, "bytes": 200, "first": 0, "last": 2},
        {"name": "weights", "address": 300, "bytes": 60, "first": 0, "last": 3},
    ]


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
