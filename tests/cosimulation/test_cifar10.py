"""The CIFAR-10 network: its layers on the RTL, with random weights and with trained ones where there are any."""

from dataclasses import replace

import numpy as np
import pytest
from tests.designs import BEYOND, FOUR
from tests.networks import cifar10_case
from tests.programs import read_results

from xpulpnn.config import preset
from xpulpnn.errors import LayerError
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.workloads import cifar10
from xpulpnn_sim.cosimulation.workloads.cifar10 import normalised_images, trained_network
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.channelwise.maps import MapTensors
from xpulpnn_sw.layers.layer import LinearLayer, ReluLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.importers.arrays_file import CMSIS_SHAPES
from xpulpnn_sw.networks.kernels import chain
from xpulpnn_sw.networks.network import Network, Stage

pytestmark = pytest.mark.cosim

MACS = 1024 * 32 * 75 + 256 * 16 * 800 + 64 * 32 * 400 + 512 * 10
MOST_CYCLES = 2_300_000
MOST_CYCLES_OF_FOUR = 1_400_000 / 3.75


def test_every_layer_is_right_and_soon():
    result = build_network(cifar10_case(8)).run()
    record, layers = result.record, result.record["layers"]
    assert (record["mismatches"], result.reports) == (0, [])
    assert record["cycles"] <= MOST_CYCLES
    assert record["macs"] == sum(layer["macs"] for layer in layers) == MACS
    assert sum(layer["cycles"] for layer in layers) == pytest.approx(record["cycles"], abs=64)
    assert [layer["kernel"] for layer in layers] == [*["conv", "maxpool"] * 3, "linear"]
    assert all(layer["layer"].endswith(":relu") for layer in layers[1::2])


def test_every_layer_is_faster_where_the_core_requantises():
    case = cifar10_case(2)
    layers, faster = (build_network(network).run().record for network in (case, replace(case, config=BEYOND)))
    assert layers["mismatches"] == faster["mismatches"] == 0
    assert [layer["folded"] for layer in faster["layers"]] == [True, False] * 3 + [False]
    for slow, fast in zip(layers["layers"], faster["layers"], strict=True):
        assert fast["cycles"] < slow["cycles"], fast["name"]


def test_cores_share_every_layer():
    result = build_network(replace(cifar10_case(2), config=FOUR)).run()
    assert (result.record["mismatches"], result.reports) == (0, [])
    assert result.record["cycles"] <= MOST_CYCLES_OF_FOUR
    assert (result.record["cores"], result.record["tcdm_bytes"]) == (4, FOUR.tcdm_bytes)
    assert result.record["stalls"]["bank_conflict"] > 0


@pytest.mark.parametrize("bits", cifar10.WIDTHS)
def test_random_results_spread(bits):
    case = cifar10_case(bits)
    current = case.image
    for stage in case.network.stages:
        current = reference(stage.layer, stage.with_inputs(current), stage.precision).astype(np.int64)
        most = np.unique(current, return_counts=True)[1].max() / current.size
        assert most < (0.65 if bits == 2 else 0.4), stage.name


def test_every_layer_is_computed_by_the_fastest_variant():
    stages = cifar10_case(4).network.stages
    names = {
        name: [
            stage.fastest_variant(preset(name).extensions, preset(name).widths)
            for stage in (stages[0], stages[1], stages[-1])
        ]
        for name in ("ri5cy", "xpulpnn", "xpulpnn-cu", "xpulpnn2")
    }
    assert names == {
        "ri5cy": ["xpulpv2_4x2", "xpulpv2", "xpulpv2_4x1"],
        "xpulpnn": ["nn_4x4", "xpulpnn", "nn_4x1"],
        "xpulpnn-cu": ["cu_4x2", "xpulpnn", "cu_4x1"],
        "xpulpnn2": ["x2_4x4", "xpulpnn", "x2_4x1"],
    }
    assert stages[0].fastest_variant(frozenset(), frozenset()) == "rv32im_2x2"


@pytest.mark.parametrize(("bits", "name"), [(8, "ri5cy"), (4, "xpulpnn-cu"), (2, "xpulpnn2")])
def test_layers_of_every_level_fit_together(bits, name):
    case = replace(cifar10_case(bits), config=preset(name))
    made = chain(case.legalised, case.image, case.variants)
    symbols = made.function.image.symbols
    words = made.function.image.view("arguments").view("<u4").tolist()
    assert all(symbols[step.results.symbol].address in words for step in made.steps)


def relu(name: str, channels: int, bits: int = 8) -> Stage:
    return Stage(
        name=name,
        layer=ReluLayer(height=2, width=2, channels=channels),
        precision=Precision(bits, bits, bits, x_signed=True, y_signed=True),
        tensors=MapTensors(activations=np.zeros((2, 2, channels), np.int64)),
    )


