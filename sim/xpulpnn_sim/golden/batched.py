"""Layers on plain integers for many images at once.

Maps are ``[image][row][column][channel]``, accumulators 32-bit and wrapping. Products are left to BLAS where floating
point has them exactly.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.golden.channel_layers import Window
from xpulpnn_sim.golden.effects import I32, I64
from xpulpnn_sim.golden.layers import AnyInt, output_size

_EXACT = ((np.float32, 24), (np.float64, 53))
"""Floating point, and the bits of the integers that it has all of."""


class Geometry(NamedTuple):
    """Where filters meet a map."""

    window: Window  # Size, steps and margins
    dilation: tuple[int, int] = (1, 1)  # distance of the elements that a filter meets, in y and x


def products(rows: AnyInt, weights: AnyInt, most: int) -> I64:
    """``sum_k rows[r, k] * weights[c, k]``, exact."""
    greatest = int(np.abs(weights.astype(np.int64)).sum(axis=1).max()) * most
    for kind, bits in _EXACT:
        # sums of any part of the products are not greater
        if greatest <= 1 << bits:
            return (rows.astype(kind) @ weights.astype(kind).T).astype(np.int64)
    return rows.astype(np.int64) @ weights.astype(np.int64).T


def conv(maps: AnyInt, weights: AnyInt, geometry: Geometry, outside: int, most: int) -> I64:
    """Sums of the products of filters and maps, ``[image][row][column][out]``."""
    seen = np.stack([view for _, view in views(maps, geometry, outside)], axis=-2)
    sums = products(seen.reshape(-1, weights[0].size), weights.reshape(len(weights), -1), most)
    return sums.reshape(*seen.shape[:3], len(weights))


def depthwise(maps: AnyInt, weights: AnyInt, geometry: Geometry, outside: int) -> I64:
    """Sums of the products of every channel and its own filter, ``[image][row][column][channel]``."""
    wide = maps.astype(np.int64)
    return np.asarray(sum(view * weights[:, y, x].astype(np.int64) for (y, x), view in views(wide, geometry, outside)))


def greatest(maps: AnyInt, geometry: Geometry) -> AnyInt:
    """The greatest element of every window; what lies off the map does not count."""
    least = int(np.iinfo(maps.dtype).min)
    found: AnyInt | None = None
    for _, view in views(maps, geometry, least):
        found = view.copy() if found is None else np.maximum(found, view, out=found)
    assert found is not None
    return found


def window_sums(maps: AnyInt, geometry: Geometry) -> I64:
    """The sum of every window; what lies off the map adds nothing."""
    return np.asarray(sum(view.astype(np.int64) for _, view in views(maps, geometry, 0)))


def views(maps: AnyInt, geometry: Geometry, outside: int) -> Iterator[tuple[tuple[int, int], NDArray[Any]]]:
    """For each element of a filter what it meets in every map, one for each output."""
    window, (apart_y, apart_x) = geometry.window, geometry.dilation
    pads, (stride_y, stride_x) = window.pads, window.stride
    _, height, width, _ = maps.shape
    rows = output_size(height, (window.height - 1) * apart_y + 1, stride_y, pads.top, pads.bottom)
    columns = output_size(width, (window.width - 1) * apart_x + 1, stride_x, pads.left, pads.right)
    margins = ((0, 0), (pads.top, pads.bottom), (pads.left, pads.right), (0, 0))
    padded = np.pad(maps, margins, constant_values=outside)
    for y, x in np.ndindex(window.height, window.width):
        top, left = y * apart_y, x * apart_x
        seen = padded[:, top : top + rows * stride_y : stride_y, left : left + columns * stride_x : stride_x]
        yield (y, x), seen[:, :rows, :columns]


def below(accumulators: I32, thresholds: AnyInt) -> I32:
    """Count the thresholds of its channel that are below each accumulator."""
    rows = accumulators.reshape(-1, accumulators.shape[-1])
    counts = np.empty(rows.shape, np.int32)
    for channel, levels in enumerate(thresholds):
        counts[:, channel] = np.searchsorted(levels, rows[:, channel], side="left")
    return counts.reshape(accumulators.shape)
