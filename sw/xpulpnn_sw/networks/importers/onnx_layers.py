"""Converters of ONNX operators that become layers: convolutions, matrix products, poolings and additions of maps."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, require
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.layers.text import check_elements
from xpulpnn_sw.networks.importers.layer_builder import INPUT, SAMPLE_BITS, LayerBuilder
from xpulpnn_sw.networks.importers.moved_maps import arranged, placed
from xpulpnn_sw.networks.importers.onnx_node import (
    MAP_AXES,
    SEQUENCE_AXES,
    Inputs,
    OnnxNode,
    map_shape,
    planar,
    window_of,
)
from xpulpnn_sw.networks.importers.onnx_pooling import overlaps
from xpulpnn_sw.networks.importers.quantiser import ELEMENT_WIDTHS, Affine
from xpulpnn_sw.networks.importers.values import (
    NO_PADS,
    Map,
    Quantised,
    Shape,
    Sums,
    Value,
    by_channel,
    dims,
    scaled,
    standard_indices,
)

IMAGE_CHANNELS = 3  # most channels of layers of an image
_WEIGHTS = range(-128, 128)


def _weight_bits(values: Any, source: Map) -> int:
    if source.bits == SIGN_BITS and bool((np.abs(values) == 1).all()):
        return SIGN_BITS
    require(source.bits != SIGN_BITS, "weights must be -1 and 1 for inputs of one bit, not others")
    low, high = int(values.min()), int(values.max())
    for bits in ELEMENT_WIDTHS:
        if low >= -(1 << (bits - 1)) and high < 1 << (bits - 1):
            return bits
    raise InputError(f"weights must be -128..127 without their zero point, not {low}..{high}")


def _products(
    node: OnnxNode,
    kernel: str,
    layer: str,
    source: Map,
    weights: Quantised,
    stored: Any,
    shape: Shape,
    indices: Any,
    pads: bool = False,
) -> Sums:
    rows = weights.values.reshape(len(weights.values), -1)
    scales = weights.scale.reshape(rows.shape)
    require(bool((scales == scales[:, :1]).all()), "scales of weights must be those of output channels, not of inputs")
    pad = 0
    if pads:
        zero = -source.offset / source.scale
        pad = round(zero)
        if source.bits == SIGN_BITS or zero.denominator != 1 or not source.low <= pad <= source.high:
            raise InputError("padding must be a number that the inputs can be, not 0 of a scale without 0")
    whole = rows.sum(axis=1)
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    least, most = positive * source.low + negative * source.high, positive * source.high + negative * source.low
    channels = tuple(
        Affine(a=source.scale * scale, b=source.offset * scale * total, least=low, most=high)
        for scale, total, low, high in zip(scales[:, 0], whole.tolist(), least.tolist(), most.tolist(), strict=True)
    )
    return Sums(
        name=node.name,
        kernel=kernel,
        layer=layer,
        sources=(source,),
        weights=stored,
        weight_bits=_weight_bits(weights.values, source),
        pad=pad,
        channels=channels,
        shape=shape,
        indices=indices,
    )


def _biased(sums: Sums, bias: Value | None) -> Value:
    if bias is None:
        return sums
    if not isinstance(bias, np.ndarray | Quantised):
        raise InputError("bias must be a constant, not depend on the input")
    channels = sums.shape[2]
    column = np.arange(channels).reshape(1, channels)
    flat = bias.reshaped((1, -1)) if isinstance(bias, Quantised) else bias.reshape(1, -1)
    return scaled(sums, [Fraction(1)] * channels, by_channel(flat, column, channels))


def onnx_convolution(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``Conv`` with one or two spatial axes; it becomes a depthwise layer if each channel is a group."""
    source = net.map_of(given[0], node.inputs[0], padded=True)
    if any(node.numbers("pads", ())) or node.text("auto_pad", "").startswith("SAME"):
        source = net.representing_zero(source, node.inputs[0])
    weights = net.weights_of(given[1], node.inputs[1])
    if source.stage != INPUT or source.indices.ndim != SEQUENCE_AXES or node.number("group", 1) > 1:
        source = arranged(net, source)
    is_sequence = weights.values.ndim == source.indices.ndim == SEQUENCE_AXES
    if is_sequence:
        node, source, weights = _sequence(node, source, weights)
    groups = node.number("group", 1)
    if _weight_parts(weights) > 1 and weights.values.ndim == MAP_AXES and groups >= 1:
        weights = _ungrouped(weights, groups, source) if groups > 1 else weights
        source, weights = _split_weights(net, node, source, weights)
        groups, node = 1, replace(node, attributes={**node.attributes, "group": 1})
    shape, size = map_shape(source), weights.values.shape
    require(len(size) == MAP_AXES, f"weights must be [out][channel][row][column], not of shape {size}")
    kernel = node.numbers("kernel_shape", size[2:])
    if kernel != list(size[2:]) or groups < 1 or size[1] * groups != shape[2] or size[0] % groups:
        raise InputError(f"weights must go with {shape[2]} channels in {groups} groups, not have the shape {size}")
    window = window_of(node, shape, kernel, source.pads)
    is_depthwise = groups == shape[2] == size[0] and groups > 1
    if is_depthwise and source.pads != NO_PADS and not overlaps(window):
        source = net.with_padding(source)
        shape = map_shape(source)
        window = window_of(node, shape, kernel)
    if window.dilations != (1, 1):
        rows, columns = window.dilations
        places = ((np.s_[:, :, ::rows, ::columns], np.s_[:]),)
        weights = _spread(weights, (*size[:2], *window.reach), source, places)
        net.note(f"{node}: gaps of its filters become weights of 0, {prod(window.reach)} for {prod(kernel)}")
    if groups > 1 and not is_depthwise:
        weights = _ungrouped(weights, groups, source)
        net.note(f"{node}: its {groups} groups become one with weights of 0")
    is_image = source.stage == INPUT and source.bits == SAMPLE_BITS and shape[2] <= IMAGE_CHANNELS and not is_depthwise
    after, reach = (*window.results, size[0]), "x".join(map(str, window.reach))
    if is_depthwise:
        chosen, rest, stored = "depthwise", reach, weights.values[:, 0]
    else:
        chosen = "pointwise" if reach == "1x1" and not is_image else "conv"
        rest = str(size[0]) if chosen == "pointwise" else f"{size[0]}x{reach}"
        stored = weights.values.transpose(0, 2, 3, 1)
    layer = window.text(shape, rest)
    indices = standard_indices(after, SEQUENCE_AXES if is_sequence else MAP_AXES)
    sums = _products(node, chosen, layer, source, weights, stored, after, indices, pads=any(window.pads))
    if is_image:
        # kernels for images have 8-bit weights, and still take half the cycles of others
        sums = replace(sums, layer=f"{layer}:image", weight_bits=SAMPLE_BITS)
    return _biased(sums, given[2] if len(given) > 2 else None)


