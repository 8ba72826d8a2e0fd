"""Catalogue of all kernels, by name and by layer."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from random import Random

from xpulpnn.errors import require
from xpulpnn_sw.kernels import products
from xpulpnn_sw.kernels.channelwise.attention import BATCH_MATMUL
from xpulpnn_sw.kernels.channelwise.avgpool import AVGPOOL
from xpulpnn_sw.kernels.channelwise.depthwise import DEPTHWISE
from xpulpnn_sw.kernels.channelwise.elementwise import ADD, RELU
from xpulpnn_sw.kernels.channelwise.maxpool import MAXPOOL
from xpulpnn_sw.kernels.channelwise.moves import GATHER, LOOKUP, MULTIPLY
from xpulpnn_sw.kernels.channelwise.pixels import LAYERNORM, SOFTMAX
from xpulpnn_sw.kernels.channelwise.transpose import TRANSPOSE
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.kernel import Kernel
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import ONE_PIXEL, VARIANTS, XIF_ONE_PIXEL, XIF_VARIANTS
from xpulpnn_sw.layers import layer as layers
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.layers.text import random_sizes


def _conv(rng: Random) -> str:
    ky, kx = rng.randint(1, 3), rng.randint(1, 3)
    top, bottom, left, right = (rng.randint(0, 2) for _ in range(4))
    height, width = rng.randint(max(1, ky - top - bottom), 6), rng.randint(max(1, kx - left - right), 6)
    stride, padding = f"{rng.randint(1, 3)}x{rng.randint(1, 3)}", f"{top}x{bottom}x{left}x{right}"
    filters = f"{rng.randint(1, 10)}x{ky}x{kx}"
    return f"{height}x{width}x{rng.randint(1, 20)}:{filters}:s={stride},p={padding}"


def _conv1d(rng: Random) -> str:
    kernel, dilation = rng.randint(1, 4), rng.randint(1, 3)
    before, behind = rng.randint(0, 3), rng.randint(0, 3)
    length = rng.randint(max(1, (kernel - 1) * dilation + 1 - before - behind), 14)
    options = f"s={rng.randint(1, 3)},p={before}x{behind},d={dilation}"
    return f"{length}x{rng.randint(1, 20)}:{rng.randint(1, 10)}x{kernel}:{options}"


def _pointwise(rng: Random) -> str:
    text = f"{random_sizes(rng, 5, 5, 40)}:{rng.randint(1, 10)}"
    return text if rng.random() < 0.7 else f"{text}:s={rng.randint(1, 2)},p={rng.randint(0, 1)}"


# variants with instructions beyond the XpulpNN paper, then the paper's and its baseline
USUAL_VARIANTS = ("x3_4x4", "x2_4x4", "x2_4x2", "xpulpv2_4x2", "simd_4x2", "cu_4x2", "nn_4x2", "nn_4x4")

_ALL_VARIANTS = VARIANTS | XIF_VARIANTS
_product = partial(
    Kernel, variants=_ALL_VARIANTS, usual_variants=USUAL_VARIANTS, random=random_tensors, rules=tuple(Rule)
)
_sequence = partial(_product, random=products.random_product)

_KERNELS = (
    _product(
        name="conv",
        help="whole convolution",
        layer=layers.ConvLayer,
        usual=PAPER_LAYER,
        write=lambda request: products.receptive_fields("conv", request, request.layer, request.tensors),
        random_text=_conv,
        structures=(products.CONV_ARGUMENTS, products.CONV_OUTSIDE_ARGUMENTS),
        samples=("4x4x4:4x3x3", "1x1x4:4x1x1:p=0", "4x4x4:4x3x3:v=1"),
    ),
    _sequence(
        name="conv1d",
        help="convolution along one direction, dilated",
        layer=layers.Conv1dLayer,
        usual="256x32:64x9:p=4",
        write=products.conv1d_kernel,
        random_text=_conv1d,
        structures=(products.CONV1D_ARGUMENTS, products.CONV1D_OUTSIDE_ARGUMENTS),
        samples=("12x4:4x3", "3x4:4x3:p=0", "12x4:4x3:d=2", "5x4:4x3:d=2,p=0", "12x4:4x3:d=2,v=1"),
    ),
    _product(
        name="pointwise",
        help="convolution with filters of one pixel, in place",
        layer=layers.PointwiseLayer,
        usual="16x16x32:64",
        write=products.pointwise_kernel,
        random_text=_pointwise,
        samples=("4x4x4:4", "1x1x4:4", "4x4x4:4:s=2", "2x2x4:4:s=2"),
    ),
    _sequence(
        name="linear",
        help="fully connected layer",
        layer=layers.LinearLayer,
        usual="512:64",
        write=products.linear_kernel,
        variants=ONE_PIXEL | XIF_ONE_PIXEL,
        usual_variants=("x2_4x1", "xpulpv2_4x1", "simd_4x1", "cu_4x1", "nn_4x1"),
        precision=lambda layer, precision: precision.accumulators if layer.raw else precision,
        random_text=lambda rng: f"{rng.randint(1, 160)}:{rng.randint(1, 40)}" + rng.choice(("", ":raw")),
        structures=(products.LINEAR_ARGUMENTS,),
        samples=("8:4",),
    ),
    _product(
        name="matmul",
        help="the MatMul alone, its results in 32 bits",
        layer=layers.MatmulLayer,
        usual="64x288x256",
        usual_tiny="64x288x128",
        write=products.matmul_kernel,
        uniform=lambda bits: Precision.uniform(bits).accumulators,
        random_text=lambda rng: random_sizes(rng, 10, 70, 9),
        structures=(products.MATMUL_ARGUMENTS,),
        samples=("4x8x4", "4x8x1"),
    ),
    ADD,
    AVGPOOL,
    BATCH_MATMUL,
    DEPTHWISE,
    GATHER,
    LAYERNORM,
    LOOKUP,
    MAXPOOL,
    MULTIPLY,
    RELU,
    SOFTMAX,
    TRANSPOSE,
)
KERNELS: Mapping[str, Kernel] = {kernel.name: kernel for kernel in _KERNELS}

STRUCTURES = tuple(chain.from_iterable(kernel.structures for kernel in _KERNELS))
"""Argument structures of all kernels, in the order of the C header."""

_IMAGE = {"layer": layers.ImageConvLayer, "write": products.image_kernel, "precision": products.image_precision}
_BY_LAYER = {kernel.layer: kernel for kernel in _KERNELS} | {layers.ImageConvLayer: replace(KERNELS["conv"], **_IMAGE)}
"""Kernel of each layer class; for images, whose layout in memory differs, it is a modified ``conv``."""


def find_kernel(name: str) -> Kernel:
    require(name in KERNELS, f"kernel must be one of {', '.join(KERNELS)}, not {name}")
    return KERNELS[name]


def kernel_of(layer: layers.Layer) -> Kernel:
    return _BY_LAYER[type(layer)]
