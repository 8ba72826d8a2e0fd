"""The kernels by name: layers they compute, ways to write them, operands, functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from random import Random
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, LayerError
from xpulpnn_sw.kernels.channelwise.avgpool import (
    AVGPOOL_ARGUMENTS,
    AVGPOOL_SCALED_ARGUMENTS,
    avgpool_kernel,
    random_avgpool,
)
from xpulpnn_sw.kernels.channelwise.depthwise import (
    DEPTHWISE_ARGUMENTS,
    DEPTHWISE_OUTSIDE_ARGUMENTS,
    depthwise_kernel,
    random_depthwise,
)
from xpulpnn_sw.kernels.channelwise.elementwise import (
    ADD_ARGUMENTS,
    ADD_SHIFT_ARGUMENTS,
    RELU_ARGUMENTS,
    add_kernel,
    random_add,
    random_relu,
    relu_kernel,
)
from xpulpnn_sw.kernels.channelwise.maps import random_maps, same_form
from xpulpnn_sw.kernels.channelwise.maxpool import MAXPOOL_ARGUMENTS, maxpool_kernel, random_maxpool
from xpulpnn_sw.kernels.channelwise.transpose import TRANSPOSE_ARGUMENTS, transpose_kernel
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.kernel import KernelRequest, KernelRun, Structure
from xpulpnn_sw.kernels.layout import Placement
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
    linear_kernel,
    linear_precision,
    matmul_kernel,
    pointwise_kernel,
    random_product,
)
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import (
    ELEMENT_LEVELS,
    ONE_PIXEL,
    PLAIN_LEVELS,
    POOL_LEVELS,
    TRANSPOSE_LEVELS,
    VARIANTS,
    Level,
)
from xpulpnn_sw.layers.channelwise import (
    AddLayer,
    AvgPoolLayer,
    DepthwiseLayer,
    MaxPoolLayer,
    ReluLayer,
    TransposeLayer,
)
from xpulpnn_sw.layers.convolution import (
    Conv1dLayer,
    ConvLayer,
    ImageConvLayer,
    Layer,
    LinearLayer,
    MatmulLayer,
    PointwiseLayer,
)
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision

_MOST_CHANNELS = 20  # More than two words of the widest elements, and than one of the narrowest
_MOST_WINDOW = 5
"""Rows and columns; pools have loops of their own up to three, depthwise convolutions keep filters up to three."""


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
    text = f"{_sizes(rng, 5, 5, 40)}:{rng.randint(1, 10)}"
    return text if rng.random() < 0.7 else f"{text}:s={rng.randint(1, 2)},p={rng.randint(0, 1)}"


def _window(rng: Random, most_channels: int) -> str:
    channels = rng.randint(1, most_channels)
    ky, kx = (rng.choice((1, 2, 3, 3, rng.randint(4, _MOST_WINDOW))) for _ in range(2))
    top, bottom = (rng.randint(0, min(2, ky - 1)) for _ in range(2))
    left, right = (rng.randint(0, min(2, kx - 1)) for _ in range(2))
    height = rng.randint(max(1, ky - top - bottom), 9)
    width = rng.randint(max(1, kx - left - right), 9)
    stride = f"{rng.randint(1, 3)}x{rng.randint(1, 3)}"
    return f"{height}x{width}x{channels}:{ky}x{kx}:s={stride},p={top}x{bottom}x{left}x{right}"


def _sizes(rng: Random, *most: int) -> str:
    return "x".join(str(rng.randint(1, one)) for one in most)


# those with the instructions beyond the XpulpNN paper, then the paper's and its baseline
USUAL_VARIANTS = ("x2_4x4", "x2_4x2", "xpulpv2_4x2", "simd_4x2", "cu_4x2", "nn_4x2", "nn_4x4")
_USUAL_LEVELS = ("xpulpv2", "xpulpnn")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kernel that the command line knows."""

    name: str
    help: str  # what it computes, in a few words
    layer: type[Layer]  # layers it computes; no two kinds have the same
    usual: str  # layer unless another is given
    write: Callable[[KernelRequest], KernelRun]
    usual_tiny: str | None = None  # the same in a cluster, into whose TCDM it fits, where that is another
    variants: Mapping[str, Level] = field(default_factory=lambda: VARIANTS)  # ways to write it, by name
    usual_variants: tuple[str, ...] = USUAL_VARIANTS  # those meant by none
    uniform: Callable[[int], Precision] = Precision.uniform  # the precision that one width for all means
    # the precision for a layer: as given, unless the layer itself says what its results are
    precision: Callable[[Any, Precision], Precision] = lambda _, precision: precision
    rules: tuple[Rule, ...] = ()  # how its results may come of accumulators; none: there is no choice
    # operands for a layer and a precision out of a generator; for a `rule`, a keyword, if there are `rules`
    random: Callable[..., Any] = random_tensors
    drawn: Callable[[Random], str] = lambda rng: _sizes(rng, 5, 5, 2 * _MOST_CHANNELS)  # a random layer, as written
    structures: tuple[Structure, ...] = ()  # of the arguments of its functions, unless another kernel has them
    # layers for which the functions differ; all others have the function of one of these. Pools have a function for
    # each window.
    samples: tuple[str, ...] = ("4x4x4",)
    # the same with another value than 0 around the map, where no other kernel has them
    outside_samples: tuple[str, ...] = ()

    @property
    def has_weights(self) -> bool:
        """Tell whether it has weights, or a second map, whose width and sign a precision names in their place."""
        return bool(self.rules) or getattr(self.layer, "operands", 1) > 1

    @property
    def form(self) -> str:
        """The form in which a layer is written."""
        return self.layer.form

    @property
    def usual_in_cluster(self) -> str:
        """Layer unless another is given, in a cluster."""
        return self.usual_tiny or self.usual

    def tensors(self, layer: Any, precision: Precision, rng: np.random.Generator, rule: Rule = Rule.BN32) -> Any:
        """Random operands of a layer whose results come by a rule."""
        return self.random(layer, precision, rng, rule=rule) if self.rules else self.random(layer, precision, rng)

    def variant(self, name: str) -> Level:
        """The variant called ``name``; raises :class:`LayerError` for an unknown one."""
        try:
            return self.variants[name]
        except KeyError:
            raise LayerError(f"variant must be one of {', '.join(self.variants)}, not {name}") from None

    def build(
        self,
        layer: Any,
        precision: Precision,
        name: str,
        tensors: Any,
        *,
        cores: int = 1,
        specialise: bool = False,
        placement: Placement = "padded",
    ) -> KernelRun:
        """Write the kernel for a layer by the variant ``name``, and lay out its operands ``tensors``.

        Buffers and stacks are for ``cores`` cores. A specialised function is for this layer only. ``placement`` is that
        of what cores read side by side.
        """
        level = self.variant(name)
        level.check_precision(precision)
        chosen = self.precision(layer, precision)
        return self.write(KernelRequest(layer, chosen, level, tensors, cores, specialise, placement))


