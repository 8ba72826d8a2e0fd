"""Converters of ONNX operators on several maps, and of those that change the size of a map."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, require
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.importers import moved_maps
from xpulpnn_sw.networks.importers.layer_builder import LayerBuilder
from xpulpnn_sw.networks.importers.onnx_layers import matrix_product, onnx_convolution
from xpulpnn_sw.networks.importers.onnx_node import MAP_AXES, SEQUENCE_AXES, Inputs, OnnxNode
from xpulpnn_sw.networks.importers.onnx_pooling import average_pool
from xpulpnn_sw.networks.importers.quantiser import Affine, uniform_quantiser
from xpulpnn_sw.networks.importers.values import (
    Map,
    Quantised,
    Shape,
    Sums,
    Value,
    by_channel,
    constant_value,
    dims,
    exact_number,
    identity,
    live,
    standard_indices,
    whole_constants,
)

_SOFTMAX_OF_AN_AXIS = 13  # version of ONNX from which on Softmax is of a single axis
_MODES = ("constant", "reflect", "edge", "wrap")
_WAYS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
_ROUNDINGS: Mapping[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda position: ceil(position - Fraction(1, 2)),
    "round_prefer_ceil": lambda position: floor(position + Fraction(1, 2)),
    "floor": lambda position: floor(position),
    "ceil": lambda position: ceil(position),
}


def with_constant_maps(net: LayerBuilder, given: Inputs, *, every: bool = False) -> Inputs:
    """Put maps in the places of quantised constants, of ``every`` one or of those that vary inside a channel."""
    value = next((own for own in given if isinstance(own, Map | Sums)), None)
    if value is None:
        return given
    source = value if isinstance(value, Map) else value.sources[0]
    maps = list(given)
    for place, own in enumerate(given):
        if isinstance(own, Quantised) and len({*own.scale.ravel()}) == 1 and (every or _varies(own, value)):
            least = -(1 << BYTE_BITS - 1) if source.signed else 0
            raised, most = least - int(own.values.min()), least + (1 << BYTE_BITS) - 1
            quantiser = uniform_quantiser(own.scale.ravel()[0], Fraction(raised), least, most, "ROUND")
            maps[place] = moved_maps.constant_map(net, source, own.values + raised, quantiser)
    return maps


def _varies(constant: Quantised, value: Map | Sums) -> bool:
    try:
        by_channel(constant, value.indices, value.shape[2])
    except InputError:
        return True
    return False


def add_maps(net: LayerBuilder, node: OnnxNode, given: Inputs, sign: int) -> Sums:
    first, second = _alike(net, node, given)
    factors, offset = (first.scale, sign * second.scale), first.offset + sign * second.offset
    layer = f"{dims(first.shape)}:shift"
    sums = _of_maps(node, "add", layer, [first, second], Affine(a=Fraction(1), b=offset, least=0, most=0), first.shape)
    return replace(sums, factors=factors, indices=first.indices)


def multiply_maps(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Sums:
    first, second = maps = _alike(net, node, given)
    unit = Affine(a=first.scale * second.scale, b=Fraction(0), least=0, most=0)
    return replace(_of_maps(node, "multiply", dims(first.shape), maps, unit, first.shape), indices=first.indices)


def _alike(net: LayerBuilder, node: OnnxNode, given: Inputs) -> list[Map]:
    maps = moved_maps.broadcast(net, [net.map_of(value, name) for value, name in zip(given, node.inputs, strict=True)])
    require(all(value.bits != SIGN_BITS for value in maps), "maps must have two bits at least, not one")
    return maps


def _of_maps(node: OnnxNode, kernel: str, layer: str, maps: Sequence[Map], unit: Affine, shape: Shape) -> Sums:
    known: dict[str, Any] = {"channels": (unit,) * shape[2], "sources": tuple(maps)}
    indices = np.arange(prod(shape)).reshape(shape)
    return Sums(name=node.name, kernel=kernel, layer=layer, shape=shape, indices=indices, **known)


def matrix_products(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Sums:
    """Convert ``MatMul``, of two maps as matrices of the first, and of the second with their columns as rows."""
    if not isinstance(given[1], Map | Sums):
        return matrix_product(net, node, given)
    maps = [net.map_of(value, name) for value, name in zip(given, node.inputs, strict=False)][:2]
    orders = maps[0].indices, maps[1].indices.swapaxes(-1, -2)
    batch = np.broadcast_shapes(*(order.shape[:-2] for order in orders))
    spread = (np.broadcast_to(order, (*batch, *order.shape[-2:])).reshape(-1, *order.shape[-2:]) for order in orders)
    maps = [moved_maps.placed(net, *pair) for pair in zip(maps, spread, strict=True)]
    (height, width, depth), columns = maps[0].shape, maps[1].shape[1]
    unit, most = maps[0].scale * maps[1].scale, depth << 2 * BYTE_BITS
    affine = Affine(a=unit, b=Fraction(0), least=-most, most=most)
    layer = f"{dims(maps[0].shape)}:{columns}"
    sums = _of_maps(node, "batchmatmul", layer, maps, affine, (height, width, columns))
    return replace(sums, indices=sums.indices.reshape(*batch, width, columns))


def softmax(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Sums:
    """Convert ``Softmax``, before version 13 of ONNX of all axes from one on."""
    is_old = node.number("opset", _SOFTMAX_OF_AN_AXIS) < _SOFTMAX_OF_AN_AXIS
    axis = node.number("axis", 1 if is_old else -1)
    return _of_pixels(net, node, given[0], "softmax", axis, is_behind=is_old)


def layer_normalisation(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Sums:
    """Convert ``LayerNormalization`` of all axes from one on, with a scale and an offset for each of their elements."""
    sums = _of_pixels(net, node, given[0], "layernorm", node.number("axis", -1), is_behind=True)
    rows: list[list[Fraction]] = []
    for value in (*given[1:3], None)[:2]:
        real = value.real if isinstance(value, Quantised) else np.zeros(1) if value is None else value
        numbers = constant_value(real, "scale of a layer normalisation").ravel()
        rows.append([exact_number(number) for number in np.broadcast_to(numbers, sums.shape[2])])
    channels = tuple(Affine(a=a, b=b, least=0, most=0) for a, b in zip(*rows, strict=True))
    return replace(sums, channels=channels, epsilon=node.real("epsilon", 1e-5))


def _of_pixels(
    net: LayerBuilder, node: OnnxNode, given: Value | None, kernel: str, axis: int, *, is_behind: bool
) -> Sums:
    """Return the sums of a kernel of pixels, which are the elements of an axis or, if ``is_behind``, of all from it."""
    value = net.with_positive_scale(net.map_of(given, node.inputs[0]))
    shape = value.indices.shape
    axis %= len(shape)
    rows = value.indices.reshape(*shape[:axis], -1) if is_behind else np.moveaxis(value.indices, axis, -1)
    source = moved_maps.placed(net, value, rows.reshape(-1, *rows.shape[-2:]))
    unit = Affine(a=Fraction(1), b=Fraction(0), least=0, most=1)
    sums, places = _of_maps(node, kernel, dims(source.shape), [source], unit, source.shape), np.arange(rows.size)
    ordered = places.reshape(shape) if is_behind else np.moveaxis(places.reshape(rows.shape), -1, axis)
    return replace(sums, indices=ordered)


def extreme_of(net: LayerBuilder, node: OnnxNode, given: Inputs, sign: int) -> Value:
    """Convert ``Max`` or, if ``sign`` is -1, ``Min`` of maps, which the quantiser behind quantises one by one."""
    maps = moved_maps.broadcast(net, [net.map_of(value, name) for value, name in zip(given, node.inputs, strict=True)])

    def join(parts: Sequence[Map]) -> Map:
        pairs = [replace(part, scale=sign * part.scale, offset=sign * part.offset) for part in parts]
        first, *rest = (net.with_positive_scale(part) for part in pairs)
        (height, width, channels), stage = first.shape, first.stage
        for other in rest:
            both = moved_maps.concatenate(net, [replace(first, stage=stage), other], node.name, 0)
            order = np.arange(prod(both.shape)).reshape(2, height, width, channels).transpose(1, 0, 2, 3)
            rows = moved_maps.placed(net, both, order.reshape(2 * height, width, channels))
            stage = net.channelwise("maxpool", f"{dims(rows.shape)}:2x1:s=2x1", rows)
        return replace(first, stage=stage, scale=sign * first.scale, offset=sign * first.offset)

    ends = [sorted(source.scale * end + source.offset for end in (source.low, source.high)) for source in maps]
    first = identity(maps[0])
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    channels = tuple(replace(channel, low=low, high=high) for channel in first.channels)
    return replace(first, name=node.name, sources=tuple(maps), join=join, weights=None, channels=channels)


def concatenation(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``Concat``; maps keep their integers and scales, which may then differ between channels."""
    given = with_constant_maps(net, given, every=True)
    maps = [net.map_of(value, name) for value, name in zip(given, node.inputs, strict=True)]
    axis, shape = node.number("axis", 1) % maps[0].indices.ndim, maps[0].indices.shape
    if any(value.indices.ndim != len(shape) for value in maps):
        raise InputError("maps must have as many axes, not different numbers")
    if axis == 1 and len(shape) <= MAP_AXES:
        return _concatenated(net, node, maps)
    # the axis becomes that of the channels
    order = (0, axis, *(place for place in range(1, len(shape)) if place != axis))
    sides = [value.indices.transpose(order) for value in maps] if axis else []
    require(sides, "axis must not be that of the batch, 0")
    flat = [replace(value, indices=side.reshape(1, side.shape[1], -1)) for value, side in zip(maps, sides, strict=True)]
    joined = live(_concatenated(net, node, flat))
    indices = joined.indices.reshape(1, -1, *sides[0].shape[2:]).transpose(np.argsort(order))
    return replace(joined, indices=indices)


