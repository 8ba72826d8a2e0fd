"""Layers and precisions: the texts that name them, their sizes, and what is none."""

import re
from typing import Any

import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sw.layers import layer as layers
from xpulpnn_sw.layers.precision import Precision


def test_sizes():
    layer = layers.ConvLayer.parse("16x16x32:64x3x3")
    assert (layer.out_height, layer.out_width, layer.reduction, layer.macs) == (16, 16, 288, 4718592)
    assert layers.MatmulLayer.parse("64x288x256").macs == 4718592
    depthwise = layers.DepthwiseLayer.parse("16x16x32:3x3")
    assert (depthwise.padding, depthwise.out_shape, depthwise.area) == ((1, 1, 1, 1), (16, 16), 9)
    assert depthwise.macs == 16 * 16 * 32 * 9
    pool = layers.MaxPoolLayer.parse("32x32x32:3x3:s=2,p=0x1x0x1")
    assert (pool.stride, pool.padding, pool.out_shape) == ((2, 2), (0, 1, 0, 1), (16, 16))
    assert layers.MaxPoolLayer.parse("32x32x32:3x3:s=2").out_shape == (15, 15)
    assert layers.AvgPoolLayer.parse("9x8x3:4x2:s=3x1,p=2x0x1x1:scaled").scaled
    assert layers.AddLayer.parse("4x5x6:shift").shifted
    assert layers.ReluLayer.parse("4x5x6").macs == layers.AddLayer.parse("4x5x6").macs // 2 == 120


@pytest.mark.parametrize(("text", "stride", "padding", "size"), [
    ("9x7x3:5x3x2", (1, 1), (1, 1, 1, 1), (9, 8)), ("9x7x3:5x3x2:s=2", (2, 2), (1, 1, 1, 1), (5, 4)),
    ("9x7x3:5x3x2:p=0,s=2x3", (2, 3), (0, 0, 0, 0), (4, 2)), ("9x7x3:5x3x2:p=1x0x2x3", (1, 1), (1, 0, 2, 3), (8, 11)),
])  # fmt: skip
def test_options(text: str, stride: tuple[int, int], padding: tuple[int, ...], size: tuple[int, int]):
    layer = layers.ConvLayer.parse(text)
    assert (layer.stride, layer.padding, layer.out_shape) == (stride, padding, size)
    assert layers.ConvLayer.parse(str(layer)) == layer


TEXTS = {
    layers.ConvLayer: ["9x7x3:5x3x2:s=2,v=-128", "9x7x3:5x3x2"],
    layers.ImageConvLayer: ["9x7x3:5x3x2:v=7:image", "32x32x3:32x5x5:p=2:image"],
    layers.PointwiseLayer: ["9x7x3:5:p=1,v=255"],
    layers.Conv1dLayer: ["9x7:5x3:d=2,v=-3"],
    layers.LinearLayer: ["9:7", "9:7:raw"],
    layers.MatmulLayer: ["64x288x256"],
    layers.DepthwiseLayer: ["9x7x3:3x3:v=128", "16x16x32:3x3", "9x8x3:4x2:s=3x1,p=0"],
    layers.MaxPoolLayer: ["9x8x3:4x2:p=3x0x1x1", "9x8x3:4x2:s=2:relu"],
    layers.AvgPoolLayer: ["9x8x3:4x2:s=2:scaled", "9x8x3:4x2"],
    layers.AddLayer: ["4x5x6", "4x5x6:shift"],
}


@pytest.mark.parametrize("layer", TEXTS)
def test_texts(layer: Any):
    assert [str(layer.parse(text)) for text in TEXTS[layer]] == TEXTS[layer]
    given = re.search(r"v=(-?\d+)", TEXTS[layer][0])
    assert getattr(layer.parse(TEXTS[layer][0]), "outside", 0) == (int(given[1]) if given else 0)


REJECTED = [
    ("layer", layers.ConvLayer, ""), ("layer", layers.ConvLayer, "16x16x-32:64x3x3"),
    ("height", layers.ConvLayer, "70000x16x32:64x3x3"), ("kernel height", layers.ConvLayer, "2x9x1:1x5x1"),
    ("weights", layers.ConvLayer, "9x9x8192:4096x3x3"), ("s=", layers.ConvLayer, "9x9x1:1x3x3:s=1x2x3"),
    ("v=", layers.ConvLayer, "9x9x1:1x3x3:v="), ("size", layers.ConvLayer, "9x9x1:1x3x3:v=-1234567890"),
    ("layer options", layers.ConvLayer, "9x9x1:1x3x3:s=1,s=2"), ("layer", layers.ImageConvLayer, "3x3x3:4x1x1"),
    ("output", layers.MatmulLayer, "65535x1x257"), ("layer", layers.MaxPoolLayer, "9x9:3x3:relu"),
    ("padding", layers.MaxPoolLayer, "9x9x1:3x3:p=3"), ("window", layers.AvgPoolLayer, "200x200x1:129x128"),
    ("layer", layers.AddLayer, "4x5x6:shifted"),
]  # fmt: skip


@pytest.mark.parametrize(("named", "layer", "text"), REJECTED)
def test_rejected(named: str, layer: Any, text: str):
    with pytest.raises(LayerError, match=f"^{named} must be "):
        layer.parse(text)


@pytest.mark.parametrize(("text", "precision", "shown"), [
    ("8x4x8", Precision(8, 4, 8), "8x4x8"), ("u8xi4xu8", Precision(8, 4, 8), "8x4x8"),
    ("i8xu2xi16", Precision(8, 2, 16, x_signed=True, w_signed=False, y_signed=True), "i8xu2xi16"),
    ("2x2xi32", Precision.uniform(2).accumulators, "2x2xi32"),
])  # fmt: skip
def test_precisions(text: str, precision: Precision, shown: str):
    assert Precision.parse(text) == precision
    assert str(precision) == shown
    assert Precision.parse(shown) == precision


WRONG = {
    "XxWxY such as": ["", "8", "8x8", "8x8x8x8", "s8x8x8", "8X8X8", "8x8x888", "8x٨x8"],
    "widths out of": ["8x3x8"],
    "no sign before a width of 1": ["i1x1x1", "1xu1x1", "1x1xi1"],
}


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in WRONG.items() for text in texts])
def test_no_precisions(rule: str, text: str):
    with pytest.raises(LayerError, match=f"^precision must (be|have) {rule}"):
        Precision.parse(text)