def _unsigned(bits: int) -> Precision:
    """Unsigned elements of one width, of one bit -1 and +1."""
    return Precision(bits, bits, bits, w_signed=bits == SIGN_BITS)


def _signed(bits: int) -> Precision:
    return Precision(bits, bits, bits, x_signed=True, y_signed=True)


_product = partial(Kind, rules=tuple(Rule))
_map = partial(Kind, variants=ELEMENT_LEVELS, usual_variants=_USUAL_LEVELS)
_elements = partial(_map, uniform=_unsigned)
_same = partial(_elements, precision=same_form)
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
        drawn=lambda rng: _sizes(rng, 10, 70, 9),
        structures=(MATMUL_ARGUMENTS,),
        samples=("4x8x4", "4x8x1"),
    ),
    _elements(
        *("add", "sum of two feature maps, each scaled", AddLayer, "16x16x32", add_kernel),
        random=random_add,
        drawn=lambda rng: _sizes(rng, 5, 5, 2 * _MOST_CHANNELS) + rng.choice(("", ":shift")),
        structures=(ADD_ARGUMENTS, ADD_SHIFT_ARGUMENTS),
        samples=("4x4x4", "4x4x4:shift"),
    ),
    _elements(
        *("avgpool", "average pooling, with or without requantisation", AvgPoolLayer),
        # as in the public kernels
        *("16x16x32:2x2:s=2:scaled", avgpool_kernel),
        usual_tiny="32x32x32:2x2:s=2",
        random=random_avgpool,
        drawn=lambda rng: _window(rng, _MOST_CHANNELS) + rng.choice(("", ":scaled")),
        structures=(AVGPOOL_ARGUMENTS, AVGPOOL_SCALED_ARGUMENTS),
        samples=("{side}x{side}x4:{window}", "{side}x{side}x4:{window}:scaled"),
    ),
    _map(
        *("depthwise", "depthwise convolution", DepthwiseLayer, "16x16x32:3x3", depthwise_kernel),
        rules=(Rule.BN32, Rule.BN64, Rule.MULTIPLY, Rule.SHIFT, Rule.THRESHOLDS),
        random=random_depthwise,
        drawn=lambda rng: _window(rng, 9),
        structures=(DEPTHWISE_ARGUMENTS, DEPTHWISE_OUTSIDE_ARGUMENTS),
        samples=("8x8x4:3x3", "8x8x4:2x3", "8x8x4:1x3:p=0x0x1x1", "8x8x4:5x5:p=2"),
        outside_samples=("8x8x4:3x3:v=1", "8x8x4:2x3:v=1", "8x8x4:1x3:p=0x0x1x1,v=1", "8x8x4:5x5:p=2,v=1"),
    ),
    _same(
        *("maxpool", "maximum pooling, with or without ReLU", MaxPoolLayer),
        # the first pooling of the CIFAR-10 network, whose windows are cut off at the right and lower edge
        *("32x32x32:3x3:s=2,p=0x1x0x1", maxpool_kernel),
        variants=POOL_LEVELS,
        random=random_maxpool,
        drawn=lambda rng: _window(rng, _MOST_CHANNELS),
        structures=(MAXPOOL_ARGUMENTS,),
        samples=("{side}x{side}x4:{window}",),
    ),
    _same(
        *("relu", "negative elements become 0", ReluLayer, "16x16x32", relu_kernel),
        variants=PLAIN_LEVELS,
        uniform=_signed,
        random=random_relu,
        structures=(RELU_ARGUMENTS,),
    ),
    _same(
        *("transpose", "a map pixel by pixel comes to lie channel by channel", TransposeLayer),
        *("16x16x32", transpose_kernel),
        variants=TRANSPOSE_LEVELS,
        usual_variants=tuple(TRANSPOSE_LEVELS),
        random=random_maps,
        drawn=lambda rng: _sizes(rng, 5, 20, 2 * _MOST_CHANNELS),
        structures=(TRANSPOSE_ARGUMENTS,),
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""All kernels by name."""

STRUCTURES = tuple(chain.from_iterable(kind.structures for kind in _KINDS))
"""Argument structures of all kernels, in the order of the C header."""

_BY_LAYER = {kind.layer: kind for kind in KINDS.values()} | {
    ImageConvLayer: replace(KINDS["conv"], layer=ImageConvLayer, write=image_kernel)
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