def _concatenated(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    maps = [moved_maps.arranged(net, net.map_of(value, "")) for value in given]
    first, axes = maps[0], maps[0].indices.ndim

    def ordered(shape: Shape) -> Ints:
        row: Ints = np.arange(shape[2])[np.newaxis]
        return standard_indices(shape, axes) if axes > row.ndim else row

    require(all(source.bits != SIGN_BITS for source in maps), "maps must have two bits at least, not one")
    joined = moved_maps.concatenate(net, maps, node.name)
    joined = replace(joined, indices=ordered(joined.shape))
    if all((source.scale, source.offset) == (first.scale, first.offset) for source in maps):
        return joined
    channels = [
        Affine(a=source.scale, b=source.offset, least=source.low, most=source.high)
        for source in maps
        for _ in range(source.shape[2])
    ]
    return replace(identity(joined), channels=tuple(channels))


def padded(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``Pad``; zeros around rows and columns are left to the next layer, others are elements of a gather."""
    pads = whole_constants(given[1]) if len(given) > 1 else node.numbers("pads", [])
    if not any(pads):
        return live(given[0])
    mode, axes = node.text("mode", "constant"), live(given[0]).indices.ndim
    if len(given) > 3 and given[3] is not None:
        chosen = [axis % axes for axis in whole_constants(given[3])]
        half = len(chosen)
        own = dict(zip(chosen, zip(pads[:half], pads[half:], strict=True), strict=True))
        pads = [own.get(axis, (0, 0))[end] for end in (0, 1) for axis in range(axes)]
    if len(pads) != 2 * axes or mode not in _MODES:
        raise InputError(f"pads must be two for each of {axes} axes, by {', '.join(_MODES)}, not {len(pads)} by {mode}")
    widths = [*zip(pads[:axes], pads[axes:], strict=True)]
    if mode != "constant":
        value = live(given[0])
        return replace(value, indices=np.pad(value.indices, widths, mode=mode))
    value = net.map_of(given[0], node.inputs[0])
    zero = _filling(value, given[2] if len(given) > 2 else None, node)
    if axes in (SEQUENCE_AXES, MAP_AXES) and min(pads) >= 0 and widths[:2] == [(0, 0)] * 2 and zero == _zero(value):
        (top, bottom), (left, right) = ([(0, 0)] * (MAP_AXES - axes) + widths[2:])[:2]
        return replace(moved_maps.arranged(net, value), pads=(top, bottom, left, right))
    if zero.denominator != 1 or not value.low <= zero <= value.high:
        raise InputError("value around the map must be one that the map can have, not another")
    wide, place = moved_maps.with_element(net, value, int(zero))
    pairs = zip(wide.indices.shape, widths, strict=True)
    cropped = wide.indices[tuple(slice(max(-low, 0), size - max(-high, 0)) for size, (low, high) in pairs)]
    grown = [(max(low, 0), max(high, 0)) for low, high in widths]
    return replace(wide, indices=np.pad(cropped, grown, constant_values=place))


def _zero(value: Map) -> Fraction:
    return -value.offset / value.scale


def _filling(value: Map, filling: Value | None, node: OnnxNode) -> Fraction:
    if filling is None:
        filling = np.array(node.real("value", 0) if value.codes is None else 0)
    number = exact_number(constant_value(filling, "value around the map").ravel()[0])
    if value.codes is not None:
        scale, zero = value.codes
        number = (number - zero) * scale
    return (number - value.offset) / value.scale


def resized(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``Resize`` and ``Upsample``, to the nearest element or bilinearly, of rows and columns."""
    value, mode, is_new = live(given[0]), node.text("mode", "nearest"), len(given) > 2
    way = node.text("coordinate_transformation_mode", "half_pixel" if is_new else "asymmetric")
    shape = value.indices.shape
    sizes = _sizes(given, shape)
    if way not in _WAYS or mode not in ("nearest", "linear") or sizes[:2] != shape[:2]:
        raise InputError(f"resizing must be nearest or linear, of rows and columns, by {', '.join(_WAYS)}")
    options = {"AlignCorners": way == "align_corners", "HalfPixelCenters": "half_pixel" in way}
    pairs = [*zip(shape[2:], sizes[2:], strict=True)]
    if mode == "nearest":
        rounding = node.text("nearest_mode", "round_prefer_floor") if is_new else "floor"
        places = [moved_maps.nearest_places(own, new, options, _ROUNDINGS[rounding]) for own, new in pairs]
        return replace(value, indices=value.indices[np.ix_(*map(np.arange, sizes[:2]), *places)])
    source = moved_maps.arranged(net, net.map_of(value, node.inputs[0]))
    require(source.indices.ndim == MAP_AXES, "linear resizing must be of a map with rows and columns, not of another")
    windows, size = moved_maps.pooled_windows(
        net, source, *(moved_maps.linear_windows(own, new, options) for own, new in pairs)
    )
    return average_pool(net, replace(node, attributes={"kernel_shape": [*size], "strides": [*size]}), [windows])


def _sizes(given: Inputs, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(given) > 3 and given[3] is not None:
        return tuple(whole_constants(given[3]))
    scales = [Fraction(float(scale)) for scale in constant_value(given[min(2, len(given) - 1)], "scales").ravel()]
    sizes = [size * scale for size, scale in zip(shape, scales, strict=True)]
    if any(size.denominator != 1 for size in sizes):
        raise InputError("sizes of the resized map must be whole numbers, not parts of them")
    return tuple(map(int, sizes))


def transposed_convolution(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``ConvTranspose``: a convolution of the map with zeros between its elements."""
    source = moved_maps.arranged(net, net.representing_zero(net.map_of(given[0], node.inputs[0]), node.inputs[0]))
    is_plain = node.number("group", 1) == 1 and {*node.numbers("dilations", (1, 1))} == {1}
    if source.indices.ndim != MAP_AXES or not is_plain:
        raise InputError("transposed convolution must be of rows and columns, in one group, without dilations")
    weights = net.weights_of(_turned(given[1]), node.inputs[1])
    size = weights.values.shape[2:]
    strides, more = node.numbers_like("strides", (1, 1), least=1), node.numbers("output_padding", (0, 0))
    pads, zero = node.numbers_like("pads", (0, 0, 0, 0), least=0), _zero(source)
    if node.text("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in node.attributes or zero.denominator != 1:
        raise InputError("pads must be numbers, without auto_pad or output_shape, and 0 a number of the map")
    rows, columns = (
        moved_maps.spread_places(own, (own - 1) * step + kernel + extra - begin - end, kernel, step, begin)
        for own, step, kernel, extra, begin, end in zip(
            source.shape[:2], strides, size, more, pads[:2], pads[2:], strict=True
        )
    )
    wide = moved_maps.between_zeros(net, source, rows, columns)
    convolution = replace(node, attributes={"kernel_shape": [*size]})
    return onnx_convolution(net, convolution, [wide, weights, *given[2:3]])


def _turned(value: Value | None) -> Value:
    if isinstance(value, Quantised):
        return Quantised(values=_turned_array(value.values), scale=_turned_array(value.scale))
    return _turned_array(constant_value(value, "weights"))


def _turned_array(values: NDArray[Any]) -> NDArray[Any]:
    return values.swapaxes(0, 1)[:, :, ::-1, ::-1]
