"""A layer with more channels: what it computes for those it had stays, whatever the others are computed of."""

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
    normalising,
)
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.layers.layer import DepthwiseLayer, LinearLayer
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.network import Stage

CRUMB_BITS = 2  # of the narrowest weights that may be 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """Channels that a layer gets."""

    had: int  # channels that the map has now which it reads first, as the layer before writes it
    taken: int  # channels that it will have
    written: int  # channels of its results
    # what added channels hold of a map that it reads; None: the same number in all of them, which is not known
    filling: int | None


def widened_stages(stage: Stage, widening: Widening) -> Stage:
    """The layer with channels added behind its own.

    Weights of added inputs are zeros, so that those of one bit become crumbs. Where the inputs have one bit too, they
    are 1 and -1 by turns, whose products with equal numbers cancel out; if one is left over, its products are taken
    from the biases. Added results are :func:`filled` ones.
    """
    own = stage.tensors
    if isinstance(stage.layer, DepthwiseLayer):
        return _depthwise(stage, own, widening.written)
    if not stage.multiplies:
        tensors = replace(own, **{name: _more(getattr(own, name), widening.written) for name in stage.map_names})
        return replace(stage, layer=_resized(stage.layer, channels=widening.written), tensors=tensors)
    return _more_results(_more_inputs(stage, widening), widening.written)


def filled(stage: Stage, filling: int | None) -> int | None:
    """Return the number in the channels added to the results, if those added to its inputs hold ``filling``.

    None: the same number in each, which is not known.
    """
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
    """A layer of other sizes; all are dataclasses."""
    return replace(layer, **sizes)


def _more(values: Ints, channels: int) -> Ints:
    """A map of as many channels as there will be; of its values none counts."""
    return np.zeros((*values.shape[:-1], channels), np.int64)


def _more_inputs(stage: Stage, widening: Widening) -> Stage:
    own, layer = stage.tensors, stage.layer
    taken = widening.taken
    if isinstance(layer, LinearLayer):
        # the pixels of a map one after the other
        pixels = layer.inputs // widening.had
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
            bias = _bias(own) - pixels * _everywhere(stage, widening.filling)
    if isinstance(layer, LinearLayer):
        weights, activations = weights.reshape(layer.outputs, -1), np.zeros(pixels * taken, np.int64)
    else:
        activations = _more(own.activations, taken)
    tensors = replace(own, weights=weights, bias=bias, activations=activations)
    return replace(stage, layer=wide, tensors=tensors)


def _everywhere(stage: Stage, filling: int | None) -> int:
    """Return the number that an added channel of the map holds, inside and around it."""
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
            # no sum is above 0 then, where all thresholds are
            bias = pad_axis(_bias(own), 0, written)
            bias[-added:] = -_reach(stage)
        elif after is not None:
            after = normalising(after, len(own.weights))
    after = _extended(after, stage, added)
    name = "outputs" if isinstance(stage.layer, LinearLayer) else "out_channels"
    tensors = replace(own, weights=weights, bias=bias, requantisation=after)
    return replace(stage, layer=_resized(stage.layer, **{name: written}), tensors=tensors)


def _reach(stage: Stage) -> int:
    """As far from 0 as no sum of weights of one bit is further."""
    bits, signed = stage.precision.x, stage.precision.x_signed
    return stage.tensors.weights[0].size << (bits - 1 if signed or bits == SIGN_BITS else bits)


def _extended(after: Any, stage: Stage, added: int) -> Any:
    """The rule with so many more channels: sums of 0 become results of 0, those of weights of one bit the least.

    The exact rule has the code of 0 instead.
    """
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
                # as many below a sum of 0 as there are codes below that of 0
                steps[len(after.values) :, : 1 << (stage.precision.y - 1)] = -1
            return replace(after, values=steps)
        case _:
            return after


def _depthwise(stage: Stage, own: LayerTensors, channels: int) -> Stage:
    tensors = replace(
        own,
        activations=_more(own.activations, channels),
        weights=pad_axis(own.weights, 0, channels),
        bias=pad_axis(_bias(own), 0, channels),
        requantisation=_extended(own.requantisation, stage, channels - len(own.weights)),
    )
    return replace(stage, layer=_resized(stage.layer, channels=channels), tensors=tensors)
