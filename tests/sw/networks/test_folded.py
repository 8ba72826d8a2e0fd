"""Convolutions that leave their columns partly pooled, and the poolings that take them so, on the simulator."""

from dataclasses import replace

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn.errors import LayerError
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.layout import fold, is_stored
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.layouts import folded

from ..runs import check, computed

pytestmark = pytest.mark.flow


def test_by_hand():
    columns = np.array([[5, 9, 2, 3, -4, -7, -6, -5]])[:, :, np.newaxis]
    assert fold(columns)[0, :, 0].tolist() == [5, 9, 3, 0, -4, -4, -5, 0]
    assert is_stored(columns)[0, :, 0].tolist() == [1, 1, 1, 0] * 2


@pytest.mark.parametrize("element", ["u8", "i8", "u4", "i4", "u2", "i2"])
@pytest.mark.parametrize("text", ["6x8x16", "5x4x7", "9x12x20", "7x8x16:3x3:s=2,p=0x0x0x1"])
def test_poolings_of_folded_maps(text: str, element: str):
    """Rows cut off below or not; one group of columns and several; what is not stored may be anything."""
    chosen, precision = find_kernel("maxpool"), Precision.parse(f"{element}x{element}x{element}")
    text += "" if ":" in text else ":3x3:s=2,p=0x1x0x1"
    layer = chosen.layer.parse(f"{text}{':relu' if precision.x_signed else ''}")
    least = -(1 << (precision.x - 1)) if precision.x_signed else 0
    shape = (layer.height, layer.width, layer.channels)
    values = np.random.default_rng(len(text)).integers(least, least + (1 << precision.x), shape)
    tensors = replace(chosen.tensors(layer, precision, np.random.default_rng(0)), activations=values, folded=True)
    for cores in (1, 3):
        check(layer, precision, "xpulpnn", tensors, cores=cores, specialise=cores == 3)


@pytest.mark.parametrize(
    ("number", "widths"), [*enumerate(["8x8x8", "i8xi8xi8", "4x4x4", "2x2x2", "8x8x4", "8x8x2", "8x4xi4"])]
)
def test_convolutions_that_fold(number: int, widths: str):
    chosen, precision = find_kernel("conv"), Precision.parse(widths)
    layer = chosen.layer.parse("3x4x8:20x3x3")
    rule = (Rule.BN32, Rule.SHIFT)[number % 2]
    tensors = chosen.tensors(layer, precision, np.random.default_rng(3), rule)
    whole, tensors = reference(layer, tensors, precision), replace(tensors, folded=True)
    cores, name = 1 + number // 2 % 2, ("x2_4x4", "x3_4x4")[number % 3 % 2]
    got = computed(chosen.build(layer, precision, name, tensors, cores=cores, specialise=cores == 2), cores)
    np.testing.assert_array_equal(got[:, 0], whole[:, 0])
    np.testing.assert_array_equal(got[:, 1], whole[:, :3].max(axis=1))
    np.testing.assert_array_equal(got[:, 2], whole[:, 2:].max(axis=1))


def test_what_is_folded():
    """All convolutions of the network but for cores that do not requantise, and where a row has no whole blocks."""
    network, _ = random_network(4, seed=1)
    config = preset("xpulpnn2")
    variants = [stage.fastest_variant(config.extensions, config.widths) for stage in network.stages]
    changed = folded(network, variants, 1 << 32)
    assert [getattr(stage.tensors, "folded", False) for stage in changed.stages] == [True] * 6 + [False]
    assert [stage.layer for stage in changed.stages] == [stage.layer for stage in network.stages]
    for others in (["nn_4x4", *variants[1:]], ["x2_4x2", *variants[1:]]):
        assert [stage.tensors.folded for stage in folded(network, others, 1 << 32).stages[:4]] == [
            False,
            False,
            True,
            True,
        ]


def test_what_cannot_be_folded():
    chosen, precision = find_kernel("maxpool"), Precision.parse("8xu8x8")
    for text in ("8x6x4:3x3:s=2,p=0x1x0x1", "8x8x4:3x3:s=2", "8x8x4:2x2:s=2"):
        layer = chosen.layer.parse(text)
        tensors = replace(chosen.tensors(layer, precision, np.random.default_rng(0)), folded=True)
        with pytest.raises(LayerError, match=r"^pooling of a folded map must be 3x3:s=2,p=0xNx0x1 of whole fours of "):
            chosen.build(layer, precision, "xpulpnn", tensors)
    chosen = find_kernel("conv")
    layer = chosen.layer.parse("4x4x4:4x3x3")
    tensors = replace(chosen.tensors(layer, precision, np.random.default_rng(0)), folded=True)
    with pytest.raises(LayerError, match=r"^variant of folded results must be one that requantises, not nn_4x4$"):
        chosen.build(layer, Precision.uniform(8), "nn_4x4", tensors)
