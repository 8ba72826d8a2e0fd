"""Kernels of numbers that are -1 or +1, a bit each, on the instruction-set simulator."""

from dataclasses import replace

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn.errors import InputError
from xpulpnn_sim.api.random_layers import random_cases
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import case_tensors, reference
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.kernels.requantisation import Requantisation, Rule, Thresholds
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import ONE_PIXEL, VARIANTS
from xpulpnn_sw.layers.convolution import ConvLayer, MatmulLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.packed_layer import packed

from .runs import check, check_named, computed, tensors_of

ONE = Precision(1, 1, 1)
SUMS = Precision(1, 1, 1).accumulators
SEED = 11


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(("text", "precision"), [("4x5x41:9x3x2:p=1x0x1x2,s=2x1", "1x1x1"), ("3x5x32:6x3x3", "1x1x32")])
def test_convolution(name: str, text: str, precision: str):
    """Channels that fill no word, borders on three sides, pixels and channels left over; then a word by itself."""
    layer, widths = ConvLayer.parse(text), Precision.parse(precision)
    tensors = tensors_of(layer, widths, SEED)
    check(layer, widths, name, tensors, cores=2 if widths.requantised else 1)
    assert not widths.requantised or 0.2 < (reference(layer, tensors, widths) > 0).mean() < 0.8


OTHERS = [
    *(("pointwise", "3x5x70:9", "1x1x1", name) for name in ("xpulpv2_4x2", "nn_4x4")),
    *(("conv1d", "7x33:5x3:p=2,d=2", "1x1x1", name) for name in ("xpulpv2_4x2", "nn_4x4")),
    *(("matmul", "9x75x5", "1x1x1", name) for name in ("xpulpv2_4x2", "nn_4x4")),
    *(("linear", "101:19", precision, name) for name in ONE_PIXEL for precision in ("1x1x1", "1x1xi32")),
    # of one bit are the weights only, as in a first layer, or the inputs only
    ("conv", "4x5x20:9x3x3", "8x1x4", "nn_4x4"),
    ("conv", "4x5x20:9x3x3", "i4x1x1", "simd_4x2"),
    ("conv", "4x5x20:9x3x3", "1x4x8", "cu_4x2"),
    ("conv", "4x5x20:9x3x3", "1xu2x1", "nn_4x2"),
]


@pytest.mark.parametrize(("kernel", "text", "precision", "name"), OTHERS)
def test_other_layers_and_widths(kernel: str, text: str, precision: str, name: str):
    cores = 1 if kernel == "conv" else 3
    check_named(kernel, text, precision, name, cores=cores, seed=SEED, specialise=kernel == "conv1d")


def test_counts_that_are_normalised():
    """The accumulators of counts are those of any other kernel."""
    layer, precision = MatmulLayer.parse("5x40x3"), Precision(1, 1, 4)
    tensors = replace(
        tensors_of(layer, SUMS, SEED),
        requantisation=Requantisation(kappa=np.arange(3, 8), lam=np.full(5, 64), shift=4),
    )
    for name in ("rv32im_2x2", "xpulpv2_1x2"):
        check(layer, precision, name, tensors)


@pytest.mark.parametrize("name", ["rv32im_2x2", "xpulpv2_4x2", "nn_4x4"])
def test_a_sum_at_its_threshold_is_minus_one(name: str):
    """Rows of 33 numbers of which 0 to 33 are +1, and thresholds that meet sums, lie between them, and beyond."""
    inputs = np.where(np.arange(33) < np.arange(34)[:, np.newaxis], 1, -1)
    sums = inputs.sum(axis=1)
    thresholds = np.array([-34, -33, -32, -1, 0, 1, 32, 33, 32767, -32768])
    layer = MatmulLayer(out_channels=10, reduction=33, pixels=34)
    tensors = LayerTensors(
        activations=inputs,
        weights=np.ones((10, 33), np.int64),
        bias=np.array([0] * 8 + [7, 2**31 - 40]),
        requantisation=Thresholds(values=thresholds[:, np.newaxis]),
    )
    got = computed(kind("matmul").build(layer, ONE, name, tensors))
    above = sums[:, np.newaxis] + tensors.bias > thresholds
    np.testing.assert_array_equal(got, np.where(above, 1, -1))


