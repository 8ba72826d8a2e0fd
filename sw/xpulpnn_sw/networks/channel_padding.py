"""Adds channels to layers; the results of the original channels do not change."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.channelwise.avgpool import AvgPoolTensors
from xpulpnn_sw.kernels.channelwise.elementwise import AddTensors
from xpulpnn_sw.kernels.layout import Ints, pad_axis
from xpulpnn_sw.kernels.requantisation import (
    ExactRequantisation,
    Requantisation,
    Thresholds,
    WideRequantisation,
    with_channel_factors,
)
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.layers.layer import DepthwiseLayer, LinearLayer
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.network import Stage

CRUMB_BITS = 2  # the narrowest weights that can be 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPadding:
    had: int  # channels of its first input before padding
    taken: int  # channels of its first input after padding
    written: int  # channels of its results after padding
    filling: int | None  # value in the added input channels; None: an unknown value, the same in all


def pad_channels(stage: Stage, padding: ChannelPadding) -> Stage:
    """Add channels to a layer, after its original ones.

    Weights of added input channels are 0; weights of one bit, which cannot be 0, become crumbs. If the inputs have one
    bit too, added weights alternate between 1 and -1, so that the products of two added channels cancel; the bias
    compensates the product of an odd one.
    """
    own = stage.tensors
    if isinstance(stage.layer, DepthwiseLayer):
        return _depthwise(stage, own, padding.written)
    if not stage.multiplies:
        tensors = replace(own, **{name: _placeholder(getattr(own, name), padding.written) for name in stage.map_names})
        return replace(stage, layer=_resized(stage.layer, channels=padding.written), tensors=tensors)
    return _more_results(_more_inputs(stage, padding), padding.written)


def padding_value(stage: Stage, filling: int | None) -> int | None:
    """Return the value of a layer's added results if its added input channels hold ``filling``; None: unknown."""
    least = -(1 << (stage.precision.y - 1)) if stage.precision.y_signed else 0
    match stage.tensors:
        case LayerTensors(requantisation=ExactRequantisation(zero=zero)):
            return min(max(zero, least), least + (1 << stage.precision.y) - 1)
        case LayerTensors() if isinstance(stage.layer, DepthwiseLayer):
            return 0
        case LayerTensors():
            if stage.precision.y == SIGN_BITS:
                return -1
            return least if isinstance(stage.tensors.requantisation, Thresholds) and _has_signs(stage) else 0
        case AddTensors():
            return None
        case AvgPoolTensors() if getattr(stage.layer, "scaled", False) or filling != 0:
            return None
        case _ if filling is not None and (stage.kind.name == "relu" or getattr(stage.layer, "relu", False)):
            return max(filling, 0)
        case _:
            return filling


def _has_signs(stage: Stage) -> bool:
    return stage.precision.w == SIGN_BITS


def _resized(layer: Any, **sizes: int) -> Any:
    return replace(layer, **sizes)


def _placeholder(values: Ints, channels: int) -> Ints:
    return np.zeros((*values.shape[:-1], channels), np.int64)


def _more_inputs(stage: Stage, padding: ChannelPadding) -> Stage:
    own, layer = stage.tensors, stage.layer
    taken = padding.taken
    if isinstance(layer, LinearLayer):
        pixels = layer.inputs // padding.had
        weights = own.weights.reshape(layer.outputs, pixels, -1)
        wide = _resized(layer, inputs=pixels * taken)
    else:
        weights, pixels = own.weights, own.weights[0, ..., 0].size
        wide = _resized(layer, channels=taken)
    added = taken - weights.shape[-1]
    if added and _has_signs(stage) and stage.precision.x != SIGN_BITS:
        stage = replace(stage, precision=replace(stage.precision, w=CRUMB_BITS))
    weights, bias = pad_axis(weights, weights.ndim - 1, taken), own.bias
    if added and _has_signs(stage):
        weights[..., -added::2], weights[..., taken - added + 1 :: 2] = 1, -1
        if added % 2:
            bias = _bias(own) - pixels * _uniform_value(stage, padding.filling)
    if isinstance(layer, LinearLayer):
        weights, activations = weights.reshape(layer.outputs, -1), np.zeros(pixels * taken, np.int64)
    else:
        activations = _placeholder(own.activations, taken)
    tensors = replace(own, weights=weights, bias=bias, activations=activations)
    return replace(stage, layer=wide, tensors=tensors)


def _uniform_value(stage: Stage, filling: int | None) -> int:
    """Return ``filling``; raise :class:`LayerError` if it is unknown, or differs from the padding around the map."""
    around = -1 if stage.precision.x == SIGN_BITS and not stage.pad else stage.pad
    if filling is None or (any(getattr(stage.layer, "padding", ())) and around != filling):
        raise LayerError(f"channels that {stage.name} reads must be even with its value around the map, not odd")
    return filling


def _bias(own: LayerTensors) -> Ints:
    return np.zeros(len(own.weights), np.int64) if own.bias is None else own.bias.astype(np.int64)


def _more_results(stage: Stage, written: int) -> Stage:
    own: LayerTensors = stage.tensors
    added = written - len(own.weights)
    if not added:
        return stage
    weights, bias, after = pad_axis(own.weights, 0, written), own.bias, own.requantisation
    if bias is not None:
        bias = pad_axis(bias, 0, written)
    if _has_signs(stage):
        weights[-added:] = 1
        if isinstance(after, Thresholds):
            # so that no sum exceeds the added thresholds, which are 0
            bias = pad_axis(_bias(own), 0, written)
            bias[-added:] = -_sum_bound(stage)
        elif after is not None:
            after = with_channel_factors(after, len(own.weights))
    after = _extended(after, stage, added)
    name = "outputs" if isinstance(stage.layer, LinearLayer) else "out_channels"
    tensors = replace(own, weights=weights, bias=bias, requantisation=after)
    return replace(stage, layer=_resized(stage.layer, **{name: written}), tensors=tensors)


def _sum_bound(stage: Stage) -> int:
    """Return an upper bound of the magnitude of the sums of a layer whose weights have one bit."""
    bits, signed = stage.precision.x, stage.precision.x_signed
    return stage.tensors.weights[0].size << (bits - 1 if signed or bits == SIGN_BITS else bits)


def _extended(after: Any, stage: Stage, added: int) -> Any:
    """Return a requantisation with ``added`` more channels, whose results are 0, the least value or the zero point."""
    match after:
        case Requantisation() | WideRequantisation():
            channels = len(after.kappa) + added
            return replace(after, kappa=pad_axis(after.kappa, 0, channels), lam=pad_axis(after.lam, 0, channels))
        case ExactRequantisation():
            shifts = np.pad(after.shifts, (0, added), mode="edge")
            return replace(after, factors=pad_axis(after.factors, 0, len(shifts)), shifts=shifts)
        case Thresholds():
            steps = pad_axis(after.values, 0, len(after.values) + added)
            if stage.precision.y_signed and not _has_signs(stage):
                # thresholds below a sum of 0, as many as there are results below 0
                steps[len(after.values) :, : 1 << (stage.precision.y - 1)] = -1
            return replace(after, values=steps)
        case _:
            return after


def _depthwise(stage: Stage, own: LayerTensors, channels: int) -> Stage:
    tensors = replace(
        own,
        activations=_placeholder(own.activations, channels),
        weights=pad_axis(own.weights, 0, channels),
        bias=pad_axis(_bias(own), 0, channels),
        requantisation=_extended(own.requantisation, stage, channels - len(own.weights)),
    )
    return replace(stage, layer=_resized(stage.layer, channels=channels), tensors=tensors)
