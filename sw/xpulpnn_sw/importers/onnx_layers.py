"""Layers of ONNX models: what a convolution, a product, a pooling and an addition sum up."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.importers.assembly import INPUT, SAMPLE_BITS
from xpulpnn_sw.importers.levels import WIDTHS, Affine
from xpulpnn_sw.importers.onnx_node import Context, Node
from xpulpnn_sw.importers.values import Map, Quantised, Shape, Sums, Value, by_channel, moved, standard_places
from xpulpnn_sw.layer_text import join
from xpulpnn_sw.precision import SIGN_BITS

IMAGE_CHANNELS = 3
"""With more, pixels of the input fill words."""

Given = Sequence[Value | None]
Pads = tuple[int, int, int, int]
"""At top, bottom, left and right."""


def weight_bits(values: Any, source: Map) -> int:
    """The narrowest width that has these weights; raises :class:`InputError` if none does."""
    if source.bits == SIGN_BITS and bool((np.abs(values) == 1).all()):
        return SIGN_BITS
    low, high = int(values.min()), int(values.max())
    for bits in WIDTHS:
        if low >= -(1 << (bits - 1)) and high < 1 << (bits - 1):
            return bits
    raise InputError(f"weights must be -128..127 without their zero point, not {low}..{high}")


def _products(
    node: Node,
    kernel: str,
    layer: str,
    source: Map,
    weights: Quantised,
    stored: Any,
    shape: Shape,
    places: Any,
    pads: bool,
) -> Sums:
    """Sums of products: ``weights`` ``[out][...]`` as the model has them, ``stored`` as the kernel takes them."""
    rows = weights.values.reshape(len(weights.values), -1)
    scales = weights.scale.reshape(rows.shape)
    if not bool((scales == scales[:, :1]).all()):
        raise InputError("scales of weights must be those of output channels, not of inputs")
    pad = 0
    if pads:
        zero = -source.offset / source.scale
        pad = round(zero)
        if source.bits == SIGN_BITS or zero.denominator != 1 or not source.low <= pad <= source.high:
            raise InputError("padding must be a number that the inputs can be, not 0 of a scale without 0")
    whole = rows.sum(axis=1)
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    channels = tuple(
        Affine(a=source.scale * scale, b=source.offset * scale * int(total))
        for scale, total in zip(scales[:, 0], whole, strict=True)
    )
    return Sums(
        name=node.name,
        kernel=kernel,
        layer=layer,
        sources=(source,),
        weights=stored,
        weight_bits=weight_bits(weights.values, source),
        pad=pad,
        channels=channels,
        least=tuple((positive * source.low + negative * source.high).tolist()),
        most=tuple((positive * source.high + negative * source.low).tolist()),
        shape=shape,
        places=places,
    )


def _standard(source: Map | Sums) -> Shape:
    """Rows, columns and channels; raises :class:`InputError` if the tensor is no map in the usual order."""
    if not np.array_equal(source.places, standard_places(source.shape)):
        raise InputError(f"input must be a map of [1][channel][row][column], not of shape {source.places.shape}")
    return source.shape


def _pads(node: Node, shape: Shape, kernel: Sequence[int], strides: Sequence[int]) -> Pads:
    mode = node.text("auto_pad", "NOTSET")
    if mode == "NOTSET":
        top, left, bottom, right = node.numbers("pads", (0, 0, 0, 0))
        return top, bottom, left, right
    if mode == "VALID":
        return 0, 0, 0, 0
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise InputError(f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not {mode}")
    found: list[int] = []
    for size, width, step in zip(shape, kernel, strides, strict=False):
        total = max((-(-size // step) - 1) * step + width - size, 0)
        less, more = total // 2, total - total // 2
        found += [less, more] if mode == "SAME_UPPER" else [more, less]
    return found[0], found[1], found[2], found[3]


def _window(node: Node, shape: Shape, kernel: Sequence[int]) -> tuple[list[int], Pads, tuple[int, int]]:
    """Strides, pads, and rows and columns of the results."""
    if len(kernel) != 2:
        raise InputError(f"windows must have two directions, not {len(kernel)}")
    strides = node.numbers("strides", (1, 1))
    if node.numbers("dilations", (1, 1)) != [1, 1]:
        raise InputError("dilations must be 1, not others")
    top, bottom, left, right = _pads(node, shape, kernel, strides)
    if node.number("ceil_mode", 0):
        bottom += -(shape[0] + top + bottom - kernel[0]) % strides[0]
        right += -(shape[1] + left + right - kernel[1]) % strides[1]
    rows = (shape[0] + top + bottom - kernel[0]) // strides[0] + 1
    columns = (shape[1] + left + right - kernel[1]) // strides[1] + 1
    if rows < 1 or columns < 1:
        raise InputError(f"window must be at most the padded map, not {kernel[0]}x{kernel[1]}")
    return strides, (top, bottom, left, right), (rows, columns)


def _text(shape: Shape, rest: str, strides: Sequence[int], pads: Pads) -> str:
    height, width, channels = shape
    return f"{height}x{width}x{channels}:{rest}:s={join(tuple(strides))},p={join(pads)}"


def _biased(sums: Sums, bias: Value | None) -> Value:
    """With a bias for each channel."""
    if bias is None:
        return sums
    if not isinstance(bias, np.ndarray | Quantised):
        raise InputError("bias must be a constant, not depend on the input")
    channels = sums.shape[2]
    column = np.arange(channels).reshape(1, channels)
    flat = bias.reshaped((1, -1)) if isinstance(bias, Quantised) else bias.reshape(1, -1)
    return moved(sums, [Fraction(1)] * channels, by_channel(flat, column, channels))


def convolution(context: Context, node: Node, given: Given) -> Value:
    """``Conv``, depthwise if each channel is a group."""
    source = context.map_of(given[0], node.inputs[0])
    weights = context.weights_of(given[1], node.inputs[1], channel_axis=0)
    shape, size, groups = _standard(source), weights.values.shape, node.number("group", 1)
    if len(size) != 4:
        raise InputError(f"weights must be [out][channel][row][column], not of shape {size}")
    kernel = node.numbers("kernel_shape", size[2:])
    if kernel != list(size[2:]) or size[1] * groups != shape[2]:
        raise InputError(f"weights must go with {shape[2]} channels in {groups} groups, not have the shape {size}")
    strides, pads, area = _window(node, shape, kernel)
    after = (*area, size[0])
    window = f"{kernel[0]}x{kernel[1]}"
    is_image = groups == 1 and source.stage == INPUT and source.bits == SAMPLE_BITS and shape[2] <= IMAGE_CHANNELS
    if groups == 1:
        chosen = "pointwise" if window == "1x1" and not is_image else "conv"
        rest = str(size[0]) if chosen == "pointwise" else f"{size[0]}x{window}"
        stored = weights.values.transpose(0, 2, 3, 1)
    elif groups == shape[2] == size[0]:
        chosen, rest, stored = "depthwise", window, weights.values[:, 0]
    else:
        raise InputError(f"group must be 1, or {shape[2]} with as many filters, not {groups} with {size[0]}")
    layer = _text(shape, rest, strides, pads)
    sums = _products(node, chosen, layer, source, weights, stored, after, standard_places(after), pads=any(pads))
    if is_image:
        # kernels for images have weights in bytes, and take half the cycles of others all the same
        sums = replace(sums, layer=f"{layer}:image", weight_bits=SAMPLE_BITS)
    return _biased(sums, given[2] if len(given) > 2 else None)


def _linear(node: Node, source: Map, weights: Quantised) -> Sums:
    """A product with ``weights`` ``[out][in]``, whose inputs are in the order of the model's tensor."""
    outputs, inputs = weights.values.shape
    order = source.places.ravel()
    if source.places.shape[-1] != len(order) or inputs != len(order):
        raise InputError(f"inputs must be one row of {inputs}, not of shape {source.places.shape}")
    if not np.array_equal(np.sort(order), np.arange(prod(source.shape))):
        raise InputError("inputs must be all results of a layer, not a part")
    stored = np.empty_like(weights.values)
    stored[:, order] = weights.values
    before: tuple[int, ...] = source.places.shape[:-1]
    places = np.reshape(np.arange(int(outputs)), (*before, int(outputs)))
    return _products(
        node, "linear", f"{inputs}:{outputs}", source, weights, stored, (1, 1, outputs), places, pads=False
    )


