"""Golden models of quantised layers on plain integers, which all kernels must match.

Feature maps are ``[..., height, width, channel]``, weights ``[out, ky, kx, in]``, accumulators 32-bit and wrapping.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.golden.effects import I32, I64

AnyInt = NDArray[np.integer[Any]]


def element_range(bits: int, *, signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


ACCUMULATOR_BITS = 32


class Pads(NamedTuple):
    """Number of padding rows and columns on each side of a feature map."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0


NO_PADS = Pads()


class Window(NamedTuple):
    """The receptive field of a convolution or pooling; ``stride`` and ``dilation`` are in y and x."""

    height: int
    width: int
    stride: tuple[int, int] = (1, 1)
    pads: Pads = NO_PADS
    dilation: tuple[int, int] = (1, 1)


def _wrap(exact: I64) -> I32:
    return exact.astype(np.int32)


def matmul(weights: AnyInt, activations: AnyInt) -> I32:
    """Return ``acc[p, c] = sum_k activations[p, k] * weights[c, k]``."""
    if weights.shape[1] != activations.shape[1]:
        raise LayerError(f"`weights` must have rows of {activations.shape[1]} elements, not {weights.shape[1]}")
    return _wrap(activations.astype(np.int64) @ weights.astype(np.int64).T)


def output_size(size: int, kernel: int, stride: int, before: int, after: int) -> int:
    """Return the output rows or columns of a convolution: ``floor((size + before + after - kernel) / stride) + 1``."""
    if stride < 1:
        raise LayerError(f"`stride` must be at least 1, not {stride}")
    if before < 0 or after < 0:
        raise LayerError(f"`pads` must be at least 0, not {min(before, after)}")
    if not 1 <= kernel <= size + before + after:
        raise LayerError(f"`kernel` must be 1 to {size + before + after} here, not {kernel}")
    return (size + before + after - kernel) // stride + 1


def views(maps: AnyInt, window: Window, outside: int) -> Iterator[tuple[tuple[int, int], NDArray[Any]]]:
    """Yield each position in the receptive field, and the input elements that all outputs read there. The feature maps
    ``maps`` are ``[..., row, column, channel]``; ``outside`` is the padding value."""
    pads, (stride_y, stride_x), (apart_y, apart_x) = window.pads, window.stride, window.dilation
    height, width, _ = maps.shape[-3:]
    rows = output_size(height, (window.height - 1) * apart_y + 1, stride_y, pads.top, pads.bottom)
    columns = output_size(width, (window.width - 1) * apart_x + 1, stride_x, pads.left, pads.right)
    margins = [(0, 0)] * (maps.ndim - 3) + [(pads.top, pads.bottom), (pads.left, pads.right), (0, 0)]
    padded = np.pad(maps, margins, constant_values=outside)
    for y, x in np.ndindex(window.height, window.width):
        top, left = y * apart_y, x * apart_x
        seen = padded[..., top : top + rows * stride_y : stride_y, left : left + columns * stride_x : stride_x, :]
        yield (y, x), seen[..., :rows, :columns, :]


_EXACT = ((np.float32, 24), (np.float64, 53))  # floating point types and bits of the integers that they represent


def products(rows: AnyInt, weights: AnyInt, most: int) -> I64:
    """Return ``sum_k rows[r, k] * weights[c, k]`` without rounding; ``most`` is the greatest magnitude of an element of
    ``rows``."""
    greatest = int(np.abs(weights.astype(np.int64)).sum(axis=1).max()) * most
    for kind, bits in _EXACT:
        # no partial sum is greater
        if greatest <= 1 << bits:
            return (rows.astype(kind) @ weights.astype(kind).T).astype(np.int64)
    return rows.astype(np.int64) @ weights.astype(np.int64).T


def windowed_sums(maps: AnyInt, weights: AnyInt, window: Window, outside: int, most: int) -> I64:
    """Return the convolution sums of feature maps padded with ``outside``, ``[image][row][column][out]``."""
    if weights.shape[-1] != maps.shape[-1]:
        raise LayerError(f"`weights` must have {maps.shape[-1]} input channels, not {weights.shape[-1]}")
    seen = np.stack([view for _, view in views(maps, window, outside)], axis=-2)
    sums = products(seen.reshape(-1, weights[0].size), weights.reshape(len(weights), -1), most)
    return sums.reshape(*seen.shape[:3], len(weights))


