"""The kernels by name: layers they compute, ways to write them, operands, functions."""

from collections.abc import Mapping

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.channelwise.kinds import CHANNELWISE
from xpulpnn_sw.kernels.conv import conv_kernel
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.kind import Kind
from xpulpnn_sw.kernels.matmul import matmul_kernel
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layer import ConvLayer, Layer, MatmulLayer
from xpulpnn_sw.precision import Precision

PAPER_VARIANTS = ("xpulpv2_4x2", "simd_4x2", "cu_4x2", "nn_4x2", "nn_4x4")
"""The XpulpNN paper's, and its baseline."""


def _uniform_accumulators(bits: int) -> Precision:
    return Precision.uniform(bits).accumulators


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="conv",
            help="whole convolution",
            layer=ConvLayer,
            form="HxWxC:OxKyxKx[:s=,p=]",
            usual=PAPER_LAYER,
            usual_in_cluster=PAPER_LAYER,
            variants=VARIANTS,
            usual_variants=PAPER_VARIANTS,
            random=random_tensors,
            build=conv_kernel,
        ),
        Kind(
            name="matmul",
            help="the MatMul alone, its results in 32 bits",
            layer=MatmulLayer,
            form="CxKxP",
            usual="64x288x256",
            usual_in_cluster="64x288x128",
            variants=VARIANTS,
            usual_variants=PAPER_VARIANTS,
            uniform=_uniform_accumulators,
            random=random_tensors,
            build=matmul_kernel,
        ),
        *CHANNELWISE,
    )
}
"""All kernels by name."""

_BY_LAYER = {kind.layer: kind for kind in KINDS.values()}


def kind(name: str) -> Kind:
    """The kernel called ``name``; raises :class:`InputError` for an unknown one."""
    try:
        return KINDS[name]
    except KeyError:
        raise InputError(f"kernel must be one of {', '.join(KINDS)}, not {name}") from None


def kind_of(layer: Layer) -> Kind:
    """The kernel that computes a layer."""
    return _BY_LAYER[type(layer)]
