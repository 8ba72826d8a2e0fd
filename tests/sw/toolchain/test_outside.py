"""Any value around the map: borders of every kind, inputs that are widened or cut into planes, tiles, networks."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xpulpnn.errors import InputError, LayerError
from xpulpnn_sw.kernels.catalogue import KERNELS, kernel_of
from xpulpnn_sw.layers.layer import Conv1dLayer, ConvLayer, DepthwiseLayer, ImageConvLayer, PointwiseLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.kernels import kernels
from xpulpnn_sw.networks.network import Network, NetworkModel, Scaling
from xpulpnn_sw.networks.network_file import NetworkBuilder, serialised

from ..runs import check, computed

BORDERS = [
    # by groups: all around, rows and columns of nothing but padding, odd runs of words, steps
    *("5x9x16:4x3x3", "3x6x16:4x2x2:p=3x0x0x6", "5x8x4:4x3x3", "5x9x16:4x3x3:s=1x2"),
    # maps of one pixel and smaller than a filter, steps larger than it, rectangles, channels that fill no word
    *("1x1x3:5x3x3", "2x1x5:3x5x1:p=2x2x0x0", "7x7x9:4x2x1:s=3,p=1", "4x6x1:2x1x4:p=0x0x3x2"),
]
WIDTHS = ["8x8x8", "i8x8xi8", "4x4x4", "i2x2xi2", "i8x2x8", "8x4x4", "i4x2x8", "i2x8x8", "4x8xi8", "8x1x8"]


def ends(precision: Precision) -> tuple[int, int]:
    """The value that sets the sign, and the greatest one."""
    half = 1 << (precision.x - 1)
    return (-half, half - 1) if precision.x_signed else (half, 2 * half - 1)


@pytest.mark.flow
@pytest.mark.parametrize("number", range(len(BORDERS)))
def test_borders(number: int):
    layer = ConvLayer.parse(BORDERS[number])
    for turn, widths in enumerate(WIDTHS, number):
        precision = Precision.parse(widths)
        variants = [name for name, level in KERNELS["conv"].variants.items() if level.computes(precision)]
        around = replace(layer, outside=ends(precision)[turn % 2])
        run, _, _ = check(around, precision, variants[turn % len(variants)], specialise=turn % 3 == 0)
        assert run.name.startswith("conv_outside_")


@pytest.mark.flow
@pytest.mark.parametrize(
    "layer",
    [
        DepthwiseLayer.parse("5x6x3:3x3:v=1"),
        DepthwiseLayer.parse("1x1x5:3x5:p=1x1x2x2,v=1"),
        DepthwiseLayer.parse("7x9x2:4x2:s=2x3,p=3x0x1x1,v=1"),
        PointwiseLayer.parse("3x4x9:5:s=2,p=1,v=1"),
        Conv1dLayer.parse("7x5:3x3:d=2,p=3x1,v=1"),
        Conv1dLayer.parse("9x4:4x4:s=3,p=2,v=1"),
    ],
    ids=str,
)
def test_other_layers(layer: Any):
    variants = list(kernel_of(layer).variants.items())
    for turn, widths in enumerate(WIDTHS[:-1]):
        precision = Precision.parse(widths)
        able = [name for name, level in variants if level.computes(precision)]
        run, _, _ = check(replace(layer, outside=ends(precision)[turn % 2]), precision, able[turn % len(able)])
        assert "_outside_" in run.name


def test_margins_of_an_image():
    layer = ImageConvLayer.parse("5x6x3:4x3x3:v=-128:image")
    run, _, _ = check(layer, Precision.parse("i8x8x8"), "nn_4x2")
    assert not run.name.startswith("image_outside")


def test_zeros_have_the_function_of_before():
    layer = ConvLayer.parse("5x6x4:4x3x3")
    precision = Precision.uniform(8)
    plain, _, _ = check(layer, precision, "nn_4x4")
    inside, _, _ = check(ConvLayer.parse("5x6x4:4x3x3:p=0,v=9"), precision, "nn_4x4")
    assert plain.name == inside.name
    np.testing.assert_array_equal(plain.function.words, inside.function.words)


@pytest.mark.parametrize(("widths", "outside"), [("8x8x8", -1), ("i4x4x4", 8), ("1x1x1", 1)])
def test_values_that_no_input_has(widths: str, outside: int):
    precision = Precision.parse(widths)
    with pytest.raises(LayerError, match=rf"^value around the map must be .*, not {outside}$"):
        check(replace(ConvLayer.parse("5x6x4:4x3x3"), outside=outside), precision, "xpulpv2_4x2")
    assert precision.padding_value(precision.outside) == precision.padding_value(0) == precision.outside


def test_pad_of_a_network():
    """The pad of a layer is what its kernel has around the map, and what the file says."""
    arrays = {"weights": np.ones((4, 3, 3, 4), int), "shift": np.array(2)}

    def added(layer: str, **pad: int) -> Any:
        return NetworkBuilder("padded").add("first", "conv", layer, "i8x8xi8", arrays, requantise="shift", **pad)

    stage, same = added("4x4x4:4x3x3", pad=-128), added("4x4x4:4x3x3:v=-128")
    assert stage.layer == same.layer
    assert stage.pad == same.pad == -128
    network = Network(name="padded", stages=(stage,))
    (run,) = kernels(network, np.full((4, 4, 4), -128), ["nn_4x4"], cores=1)
    assert np.all(computed(run) == -128)
    assert '"layer": "4x4x4:4x3x3"' in serialised(NetworkModel(network=network, scaling=Scaling()), "padded.npz")[0]
    with pytest.raises(InputError, match=r"^first: pad must be that of the layer 4x4x4:4x3x3:v=-128, not 3$"):
        added("4x4x4:4x3x3:v=-128", pad=3)
