"""What each kernel must compute, by numpy."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.golden import layers
from xpulpnn_sim.harness.channelwise_references import CHANNELWISE_REFERENCES
from xpulpnn_sim.harness.requantised import requantised
from xpulpnn_sw.kernels.kinds import kind_of
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.layer import ConvLayer, Layer, MatmulLayer
from xpulpnn_sw.layers.conv1d import Conv1dLayer
from xpulpnn_sw.layers.linear import LinearLayer
from xpulpnn_sw.precision import SIGN_BITS, Precision

Results = NDArray[np.int32]


def _around(layer: ConvLayer | Conv1dLayer, precision: Precision) -> int:
    """What lies around a map; not what the kernels say: numbers of one bit know no 0."""
    return -1 if precision.x == SIGN_BITS else layer.outside


def _conv(layer: ConvLayer, tensors: LayerTensors, precision: Precision) -> Results:
    pads = layers.Pads(*layer.padding)
    accumulators = layers.conv(
        tensors.activations, tensors.weights, tensors.bias, layer.stride, pads, _around(layer, precision)
    )
    return requantised(accumulators, tensors.requantisation, precision)


def _matmul(_: MatmulLayer, tensors: LayerTensors, precision: Precision) -> Results:
    accumulators = layers.matmul(tensors.weights, tensors.activations)
    if tensors.bias is not None:
        accumulators = (accumulators.astype(np.int64) + tensors.bias).astype(np.int32)
    return requantised(accumulators, tensors.requantisation, precision)


def _conv1d(layer: Conv1dLayer, tensors: LayerTensors, precision: Precision) -> Results:
    accumulators = layers.conv1d(
        tensors.activations,
        tensors.weights,
        tensors.bias,
        layer.stride,
        layer.padding,
        layer.dilation,
        _around(layer, precision),
    )
    return requantised(accumulators, tensors.requantisation, precision)


def _linear(_: LinearLayer, tensors: LayerTensors, precision: Precision) -> Results:
    exact = tensors.weights.astype(np.int64) @ tensors.activations.astype(np.int64)
    if tensors.bias is not None:
        exact = exact + tensors.bias
    return requantised(exact.astype(np.int32), tensors.requantisation, precision)


REFERENCES: Mapping[str, Callable[[Any, Any, Precision], Results]] = {
    "conv": _conv,
    "conv1d": _conv1d,
    "linear": _linear,
    "matmul": _matmul,
    "pointwise": _conv,
    **CHANNELWISE_REFERENCES,
}
"""By kernel: the results of a layer with its operands."""


def reference(layer: Layer, tensors: Any, precision: Precision) -> Results:
    """The layer computed by numpy, its results of the width and sign of the precision."""
    return REFERENCES[kind_of(layer).name](layer, tensors, precision)


def largest_share(results: Results) -> float:
    """How many of the results are equal to the most frequent one, as a fraction."""
    return float(np.unique(results, return_counts=True)[1].max() / results.size)
