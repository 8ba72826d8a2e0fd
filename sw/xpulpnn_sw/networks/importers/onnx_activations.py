"""Converters of ONNX activation functions, which become steps of the next quantiser, and of ``Concat``."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import atanh, log

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.importers.layer_builder import LayerBuilder
from xpulpnn_sw.networks.importers.onnx_node import Inputs, OnnxNode, OnnxOperator
from xpulpnn_sw.networks.importers.quantiser import Affine
from xpulpnn_sw.networks.importers.values import Curve, Shape, Value, dims, identity, live, standard_indices, sums_of

_FAR = Fraction(1 << 64)  # beyond all sums


def _inverse(least: float, function: Callable[[float], float]) -> Curve:
    """Return an inverse function, extended beyond the open interval from ``least`` to 1."""

    def curve(result: Fraction) -> Fraction:
        if not least < float(result) < 1:
            return -_FAR if result <= least else _FAR
        return Fraction(function(float(result)))

    return curve


def _curved(curve: Callable[[OnnxNode], Curve]) -> OnnxOperator:
    def operator(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
        # thresholds have few bits, so that models in floating point are quantised before the function too
        sums = sums_of(live(given[0]) if net.policy is None else net.map_of(given[0], node.inputs[0]))
        if sums.curve is not None:
            raise InputError("input must not be a function of another, without a quantiser between")
        return replace(sums, curve=curve(node))

    return operator


def _slope(node: OnnxNode) -> Curve:
    alpha = Fraction(node.real("alpha", 0.01))
    if alpha <= 0:
        raise InputError(f"alpha must be greater than 0, not {float(alpha)}")
    return lambda result: result if result >= 0 else result / alpha


def _logit(result: float) -> float:
    return log(result / (1 - result))


CURVES: Mapping[str, OnnxOperator] = {
    "LeakyRelu": _curved(_slope),
    "Sigmoid": _curved(lambda _: _inverse(0, _logit)),
    "Tanh": _curved(lambda _: _inverse(-1, atanh)),
}


def concatenation(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``Concat`` of channels; maps keep their integers and scales, which may then differ between channels."""
    maps = [net.map_of(value, name) for value, name in zip(given, node.inputs, strict=True)]
    first, axes = maps[0], maps[0].indices.ndim

    def ordered(shape: Shape) -> Ints:
        row: Ints = np.arange(shape[2])[np.newaxis]
        return standard_indices(shape, axes) if axes > row.ndim else row

    for source in maps:
        if source.indices.ndim != axes or not np.array_equal(source.indices, ordered(source.shape)):
            raise InputError(
                f"maps must be in the usual order and of as many axes, not of shape {dims(source.indices.shape)}"
            )
    if node.number("axis", 1) % axes != 1:
        raise InputError(f"axis must be that of channels, 1, not {node.number('axis', 1)}")
    if any(source.bits == SIGN_BITS for source in maps):
        raise InputError("maps must have two bits at least, not one")
    joined = net.concatenate(maps, node.name)
    joined = replace(joined, indices=ordered(joined.shape))
    if all((source.scale, source.offset) == (first.scale, first.offset) for source in maps):
        return joined
    channels = [
        Affine(a=source.scale, b=source.offset, least=source.low, most=source.high)
        for source in maps
        for _ in range(source.shape[2])
    ]
    return replace(identity(joined), channels=tuple(channels))
