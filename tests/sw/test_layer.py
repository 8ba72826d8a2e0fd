import re

import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sw.layer import ConvLayer, MatmulLayer
from xpulpnn_sw.layers.channelwise import DepthwiseLayer
from xpulpnn_sw.layers.conv1d import Conv1dLayer
from xpulpnn_sw.layers.image import ImageConvLayer
from xpulpnn_sw.layers.pointwise import PointwiseLayer

pytestmark = pytest.mark.unit


def test_paper_layer():
    layer = ConvLayer.parse("16x16x32:64x3x3")
    assert (layer.out_height, layer.out_width) == (16, 16)
    assert layer.reduction == 288
    assert layer.macs == 4718592


@pytest.mark.parametrize(
    ("text", "stride", "padding", "size"),
    [
        ("9x7x3:5x3x2", (1, 1), (1, 1, 1, 1), (9, 8)),
        ("9x7x3:5x3x2:s=2", (2, 2), (1, 1, 1, 1), (5, 4)),
        ("9x7x3:5x3x2:p=0,s=2x3", (2, 3), (0, 0, 0, 0), (4, 2)),
        ("9x7x3:5x3x2:p=1x0x2x3", (1, 1), (1, 0, 2, 3), (8, 11)),
    ],
)
def test_options(text: str, stride: tuple[int, int], padding: tuple[int, ...], size: tuple[int, int]):
    layer = ConvLayer.parse(text)
    assert layer.stride == stride
    assert layer.padding == padding
    assert (layer.out_height, layer.out_width) == size
    assert ConvLayer.parse(str(layer)) == layer


@pytest.mark.parametrize(
    ("layer_type", "text", "outside"),
    [
        (ConvLayer, "9x7x3:5x3x2:s=2,v=-128", -128),
        (ConvLayer, "9x7x3:5x3x2", 0),
        (ImageConvLayer, "9x7x3:5x3x2:v=7:image", 7),
        (PointwiseLayer, "9x7x3:5:p=1,v=255", 255),
        (Conv1dLayer, "9x7:5x3:d=2,v=-3", -3),
        (DepthwiseLayer, "9x7x3:3x3:v=128", 128),
    ],
)
def test_value_around_the_map(layer_type: type[ConvLayer], text: str, outside: int):
    layer = layer_type.parse(text)
    assert (layer.outside, str(layer)) == (outside, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "layer must be HxWxC:OxKyxKx[:s=,p=,v=], not "),
        ("16x16x32", "layer must be HxWxC:OxKyxKx[:s=,p=,v=], not 16x16x32"),
        ("16x16x-32:64x3x3", "layer must be HxWxC:OxKyxKx[:s=,p=,v=], not 16x16x-32:64x3x3"),
        ("0x16x32:64x3x3", "height must be 1..65535, not 0"),
        ("16x16x32:0x3x3", "out channels must be 1..65535, not 0"),
        ("70000x16x32:64x3x3", "height must be 1..65535, not 70000"),
        ("2x9x1:1x5x1", "kernel height must be at most the padded input's 4, not 5"),
        ("9x2x1:1x1x5", "kernel width must be at most the padded input's 4, not 5"),
        ("4096x4096x2:1x3x3", "input must be at most 16777216 elements, not 33554432"),
        ("9x9x8192:4096x3x3", "weights must be at most 16777216 elements, not 301989888"),
        ("9x9x1:1x3x3:s=0", "stride must be 1..65535, not 0"),
        ("9x9x1:1x3x3:s=1x2x3", "s= must be one number or 2 joined by x, not 1x2x3"),
        ("9x9x1:1x3x3:p=-1", "p= must be one number or 4 joined by x, not -1"),
        ("9x9x1:1x3x3:q=1", "layer options must be s=, p= and v=, each at most once, not q=1 in 9x9x1:1x3x3:q=1"),
        (
            "9x9x1:1x3x3:s=1,s=2",
            "layer options must be s=, p= and v=, each at most once, not s=2 in 9x9x1:1x3x3:s=1,s=2",
        ),
        ("9x9x1:1x3x3:v=+1", "v= must be a whole number, not +1"),
        ("9x9x1:1x3x3:v=", "v= must be a whole number, not empty"),
        ("9x9x1:1x3x3:v=-1234567890", "size must be a number of at most 9 digits, not 10 digits"),
        ("9x9x1:1x3x3:", "layer options must be s=, p= and v=, each at most once, not empty in 9x9x1:1x3x3:"),
    ],
)
def test_rejected_convolutions(text: str, message: str):
    with pytest.raises(LayerError, match=f"^{re.escape(message)}$"):
        ConvLayer.parse(text)


def test_matmul():
    layer = MatmulLayer.parse("64x288x256")
    assert (layer.out_channels, layer.reduction, layer.pixels) == (64, 288, 256)
    assert layer.macs == 4718592
    assert str(layer) == "64x288x256"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64x288", "layer must be CxKxP, not 64x288"),
        ("64x0x4", "reduction must be 1..65535, not 0"),
        ("65535x1x257", "output must be at most 16777216 elements, not 16842495"),
        ("1234567890x1x1", "size must be a number of at most 9 digits, not 10 digits"),
    ],
)
def test_rejected_matmuls(text: str, message: str):
    with pytest.raises(LayerError, match=f"^{re.escape(message)}$"):
        MatmulLayer.parse(text)