def conv(
    image: AnyInt, weights: AnyInt, bias: AnyInt | None = None, stride: tuple[int, int] = (1, 1), pads: Pads = NO_PADS
) -> I32:
    """Return a convolution padded with zeros, ``acc[oy, ox, o]``: ``bias[o] + sum_{ky,kx,c} weights[o, ky, kx, c]
    * image[oy*sy - top + ky, ox*sx - left + kx, c]``."""
    window = Window(weights.shape[1], weights.shape[2], stride, pads)
    most = int(np.abs(image.astype(np.int64)).max())
    sums = windowed_sums(image[np.newaxis], weights, window, 0, most)[0]
    return _wrap(sums + (0 if bias is None else bias.astype(np.int64)))


def quantise_bn(
    acc: AnyInt,
    kappa: AnyInt | int,
    lam: AnyInt | int,
    shift: int,
    bits: int,
    signed: bool = False,
    width: int = ACCUMULATOR_BITS,
) -> I32:
    """Return ``clip(int32((kappa * acc + lam) >> shift))``, whose sum wraps at ``width`` bits (32 or 64)."""
    if not 0 <= shift < width:
        raise LayerError(f"`shift` must be 0 to {width - 1}, not {shift}")
    total = acc.astype(np.int64) * kappa + lam
    if width == ACCUMULATOR_BITS:
        total = _wrap(total).astype(np.int64)
    return _clip(_wrap(total >> shift).astype(np.int64), bits, signed=signed)


def quantise_exactly(acc: AnyInt, factors: AnyInt, shifts: AnyInt, zero: int, bits: int, signed: bool = False) -> I32:
    """Apply TFLite's requantisation with a single rounding: the nearest integer to ``factor * acc / 2**shift``, halves
    up, plus ``zero``, clipped. Products and their sums with half a step fit 64 bits."""
    products = acc.astype(np.int64) * factors.astype(np.int64)
    # floor(p / 2^n + 1/2), with the bit below the point added separately
    rounded = (products >> shifts) + (products >> shifts - 1 & 1)
    return _clip(rounded + zero, bits, signed=signed)


def depthwise(maps: AnyInt, weights: AnyInt, bias: AnyInt | None, window: Window, outside: int = 0) -> I32:
    """Return ``acc[oy, ox, c] = bias[c] + sum_{ky,kx} weights[c, ky, kx] * maps[oy*sy - top + ky, ox*sx - left + kx,
    c]``."""
    wide = weights.astype(np.int64)
    total = sum(view * wide[:, y, x] for (y, x), view in views(maps.astype(np.int64), window, outside))
    return (np.asarray(total) + (0 if bias is None else bias)).astype(np.int32)


def max_pool(maps: AnyInt, window: Window) -> I32:
    """Return the greatest element of each window, without padding."""
    greatest: AnyInt | None = None
    for _, view in views(maps, window, int(np.iinfo(maps.dtype).min)):
        greatest = view.copy() if greatest is None else np.maximum(greatest, view, out=greatest)
    assert greatest is not None
    return greatest.astype(np.int32)


def window_sums(maps: AnyInt, window: Window) -> I64:
    return np.asarray(sum(view.astype(np.int64) for _, view in views(maps, window, 0)))


def scaled_average(sums: I64, area: int, scale: tuple[int, int, int], bits: int, *, signed: bool) -> I32:
    """Return ``clip((sums * factor / area + summand) >> shift)`` for the scale (factor, summand, shift). The division
    of the product rounds towards zero as in C; the shift rounds down."""
    factor, summand, shift = scale
    products = sums * factor
    return _clip((np.sign(products) * (np.abs(products) // area) + summand) >> shift, bits, signed=signed)


def add_shifted(
    maps: Sequence[AnyInt], factors: Sequence[int], shift: int, bits: int, *, signed: bool, summand: int = 0
) -> I32:
    """Return ``clip((sum_i factors[i] * maps[i] + summand) >> shift)``."""
    total = sum(values.astype(np.int64) * factor for values, factor in zip(maps, factors, strict=True))
    return _clip(np.asarray(total) + summand >> shift, bits, signed=signed)


def _clip(values: I64, bits: int, *, signed: bool) -> I32:
    return np.clip(values, *element_range(bits, signed=signed)).astype(np.int32)