def test_layers_that_do_not_fit_together():
    """Between layers that read pixel by pixel channels may leave gaps; a fully connected one reads everything."""
    layer, precision = LinearLayer(inputs=24, outputs=2, raw=True), Precision.parse("i8x8xi32")
    tensors = find_kernel("linear").tensors(layer, precision, np.random.default_rng(0))
    last = Stage(name="c", layer=layer, precision=precision, tensors=tensors)

    def chained(*stages, channels):
        variants = ["nn_4x1" if stage is last else "xpulpnn" for stage in stages]
        return chain(Network(name="few", stages=stages), np.zeros((2, 2, channels), np.int64), variants)

    gaps = (relu("a", 6), relu("b", 6))
    assert chained(*gaps, channels=6).steps[0].results.pixel_bytes == 8
    for stages, channels, message in (
        ((relu("a", 8), relu("b", 8, 4)), 8, r"inputs of b must be 2x2x8 of i8 as a leaves them, not 2x2x8 of i4"),
        (gaps, 5, r"inputs of a must be \(2, 2, 6\), not \(2, 2, 5\)"),
        ((*gaps, last), 6, "channels of b must fill whole words, not 6"),
    ):
        with pytest.raises(LayerError, match=f"^{message}$"):
            chained(*stages, channels=channels)


def test_input_is_rounded():
    pixels = np.array([[[0, 123, 255], [126, 122, 115]]], np.uint8)
    assert normalised_images(pixels).tolist() == [[[-62, 0, 71], [1, 0, 1]]]


def arrays() -> dict[str, np.ndarray]:
    return {name: np.ones(shape, np.int8) for name, shape in CMSIS_SHAPES.items()}


BY_HAND = {"conv1": (75, -40, 6, 9), "conv2": (800, 3, 4, 9), "conv3": (400, -2, 1, 7), "classify": (512, -1, 1, 8)}
"""Products summed up, all inputs, shifts of biases to the left and of sums to the right."""


@pytest.mark.parametrize("name", BY_HAND)
def test_the_shifts_of_trained_weights(tmp_path, name):
    """Ones for weights, biases of 127, by hand; any other shift gives another result."""
    path = tmp_path / "weights.npz"
    biases = {name: np.full_like(values, 127) for name, values in arrays().items() if name.startswith("b")}
    np.savez(path, **(arrays() | biases))
    (stage,) = (stage for stage in trained_network(path).stages if stage.name == name)
    products, value, left, right = BY_HAND[name]
    inputs = np.full(stage.tensors.activations.shape, value)
    results = reference(stage.layer, stage.with_inputs(inputs), stage.precision)
    inner = results if name == "classify" else results[results.shape[0] // 2, results.shape[1] // 2]

    def by_hand(left, right):
        return max(-128, min(127, (products * value + (127 << left) + (1 << (right - 1))) >> right))

    assert set(inner.tolist()) == {by_hand(left, right)}
    assert by_hand(left, right) not in {by_hand(left - 1, right), by_hand(left + 1, right), by_hand(left, right - 1)}


def test_trained_weights(nets):
    network, images = trained_network(nets / "cmsis_cifar10.npz"), read_images(nets / "cifar20")
    result = build_network(replace(cifar10_case(8), network=network, image=normalised_images(images.samples[0]))).run()
    assert (result.record["mismatches"], result.reports) == (0, [])
    assert result.record["cycles"] <= MOST_CYCLES
    assert int(result.scores.argmax()) == images.checked_labels(10)[0]


@pytest.mark.parametrize(("words", "named"), [("--network a.npz", "--network"), ("--bits 16", "--bits")])
def test_bad_input(words, named, refused):
    assert refused("cosim", "cifar10", *words.split()).startswith(f"{named} must ")


def test_images_of_another_size(tmp_path, refused):
    np.savez(tmp_path / "weights.npz", **arrays())
    np.savez(tmp_path / "small.npz", images=np.zeros((1, 16, 16, 3), np.uint8), labels=np.array([1]))
    words = ("--network", tmp_path / "weights.npz", "--images", tmp_path / "small.npz")
    assert refused("cosim", "cifar10", *words) == f"images must be 32x32x3, not 16x16x3, in {words[-1]}"


def test_the_table_and_the_record(tmp_path, capsys):
    path = tmp_path / "records.json"
    assert cli.main(["cosim", "cifar10", "--bits", "2", "--check", "results", "--json", str(path)]) == 0
    (record,) = read_results(path)
    assert (record["mismatches"], record["cycles"] <= 1_600_000) == (0, True)
    shown = capsys.readouterr().out
    assert f"{record['cycles']:,}" in shown
    assert all(layer["name"] in shown for layer in record["layers"])
