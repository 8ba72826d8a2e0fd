"""Channels added to maps: those that were there hold what they did, and maps fill whole words as kernels see them."""

from collections import Counter

import numpy as np
import pytest
from tests.random_graphs import random_graph

from xpulpnn.config import preset
from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.kernels import kernels
from xpulpnn_sw.networks.legalise import legalise, pad_to_words, padded_input
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage
from xpulpnn_sw.networks.network_file import NetworkBuilder

pytestmark = pytest.mark.flow

SEEDS = range(50)


def built(*layers, name="built"):
    builder = NetworkBuilder(name)
    for words, arrays, options in layers:
        builder.add(*words, arrays, **options)
    return builder.finish().network


def shifted(name, kernel, layer, weights, precision="8x8x8", shift=3, **options):
    arrays = {"weights": np.asarray(weights), "shift": np.array(shift)}
    return (name, kernel, layer, precision), arrays, {"requantise": "shift", **options}


def compared(network, inputs):
    """The results of the original channels, which must be as before, and the network that gave them."""
    wide = pad_to_words(network)
    expected = run_reference(network, inputs)
    got = run_reference(wide, np.stack([padded_input(image, wide) for image in inputs]))
    assert [stage.name for stage in wide.stages] == [stage.name for stage in network.stages]
    for stage, right, actual in zip(network.stages, expected, got, strict=True):
        np.testing.assert_array_equal(actual[..., : right.shape[-1]], right, err_msg=f"{stage.name} {stage.layer}")
    return wide


def test_random_networks_compute_the_same():
    met = Counter()
    for seed in SEEDS:
        network, inputs = random_graph(seed)
        wide = compared(network, inputs)
        for before, after in zip(network.stages, wide.stages, strict=True):
            added = after.output_shape[-1] - before.output_shape[-1]
            met[before.kind.name, before.precision.w if before.multiplies else 0, added > 0] += 1
    products = {"conv": (8, 4, 2, 1), "conv1d": (2, 1), "pointwise": (8, 4, 2, 1), "depthwise": (8, 4, 2)}
    for kind, widths in (dict.fromkeys(("add", "avgpool", "maxpool", "relu"), (0,)) | products).items():
        assert all(met[kind, width, True] for width in widths), kind
    for seed in SEEDS[:10]:
        compared(*random_graph(seed, moving=True))


@pytest.mark.parametrize("core", ["ri5cy", "xpulpnn2"])
def test_kernels_find_pixels_where_others_left_them(core):
    """As they lay out their maps themselves: the same distance from pixel to pixel, without gaps where none may be."""
    config = preset(core)
    for seed in SEEDS[:10]:
        network, inputs = random_graph(seed)
        wide = legalise(network, config.extensions)
        variants = [stage.fastest_variant(config.extensions, config.widths) for stage in wide.stages]
        runs = kernels(wide, padded_input(inputs[0], wide), variants, cores=1)
        written = {stage.name: (stage, run) for stage, run in zip(wide.stages, runs, strict=True)}
        for number, (stage, run) in enumerate(zip(wide.stages, runs, strict=True)):
            for source in wide.sources(number):
                if source == NETWORK_INPUT:
                    continue
                before, left = written[source]
                where = f"{seed} {stage.name} behind {source}"
                pixels, bits = int(np.prod(before.output_shape[:-1])), before.precision.y
                dense = left.output.pixel_bytes * 8 == before.output_shape[-1] * bits
                if bits == 1 or (stage.kind.name == "linear" and pixels > 1):
                    assert dense, where
                if stage.kind.name in ("conv", "avgpool", "maxpool", "transpose"):
                    assert run.arguments["pixel_bytes"] == left.output.pixel_bytes, where


def test_nothing_is_added_without_need():
    """Kernels of one width fill words up alike, so that five channels may stay five."""
    network = built(
        shifted("first", "pointwise", "2x2x5:5", np.ones((5, 1, 1, 5), int)),
        (("pool", "maxpool", "2x2x5:2x2", "8xu8x8"), {}, {}),
        (("last", "linear", "5:2:raw", "8x8xi32"), {"weights": np.ones((2, 5), int)}, {}),
    )
    assert [stage.output_shape for stage in pad_to_words(network).stages] == [(2, 2, 5), (1, 1, 5), (2,)]


