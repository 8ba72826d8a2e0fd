"""What the kernels that keep channels apart must compute, by numpy."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.golden import channel_layers as golden
from xpulpnn_sim.golden.layers import Pads
from xpulpnn_sim.harness.requantised import requantised
from xpulpnn_sw.kernels.channelwise.add import AddTensors, Scale
from xpulpnn_sw.kernels.channelwise.avgpool import AvgPoolTensors
from xpulpnn_sw.kernels.channelwise.depthwise import DepthwiseTensors
from xpulpnn_sw.kernels.channelwise.maxpool import PoolTensors
from xpulpnn_sw.kernels.channelwise.relu import ReluTensors
from xpulpnn_sw.kernels.channelwise.transpose import TransposeTensors
from xpulpnn_sw.layers.channelwise import (
    AddLayer,
    AvgPoolLayer,
    DepthwiseLayer,
    MaxPoolLayer,
    ReluLayer,
    TransposeLayer,
    WindowLayer,
)
from xpulpnn_sw.precision import Precision

Results = NDArray[np.int32]

_TABLE_BITS = 8
"""Summands are clipped to so many bits."""


def _window(layer: WindowLayer) -> golden.Window:
    return golden.Window(layer.kernel_height, layer.kernel_width, layer.stride, Pads(*layer.padding))


def _plain(scale: Scale) -> tuple[int, int, int]:
    return scale.factor, scale.summand, scale.shift


def _add(layer: AddLayer, tensors: AddTensors, precision: Precision) -> Results:
    maps, signed = (tensors.first, tensors.second), precision.y_signed
    if layer.shifted:
        own = tensors
        return golden.add_shifted(maps, own.factors, own.shift, precision.y, signed=signed, summand=own.summand)
    first, second = (
        golden.scaled(values, _plain(scale), _TABLE_BITS, signed=signed)
        for values, scale in zip(maps, tensors.scales, strict=True)
    )
    return golden.add(first, second, precision.y, signed=signed)


def _avgpool(layer: AvgPoolLayer, tensors: AvgPoolTensors, precision: Precision) -> Results:
    sums, signed = golden.window_sums(tensors.activations, _window(layer)), precision.y_signed
    if not layer.scaled:
        return golden.average(sums, layer.area, precision.y, signed=signed)
    scale = (tensors.factor, tensors.summand, tensors.shift)
    return golden.scaled_average(sums, layer.area, scale, precision.y, signed=signed)


def _depthwise(layer: DepthwiseLayer, tensors: DepthwiseTensors, precision: Precision) -> Results:
    accumulators = golden.depthwise(tensors.activations, tensors.weights, tensors.bias, _window(layer), layer.outside)
    return requantised(accumulators, tensors.requantisation, precision)


def _maxpool(layer: MaxPoolLayer, tensors: PoolTensors, _: Precision) -> Results:
    greatest = golden.max_pool(tensors.activations, _window(layer))
    return golden.relu(greatest) if layer.relu else greatest


def _relu(_: ReluLayer, tensors: ReluTensors, __: Precision) -> Results:
    return golden.relu(tensors.activations)


def _transpose(_: TransposeLayer, tensors: TransposeTensors, __: Precision) -> Results:
    return tensors.activations.astype(np.int32)


CHANNELWISE_REFERENCES: Mapping[str, Callable[[Any, Any, Precision], Results]] = {
    "add": _add,
    "avgpool": _avgpool,
    "depthwise": _depthwise,
    "maxpool": _maxpool,
    "relu": _relu,
    "transpose": _transpose,
}
"""By kernel: the results of a layer with its operands."""
