"""The kernels by name: layers they compute, ways to write them, operands, functions."""

from collections.abc import Mapping
from dataclasses import replace

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.channelwise.kinds import CHANNELWISE
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.kind import Kind
from xpulpnn_sw.kernels.layers.conv import conv_kernel
from xpulpnn_sw.kernels.layers.conv1d import conv1d_kernel, random_conv1d
from xpulpnn_sw.kernels.layers.image import image_kernel
from xpulpnn_sw.kernels.layers.linear import linear_kernel, linear_precision, random_linear
from xpulpnn_sw.kernels.layers.matmul import matmul_kernel
from xpulpnn_sw.kernels.layers.pointwise import pointwise_kernel
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import ONE_PIXEL, VARIANTS
from xpulpnn_sw.layer import ConvLayer, Layer, MatmulLayer
from xpulpnn_sw.layers.conv1d import Conv1dLayer
from xpulpnn_sw.layers.image import ImageConvLayer
from xpulpnn_sw.layers.linear import LinearLayer
from xpulpnn_sw.layers.pointwise import PointwiseLayer
from xpulpnn_sw.precision import Precision

PAPER_VARIANTS = ("xpulpv2_4x2", "simd_4x2", "cu_4x2", "nn_4x2", "nn_4x4")
"""The XpulpNN paper's, and its baseline."""

USUAL_VARIANTS = ("x2_4x4", "x2_4x2", *PAPER_VARIANTS)
"""Those with the instructions beyond the paper, and the paper's."""


def _uniform_accumulators(bits: int) -> Precision:
    return Precision.uniform(bits).accumulators


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="conv",
            help="whole convolution",
            layer=ConvLayer,
            form="HxWxC:OxKyxKx[:s=,p=,v=]",
            usual=PAPER_LAYER,
            usual_in_cluster=PAPER_LAYER,
            variants=VARIANTS,
            usual_variants=USUAL_VARIANTS,
            rules=tuple(Rule),
            random=random_tensors,
            build=conv_kernel,
        ),
        Kind(
            name="conv1d",
            help="convolution along one direction, dilated",
            layer=Conv1dLayer,
            form="LxC:OxK[:s=,p=,d=,v=]",
            usual="256x32:64x9:p=4",
            usual_in_cluster="256x32:64x9:p=4",
            variants=VARIANTS,
            usual_variants=USUAL_VARIANTS,
            rules=tuple(Rule),
            random=random_conv1d,
            build=conv1d_kernel,
        ),
        Kind(
            name="pointwise",
            help="convolution of single pixels, in place",
            layer=PointwiseLayer,
            form="HxWxC:O[:s=,p=,v=]",
            usual="16x16x32:64",
            usual_in_cluster="16x16x32:64",
            variants=VARIANTS,
            usual_variants=USUAL_VARIANTS,
            rules=tuple(Rule),
            random=random_tensors,
            build=pointwise_kernel,
        ),
        Kind(
            name="linear",
            help="fully connected layer",
            layer=LinearLayer,
            form="I:O[:raw]",
            usual="512:64",
            usual_in_cluster="512:64",
            variants=ONE_PIXEL,
            usual_variants=("x2_4x1", "xpulpv2_4x1", "simd_4x1", "cu_4x1", "nn_4x1"),
            precision=linear_precision,
            rules=tuple(Rule),
            random=random_linear,
            build=linear_kernel,
        ),
        Kind(
            name="matmul",
            help="the MatMul alone, its results in 32 bits",
            layer=MatmulLayer,
            form="CxKxP",
            usual="64x288x256",
            usual_in_cluster="64x288x128",
            variants=VARIANTS,
            usual_variants=USUAL_VARIANTS,
            uniform=_uniform_accumulators,
            rules=tuple(Rule),
            random=random_tensors,
            build=matmul_kernel,
        ),
        *CHANNELWISE,
    )
}
"""All kernels by name."""

_BY_LAYER = {kind.layer: kind for kind in KINDS.values()} | {
    ImageConvLayer: replace(
        KINDS["conv"], layer=ImageConvLayer, form="HxWxC:OxKyxKx[:s=,p=,v=]:image", build=image_kernel
    )
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