def signs(*shape, seed=5):
    return 2 * np.random.default_rng(seed).integers(0, 2, shape) - 1


def bits(layer, kernel, weights, thresholds, *, name, precision="1x1x1", **options):
    arrays = {"weights": weights, "thresholds": np.asarray(thresholds)}
    return (name, kernel, layer, precision), arrays, {"requantise": "thresholds", **options}


@pytest.mark.parametrize("channels", [5, 6])
def test_an_odd_bit_over_is_taken_from_the_biases(channels):
    """Channels added before bits are -1 everywhere, those added behind them too, and so is the margin."""
    network = built(
        bits(f"4x4x3:{channels}x3x3", "conv", signs(channels, 3, 3, 3), [[0]] * channels, name="first"),
        bits(f"4x4x{channels}:7x3x3", "conv", signs(7, 3, 3, channels), [[0]] * 7, name="second"),
        (("last", "linear", "112:3:raw", "1x1xi32"), {"weights": signs(3, 112)}, {}),
    )
    wide = compared(network, signs(4, 4, 4, 3))
    assert [stage.output_shape for stage in wide.stages] == [(4, 4, 32), (4, 4, 32), (3,)]
    first, second, _ = run_reference(wide, signs(4, 4, 4, 3))
    assert (first[..., channels:] == -1).all()
    assert (second[..., 7:] == -1).all()
    over = wide.stages[1].tensors.weights[:7, ..., channels:]
    assert (over.sum(axis=-1) == channels % 2).all()
    # nine pixels of -1 each, which the products with the one that is over sum up to
    assert wide.stages[1].tensors.bias[:7].tolist() == [9 * (channels % 2)] * 7


def test_a_margin_of_ones_needs_an_even_number_of_bits_more():
    def network(channels):
        return built(
            bits(f"4x4x3:{channels}x3x3", "conv", signs(channels, 3, 3, 3), [[0]] * channels, name="first"),
            bits(f"4x4x{channels}:7x3x3", "conv", signs(7, 3, 3, channels), [[0]] * 7, name="second", pad=1),
        )

    with pytest.raises(LayerError, match=r"^channels that second reads must be even with its value around the map"):
        pad_to_words(network(5))
    compared(network(6), signs(4, 4, 4, 3))


def test_weights_of_one_bit_for_other_inputs_become_crumbs():
    rng = np.random.default_rng(3)
    network = built(
        shifted("first", "conv", "4x4x3:5x3x3", rng.integers(-9, 9, (5, 3, 3, 3)), "8x8x4", shift=7),
        bits(
            "4x4x5:6x3x3",
            "conv",
            signs(6, 3, 3, 5),
            np.sort(rng.integers(-90, 90, (6, 15))),
            name="second",
            precision="4x1x4",
            pad=3,
        ),
        (("last", "linear", "96:3:raw", "4x4xi32"), {"weights": rng.integers(-8, 8, (3, 96))}, {}),
    )
    wide = compared(network, rng.integers(0, 256, (4, 4, 4, 3)))
    assert [str(stage.precision) for stage in wide.stages] == ["8x8x4", "4x2x4", "4x4xi32"]


def test_the_input_has_more_channels_where_no_kernel_fills_them_up():
    network = built(
        shifted("wide", "depthwise", "4x4x3:3x3", np.ones((3, 3, 3), int)),
        (
            ("both", "add", "4x4x3:shift", "8xu8x8"),
            {"factors": np.array([1, 1]), "shift": np.array(1)},
            {"sources": ("wide", "input")},
        ),
        (("last", "linear", "48:2:raw", "8x8xi32"), {"weights": np.ones((2, 48), int)}, {}),
    )
    image = np.random.default_rng(4).integers(0, 256, (3, 4, 4, 3))
    wide = compared(network, image)
    assert [stage.output_shape for stage in wide.stages] == [(4, 4, 4), (4, 4, 4), (2,)]
    assert padded_input(image[0], wide).tolist() == np.pad(image[0], ((0, 0), (0, 0), (0, 1))).tolist()
    # a convolution alone fills it up by itself
    alone = built(shifted("first", "conv", "4x4x3:4x3x3", np.ones((4, 3, 3, 3), int)))
    pixels = image[0]
    assert padded_input(pixels, pad_to_words(alone)) is pixels