def _weight_parts(weights: Quantised) -> int:
    low, high = int(weights.values.min(initial=0)), int(weights.values.max(initial=0))
    return max(1, -(low // -_WEIGHTS.start), -(-high // _WEIGHTS[-1]))


def _split_weights(net: LayerBuilder, node: OnnxNode, source: Map, weights: Quantised) -> tuple[Map, Quantised]:
    copies = _weight_parts(weights)
    net.note(f"{node}: weights without their zero point have more than 8 bits, so that inputs are there {copies} times")
    parts = [(weights.values + number) // copies for number in range(copies)]
    whole = Quantised(values=np.concatenate(parts, axis=1), scale=np.concatenate([weights.scale] * copies, axis=1))
    axis = 1 if source.indices.ndim > 2 else source.indices.ndim - 1
    return arranged(net, replace(source, indices=np.concatenate([source.indices] * copies, axis=axis))), whole


def _sequence(node: OnnxNode, source: Map, weights: Quantised) -> tuple[OnnxNode, Map, Quantised]:
    changed, plane = planar(node, source)
    assert isinstance(plane, Map)
    outputs, channels, length = weights.values.shape
    is_image = source.stage == INPUT and np.array_equal(source.indices.ravel(), np.arange(source.indices.size))
    if not is_image or node.number("group", 1) != 1 or source.indices.shape[1] != channels:
        return changed, plane, weights.reshaped((outputs, channels, 1, length))
    attributes = dict(changed.attributes) | {"kernel_shape": [channels, length]}
    image = replace(source, indices=source.indices[:, np.newaxis])
    return replace(changed, attributes=attributes), image, weights.reshaped((outputs, 1, channels, length))


def _spread(weights: Quantised, shape: Sequence[int], source: Map, places: Iterable[tuple[Any, Any]]) -> Quantised:
    if source.bits == SIGN_BITS:
        raise InputError("inputs of one bit must meet weights of -1 and 1, not of 0, which groups and gaps need")
    check_elements("weights with those of 0 for groups and gaps", prod(shape))
    scale = np.empty(shape, object)
    scale[...] = weights.scale[:, :1, :1, :1]
    values = np.zeros(shape, np.int64)
    for place, own in places:
        values[place], scale[place] = weights.values[own], weights.scale[own]
    return Quantised(values=values, scale=scale)


def _ungrouped(weights: Quantised, groups: int, source: Map) -> Quantised:
    outputs, channels, *reach = weights.values.shape
    own = [slice(group * outputs // groups, (group + 1) * outputs // groups) for group in range(groups)]
    places = [((part, slice(group * channels, (group + 1) * channels)), part) for group, part in enumerate(own)]
    return _spread(weights, (outputs, channels * groups, *reach), source, places)


def _linear(net: LayerBuilder, node: OnnxNode, source: Map, weights: Quantised) -> Sums:
    if _weight_parts(weights) > 1:
        source, weights = _split_weights(net, node, source, weights)
    outputs, inputs = weights.values.shape
    order = source.indices.ravel()
    before: tuple[int, ...] = source.indices.shape[:-1]
    require(source.indices.shape[-1] == inputs, f"inputs must be rows of {inputs}, not of shape {source.indices.shape}")
    if len(order) != inputs:
        return _rows(node, placed(net, source, source.indices.reshape(1, -1, inputs)), weights, before)
    if not np.array_equal(np.sort(order), np.arange(prod(source.shape))):
        source = arranged(net, source)
        order = source.indices.ravel()
    stored = np.empty_like(weights.values)
    stored[:, order] = weights.values
    indices = np.reshape(np.arange(int(outputs)), (*before, int(outputs)))
    return _products(node, "linear", f"{inputs}:{outputs}", source, weights, stored, (1, 1, outputs), indices)


def _rows(node: OnnxNode, source: Map, weights: Quantised, before: tuple[int, ...]) -> Sums:
    outputs, pixels = len(weights.values), source.shape[1]
    indices = np.arange(pixels * outputs).reshape(*before, outputs)
    layer, stored = f"{dims(source.shape)}:{outputs}:p=0", weights.values[:, np.newaxis, np.newaxis]
    return _products(node, "pointwise", layer, source, weights, stored, (1, pixels, outputs), indices)


def matrix_product(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Sums:
    source = net.map_of(given[0], node.inputs[0])
    weights = net.weights_of(given[1], node.inputs[1], one_scale=True, is_transposed=True)
    return _linear(net, node, source, weights)


def gemm(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    source = net.map_of(given[0], node.inputs[0])
    is_transposed = not node.number("transB", 0)
    weights = net.weights_of(given[1], node.inputs[1], one_scale=True, is_transposed=is_transposed)
    if weights.values.ndim != 2 or node.number("transA", 0):
        raise InputError("Gemm must be of a row and a matrix, not transposed")
    alpha, beta = (Fraction(node.real(name, 1)) for name in ("alpha", "beta"))
    sums = _linear(net, node, source, replace(weights, scale=weights.scale * alpha))
    bias = given[2] if len(given) > 2 else None
    if isinstance(bias, Quantised):
        bias = replace(bias, scale=bias.scale * beta)
    elif isinstance(bias, np.ndarray):
        bias = bias * float(beta)
    if isinstance(bias, np.ndarray) and bias.size == 1:
        bias = np.full(sums.shape[2], bias.ravel()[0])
    return _biased(sums, bias)
