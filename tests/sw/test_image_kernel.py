"""Convolution of an image, its bytes without gaps in memory, against the golden layer."""

import re

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.harness.references import reference
from xpulpnn_sim.iss.kernel import executed, kernel_memory, results
from xpulpnn_sw.kernels.kernel import kernel_call
from xpulpnn_sw.kernels.kinds import kind_of
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.layers.image import ImageConvLayer
from xpulpnn_sw.precision import Precision

pytestmark = pytest.mark.unit

LAYERS = {
    "5x6x3:4x5x5:p=2:image": "i8x8xi8",
    "4x7x3:5x3x2:s=1x2,p=1x0x0x1:image": "8x8x4",
    "5x5x1:4x3x3:image": "8x8x8",
    "3x9x5:3x2x3:s=2,p=0:image": "8x8x2",
}


def computed(layer, precision, name, tensors, *, cores, specialise=True):
    run = kind_of(layer).build(layer, precision, name, tensors, cores=cores, specialise=specialise)
    memory = kernel_memory(run)
    for core in range(cores):
        for _ in executed(run, kernel_call(run, core, cores), memory, limit=1 << 20):
            pass
    return run, results(run, memory)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in ("xpulpv2_1x2", "xpulpv2_2x2", "simd_4x2")])
@pytest.mark.parametrize("text", LAYERS)
def test_results(text, name):
    layer, precision = ImageConvLayer.parse(text), Precision.parse(LAYERS[text])
    tensors = kind_of(layer).tensors(layer, precision, np.random.default_rng(len(text)))
    run, got = computed(layer, precision, name, tensors, cores=3, specialise=name != "nn_4x2")
    np.testing.assert_array_equal(got, reference(layer, tensors, precision))
    if text.startswith("5x6x3"):
        # five times 15 bytes in whole words, of which every filter reads one after the other
        filters = 5 * 4 * 4 * (-(-4 // run.variant.nch) * run.variant.nch)
        assert filters <= run.image.symbols["weights"].length < filters + 4 * 160


def test_fewer_products_than_with_channels_in_words():
    """RGB in words of four channels: 25 words a filter instead of 20."""
    precision = Precision.parse("i8x8xi8")
    image = ImageConvLayer.parse("8x8x3:4x5x5:p=2:image")
    plain = ConvLayer.parse(str(image).removesuffix(":image"))
    tensors = kind_of(plain).tensors(plain, precision, np.random.default_rng(1))
    words = {}
    for layer in (image, plain):
        run = kind_of(layer).build(layer, precision, "nn_4x4", tensors)
        call, memory = kernel_call(run), kernel_memory(run)
        words[layer] = sum(int(call.program.products[one].sum()) for one in executed(run, call, memory)) // (4 * 64 * 4)
    assert (words[image], words[plain]) == (20, 25)


def test_text():
    text = "32x32x3:32x5x5:p=2:image"
    assert str(ImageConvLayer.parse(text)) == text
    with pytest.raises(LayerError, match=r"^layer must be HxWxC:OxKyxKx\[:s=,p=,v=\]:image, not 3x3x3:4x1x1$"):
        ImageConvLayer.parse("3x3x3:4x1x1")


def test_only_bytes():
    layer, precision = ImageConvLayer.parse("4x4x3:4x3x3:image"), Precision.parse("8x4x8")
    tensors = kind_of(layer).tensors(layer, precision, np.random.default_rng(1))
    with pytest.raises(LayerError, match=re.escape("inputs and weights of an image must have 8 bits, not 8x4x8")):
        kind_of(layer).build(layer, precision, "nn_4x4", tensors)
