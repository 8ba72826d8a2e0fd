"""Maps whose elements are not where a layer expects them: a layer ``gather`` brings them into order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import lcm, prod
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, require
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.importers.layer_builder import INPUT, SAMPLE_BITS, LayerBuilder
from xpulpnn_sw.networks.importers.quantiser import Affine, Quantiser, uniform_quantiser
from xpulpnn_sw.networks.importers.rule_fit import RuleFit
from xpulpnn_sw.networks.importers.values import NO_PADS, Map, Shape, Sums, dims, identity, standard_indices

_FINEST = 16  # most parts of an element in the windows of a resizing or of an average without pads
_SEQUENCE_AXES, _MAP_AXES = 3, 4
_OTHERS = ("columns, channels", "rows, channels", "rows, columns")  # sizes that concatenated maps share, by axis


def placed(net: LayerBuilder, value: Map, order: Ints) -> Map:
    """Return a map with the elements ``order``, ``[row][column][channel]``, of the memory of ``value``."""
    value, (height, width, channels) = net.with_padding(value), order.shape
    indices = np.arange(order.size).reshape(order.shape)
    # layers read other maps than the input in any shape
    is_whole = value.shape == order.shape or (value.stage != INPUT and prod(value.shape) == order.size)
    if is_whole and np.array_equal(order, indices):
        return replace(value, shape=(height, width, channels), indices=indices)
    require(value.bits != SIGN_BITS, "maps of one bit must keep their order, which a layer cannot change")
    stage = net.channelwise(
        "gather", f"{dims(net.written_shape(value))}:{dims(order.shape)}", value, "order", {"indices": order}
    )
    return replace(value, stage=stage, shape=(height, width, channels), indices=indices)


def arranged(net: LayerBuilder, value: Map) -> Map:
    """Return a map whose elements are in the usual order: rows, columns, channels; leave pending padding."""
    axes = value.indices.ndim
    if value.pads != NO_PADS or (value.stage == INPUT and np.array_equal(value.indices, standard_indices(value.shape))):
        return value
    if axes not in (_SEQUENCE_AXES, _MAP_AXES):
        row = placed(net, value, value.indices.reshape(1, 1, -1))
        return replace(row, indices=row.indices.reshape(value.indices.shape))
    require(len(value.indices) == 1, f"maps must be of one image, not of shape {dims(value.indices.shape)}")
    order = value.indices[0].transpose(1, 2, 0) if axes == _MAP_AXES else value.indices[0].T[np.newaxis]
    moved = placed(net, value, order)
    return replace(moved, indices=standard_indices(moved.shape, axes))


def has_memory_order(value: Map) -> bool:
    """Return whether a map has all elements of its memory in their order, or with the axes of the memory in another."""
    memory, own = np.arange(prod(value.shape)).reshape(value.shape).squeeze(), value.indices.squeeze()
    if not np.array_equal(np.sort(own.ravel()), memory.ravel()):
        return False
    if own.ndim <= 1:
        return np.array_equal(own.ravel(), memory.ravel())
    orders = permutations(range(memory.ndim)) if own.ndim == memory.ndim else ()
    return any(np.array_equal(own, memory.transpose(order)) for order in orders)


def broadcast(net: LayerBuilder, maps: Sequence[Map]) -> list[Map]:
    shape = np.broadcast_shapes(*(value.indices.shape for value in maps))
    spread = [replace(value, indices=np.broadcast_to(value.indices, shape)) for value in maps]
    first = spread[0]
    if all(value.shape == first.shape and np.array_equal(value.indices, first.indices) for value in spread):
        return spread
    return [arranged(net, value) for value in spread]


def constant_map(net: LayerBuilder, source: Map, codes: Ints, quantiser: Quantiser) -> Map:
    """Return a map of constant integers: the biases of a layer that multiplies an element of ``source`` by 0."""
    size, step = codes.size, quantiser.scale
    reals = (step * code + quantiser.offset for code in codes.ravel().tolist())
    sums = Sums(
        name="constant",
        kernel="linear",
        layer=f"1:{size}",
        sources=(placed(net, source, source.indices.reshape(-1)[:1].reshape(1, 1, 1)),),
        weights=np.zeros((size, 1), np.int64),
        channels=tuple(Affine(a=step, b=real, least=0, most=0) for real in reals),
        shape=(1, 1, size),
        indices=np.arange(size).reshape(codes.shape),
    )
    return net.quantised(sums, quantiser)


def with_element(net: LayerBuilder, value: Map, code: int) -> tuple[Map, int]:
    """Return a map with ``code`` somewhere behind its other elements, and the place of this element."""
    value = net.with_padding(value)
    require(value.bits != SIGN_BITS, "maps of one bit must keep their size, which a layer cannot change")
    return replace(net.framed(value, (0, 1, 0, 0), code, "pad"), indices=value.indices), prod(value.shape)


def pooled_windows(net: LayerBuilder, value: Map, rows: Ints, columns: Ints) -> tuple[Map, tuple[int, int]]:
    """Return a map in which the elements of each window stand side by side, and the size of the windows.

    ``rows`` and ``columns``, ``[result][element]``, are the rows and columns of the windows; elements may be repeated.
    """
    memory = np.arange(prod(value.shape)).reshape(value.shape)
    order = memory[rows.ravel()][:, columns.ravel()]
    windows = replace(value, indices=order.transpose(2, 0, 1)[np.newaxis])
    return arranged(net, windows), (rows.shape[1], columns.shape[1])


def concatenate(net: LayerBuilder, maps: Sequence[Map], name: str, axis: int = 2) -> Map:
    """Concatenate maps along ``axis``: layers surround each map with zeros and add the results."""
    first, sizes = maps[0], [part.shape[axis] for part in maps]
    forms = {((*part.shape[:axis], *part.shape[axis + 1 :]), part.bits, part.signed) for part in maps}
    require(len(forms) == 1, f"maps must have the same {_OTHERS[axis]} and widths, not different ones")
    height, width, channels = (sum(sizes) if place == axis else size for place, size in enumerate(first.shape))
    shape: Shape = (height, width, channels)
    begins = [sum(sizes[:number]) for number in range(len(maps))]
    joined, *rest = [_expanded(net, *pair, shape, name, axis) for pair in zip(maps, begins, strict=True)]
    fit = RuleFit(arrays={"factors": np.array([1, 1]), "summand": np.array(0), "shift": np.array(0)})
    sums = replace(identity(joined), kernel="add", layer=f"{dims(shape)}:shift", weights=None, name=name)
    for part in rest:
        stage = net.add(replace(sums, sources=(joined, part)), fit, first.bits, signed=first.signed)
        joined = replace(joined, stage=stage, low=min(joined.low, part.low), high=max(joined.high, part.high))
    return joined


def _expanded(net: LayerBuilder, value: Map, begin: int, shape: Shape, name: str, axis: int) -> Map:
    own = value.shape[axis]
    around = (begin, shape[axis] - begin - own)
    if axis < 2:
        return net.framed(value, (0, 0, *around) if axis else (*around, 0, 0), 0, name)
    weights = np.eye(shape[2], own, -begin, dtype=np.int64)[:, np.newaxis, np.newaxis]
    layer = f"{dims(value.shape)}:{shape[2]}:p=0"
    stage = net.copied(replace(identity(value), kernel="pointwise", layer=layer, name=name, weights=weights))
    low, high = min(value.low, 0), max(value.high, 0)
    return replace(value, stage=stage, shape=shape, indices=standard_indices(shape), low=low, high=high)


def unsigned(net: LayerBuilder, value: Map) -> Map:
    """Return a map of unsigned integers of 8 bits; a table raises others."""
    if value.bits == SAMPLE_BITS and not value.signed:
        return value
    least = -(1 << value.bits - 1) if value.signed else 0
    zero = -value.offset / value.scale - least
    quantiser = uniform_quantiser(value.scale, zero, 0, (1 << SAMPLE_BITS) - 1, "ROUND")
    codes = np.arange(value.low, value.high + 1)[np.newaxis] - least
    return net.tabled(identity(net.with_padding(value)), codes, quantiser)


def between_zeros(net: LayerBuilder, value: Map, rows: Ints, columns: Ints) -> Map:
    """Return a map of these rows and columns of another, with zeros where they are -1."""
    wide, gap = with_element(net, value, round(-value.offset / value.scale))
    places = np.arange(prod(value.shape)).reshape(value.shape)[rows][:, columns]
    is_gap = (rows < 0)[:, np.newaxis, np.newaxis] | (columns < 0)[:, np.newaxis]
    moved = placed(net, wide, np.where(is_gap, gap, places))
    return replace(moved, indices=standard_indices(moved.shape))


def nearest_places(own: int, new: int, options: Mapping[str, Any], rounded: Callable[[Fraction], int]) -> Ints:
    """Return the element for each place of an axis that is resized to the nearest, by a rounding of its position."""
    exact = (_position(own, new, place, options) for place in range(new))
    return np.array([min(max(rounded(position), 0), own - 1) for position in exact])


def _position(own: int, new: int, place: int, options: Mapping[str, Any]) -> Fraction:
    if options["AlignCorners"]:
        return Fraction(place * (own - 1), max(new - 1, 1))
    half = Fraction(1, 2) if options["HalfPixelCenters"] else Fraction(0)
    return (place + half) * own / new - half


def linear_windows(own: int, new: int, options: Mapping[str, Any]) -> Ints:
    """Return, for each element of an axis that is resized bilinearly, the elements whose mean it is."""
    exact = (_position(own, new, place, options) for place in range(new))
    positions = [min(max(position, Fraction(0)), Fraction(own - 1)) for position in exact]
    parts = lcm(*(position.denominator for position in positions))
    require(parts <= _FINEST, f"sizes must be in a ratio of small numbers, not {own} to {new}")
    rows = [(int(position), int(position % 1 * parts)) for position in positions]
    return np.array([[first] * (parts - rest) + [min(first + 1, own - 1)] * rest for first, rest in rows])


def unpadded_windows(own: int, size: int, step: int, pads: Sequence[int], results: int, _: int = 1) -> Ints:
    """Return the elements of each window of an average without its pads, repeated so that all have as many."""
    windows = [
        range(max(begin, 0), min(begin + size, own)) for begin in range(-pads[0], results * step - pads[0], step)
    ]
    parts = lcm(*map(len, windows))
    if parts > _FINEST * size:
        raise InputError("windows at the edges must have as many elements as others, or a few less, not many sizes")
    return np.array([np.repeat(window, parts // len(window)) for window in windows])


def spread_windows(own: int, reach: int, step: int, pads: Sequence[int], results: int, distance: int) -> Ints:
    """Return the elements of each window with gaps; an element of the window stands in for those of the pads."""
    rows = np.arange(results)[:, np.newaxis] * step - pads[0] + np.arange(0, reach, distance)
    inside = (rows >= 0) & (rows < own)
    require(inside.any(axis=1).all(), "windows of a pooling must have an element of the map, not only pads")
    return np.where(inside, rows, rows[np.arange(results), inside.argmax(axis=1)][:, np.newaxis])


def spread_places(own: int, new: int, size: int, step: int, pad: int) -> Ints:
    """Return the input element at each place of an axis of a transposed convolution, -1 for the gaps."""
    places = np.arange(new + size - 1) - (size - 1 - pad)
    numbers, gaps = np.divmod(places, step)
    return np.where((gaps == 0) & (numbers >= 0) & (numbers < own), numbers, -1)
