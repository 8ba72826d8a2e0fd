"""Convolution of an image, its bytes without gaps in memory, against the golden layer."""

import re

import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.convolution import ConvLayer, ImageConvLayer
from xpulpnn_sw.layers.precision import Precision

from .runs import check

LAYERS = {
    "5x6x3:4x5x5:p=2:image": "i8x8xi8",
    "4x7x3:5x3x2:s=1x2,p=1x0x0x1:image": "8x8x4",
    "5x5x1:4x3x3:image": "8x8x8",
    "3x9x5:3x2x3:s=2,p=0:image": "8x8x2",
}


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in ("xpulpv2_1x2", "xpulpv2_2x2", "simd_4x2")])
@pytest.mark.parametrize("text", LAYERS)
def test_results(text, name):
    layer, precision = ImageConvLayer.parse(text), Precision.parse(LAYERS[text])
    run, _, _ = check(layer, precision, name, cores=3, seed=len(text), specialise=name != "nn_4x2")
    if text.startswith("5x6x3"):
        # five times 15 bytes in whole words, of which every filter reads one after the other
        filters = 5 * 4 * 4 * (-(-4 // run.variant.nch) * run.variant.nch)
        assert filters <= run.image.symbols["weights"].length < filters + 4 * 160


def test_fewer_products_than_with_channels_in_words():
    """RGB in words of four channels: 25 words a filter instead of 20."""
    precision = Precision.parse("i8x8xi8")
    image = ImageConvLayer.parse("8x8x3:4x5x5:p=2:image")
    plain = ConvLayer.parse(str(image).removesuffix(":image"))
    words = [check(layer, precision, "nn_4x4")[1] // (4 * 64 * 4) for layer in (image, plain)]
    assert words == [20, 25]


def test_only_bytes():
    layer, precision = ImageConvLayer.parse("4x4x3:4x3x3:image"), Precision.parse("8x4x8")
    with pytest.raises(LayerError, match=re.escape("inputs and weights of an image must have 8 bits, not 8x4x8")):
        check(layer, precision, "nn_4x4")
