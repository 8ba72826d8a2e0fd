import re

import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sw.layers.channelwise import AddLayer, AvgPoolLayer, DepthwiseLayer, MaxPoolLayer, ReluLayer

pytestmark = pytest.mark.unit

WINDOWS = "HxWxC:KyxKx[:s=,p=]"


def test_sizes():
    layer = DepthwiseLayer.parse("16x16x32:3x3")
    assert (layer.padding, layer.out_shape, layer.area, layer.macs) == ((1, 1, 1, 1), (16, 16), 9, 16 * 16 * 32 * 9)
    pool = MaxPoolLayer.parse("32x32x32:3x3:s=2,p=0x1x0x1")
    assert (pool.stride, pool.padding, pool.out_shape) == ((2, 2), (0, 1, 0, 1), (16, 16))
    assert MaxPoolLayer.parse("32x32x32:3x3:s=2").out_shape == (15, 15)
    assert AvgPoolLayer.parse("9x8x3:4x2:s=3x1,p=2x0x1x1:scaled").scaled
    assert AddLayer.parse("4x5x6:shift").shifted
    assert ReluLayer.parse("4x5x6").macs == AddLayer.parse("4x5x6").macs // 2 == 120


@pytest.mark.parametrize(
    ("layer_type", "text"),
    [
        (DepthwiseLayer, "16x16x32:3x3"),
        (DepthwiseLayer, "9x8x3:4x2:s=3x1,p=0"),
        (MaxPoolLayer, "9x8x3:4x2:p=3x0x1x1"),
        (MaxPoolLayer, "9x8x3:4x2:s=2:relu"),
        (AvgPoolLayer, "9x8x3:4x2:s=2:scaled"),
        (AvgPoolLayer, "9x8x3:4x2"),
        (AddLayer, "4x5x6"),
        (AddLayer, "4x5x6:shift"),
        (ReluLayer, "4x5x6"),
    ],
)
def test_texts(layer_type: type[DepthwiseLayer], text: str):
    assert str(layer_type.parse(text)) == text


@pytest.mark.parametrize(
    ("layer_type", "text", "message"),
    [
        (MaxPoolLayer, "16x16x32", f"layer must be {WINDOWS}[:relu], not 16x16x32"),
        (MaxPoolLayer, "9x9:3x3:relu", f"layer must be {WINDOWS}[:relu], not 9x9:3x3:relu"),
        (DepthwiseLayer, "16x16x32:8x3x3", "layer must be HxWxC:KyxKx[:s=,p=,v=], not 16x16x32:8x3x3"),
        (
            MaxPoolLayer,
            "9x9x1:3x3:v=1",
            "layer options must be s= and p=, each at most once, not v=1 in 9x9x1:3x3:v=1",
        ),
        (MaxPoolLayer, "9x9x1:3x3:p=3", "padding must be less than the kernel height 3, not 3"),
        (MaxPoolLayer, "9x9x1:3x2:p=2x2x2x0", "padding must be less than the kernel width 2, not 2"),
        (DepthwiseLayer, "2x9x1:5x1:p=0", "kernel height must be at most the padded input's 2, not 5"),
        (AvgPoolLayer, "99x99x1:65x64", "window must be at most 4096 elements, not 4160"),
        (AvgPoolLayer, "9x9:3x3:scaled", f"layer must be {WINDOWS}[:scaled], not 9x9:3x3:scaled"),
        (AvgPoolLayer, "9x9x1:0x3", "kernel height must be 1..65535, not 0"),
        (AddLayer, "4x5", "layer must be HxWxC[:shift], not 4x5"),
        (AddLayer, "4x5x6:shifted", "layer must be HxWxC[:shift], not 4x5x6:shifted"),
        (ReluLayer, "4x5x6:shift", "layer must be HxWxC, not 4x5x6:shift"),
        (ReluLayer, "4096x4096x2", "input must be at most 16777216 elements, not 33554432"),
    ],
)
def test_rejected(layer_type: type[DepthwiseLayer], text: str, message: str):
    with pytest.raises(LayerError, match=f"^{re.escape(message)}$"):
        layer_type.parse(text)