@pytest.mark.parametrize("name", ["rv32im_2x2", "xpulpv2_4x2", "nn_4x2"])
def test_around_the_map_are_minus_ones(name: str):
    """Filters of +1 on a map of +1: in a corner five of nine products are -1, at an edge three."""
    layer = ConvLayer.parse("3x4x35:4x3x3")
    ones = {"activations": np.ones((3, 4, 35), np.int64), "weights": np.ones((4, 3, 3, 35), np.int64)}
    got = computed(kind("conv").build(layer, SUMS, name, LayerTensors(**ones)))
    row, inner = [-35, 105, 105, -35], [105, 315, 315, 105]
    np.testing.assert_array_equal(got[..., 2], np.array([row, inner, row]))


def test_words_of_the_loop():
    """A word of 32 products: 30 instructions for eight with ``p.cnt``; 1.06 of crumbs for half a word."""
    layer = ConvLayer.parse("4x4x32:8x3x3")
    for name, instructions, products in (("xpulpv2_4x2", 30, 8), ("xpulpv2_2x2", 16, 4), ("nn_4x4", 17, 16)):
        run = kind("conv").build(layer, ONE, name, tensors_of(layer, ONE, SEED))
        inner = run.function.inner
        copies = 8 // VARIANTS[name].nch
        assert (int(inner.sum()), int((inner & run.function.is_dotp).sum())) == (
            instructions * copies,
            products * copies,
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--precision 1x1x1 --requantise shift", "requantisation must be thresholds"),
        ("--bits 1 --variant nn_4x4 --preset ri5cy", "(needs XpulpMLnn)"),
    ],
)
def test_bad_input(words: str, message: str, refused):
    assert message in refused("cosim", "conv", *words.split())


def test_cores_without_narrow_products_have_them():
    """Nothing but XpulpV2 is needed to count."""
    level = VARIANTS["xpulpv2_4x2"]
    assert level.vectors(ONE) == frozenset()
    assert level.extensions <= preset("ri5cy").extensions


def test_packed_weights_of_one_bit():
    """The words are those of the kernel; anything but -1 and +1 is refused, and so is a rule without thresholds."""
    layer, computing = ConvLayer.parse("4x4x40:8x3x3"), kind("conv")
    tensors = tensors_of(layer, ONE, SEED)
    arrays = {"weights": tensors.weights, "bias": tensors.bias, "thresholds": tensors.requantisation.values}
    run = packed(computing, layer, ONE, "xpulpv2_4x2", arrays, Rule.BN32)
    built = computing.build(layer, ONE, "xpulpv2_4x2", tensors).image
    assert sorted(run.contents) == ["parameters", "weights"]
    for name, words in run.contents.items():
        np.testing.assert_array_equal(words.view(np.uint8), built.view(name))
    with pytest.raises(InputError, match=r"^weights of one bit must be -1 or 1, not 0$"):
        packed(computing, layer, ONE, "xpulpv2_4x2", arrays | {"weights": tensors.weights * 0}, Rule.BN32)
    with pytest.raises(InputError, match=r"^requantisation must be thresholds for results of one bit, not shift$"):
        packed(computing, layer, ONE, "xpulpv2_4x2", arrays, Rule.SHIFT)


def test_random_layers_and_extreme_ones():
    """Of the campaign that the command line runs."""
    cases = random_cases("conv", 12, config=preset("xpulpnn-full"), machine=Machine(seed=40), precisions=[ONE, SUMS])
    for case in [*cases[:6], *(replace(case, extreme=True) for case in cases[6:])]:
        tensors = case_tensors(case)
        check(case.layer, case.precision, case.variant, tensors, specialise=case.specialise)
