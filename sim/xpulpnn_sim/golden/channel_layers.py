"""Layers that keep channels apart, on plain integers: depthwise convolution, pooling, addition, ReLU.

Feature maps are ``[height, width, channel]``.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from xpulpnn_sim.golden.effects import I32, I64
from xpulpnn_sim.golden.layers import NO_PADS, AnyInt, Pads, output_size
from xpulpnn_sim.golden.packing import element_range


class Window(NamedTuple):
    """Size, steps and margins of a window over a map."""

    height: int
    width: int
    stride: tuple[int, int] = (1, 1)  # its steps in y and x
    pads: Pads = NO_PADS  # how far it may reach over the edges


def _views(image: AnyInt, window: Window, outside: int) -> Iterator[tuple[tuple[int, int], I64]]:
    """For each place of the window the elements there, one for each output; ``outside`` is what lies off the map."""
    height, width, _ = image.shape
    pads, (stride_y, stride_x) = window.pads, window.stride
    rows = output_size(height, window.height, stride_y, pads.top, pads.bottom)
    columns = output_size(width, window.width, stride_x, pads.left, pads.right)
    padded = np.pad(
        image.astype(np.int64), ((pads.top, pads.bottom), (pads.left, pads.right), (0, 0)), constant_values=outside
    )
    for y, x in np.ndindex(window.height, window.width):
        yield (y, x), padded[y : y + rows * stride_y : stride_y, x : x + columns * stride_x : stride_x][:rows, :columns]


def depthwise(image: AnyInt, weights: AnyInt, bias: AnyInt | None, window: Window, outside: int = 0) -> I32:
    """``acc[oy, ox, c] = bias[c] + sum_{ky,kx} weights[c, ky, kx] * image[oy*sy - top + ky, ox*sx - left + kx, c]``."""
    total = sum(view * weights[:, y, x].astype(np.int64) for (y, x), view in _views(image, window, outside))
    return (np.asarray(total) + (0 if bias is None else bias)).astype(np.int32)


def max_pool(image: AnyInt, window: Window) -> I32:
    """The greatest element of each window; what lies off the map does not count."""
    least = int(np.iinfo(np.int32).min)
    return np.max([view for _, view in _views(image, window, least)], axis=0).astype(np.int32)


def window_sums(image: AnyInt, window: Window) -> I64:
    """The sum of each window; what lies off the map adds nothing."""
    return np.sum([view for _, view in _views(image, window, 0)], axis=0)


def average(sums: I64, area: int, bits: int, *, signed: bool) -> I32:
    """``clip(sums / area)``, the quotient rounded towards zero as in C."""
    return _clip(np.sign(sums) * (np.abs(sums) // area), bits, signed=signed)


def scaled_average(sums: I64, area: int, scale: tuple[int, int, int], bits: int, *, signed: bool) -> I32:
    """``clip((sums * factor / area + summand) >> shift)`` for the scale (factor, summand, shift).

    The product is divided, not the factor, and the quotient rounded towards zero as in C; the shift rounds down.
    """
    factor, summand, shift = scale
    products = sums * factor
    return _clip((np.sign(products) * (np.abs(products) // area) + summand) >> shift, bits, signed=signed)


def scaled(values: AnyInt, scale: tuple[int, int, int], bits: int, *, signed: bool) -> I32:
    """``clip((values * factor + summand) >> shift)`` for the scale (factor, summand, shift)."""
    factor, summand, shift = scale
    return _clip(values.astype(np.int64) * factor + summand >> shift, bits, signed=signed)


def add(first: AnyInt, second: AnyInt, bits: int, *, signed: bool) -> I32:
    """``clip(first + second)``."""
    return _clip(first.astype(np.int64) + second, bits, signed=signed)


def add_shifted(
    maps: tuple[AnyInt, AnyInt], factors: tuple[int, int], shift: int, bits: int, *, signed: bool, summand: int = 0
) -> I32:
    """``clip((factors[0] * maps[0] + factors[1] * maps[1] + summand) >> shift)``."""
    total = sum(values.astype(np.int64) * factor for values, factor in zip(maps, factors, strict=True))
    return _clip(np.asarray(total) + summand >> shift, bits, signed=signed)


def relu(image: AnyInt) -> I32:
    """Negative elements become 0."""
    return np.maximum(image, 0).astype(np.int32)


def _clip(values: I64, bits: int, *, signed: bool) -> I32:
    return np.clip(values, *element_range(bits, signed=signed)).astype(np.int32)
