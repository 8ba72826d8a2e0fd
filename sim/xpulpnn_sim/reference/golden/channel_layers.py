"""Layers that keep channels apart, on plain integers: depthwise convolution, pooling, addition, ReLU.

Feature maps are ``[..., height, width, channel]``.
"""

import numpy as np

from xpulpnn_sim.reference.golden.effects import I32, I64
from xpulpnn_sim.reference.golden.layers import AnyInt, Window, views
from xpulpnn_sim.reference.golden.packing import element_range


def depthwise(maps: AnyInt, weights: AnyInt, bias: AnyInt | None, window: Window, outside: int = 0) -> I32:
    """``acc[oy, ox, c] = bias[c] + sum_{ky,kx} weights[c, ky, kx] * maps[oy*sy - top + ky, ox*sx - left + kx, c]``."""
    wide = weights.astype(np.int64)
    total = sum(view * wide[:, y, x] for (y, x), view in views(maps.astype(np.int64), window, outside))
    return (np.asarray(total) + (0 if bias is None else bias)).astype(np.int32)


def max_pool(maps: AnyInt, window: Window) -> I32:
    """The greatest element of each window; what lies off the map does not count."""
    found: AnyInt | None = None
    for _, view in views(maps, window, int(np.iinfo(maps.dtype).min)):
        found = view.copy() if found is None else np.maximum(found, view, out=found)
    assert found is not None
    return found.astype(np.int32)


def window_sums(maps: AnyInt, window: Window) -> I64:
    """The sum of each window; what lies off the map adds nothing."""
    return np.asarray(sum(view.astype(np.int64) for _, view in views(maps, window, 0)))


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
