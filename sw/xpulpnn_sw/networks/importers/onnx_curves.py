"""ONNX operators that no factor and summand stand for: rising functions of numbers, and maps beside each other."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import atanh, log

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.importers.assembly import NetworkAssembly
from xpulpnn_sw.networks.importers.levels import Affine
from xpulpnn_sw.networks.importers.onnx_node import Given, OnnxNode, OnnxOperator
from xpulpnn_sw.networks.importers.values import Curve, Shape, Value, dims, identity, live, standard_places, sums_of

_FAR = Fraction(1 << 64)  # beyond all sums: what is reached everywhere, and what nowhere


def _inverse(least: float, function: Callable[[float], float]) -> Curve:
    """The inverse of a function whose results are between ``least`` and 1."""

    def found(result: Fraction) -> Fraction:
        if not least < float(result) < 1:
            return -_FAR if result <= least else _FAR
        return Fraction(function(float(result)))

    return found


def _curved(curve: Callable[[OnnxNode], Curve]) -> OnnxOperator:
    def operator(net: NetworkAssembly, node: OnnxNode, given: Given) -> Value:
        # thresholds have few bits: without a quantiser of the model's there is one in front
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


def concatenation(net: NetworkAssembly, node: OnnxNode, given: Given) -> Value:
    """``Concat`` of channels: integers as they are, what they stand for by channel."""
    maps = [net.map_of(one, name) for one, name in zip(given, node.inputs, strict=True)]
    first, axes = maps[0], maps[0].places.ndim

    def ordered(shape: Shape) -> Ints:
        row: Ints = np.arange(shape[2])[np.newaxis]
        return standard_places(shape, axes) if axes > row.ndim else row

    for one in maps:
        if one.places.ndim != axes or not np.array_equal(one.places, ordered(one.shape)):
            raise InputError(
                f"maps must be in the usual order and of as many axes, not of shape {dims(one.places.shape)}"
            )
    if node.number("axis", 1) % axes != 1:
        raise InputError(f"axis must be that of channels, 1, not {node.number('axis', 1)}")
    if any(one.bits == SIGN_BITS for one in maps):
        raise InputError("maps must have two bits at least, not one")
    found = net.beside(maps, node.name)
    found = replace(found, places=ordered(found.shape))
    if all((one.scale, one.offset) == (first.scale, first.offset) for one in maps):
        return found
    channels = [
        Affine(a=one.scale, b=one.offset, least=one.low, most=one.high) for one in maps for _ in range(one.shape[2])
    ]
    return replace(identity(found), channels=tuple(channels))
