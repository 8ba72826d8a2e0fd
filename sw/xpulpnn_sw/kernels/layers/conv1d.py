"""Kernels of convolutions along one direction, through im2col rows."""

from dataclasses import replace

import numpy as np

from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layers.conv import receptive_fields
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import LayerTensors, random_tensors
from xpulpnn_sw.kernels.variants import variant
from xpulpnn_sw.layers.conv1d import Conv1dLayer
from xpulpnn_sw.layout import Placement
from xpulpnn_sw.precision import Precision


def conv1d_kernel(
    layer: Conv1dLayer,
    precision: Precision,
    name: str,
    tensors: LayerTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The convolution of ``tensors``, activations ``[pixel][channel]``, weights ``[out][k][channel]``.

    Everything else as of :func:`~xpulpnn_sw.kernels.layers.conv.conv_kernel`; the function of a dilated layer has one
    argument more.
    """
    geometry = layer.geometry
    shape = (geometry.height, geometry.width, layer.channels)
    filters = (layer.out_channels, geometry.kernel_height, geometry.kernel_width, layer.channels)
    tensors.check_shapes((layer.length, layer.channels), (layer.out_channels, layer.kernel, layer.channels))
    shaped = replace(tensors, activations=tensors.activations.reshape(shape), weights=tensors.weights.reshape(filters))
    dilation = layer.dilation if layer.dilation > 1 else 0
    return receptive_fields(
        "conv1d",
        layer,
        geometry,
        precision,
        variant(name),
        shaped,
        cores,
        specialise,
        placement,
        dilation=dilation,
    )


def random_conv1d(
    layer: Conv1dLayer, precision: Precision, rng: np.random.Generator, *, rule: Rule = Rule.BN32
) -> LayerTensors:
    """Operands as of :func:`~xpulpnn_sw.kernels.tensors.random_tensors`."""
    tensors = random_tensors(layer.geometry, precision, rng, rule=rule)
    return replace(
        tensors,
        activations=tensors.activations.reshape(layer.length, layer.channels),
        weights=tensors.weights.reshape(layer.out_channels, layer.kernel, layer.channels),
    )
