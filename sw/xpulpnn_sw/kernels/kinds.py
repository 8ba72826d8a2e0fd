"""The kernels by name and by layer; those of layers made of products with filters."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from random import Random

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.channelwise.avgpool import AVGPOOL
from xpulpnn_sw.kernels.channelwise.depthwise import DEPTHWISE
from xpulpnn_sw.kernels.channelwise.elementwise import ADD, RELU
from xpulpnn_sw.kernels.channelwise.maxpool import MAXPOOL
from xpulpnn_sw.kernels.channelwise.transpose import TRANSPOSE
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.kernel import Kind
from xpulpnn_sw.kernels.products import (
    CONV1D_ARGUMENTS,
    CONV1D_OUTSIDE_ARGUMENTS,
    CONV_ARGUMENTS,
    CONV_OUTSIDE_ARGUMENTS,
    LINEAR_ARGUMENTS,
    MATMUL_ARGUMENTS,
    conv1d_kernel,
    conv_kernel,
    image_kernel,
    image_precision,
    linear_kernel,
    linear_precision,
    matmul_kernel,
    pointwise_kernel,
    random_product,
)
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import ONE_PIXEL, VARIANTS
from xpulpnn_sw.layers.layer import (
    Conv1dLayer,
    ConvLayer,
    ImageConvLayer,
    Layer,
    LinearLayer,
    MatmulLayer,
    PointwiseLayer,
)
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


# those with the instructions beyond the XpulpNN paper, then the paper's and its baseline
USUAL_VARIANTS = ("x3_4x4", "x2_4x4", "x2_4x2", "xpulpv2_4x2", "simd_4x2", "cu_4x2", "nn_4x2", "nn_4x4")


_product = partial(Kind, variants=VARIANTS, usual_variants=USUAL_VARIANTS, random=random_tensors, rules=tuple(Rule))
_sequence = partial(_product, random=random_product)

_KINDS = (
    _product(
        *("conv", "whole convolution", ConvLayer, PAPER_LAYER, conv_kernel),
        drawn=_conv,
        structures=(CONV_ARGUMENTS, CONV_OUTSIDE_ARGUMENTS),
        samples=("4x4x4:4x3x3", "1x1x4:4x1x1:p=0"),
        outside_samples=("4x4x4:4x3x3:v=1",),
    ),
    _sequence(
        *("conv1d", "convolution along one direction, dilated", Conv1dLayer, "256x32:64x9:p=4", conv1d_kernel),
        drawn=_conv1d,
        structures=(CONV1D_ARGUMENTS, CONV1D_OUTSIDE_ARGUMENTS),
        samples=("12x4:4x3", "3x4:4x3:p=0", "12x4:4x3:d=2", "5x4:4x3:d=2,p=0"),
        outside_samples=("12x4:4x3:d=2,v=1",),
    ),
    _product(
        *("pointwise", "convolution of single pixels, in place", PointwiseLayer, "16x16x32:64", pointwise_kernel),
        drawn=_pointwise,
        samples=("4x4x4:4", "1x1x4:4", "4x4x4:4:s=2", "2x2x4:4:s=2"),
    ),
    _sequence(
        *("linear", "fully connected layer", LinearLayer, "512:64", linear_kernel),
        variants=ONE_PIXEL,
        usual_variants=("x2_4x1", "xpulpv2_4x1", "simd_4x1", "cu_4x1", "nn_4x1"),
        precision=linear_precision,
        drawn=lambda rng: f"{rng.randint(1, 160)}:{rng.randint(1, 40)}" + rng.choice(("", ":raw")),
        structures=(LINEAR_ARGUMENTS,),
        samples=("8:4",),
    ),
    _product(
        *("matmul", "the MatMul alone, its results in 32 bits", MatmulLayer, "64x288x256", matmul_kernel),
        usual_tiny="64x288x128",
        uniform=lambda bits: Precision.uniform(bits).accumulators,
        drawn=lambda rng: random_sizes(rng, 10, 70, 9),
        structures=(MATMUL_ARGUMENTS,),
        samples=("4x8x4", "4x8x1"),
    ),
    ADD,
    AVGPOOL,
    DEPTHWISE,
    MAXPOOL,
    RELU,
    TRANSPOSE,
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""All kernels by name."""

STRUCTURES = tuple(chain.from_iterable(kind.structures for kind in _KINDS))
"""Argument structures of all kernels, in the order of the C header."""

_BY_LAYER = {kind.layer: kind for kind in KINDS.values()} | {
    ImageConvLayer: replace(KINDS["conv"], layer=ImageConvLayer, write=image_kernel, precision=image_precision)
}
"""The convolution of an image is one, its input being in memory in a way that no other layer leaves it."""


def kind(name: str) -> Kind:
    """The kernel called ``name``; raises :class:`InputError` for an unknown one."""
    try:
        return KINDS[name]
    except KeyError:
        raise InputError(f"kernel must be one of {', '.join(KINDS)}, not {name}") from None


def kind_of(layer: Layer) -> Kind:
    """The kernel that computes a layer."""
    return _BY_LAYER[type(layer)]