def test_a_row_of_results_read_as_a_map_must_be_whole():
    def network(channels):
        size = 4 * channels
        return built(
            shifted("row", "linear", f"8:{size}", np.ones((size, 8), int)),
            (("map", "maxpool", f"2x2x{channels}:2x2", "8xu8x8"), {}, {}),
        )

    wide = compared(network(4), np.arange(24).reshape(3, 8))
    kernels(wide, np.arange(8), ["x2_4x1", "xpulpnn"], cores=1)
    with pytest.raises(LayerError, match=r"^channels that map reads must fill whole words, not 3 of row$"):
        pad_to_words(network(3))


def test_summands_have_as_many_channels_as_any_of_them_needs():
    """Weights of crumbs want words of sixteen inputs, which the map of the other summand follows."""
    ones, both = np.ones((5, 1, 1, 5), int), {"factors": np.array([1, 1]), "shift": np.array(3)}
    network = built(
        shifted("first", "pointwise", "2x2x5:5", ones),
        shifted("crumbs", "pointwise", "2x2x5:5", ones, "8x2x8"),
        shifted("other", "pointwise", "2x2x5:5", ones, sources=("first",)),
        (("both", "add", "2x2x5:shift", "8xu8x8"), both, {"sources": ("first", "other")}),
        (("all", "add", "2x2x5:shift", "8xu8x8"), both, {"sources": ("both", "crumbs")}),
        (("last", "linear", "20:2:raw", "8x8xi32"), {"weights": np.ones((2, 20), int)}, {}),
    )
    wide = compared(network, np.arange(40).reshape(2, 2, 2, 5))
    assert {stage.output_shape[-1] for stage in wide.stages[:-1]} == {16}


def test_what_is_suited_stays_as_it_is():
    for seed in SEEDS[:8]:
        once = legalise(random_graph(seed)[0], BASE_EXTENSIONS)
        again = legalise(once, BASE_EXTENSIONS)
        read = [(str(stage.layer), again.sources(number)) for number, stage in enumerate(again.stages)]
        assert read == [(str(stage.layer), stage.sources) for stage in once.stages]


@pytest.mark.parametrize(("core", "rules"), [
    ("xpulpnn3", [Rule.EXACT_ONE_SHIFT, Rule.EXACT]), ("xpulpnn2", [Rule.BN64, Rule.BN64]),
])  # fmt: skip
def test_exact_layers_of_filters_over_all_channels_have_one_shift(core, rules):
    layers = [("pointwise", "4x4x5:6"), ("depthwise", "4x4x6:3x3")]
    rng, stages = np.random.default_rng(1), list[Stage]()
    for name, text in layers:
        layer, precision = KERNELS[name].layer.parse(text), Precision.parse("8x8x8")
        tensors = KERNELS[name].tensors(layer, precision, rng, Rule.EXACT)
        stages.append(Stage(name=name, layer=layer, precision=precision, tensors=tensors))
    network = Network(name="exact", stages=tuple(stages))
    inputs = rng.integers(0, 256, (3, 4, 4, 5))
    legal = legalise(network, preset(core).extensions)
    own = [stage for stage in legal.stages if stage.name in ("pointwise", "depthwise")]
    assert [stage.tensors.rule for stage in own] == rules
    expected = run_reference(network, inputs)
    got = {stage.name: maps for stage, maps in zip(legal.stages, run_reference(legal, inputs), strict=True)}
    for (name, _), right in zip(layers, expected, strict=True):
        np.testing.assert_array_equal(got[name][..., : right.shape[-1]], right)
