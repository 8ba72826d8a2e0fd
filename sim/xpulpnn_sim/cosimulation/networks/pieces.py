"""Pieces of layers: a few rows, columns or outputs, which take as long as a gate-level simulation may."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.channelwise import MapLayer
from xpulpnn_sw.layers.convolution import ConvLayer, LinearLayer
from xpulpnn_sw.layers.text import Windows
from xpulpnn_sw.networks.network import Stage

_PIXELS = 4  # of a row at least: what kernels compute at a time

_CHANNELS = 16  # At least, and what their number is a multiple of, so that they fill words of any width


@dataclass(frozen=True, eq=False, kw_only=True)
class Piece:
    """A part of a layer, a layer by itself."""

    stage: Stage
    maps: tuple[Ints, ...]  # its inputs, out of the middle of those of the whole
    share: float  # its results as a part of all results


def piece_of(stage: Stage, maps: Sequence[Ints], share: float) -> Piece:
    """About ``share`` of a layer with these inputs, away from the edge of the map; all of it if that is 1 or more."""
    whole = int(np.prod(stage.output_shape))
    shaped = tuple(values.reshape(shape) for values, shape in zip(maps, stage.input_shapes, strict=True))
    tensors = stage.tensors
    if getattr(tensors, "folded", False):
        tensors = replace(tensors, folded=False)
    cut, inputs = replace(stage, tensors=tensors), shaped
    if share < 1 and isinstance(cut.layer, Windows):
        cut, inputs = _window_part(cut, inputs, share)
    elif share < 1 and isinstance(cut.layer, MapLayer):
        rows = max(1, int(cut.layer.height * share))
        inputs = tuple(_middle(values, rows, values.shape[1]) for values in inputs)
        cut = _with_maps(replace(cut, layer=replace(cut.layer, height=rows)), inputs)
    left = share * whole / int(np.prod(cut.output_shape))
    if left < 1 and isinstance(cut.layer, ConvLayer | LinearLayer):
        cut = _with_outputs(cut, max(_CHANNELS, int(cut.layer.out_channels * left) // _CHANNELS * _CHANNELS))
    return Piece(stage=cut, maps=inputs, share=int(np.prod(cut.output_shape)) / whole)


def _window_part(stage: Stage, maps: tuple[Ints, ...], share: float) -> tuple[Stage, tuple[Ints, ...]]:
    """Whole rows of results without those at the edge, or a part of one."""
    layer: Any = stage.layer
    rows, columns = max(1, int(layer.out_height * share)), layer.out_width
    least = min(_PIXELS, columns)
    if rows == 1:
        columns = max(least, min(columns, int(columns * layer.out_height * share)))
    height = min((rows - 1) * layer.stride[0] + layer.kernel_height, layer.height)
    top, bottom, left, right = layer.padding
    if height >= layer.kernel_height:
        top = bottom = 0
    width = layer.width
    if columns < layer.out_width:
        width = min((columns - 1) * layer.stride[1] + layer.kernel_width, layer.width)
        left, right = (0, 0) if width >= layer.kernel_width else (left, right)
    inputs = tuple(_middle(values, height, width) for values in maps)
    part = replace(layer, height=height, width=width, padding=(top, bottom, left, right))
    return _with_maps(replace(stage, layer=part), inputs), inputs


def _middle(values: Ints, rows: int, columns: int) -> Ints:
    top, left = (values.shape[0] - rows) // 2, (values.shape[1] - columns) // 2
    return values[top : top + rows, left : left + columns]


def _with_maps(stage: Stage, maps: Sequence[Ints]) -> Stage:
    """The layer with operands for maps of these sizes."""
    own = stage.tensors
    names = ("first", "second") if len(maps) > 1 else ("activations",)
    return replace(stage, tensors=replace(own, **dict(zip(names, maps, strict=True))))


def _with_outputs(stage: Stage, count: int) -> Stage:
    """The layer with its first outputs only."""
    layer: Any = stage.layer
    channels = layer.out_channels
    if count >= channels:
        return stage
    name = "outputs" if isinstance(layer, LinearLayer) else "out_channels"
    tensors = replace(_first_of(stage.tensors, channels, count), activations=stage.tensors.activations)
    return replace(stage, layer=replace(layer, **{name: count}), tensors=tensors)


def _first_of(value: Any, channels: int, count: int) -> Any:
    """Cut everything that has a value for each output channel down to the first of them."""
    if isinstance(value, np.ndarray):
        values: Ints = value
        return values[:count] if values.ndim and len(values) == channels else values
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {item.name: _first_of(getattr(value, item.name), channels, count) for item in fields(value)}
    return replace(value, **parts)
