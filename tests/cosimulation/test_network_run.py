"""Networks of any shape: what layers compute, load and store, and programs for several inputs."""

from dataclasses import replace

import numpy as np
import pytest
from tests import networks
from tests.designs import BEYOND, FOUR, FULL
from tests.random_graphs import random_graph

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import LayerError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.cosimulation.networks.network_run import BuiltChain, build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase, NetworkResult, memory_plan, outside_plan
from xpulpnn_sim.cosimulation.networks.summary import classified
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.kernels.layout import Symbol
from xpulpnn_sw.kernels.tiling.transfer import DmaTransfer
from xpulpnn_sw.networks import kernels as module
from xpulpnn_sw.networks.importers.registry import ImportOptions, import_model
from xpulpnn_sw.networks.kernels import input_pieces, kernels
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage

pytestmark = pytest.mark.cosim


def case_of(network: Network, image: np.ndarray, config=BEYOND) -> NetworkCase:
    return NetworkCase(network=network, image=image, config=config, machine=Machine(), checked=False)


def run_right(case: NetworkCase) -> NetworkResult:
    result = build_network(case).run()
    assert (result.record["mismatches"], result.reports) == (0, [])
    return result


def stage(name: str, kernel: str, layer: str, precision: str, *sources: str) -> Stage:
    return networks.stage(name, kernel, layer, precision, *sources, rng=np.random.default_rng(len(name)))


DIAMOND = (
    stage("left", "conv", "5x6x8:8x3x3", "8x8x8", NETWORK_INPUT),
    stage("right", "pointwise", "5x6x8:8", "8x8x8", NETWORK_INPUT),
    stage("both", "add", "5x6x8", "8xu8x8", "left", "right"),
    stage("again", "add", "5x6x8:shift", "8xu8x8", "both", NETWORK_INPUT),
    stage("last", "linear", "240:4", "8x8x8", "again"),
)


def diamond(stages: tuple[Stage, ...] = DIAMOND) -> NetworkCase:
    image = np.random.default_rng(1).integers(0, 256, (5, 6, 8))
    return case_of(Network(name="diamond", stages=stages), image)


def test_random_networks():
    for seed in range(6):
        network, images = random_graph(seed, moving=seed % 2 == 1)
        run_right(case_of(network, images[0]))


def test_an_input_in_several_orders():
    """With margins, without for two layers, and channel by channel."""
    stages = (
        stage("margins", "conv", "5x6x4:4x3x3:image", "8x8x8", NETWORK_INPUT),
        stage("without", "pointwise", "5x6x4:4", "8x8x8", NETWORK_INPUT),
        stage("apart", "depthwise", "5x6x4:3x3", "8x8x8", NETWORK_INPUT),
        stage("two", "add", "5x6x4", "8xu8x8", "margins", "without"),
        stage("three", "add", "5x6x4", "8xu8x8", "two", "apart"),
        stage("four", "add", "5x6x4", "8xu8x8", "three", NETWORK_INPUT),
    )
    case = case_of(Network(name="orders", stages=stages), np.random.default_rng(2).integers(0, 256, (5, 6, 4)))
    assert len(input_pieces(case.legalised, kernels(case.legalised, case.legalised_input, case.variants, cores=1))) == 3
    built = build_network(case)
    for image in (case.image, case.image[::-1]):
        assert built.with_input(replace(case, image=image)).run().record["mismatches"] == 0


@pytest.mark.parametrize("others", [0, 1])
def test_results_are_folded_for_a_pooling_alone(others):
    wide = stage("wide", "conv", "8x8x16:16x3x3", "8x8x8")
    pool = stage("pool", "maxpool", "8x8x16:3x3:s=2,p=0x1x0x1", "8xu8x8", "wide")
    other = stage("other", "maxpool", "8x8x16:2x2:s=2", "8xu8x8", "wide")
    both = stage("both", "add", "4x4x16", "8xu8x8", "pool", "other" if others else "pool")
    network = Network(name="pools", stages=(wide, pool, *[other] * others, both))
    result = run_right(case_of(network, np.random.default_rng(3).integers(0, 256, (8, 8, 16))))
    assert result.record["layers"][0]["folded"] == (not others)


