"""The kernels by name: layers they compute, ways to write them, operands, functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, LayerError
from xpulpnn_sw.kernels.channelwise.avgpool import avgpool_kernel, random_avgpool
from xpulpnn_sw.kernels.channelwise.depthwise import depthwise_kernel, random_depthwise
from xpulpnn_sw.kernels.channelwise.elementwise import add_kernel, random_add, random_relu, relu_kernel
from xpulpnn_sw.kernels.channelwise.maps import same_form
from xpulpnn_sw.kernels.channelwise.maxpool import maxpool_kernel, random_maxpool
from xpulpnn_sw.kernels.channelwise.transpose import random_transpose, transpose_kernel
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.kernel import KernelRequest, KernelRun
from xpulpnn_sw.kernels.layout import Placement
from xpulpnn_sw.kernels.products import (
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
    _product("conv", "whole convolution", ConvLayer, PAPER_LAYER, conv_kernel),
    _sequence("conv1d", "convolution along one direction, dilated", Conv1dLayer, "256x32:64x9:p=4", conv1d_kernel),
    _product("pointwise", "convolution of single pixels, in place", PointwiseLayer, "16x16x32:64", pointwise_kernel),
    _sequence(
        *("linear", "fully connected layer", LinearLayer, "512:64", linear_kernel),
        variants=ONE_PIXEL,
        usual_variants=("x2_4x1", "xpulpv2_4x1", "simd_4x1", "cu_4x1", "nn_4x1"),
        precision=linear_precision,
    ),
    _product(
        *("matmul", "the MatMul alone, its results in 32 bits", MatmulLayer, "64x288x256", matmul_kernel),
        usual_tiny="64x288x128",
        uniform=lambda bits: Precision.uniform(bits).accumulators,
    ),
    _elements("add", "sum of two feature maps, each scaled", AddLayer, "16x16x32", add_kernel, random=random_add),
    _elements(
        *("avgpool", "average pooling, with or without requantisation", AvgPoolLayer),
        # as in the public kernels
        *("16x16x32:2x2:s=2:scaled", avgpool_kernel),
        usual_tiny="32x32x32:2x2:s=2",
        random=random_avgpool,
    ),
    _map(
        *("depthwise", "depthwise convolution", DepthwiseLayer, "16x16x32:3x3", depthwise_kernel),
        rules=(Rule.BN32, Rule.BN64, Rule.MULTIPLY, Rule.SHIFT, Rule.THRESHOLDS),
        random=random_depthwise,
    ),
    _same(
        *("maxpool", "maximum pooling, with or without ReLU", MaxPoolLayer),
        # the first pooling of the CIFAR-10 network, whose windows are cut off at the right and lower edge
        *("32x32x32:3x3:s=2,p=0x1x0x1", maxpool_kernel),
        variants=POOL_LEVELS,
        random=random_maxpool,
    ),
    _same(
        *("relu", "negative elements become 0", ReluLayer, "16x16x32", relu_kernel),
        variants=PLAIN_LEVELS,
        uniform=_signed,
        random=random_relu,
    ),
    _same(
        *("transpose", "a map pixel by pixel comes to lie channel by channel", TransposeLayer),
        *("16x16x32", transpose_kernel),
        variants=TRANSPOSE_LEVELS,
        usual_variants=tuple(TRANSPOSE_LEVELS),
        random=random_transpose,
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""All kernels by name."""

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
