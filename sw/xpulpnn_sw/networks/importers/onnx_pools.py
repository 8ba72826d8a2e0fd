"""Poolings and averages of ONNX models."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from xpulpnn.errors import InputError
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.importers.levels import Affine
from xpulpnn_sw.networks.importers.onnx_node import Given, ImportContext, OnnxNode
from xpulpnn_sw.networks.importers.onnx_windows import PlacedWindow, planar, standard, window_of
from xpulpnn_sw.networks.importers.values import NO_PADS, Map, Sums, Value, standard_places, whole_constants

_ROWS_AND_COLUMNS = ([2, 3], [-2, -1])


def _dense(window: PlacedWindow) -> PlacedWindow:
    if window.dilations != (1, 1):
        raise InputError(f"dilations of a pooling must be 1, not {max(window.dilations)}")
    return window


def maximum_pool(context: ImportContext, node: OnnxNode, given: Given) -> Value:
    """``MaxPool``: of sums, whose quantiser does not change which is the greatest, behind that."""
    value = given[0]
    if not isinstance(value, Map | Sums) or len(node.outputs) > 1:
        raise InputError("input must depend on that of the model, and the output must be one")
    axes = value.places.ndim
    node, value = planar(node, value)
    shape, around = standard(value), NO_PADS
    if isinstance(value, Map) and value.pads != NO_PADS:
        if min(value.scale * value.low, value.scale * value.high) + value.offset < 0:
            raise InputError("inputs must not be below 0 where a node has put zeros around them")
        # no zero is greater than the rest of a window, which has one element at least
        around = value.pads
    window = _dense(window_of(node, shape, node.numbers("kernel_shape", ()), around))
    rows, columns = window.reach
    if any(pad >= reach for pad, reach in zip(window.pads, (rows, rows, columns, columns), strict=True)):
        raise InputError(f"pads of a pooling must be below its window, not {max(window.pads)}")
    layer = window.text(shape, f"{rows}x{columns}")
    after = (*window.results, shape[2])
    places = standard_places(after) if axes == value.places.ndim else standard_places(after)[:, :, 0]
    if isinstance(value, Sums):
        return replace(value, pools=(*value.pools, layer), shape=after, places=places)
    if value.scale < 0:
        raise InputError("scale of the input must be greater than 0, not less")
    stage = context.assembly.channelwise("maxpool", layer, value, node.name)
    return replace(value, stage=stage, shape=after, places=places, pads=NO_PADS)


def _average(context: ImportContext, node: OnnxNode, value: Value | None, kernel: Sequence[int] | None) -> Sums:
    source = context.map_of(value, node.inputs[0])
    axes = source.places.ndim
    node, plane = planar(node, source)
    assert isinstance(plane, Map)
    shape = standard(plane)
    size = shape[:2] if kernel is None else node.numbers("kernel_shape", ())
    window = _dense(window_of(node, shape, size))
    if node.number("ceil_mode", 0) and any(window.pads):
        raise InputError("windows of an average must lie within the map and its pads, not reach further by ceil_mode")
    if source.bits == SIGN_BITS:
        raise InputError("inputs of an average must have two bits at least, not one")
    if any(window.pads) and (not node.number("count_include_pad", 0) or source.offset):
        raise InputError("pads of an average must count, and be zeros in memory, not others")
    after, elements, channels = (*window.results, shape[2]), prod(window.reach), shape[2]
    low = min(source.low, 0) if any(window.pads) else source.low
    places = standard_places(after)
    return Sums(
        name=node.name,
        kernel="avgpool",
        layer=f"{window.text(shape, f'{window.reach[0]}x{window.reach[1]}')}:scaled",
        sources=(source,),
        channels=(Affine(a=source.scale / Fraction(elements), b=source.offset),) * channels,
        least=(low * elements,) * channels,
        most=(source.high * elements,) * channels,
        shape=after,
        places=places if axes == places.ndim else places[:, :, 0],
        area=elements,
    )


def average_pool(context: ImportContext, node: OnnxNode, given: Given) -> Value:
    """``AveragePool``."""
    return _average(context, node, given[0], node.numbers("kernel_shape", ()))


def global_average_pool(context: ImportContext, node: OnnxNode, given: Given) -> Value:
    """``GlobalAveragePool``."""
    return _average(context, node, given[0], None)


def mean(context: ImportContext, node: OnnxNode, given: Given) -> Value:
    """``ReduceMean`` over rows and columns."""
    value = given[0]
    if not isinstance(value, Map | Sums):
        raise InputError("input must depend on that of the model, not be a constant")
    axes = whole_constants(given[1]) if len(given) > 1 and given[1] is not None else node.numbers("axes", ())
    if sorted(axes) not in _ROWS_AND_COLUMNS or value.places.ndim != len(NO_PADS):
        raise InputError(f"axes must be rows and columns, 2 and 3 of four, not {', '.join(map(str, axes)) or 'all'}")
    found = _average(context, node, value, None)
    if node.number("keepdims", 1):
        return found
    return replace(found, places=found.places[:, :, 0, 0])