def test_a_wrong_source_is_found():
    """A sum of other maps; what does not depend on it stays right."""
    case = diamond()
    expected = [batch[0] for batch in run_reference(case.network, case.image[np.newaxis])]
    wrong = replace(DIAMOND[3], sources=("both", "left"))
    result = build_network(replace(diamond((*DIAMOND[:3], wrong, DIAMOND[4])), expected=expected)).run()
    wrong = {layer["name"]: layer["mismatches"] > 0 for layer in result.record["layers"]}
    assert wrong == {"left": False, "right": False, "both": False, "again": True, "last": True}


def test_a_map_that_is_too_short_is_found(monkeypatch):
    """Its end and the beginning of what lies behind it are at the same place."""
    right = module.map_bytes
    monkeypatch.setattr(
        module, "map_bytes", lambda *of: {name: size - 64 * (name == "left") for name, size in right(*of).items()}
    )
    record = build_network(diamond()).run().record
    assert {layer["name"] for layer in record["layers"] if layer["mismatches"]} >= {"both", "last"}


def test_many_layers():
    """More argument structures than an immediate reaches, and no product."""
    stages = [stage(f"pool{number}", "maxpool", "1x1x4:1x1", "8x8x8") for number in range(40)]
    result = run_right(case_of(Network(name="pools", stages=tuple(stages)), np.array([3, 4, 5, 128])))
    assert result.scores.tolist() == [3, 4, 5, 128]


def test_heads_of_single_pixels():
    """Weights narrower than inputs, on a core that widens them for several pixels alone."""
    stages = (
        stage("sums", "linear", "9:16", "i8x8xi8", NETWORK_INPUT),
        stage("wide", "pointwise", "1x1x16:8", "i8x2xi8", "sums"),
        stage("last", "pointwise", "1x1x8:5", "i8x4xi32", "wide"),
    )
    run_right(case_of(Network(name="heads", stages=stages), np.arange(-4, 5)))


def first_layers(bits: int, config, layers: int = 7) -> NetworkCase:
    case = networks.cifar10_case(bits, config)
    return replace(case, network=replace(case.network, stages=case.network.stages[:layers]))


@pytest.mark.parametrize("config", [FULL, FOUR], ids=["core", "cluster"])
def test_the_program_for_another_input_is_the_one_made_for_it(config):
    first = first_layers(2, config)
    other = replace(first, image=np.flip(first.image, axis=0).copy())
    made, fed = build_network(other).executable, build_network(first).with_input(other).executable
    assert [segment.data for segment in fed.segments] == [segment.data for segment in made.segments]
    assert made.segments != build_network(first).executable.segments


def test_another_input_has_other_results_and_what_is_expected_counts():
    first = first_layers(2, FULL, layers=2)
    other = replace(first, image=np.flip(first.image, axis=0).copy())
    expected = [values[0] for values in run_reference(other.network, other.image[np.newaxis])]
    result = build_network(first).with_input(replace(other, expected=expected)).run()
    assert (result.record["mismatches"], result.reports) == (0, [])
    assert result.scores.tolist() == expected[-1].reshape(-1).tolist()
    assert result.scores.tolist() != build_network(first).run().scores.tolist()
    expected[1] = expected[1].copy()
    expected[1][3, 4, 5] ^= 1
    wrong = build_network(first).with_input(replace(other, expected=expected)).run()
    assert [layer["mismatches"] for layer in wrong.record["layers"]] == [0, 1]
    mismatch = f"pool1[3][4][5]: expected {expected[1][3, 4, 5]}, got {expected[1][3, 4, 5] ^ 1} (1 wrong results)"
    assert wrong.reports == [mismatch]


