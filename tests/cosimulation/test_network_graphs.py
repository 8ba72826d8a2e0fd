"""Networks whose layers compute with results of any layers before them, on one core."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import networks
from tests.designs import BEYOND
from tests.random_graphs import random_graph

from xpulpnn.errors import LayerError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.cosimulation.networks.network_run import build_network, run_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sim.cosimulation.networks.summary import classified
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks import chain
from xpulpnn_sw.networks.importers.registry import ImportOptions, import_model
from xpulpnn_sw.networks.kernels import input_pieces, kernels
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage

NETS = os.environ.get("XPULPNN_NETS")

needs_nets = pytest.mark.skipif(NETS is None, reason="XPULPNN_NETS names no folder with models and cifar20")


def case_of(network: Network, image: np.ndarray) -> NetworkCase:
    return NetworkCase(network=network, image=image, config=BEYOND, machine=Machine(), checked=False)


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


@pytest.mark.cosim
@pytest.mark.parametrize("first", range(0, 12, 6))
def test_random_networks(first):
    """Every layer of each, of any kernels, widths, rules, channels and branches."""
    for seed in range(first, first + 6):
        network, images = random_graph(seed)
        result = run_network(case_of(network, images[0]))
        assert (seed, result.record["mismatches"], result.reports) == (seed, 0, [])


@pytest.mark.cosim
def test_another_input_for_all_that_read_it():
    """Three layers do, from two places in memory: the program is that of another input."""
    case = diamond()
    built = build_network(case)
    other = replace(case, image=255 - case.image)
    first, second = built.run(), built.fed(other).run()
    assert (first.record["mismatches"], second.record["mismatches"]) == (0, 0)
    assert first.scores.tolist() != second.scores.tolist()


@pytest.mark.cosim
def test_an_input_in_several_orders():
    """With margins, without, and channel by channel."""
    stages = (
        stage("margins", "conv", "5x6x4:4x3x3:image", "8x8x8", NETWORK_INPUT),
        stage("without", "pointwise", "5x6x4:4", "8x8x8", NETWORK_INPUT),
        stage("apart", "depthwise", "5x6x4:3x3", "8x8x8", NETWORK_INPUT),
        stage("two", "add", "5x6x4", "8xu8x8", "margins", "without"),
        stage("three", "add", "5x6x4", "8xu8x8", "two", "apart"),
    )
    case = case_of(Network(name="orders", stages=stages), np.random.default_rng(2).integers(0, 256, (5, 6, 4)))
    assert len(input_pieces(case.computed, kernels(case.computed, case.given, case.variants, cores=1))) == 3
    built = build_network(case)
    for image in (case.image, case.image[::-1]):
        assert built.fed(replace(case, image=image)).run().record["mismatches"] == 0


@pytest.mark.cosim
@pytest.mark.parametrize("others", [0, 1])
def test_results_are_folded_for_a_pooling_alone(others):
    wide = stage("wide", "conv", "8x8x16:16x3x3", "8x8x8")
    pool = stage("pool", "maxpool", "8x8x16:3x3:s=2,p=0x1x0x1", "8xu8x8", "wide")
    other = stage("other", "maxpool", "8x8x16:2x2:s=2", "8xu8x8", "wide")
    both = stage("both", "add", "4x4x16", "8xu8x8", "pool", "other" if others else "pool")
    network = Network(name="pools", stages=(wide, pool, *[other] * others, both))
    result = run_network(case_of(network, np.random.default_rng(3).integers(0, 256, (8, 8, 16))))
    assert (result.record["mismatches"], result.record["layers"][0]["folded"]) == (0, not others)


@pytest.mark.cosim
def test_a_wrong_source_is_found():
    """A sum of other maps; what does not depend on it stays right."""
    case = diamond()
    expected = [batch[0] for batch in run_reference(case.network, case.image[np.newaxis])]
    wrong = replace(DIAMOND[3], sources=("both", "left"))
    result = run_network(replace(diamond((*DIAMOND[:3], wrong, DIAMOND[4])), expected=expected))
    found = {layer["name"]: layer["mismatches"] > 0 for layer in result.record["layers"]}
    assert found == {"left": False, "right": False, "both": False, "again": True, "last": True}


@pytest.mark.cosim
def test_a_map_that_is_too_short_is_found(monkeypatch):
    """Its end and the beginning of what lies behind it are at the same place."""
    right = chain.map_bytes
    monkeypatch.setattr(
        chain, "map_bytes", lambda *of: {name: size - 64 * (name == "left") for name, size in right(*of).items()}
    )
    found = run_network(diamond()).record
    assert {layer["name"] for layer in found["layers"] if layer["mismatches"]} >= {"both", "last"}


@pytest.mark.cosim
def test_many_layers():
    """More argument structures than an immediate reaches, and no product."""
    stages = [stage(f"pool{number}", "maxpool", "1x1x4:1x1", "8x8x8") for number in range(40)]
    result = run_network(case_of(Network(name="pools", stages=tuple(stages)), np.array([3, 4, 5, 128])))
    assert (result.record["mismatches"], result.scores.tolist()) == (0, [3, 4, 5, 128])


TOO_LARGE = {"_MOST_CODE": "code of diamond must be at most 100 bytes, not ", "_MOST_DATA": "data of diamond must be "}


@pytest.mark.unit
@pytest.mark.parametrize("name", TOO_LARGE)
def test_networks_larger_than_memory(name, monkeypatch):
    monkeypatch.setattr(chain, name, 100)
    with pytest.raises(LayerError, match=f"^{TOO_LARGE[name]}"):
        build_network(diamond())


LIMITS = {
    "resnet8_int8.tflite": (4_300_000, 18),
    "cnv_w1a1_cifar10.npz": (7_500_000, 20),
}
"""Of a model the most cycles for an image, and how many of the 20 are classified as labelled."""


@needs_nets
@pytest.mark.cosim
@pytest.mark.parametrize("name", LIMITS)
def test_models(name):
    cycles, least = LIMITS[name]
    folder = Path(NETS or "")
    described = import_model(folder / name, ImportOptions(name="model"))
    images = read_images(folder / "cifar20")
    assert classified(described, images).right >= least
    image = described.inputs(images.samples[0])
    result = run_network(case_of(described.network, image))
    assert (result.record["mismatches"], result.reports) == (0, [])
    assert result.record["cycles"] <= cycles
