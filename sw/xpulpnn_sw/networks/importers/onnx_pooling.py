"""Converters of ONNX poolings and reductions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import prod

from xpulpnn.errors import InputError, require
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.importers.layer_builder import LayerBuilder
from xpulpnn_sw.networks.importers.moved_maps import arranged, placed, pooled_windows, spread_windows, unpadded_windows
from xpulpnn_sw.networks.importers.onnx_node import (
    MAP_AXES,
    SEQUENCE_AXES,
    Inputs,
    OnnxNode,
    OnnxOperator,
    PlacedWindow,
    map_shape,
    planar,
    window_of,
)
from xpulpnn_sw.networks.importers.quantiser import Affine
from xpulpnn_sw.networks.importers.values import (
    NO_PADS,
    Map,
    Pads,
    Shape,
    Sums,
    Value,
    live,
    scaled,
    standard_indices,
    whole_constants,
)

# axes of a mean by rank of its input: positions of a sequence, rows and columns
_PLACES = {SEQUENCE_AXES: ([2],), MAP_AXES: ([2, 3],)}


def _pooled(node: OnnxNode, shape: Shape, size: Sequence[int], extra: Pads = NO_PADS) -> tuple[PlacedWindow, str]:
    window = window_of(node, shape, size, extra)
    return window, window.text(shape, f"{window.reach[0]}x{window.reach[1]}")


def overlaps(window: PlacedWindow) -> bool:
    rows, columns = window.reach
    return all(pad < reach for pad, reach in zip(window.pads, (rows, rows, columns, columns), strict=True))


def maximum_pool(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``MaxPool``; a pooling of sums is moved after their quantiser, which is monotonic."""
    value = live(given[0])
    require(len(node.outputs) <= 1, "output must be one, not more")
    if isinstance(value, Map):
        value = arranged(net, net.with_positive_scale(value))
    axes = value.indices.ndim
    node, value = planar(node, value)
    shape, pads = map_shape(value), NO_PADS
    if isinstance(value, Map) and value.pads != NO_PADS:
        # zero padding does not change maxima of nonnegative elements
        pads = value.pads
        is_above = min(value.scale * value.low, value.scale * value.high) + value.offset >= 0
        if not is_above or not overlaps(_pooled(node, shape, node.numbers("kernel_shape", ()), pads)[0]):
            value, pads = net.with_padding(value), NO_PADS
            shape = map_shape(value)
    window, layer = _pooled(node, shape, node.numbers("kernel_shape", ()), pads)
    if window.dilations != (1, 1) and net.calibration is not None:
        value = net.map_of(value, node.inputs[0])
    if window.dilations != (1, 1) and isinstance(value, Map):
        node, value = _side_by_side(net, node, value, window, spread_windows)
        window, layer = _pooled(node, value.shape, node.numbers("kernel_shape", ()))
        pads = NO_PADS
    require(window.dilations == (1, 1), "dilated pooling must be that of a quantiser's results, not of sums")
    require(overlaps(window), f"pads of a pooling must be below its window, not {max(window.pads)}")
    after = (*window.results, shape[2])
    indices = standard_indices(after, axes)
    if isinstance(value, Sums):
        return replace(value, pools=(*value.pools, layer), shape=after, indices=indices)
    stage = net.channelwise("maxpool", layer, value, node.name)
    return replace(value, stage=stage, shape=after, indices=indices, pads=NO_PADS)