def test_bytes_loaded_and_stored_are_those_of_the_retirements():
    case = first_layers(2, BEYOND, layers=3)
    built = build_network(case)
    assert isinstance(built, BuiltChain)
    layers = built.run().record["layers"]
    text = built.chain.function.function
    seen = np.zeros((len(text), 2), np.int64)

    def count(blocks):
        (records,) = blocks
        at = (records["pc_rdata"].astype(np.int64) - int(text.pcs[0])) // 4
        inside = (at >= 0) & (at < len(text))
        for side, field in enumerate(("mem_rmask", "mem_wmask")):
            np.add.at(seen[:, side], at[inside], np.bitwise_count(records[field][inside]))

    assert run_program(built.executable, case.config, case.machine, observer=count).exit.ok
    for layer in layers:
        function = text.region(layer["name"])
        assert (layer["read"], layer["written"]) == tuple(seen[function].sum(axis=0).tolist()), layer["name"]
        assert min(layer["read"], layer["written"]) > 0


def test_memory_by_lifetime():
    network = first_layers(2, FULL).network
    names = ("im2col", "input", "conv1.output", "conv1.ahead", "conv1.weights", "pool1.output", "stack")
    symbols = {name: Symbol(64 * number, 64 * (name != "conv1.ahead")) for number, name in enumerate(names)}
    lifetimes = {
        piece["name"]: (piece["address"], piece["first"], piece["last"]) for piece in memory_plan(network, symbols)
    }
    assert lifetimes == {
        "im2col": (0, 0, 6),
        "input": (64, 0, 0),
        "conv1.output": (128, 0, 1),
        "conv1.weights": (256, 0, 0),
        "pool1.output": (320, 1, 2),
        "stack": (384, 0, 6),
    }


def test_memory_outside_by_transfer():
    symbols = {"weights": Symbol(300, 60), "input": Symbol(100, 200), "call": Symbol(360, 32)}

    def moved(outside):
        return DmaTransfer(inside=0, outside=outside, line=20, inwards=True)

    plan = outside_plan(symbols, [(moved(100), moved(300)), (), (moved(299), moved(359)), (moved(340),)])
    assert plan == [
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


@pytest.mark.parametrize(("config", "bits"), [(BEYOND, 2), (FOUR, 4)], ids=["one-2", "four-4"])
def test_every_layer(config: ClusterConfig, bits: int):
    """All are as the reference says, and transpositions take less than a fifth of what is behind them."""
    image = np.random.default_rng(9).integers(0, 256, (8, 8, 3))
    network, _ = networks.network_of(
        [(name, layer, precision.format(bits=bits)) for name, layer, precision in LAYERS], seed=bits
    )
    result = run_right(NetworkCase(network=network, image=image, config=config, machine=Machine()))
    layers = {layer["name"]: layer for layer in result.record["layers"]}
    assert list(layers) == [
        *("conv0", "conv0.planes", "depthwise1", "pointwise2", "pointwise2.planes", "depthwise3", "pointwise4"),
        *("avgpool5", "linear6"),
    ]
    for before, after in (("conv0.planes", "depthwise1"), ("pointwise2.planes", "depthwise3")):
        assert layers[before]["cycles"] < layers[after]["cycles"] / 5


TOO_LARGE = {"_MOST_CODE": "code of diamond must be at most 100 bytes, not ", "_MOST_DATA": "data of diamond must be "}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_networks_larger_than_memory(name, monkeypatch):
    monkeypatch.setattr(module, name, 100)
    with pytest.raises(LayerError, match=f"^{TOO_LARGE[name]}"):
        build_network(diamond())


LIMITS = {"resnet8_int8.tflite": (4_300_000, 18), "cnv_w1a1_cifar10.npz": (7_500_000, 20)}
"""Most cycles of a model for an image, and number of the 20 that are classified as labelled."""


@pytest.mark.parametrize("name", LIMITS)
def test_models(name, nets):
    cycles, least = LIMITS[name]
    described = import_model(nets / name, ImportOptions(name="model"))
    images = read_images(nets / "cifar20")
    assert classified(described, images).right >= least
    image = described.inputs(images.samples[0])
    assert run_right(case_of(described.network, image)).record["cycles"] <= cycles
