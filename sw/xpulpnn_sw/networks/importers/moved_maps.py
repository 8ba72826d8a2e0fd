"""Maps whose elements are not where a layer expects them: a layer ``gather`` brings them into order."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from math import prod

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.importers.layer_builder import INPUT, LayerBuilder
from xpulpnn_sw.networks.importers.rule_fit import RuleFit
from xpulpnn_sw.networks.importers.values import NO_PADS, Map, Shape, dims, identity, standard_indices

_SEQUENCE_AXES, _MAP_AXES = 3, 4
_OTHERS = ("columns, channels", "rows, channels", "rows, columns")  # sizes that concatenated maps share, by axis


def placed(net: LayerBuilder, value: Map, order: Ints) -> Map:
    """Return a map with the elements ``order``, ``[row][column][channel]``, of the memory of ``value``."""
    value, (height, width, channels) = net.with_padding(value), order.shape
    indices = np.arange(order.size).reshape(order.shape)
    if value.shape == order.shape and np.array_equal(order, indices):
        return replace(value, indices=indices)
    if value.bits == SIGN_BITS:
        raise InputError("maps of one bit must keep their order, which a layer cannot change")
    stage = net.channelwise("gather", f"{dims(value.shape)}:{dims(order.shape)}", value, "order", {"indices": order})
    return replace(value, stage=stage, shape=(height, width, channels), indices=indices)


def arranged(net: LayerBuilder, value: Map) -> Map:
    """Return a map whose elements are in the usual order: rows, columns, channels; leave pending padding."""
    axes = value.indices.ndim
    if value.pads != NO_PADS or (value.stage == INPUT and axes == _MAP_AXES and _is_whole(value)):
        return value
    if axes not in (_SEQUENCE_AXES, _MAP_AXES):
        row = placed(net, value, value.indices.reshape(1, 1, -1))
        return replace(row, indices=row.indices.reshape(value.indices.shape))
    if len(value.indices) != 1:
        raise InputError(f"maps must be of one image, not of shape {dims(value.indices.shape)}")
    order = value.indices[0].transpose(1, 2, 0) if axes == _MAP_AXES else value.indices[0].T[np.newaxis]
    moved = placed(net, value, order)
    return replace(moved, indices=standard_indices(moved.shape, axes))


def _is_whole(value: Map) -> bool:
    """Return whether the input of the network is read in its order in memory, which may have another shape."""
    _, channels, rows, columns = value.indices.shape
    return np.array_equal(value.indices, standard_indices((rows, columns, channels)))


def has_memory_order(value: Map) -> bool:
    """Return whether a map has all elements of its memory in one row, or with the axes of the memory in any order."""
    memory, own = np.arange(prod(value.shape)).reshape(value.shape).squeeze(), value.indices.squeeze()
    if not np.array_equal(np.sort(own.ravel()), memory.ravel()):
        return False
    orders = permutations(range(memory.ndim)) if own.ndim == memory.ndim else ()
    return own.ndim <= 1 or any(np.array_equal(own, memory.transpose(order)) for order in orders)


def broadcast(net: LayerBuilder, maps: Sequence[Map]) -> list[Map]:
    """Return maps of one shape and order; elements of smaller ones are repeated."""
    shape = np.broadcast_shapes(*(value.indices.shape for value in maps))
    spread = [replace(value, indices=np.broadcast_to(value.indices, shape)) for value in maps]
    first = spread[0]
    if all(value.shape == first.shape and np.array_equal(value.indices, first.indices) for value in spread):
        return spread
    return [arranged(net, value) for value in spread]


def with_element(net: LayerBuilder, value: Map, code: int) -> tuple[Map, int]:
    """Return a map with ``code`` somewhere behind its other elements, and the place of this element."""
    value = net.with_padding(value)
    if value.bits == SIGN_BITS:
        raise InputError("maps of one bit must keep their size, which a layer cannot change")
    return replace(net.framed(value, (0, 1, 0, 0), code, "pad"), indices=value.indices), value.shape[0] * (
        value.shape[1] * value.shape[2]
    )


def concatenate(net: LayerBuilder, maps: Sequence[Map], name: str, axis: int = 2) -> Map:
    """Concatenate maps along ``axis``: layers surround each map with zeros and add the results."""
    first, sizes = maps[0], [part.shape[axis] for part in maps]
    forms = {((*part.shape[:axis], *part.shape[axis + 1 :]), part.bits, part.signed) for part in maps}
    if len(forms) != 1:
        raise InputError(f"maps must have the same {_OTHERS[axis]} and widths, not different ones")
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