def matrix_product(context: Context, node: Node, given: Given) -> Value:
    """``MatMul`` of a row with a constant."""
    source = context.map_of(given[0], node.inputs[0])
    weights = context.weights_of(given[1], node.inputs[1], channel_axis=None)
    if weights.values.ndim != 2:
        raise InputError(f"weights must be [in][out], not of shape {weights.values.shape}")
    return _linear(node, source, weights.turned((1, 0)))


def gemm(context: Context, node: Node, given: Given) -> Value:
    """``Gemm`` of a row with a constant."""
    source = context.map_of(given[0], node.inputs[0])
    weights = context.weights_of(given[1], node.inputs[1], channel_axis=None)
    if weights.values.ndim != 2 or node.number("transA", 0):
        raise InputError("Gemm must be of a row and a matrix, not transposed")
    alpha, beta = (float(node.attributes.get(name, 1)) for name in ("alpha", "beta"))
    if (alpha, beta) != (1, 1):
        raise InputError(f"alpha and beta must be 1, not {alpha} and {beta}")
    sums = _linear(node, source, weights if node.number("transB", 0) else weights.turned((1, 0)))
    bias = given[2] if len(given) > 2 else None
    if isinstance(bias, np.ndarray) and bias.size == 1:
        bias = np.full(sums.shape[2], bias.ravel()[0])
    return _biased(sums, bias)


