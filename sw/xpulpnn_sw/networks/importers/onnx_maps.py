"""Converters of ONNX operators on several maps, and of those that change the size of a map."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.importers import moved_maps
from xpulpnn_sw.networks.importers.layer_builder import LayerBuilder
from xpulpnn_sw.networks.importers.onnx_node import MAP_AXES, SEQUENCE_AXES, Inputs, OnnxNode
from xpulpnn_sw.networks.importers.quantiser import Affine
from xpulpnn_sw.networks.importers.values import (
    Map,
    Shape,
    Sums,
    Value,
    constant_value,
    dims,
    exact_number,
    identity,
    live,
    standard_indices,
    whole_constants,
)

_MODES = ("constant", "reflect", "edge", "wrap")


def add_maps(net: LayerBuilder, node: OnnxNode, given: Inputs, sign: int) -> Value:
    maps = [net.map_of(value, name) for value, name in zip(given, node.inputs, strict=True)]
    first, second = moved_maps.broadcast(net, maps)
    if SIGN_BITS in (first.bits, second.bits):
        raise InputError("summands must have two bits at least, not one")
    common = Affine(a=Fraction(1), b=first.offset + sign * second.offset, least=0, most=0)
    return Sums(
        name=node.name,
        kernel="add",
        layer=f"{dims(first.shape)}:shift",
        sources=(first, second),
        channels=(common,) * first.shape[2],
        factors=(first.scale, sign * second.scale),
        shape=first.shape,
        indices=first.indices,
    )


def concatenation(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``Concat``; maps keep their integers and scales, which may then differ between channels."""
    maps = [net.map_of(value, name) for value, name in zip(given, node.inputs, strict=True)]
    if node.number("axis", 1) % maps[0].indices.ndim != 1 or any(own.indices.ndim > MAP_AXES for own in maps):
        raise InputError(f"axis must be that of channels, 1, not {node.number('axis', 1)}")
    maps = [moved_maps.arranged(net, value) for value in maps]
    first, axes = maps[0], maps[0].indices.ndim

    def ordered(shape: Shape) -> Ints:
        row: Ints = np.arange(shape[2])[np.newaxis]
        return standard_indices(shape, axes) if axes > row.ndim else row

    if any(source.bits == SIGN_BITS for source in maps):
        raise InputError("maps must have two bits at least, not one")
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
    """Return the integer of a map that stands for the value around it."""
    if filling is None:
        filling = np.array(node.real("value", 0) if value.codes is None else 0)
    number = exact_number(constant_value(filling, "value around the map").ravel()[0])
    if value.codes is not None:
        scale, zero = value.codes
        number = (number - zero) * scale
    return (number - value.offset) / value.scale
