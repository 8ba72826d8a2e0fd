"""Kernels against the golden layers: the program runs on the instruction-set simulator, step by step as streamed."""

import numpy as np
import pytest
from numpy.typing import NDArray

from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt
from xpulpnn_sim.golden import layers
from xpulpnn_sim.iss.core import Iss
from xpulpnn_sw.kernels.conv import conv_kernel
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.matmul import matmul_kernel
from xpulpnn_sw.kernels.tensors import LayerTensors, random_tensors
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layer import ConvLayer, Layer, MatmulLayer

pytestmark = pytest.mark.unit

WIDTHS = frozenset(fmt.width for fmt in ElemFmt)
KERNELS = [(name, bits) for name, variant in VARIANTS.items() for bits in sorted(variant.widths)]


def kernel(layer: Layer, bits: int, name: str, tensors: LayerTensors) -> KernelRun:
    build = conv_kernel if isinstance(layer, ConvLayer) else matmul_kernel
    return build(layer, bits, name, tensors)


def execute(run: KernelRun) -> NDArray[np.int64]:
    """Run on a core with just the variant's extensions; every pc must be the streamed one."""
    program, image = run.program, run.image
    start = int(program.pcs[0])
    iss = Iss(start, extensions=BASE_EXTENSIONS | run.variant.extensions, widths=WIDTHS)
    iss.load(start, program.words.tolist())
    iss.memory.write_bytes(image.base, image.data.tobytes())
    for number, pc in enumerate(program.pcs[run.stream.indices()].tolist()):
        assert iss.state.pc == pc, f"instruction {number}"
        assert iss.step().cause is None, f"instruction {number}"
    assert iss.state.pc == start + program.words.nbytes
    memory = np.frombuffer(iss.memory.read_bytes(image.base, image.data.size), np.uint8)
    return run.output.decode(image, memory)


def expected(layer: Layer, bits: int, tensors: LayerTensors) -> NDArray[np.integer]:
    if isinstance(layer, ConvLayer):
        pads = layers.Pads(*layer.padding)
        acc = layers.conv(tensors.activations, tensors.weights, tensors.bias, layer.stride, pads)
    else:
        acc = layers.matmul(tensors.weights, tensors.activations)
        if tensors.bias is not None:
            acc = (acc.astype(np.int64) + tensors.bias).astype(np.int32)
    after = tensors.requantisation
    return acc if after is None else layers.quantise_bn(acc, after.kappa, after.lam, after.shift, bits)


def check(layer: Layer, bits: int, name: str, *, bias: bool = True, requantise: bool = True) -> None:
    tensors = random_tensors(layer, bits, np.random.default_rng(bits), bias=bias, requantise=requantise)
    np.testing.assert_array_equal(execute(kernel(layer, bits, name, tensors)), expected(layer, bits, tensors))


@pytest.mark.parametrize(("name", "bits"), KERNELS)
def test_convolution(name: str, bits: int):
    """Stride, uneven padding, partial words, blocks and pixel groups, border and interior pixels at once."""
    check(ConvLayer.parse("3x3x3:5x2x2:s=2x1,p=1x0x1x0"), bits, name)


@pytest.mark.parametrize(("name", "bits"), KERNELS)
def test_matrix_product(name: str, bits: int):
    """Raw accumulators without bias; two pixel groups, a partial channel block."""
    check(MatmulLayer.parse("3x9x5"), bits, name, bias=False, requantise=False)


@pytest.mark.parametrize("name", ["simd_4x2", "cu_4x2", "nn_4x2", "nn_4x4"])
@pytest.mark.parametrize(
    ("text", "bits"),
    [
        # leftover pixels 3 and 2 of 4, with bias from the second channel block on
        ("1x7x4:8x1x1:p=0", 8),
        ("2x3x8:6x1x1:p=0", 4),
        # channels that fill no word, nor the output byte
        ("2x2x5:3x2x2:p=0", 4),
        ("2x2x7:9x1x2:p=0", 2),
        # kernel larger than the input, all pixels on the border
        ("1x1x4:4x3x3", 8),
        # runs of copied words with a remainder
        ("2x2x20:4x2x2:p=0", 8),
    ],
)
def test_shapes(name: str, text: str, bits: int):
    check(ConvLayer.parse(text), bits, name)


def test_long_rows():
    """Pointers move further than a 12-bit immediate."""
    check(MatmulLayer.parse("5x600x2"), 8, "nn_4x4", requantise=False)