def maximum_pool(context: Context, node: Node, given: Given) -> Value:
    """``MaxPool``: of sums, whose quantiser does not change which is the greatest, behind that."""
    value = given[0]
    if not isinstance(value, Map | Sums) or len(node.outputs) > 1:
        raise InputError("input must depend on that of the model, and the output must be one")
    shape = _standard(value)
    kernel = node.numbers("kernel_shape", ())
    strides, pads, area = _window(node, shape, kernel)
    layer = _text(shape, f"{kernel[0]}x{kernel[1]}", strides, pads)
    after = (*area, shape[2])
    if isinstance(value, Sums):
        return replace(value, pools=(*value.pools, layer), shape=after, places=standard_places(after))
    if value.scale < 0:
        raise InputError("scale of the input must be greater than 0, not less")
    stage = context.assembly.channelwise("maxpool", layer, value, node.name)
    return replace(value, stage=stage, shape=after, places=standard_places(after))


def _average(context: Context, node: Node, value: Value | None, kernel: Sequence[int] | None) -> Value:
    source = context.map_of(value, node.inputs[0])
    shape = _standard(source)
    size = list(shape[:2]) if kernel is None else list(kernel)
    strides, pads, area = _window(node, shape, size)
    if source.bits == SIGN_BITS:
        raise InputError("inputs of an average must have two bits at least, not one")
    if any(pads) and (not node.number("count_include_pad", 0) or source.offset):
        raise InputError("pads of an average must count, and be zeros in memory, not others")
    after, elements, channels = (*area, shape[2]), size[0] * size[1], shape[2]
    low = min(source.low, 0) if any(pads) else source.low
    return Sums(
        name=node.name,
        kernel="avgpool",
        layer=f"{_text(shape, f'{size[0]}x{size[1]}', strides, pads)}:scaled",
        sources=(source,),
        channels=(Affine(a=source.scale / elements, b=source.offset),) * channels,
        least=(low * elements,) * channels,
        most=(source.high * elements,) * channels,
        shape=after,
        places=standard_places(after),
        area=elements,
    )


def average_pool(context: Context, node: Node, given: Given) -> Value:
    """``AveragePool``."""
    return _average(context, node, given[0], node.numbers("kernel_shape", ()))


def global_average_pool(context: Context, node: Node, given: Given) -> Value:
    """``GlobalAveragePool``."""
    return _average(context, node, given[0], None)


def add_maps(context: Context, node: Node, given: Given, sign: int) -> Value:
    """The sum of two maps, or their difference: each times a factor, the smallest that are whole numbers."""
    first, second = (context.map_of(one, name) for one, name in zip(given, node.inputs, strict=True))
    if first.shape != second.shape or not np.array_equal(first.places, second.places):
        raise InputError(f"maps must have one shape, not {first.places.shape} and {second.places.shape}")
    if SIGN_BITS in (first.bits, second.bits):
        raise InputError("summands must have two bits at least, not one")
    height, width, channels = first.shape
    common = Affine(a=Fraction(1), b=first.offset + sign * second.offset)
    return Sums(
        name=node.name,
        kernel="add",
        layer=f"{height}x{width}x{channels}:shift",
        sources=(first, second),
        channels=(common,) * channels,
        factors=(first.scale, sign * second.scale),
        least=(0,) * channels,
        most=(0,) * channels,
        shape=first.shape,
        places=first.places,
    )