def average_pool(net: LayerBuilder, node: OnnxNode, given: Inputs, *, is_global: bool = False) -> Sums:
    source = arranged(net, net.with_positive_scale(net.map_of(given[0], node.inputs[0])))
    axes = source.indices.ndim
    node, plane = planar(node, source)
    assert isinstance(plane, Map)
    shape = map_shape(plane)
    window, layer = _pooled(node, shape, shape[:2] if is_global else node.numbers("kernel_shape", ()))
    if window.dilations != (1, 1):
        require(not any(window.pads), "dilated averages must have no pads")
        node, source = _side_by_side(net, node, source, window, spread_windows)
        window, layer = _pooled(node, source.shape, node.numbers("kernel_shape", ()))
    if any(window.pads) and not node.number("count_include_pad", 0):
        node, source = _side_by_side(net, node, source, window, unpadded_windows)
        window, layer = _pooled(node, source.shape, node.numbers("kernel_shape", ()))
    if node.number("ceil_mode", 0) and any(window.pads):
        raise InputError("windows of an average must lie within the map and its pads, not reach further by ceil_mode")
    require(source.bits != SIGN_BITS, "inputs of an average must have two bits at least, not one")
    if any(window.pads) and source.offset:
        source = net.with_padding(replace(source, pads=window.pads))
        node = replace(node, attributes={**node.attributes, "pads": NO_PADS, "auto_pad": "NOTSET"})
        window, layer = _pooled(node, source.shape, node.numbers("kernel_shape", ()))
    after, elements = (*window.results, shape[2]), prod(window.reach)
    low = min(source.low, 0) if any(window.pads) else source.low
    scale, ends = source.scale / Fraction(elements), (low * elements, source.high * elements)
    return Sums(
        name=node.name,
        kernel="avgpool",
        layer=f"{layer}:scaled",
        sources=(source,),
        channels=(Affine(a=scale, b=source.offset, least=ends[0], most=ends[1]),) * shape[2],
        shape=after,
        indices=standard_indices(after, axes),
        area=elements,
    )


def _side_by_side(
    net: LayerBuilder, node: OnnxNode, value: Map, window: PlacedWindow, windows_of: Callable[..., Ints]
) -> tuple[OnnxNode, Map]:
    pads = (window.pads[:2], window.pads[2:])
    sizes = zip(value.shape[:2], window.reach, window.strides, pads, window.results, window.dilations, strict=True)
    rows, columns = (windows_of(*size) for size in sizes)
    value, size = pooled_windows(net, value, rows, columns)
    return replace(node, attributes={"kernel_shape": [*size], "strides": [*size]}), value


def mean(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    return _reduced(net, node, given, partial(average_pool, is_global=True))


def total(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    def sums(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
        average = average_pool(net, node, given, is_global=True)
        return scaled(average, [Fraction(average.area)] * average.shape[2], [Fraction(0)] * average.shape[2])

    return _reduced(net, node, given, sums)


def extreme(net: LayerBuilder, node: OnnxNode, given: Inputs, sign: int) -> Value:
    """Convert ``ReduceMax`` or, if ``sign`` is -1, ``ReduceMin``."""

    def greatest(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
        value = live(given[0])
        assert isinstance(value, Map)
        node = replace(node, attributes={"kernel_shape": [*value.indices.shape[2:]]}, outputs=("",))
        pooled = maximum_pool(net, node, [with_sign(arranged(net, value))])
        assert isinstance(pooled, Map)
        return with_sign(pooled)

    def with_sign(value: Map) -> Map:
        return replace(value, scale=sign * value.scale, offset=sign * value.offset)

    return _reduced(net, node, given, greatest)


def _reduced(net: LayerBuilder, node: OnnxNode, given: Inputs, compute: OnnxOperator) -> Value:
    value, axes = net.map_of(given[0], node.inputs[0]), node.numbers("axes", ())
    if node.operator == "GlobalMaxPool":
        axes = [*range(2, value.indices.ndim)]
    if len(given) > 1 and given[1] is not None:
        axes = whole_constants(given[1])
    count = value.indices.ndim
    if not axes and node.number("noop_with_empty_axes", 0):
        return value
    over = sorted({axis % count for axis in axes}) or [*range(count)]
    kept = [axis for axis in range(count) if axis not in over]
    if over in _PLACES.get(count, ()):
        pooled = live(compute(net, node, [value]))
    else:
        places = value.indices.transpose(*over, *kept).reshape(prod(value.indices.shape[axis] for axis in over), 1, -1)
        rows = placed(net, value, places)
        pooled = live(compute(net, node, [replace(rows, indices=standard_indices(rows.shape))]))
    shape = [1 if axis in over else size for axis, size in enumerate(value.indices.shape)]
    shape = shape if node.number("keepdims", 1) else [value.indices.shape[axis] for axis in kept]
    return replace(pooled, indices=pooled.indices.reshape(shape))
