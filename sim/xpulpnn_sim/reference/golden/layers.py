"""Quantised layers on plain integers: what the kernels must compute, whatever instructions they use.

Feature maps are ``[..., height, width, channel]``, weights ``[out, ky, kx, in]``, accumulators 32-bit and wrapping.
Tensors of narrow elements in memory: element j of a byte occupies bits ``[j*b, (j+1)*b)``, little end first.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sim.reference.golden.effects import I32, I64

Bytes = NDArray[np.uint8]
AnyInt = NDArray[np.integer[Any]]

ELEMENT_BITS = (1, 2, 4, 8, 16, 32)  # widths that divide a byte or are whole bytes


def element_range(bits: int, *, signed: bool) -> tuple[int, int]:
    """Least and greatest value of a ``bits``-bit element."""
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _check_bits(bits: int) -> None:
    if bits not in ELEMENT_BITS:
        raise LayerError(f"`bits` must be one of {', '.join(map(str, ELEMENT_BITS))}, not {bits}")


def pack_map(values: AnyInt, bits: int, *, signed: bool) -> Bytes:
    """Bytes of ``values``, packed along the last axis, which must fill whole bytes. Raises :class:`LayerError` for a
    width or row length that cannot be packed and for values out of range."""
    _check_bits(bits)
    least, greatest = element_range(bits, signed=signed)
    if values.size and not least <= int(values.min()) <= int(values.max()) <= greatest:
        offender = int(values.min()) if int(values.min()) < least else int(values.max())
        raise LayerError(f"`values` must be in [{least}, {greatest}], not {offender}")
    row = values.shape[-1]
    if row * bits % BYTE_BITS:
        raise LayerError(f"`values` must fill whole bytes, not {row} elements of {bits} bits")
    planes = (values.astype(np.int64)[..., None] >> np.arange(bits)) & 1
    return np.packbits(planes.astype(np.uint8).reshape(*values.shape[:-1], row * bits), axis=-1, bitorder="little")


def unpack_map(data: Bytes, bits: int, *, signed: bool) -> I32:
    """Elements of packed bytes; the last axis grows by ``8 / bits``. The inverse of :func:`pack_map`."""
    _check_bits(bits)
    row = data.shape[-1] * BYTE_BITS
    if row % bits:
        raise LayerError(f"`data` must hold whole elements, not {data.shape[-1]} bytes of {bits}-bit elements")
    planes = np.unpackbits(data, axis=-1, bitorder="little").reshape(*data.shape[:-1], row // bits, bits)
    weights = np.int64(1) << np.arange(bits, dtype=np.int64)
    if signed:
        weights[-1] = -weights[-1]
    return (planes * weights).sum(axis=-1).astype(np.int32)


ACCUMULATOR_BITS = 32


class Pads(NamedTuple):
    """Zero rows and columns around a feature map."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0


NO_PADS = Pads()


class Window(NamedTuple):
    """Size, steps and margins of a window over a map."""

    height: int
    width: int
    stride: tuple[int, int] = (1, 1)  # its steps in y and x
    pads: Pads = NO_PADS  # how far it may reach over the edges
    dilation: tuple[int, int] = (1, 1)  # distance of its elements in y and x


def _wrap(exact: I64) -> I32:
    return exact.astype(np.int32)


def matmul(weights: AnyInt, activations: AnyInt) -> I32:
    """``acc[p, c] = sum_k activations[p, k] * weights[c, k]``."""
    if weights.shape[1] != activations.shape[1]:
        raise LayerError(f"`weights` must have rows of {activations.shape[1]} elements, not {weights.shape[1]}")
    return _wrap(activations.astype(np.int64) @ weights.astype(np.int64).T)


def output_size(size: int, kernel: int, stride: int, before: int, after: int) -> int:
    """Output rows or columns of a convolution: ``floor((size + before + after - kernel) / stride) + 1``."""
    if stride < 1:
        raise LayerError(f"`stride` must be at least 1, not {stride}")
    if before < 0 or after < 0:
        raise LayerError(f"`pads` must be at least 0, not {min(before, after)}")
    if not 1 <= kernel <= size + before + after:
        raise LayerError(f"`kernel` must be 1 to {size + before + after} here, not {kernel}")
    return (size + before + after - kernel) // stride + 1


def views(maps: AnyInt, window: Window, outside: int) -> Iterator[tuple[tuple[int, int], NDArray[Any]]]:
    """Yield each place of the window and the elements that it meets in the maps, one for each output. ``maps`` are
    ``[..., row, column, channel]``; ``outside`` is the value off their edges."""
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


def conv(
    image: AnyInt,
    weights: AnyInt,
    bias: AnyInt | None = None,
    stride: tuple[int, int] = (1, 1),
    pads: Pads = NO_PADS,
    outside: int = 0,
) -> I32:
    """Convolution with ``outside`` around the map, ``acc[oy, ox, o]``. ``bias[o] + sum_{ky,kx,c} weights[o, ky, kx, c]
    * image[oy*sy - top + ky, ox*sx - left + kx, c]``, formed as one strided product per kernel position."""
    return _convolution(image, weights, bias, Window(weights.shape[1], weights.shape[2], stride, pads), outside)


def conv1d(
    sequence: AnyInt,
    weights: AnyInt,
    bias: AnyInt | None = None,
    stride: int = 1,
    pads: tuple[int, int] = (0, 0),
    dilation: int = 1,
    outside: int = 0,
) -> I32:
    """Convolution along one direction with ``outside`` around the sequence, ``acc[t, o]``. ``bias[o] + sum_{k,c}
    weights[o, k, c] * sequence[t*stride - before + k*dilation, c]``."""
    if dilation < 1:
        raise LayerError(f"`dilation` must be at least 1, not {dilation}")
    window = Window(weights.shape[1], 1, (stride, 1), Pads(*pads), (dilation, 1))
    return _convolution(sequence[:, np.newaxis], weights[:, :, np.newaxis], bias, window, outside)[:, 0]


def _convolution(image: AnyInt, weights: AnyInt, bias: AnyInt | None, window: Window, outside: int) -> I32:
    if weights.shape[3] != image.shape[2]:
        raise LayerError(f"`weights` must have {image.shape[2]} input channels, not {weights.shape[3]}")
    wide = weights.astype(np.int64)
    total = sum(view @ wide[:, y, x].T for (y, x), view in views(image.astype(np.int64), window, outside))
    return _wrap(np.asarray(total, np.int64) + (0 if bias is None else bias.astype(np.int64)))


def _shift_and_clip(value: I32, shift: int, bits: int, *, signed: bool) -> I32:
    if not 0 <= shift < ACCUMULATOR_BITS:
        raise LayerError(f"`shift` must be 0 to {ACCUMULATOR_BITS - 1}, not {shift}")
    least, greatest = element_range(bits, signed=signed)
    return np.clip(value >> np.int32(shift), least, greatest).astype(np.int32)


def quantise_shift(acc: AnyInt, shift: int, bits: int, signed: bool = False) -> I32:
    """``clip(acc >> shift)``: floor, then the range of a ``bits``-bit element."""
    return _shift_and_clip(_wrap(acc.astype(np.int64)), shift, bits, signed=signed)


def quantise_bn(acc: AnyInt, kappa: AnyInt, lam: AnyInt, shift: int, bits: int, signed: bool = False) -> I32:
    """Batch normalisation folded into integers: ``clip(int32(kappa * acc + lam) >> shift)``."""
    total = _wrap(acc.astype(np.int64) * kappa.astype(np.int64) + lam.astype(np.int64))
    return _shift_and_clip(total, shift, bits, signed=signed)


def quantise_bn64(acc: AnyInt, kappa: AnyInt, lam: AnyInt, shift: int, bits: int, signed: bool = False) -> I32:
    """The same in 64 bits: ``clip(int32(int64(kappa * acc + lam) >> shift))``, parameters as in :func:`quantise_bn`.
    The sum wraps at 64 bits, what the shift leaves of it at 32."""
    if not 0 <= shift < 2 * ACCUMULATOR_BITS:
        raise LayerError(f"`shift` must be 0 to {2 * ACCUMULATOR_BITS - 1}, not {shift}")
    total = acc.astype(np.int64) * kappa.astype(np.int64) + lam.astype(np.int64)
    return _shift_and_clip(_wrap(total >> np.int64(shift)), 0, bits, signed=signed)


def quantise_multiply(acc: AnyInt, factor: int, shift: int, bits: int, signed: bool = False) -> I32:
    """``clip(int32(factor * acc) >> shift)``: one factor for the whole layer."""
    return _shift_and_clip(_wrap(acc.astype(np.int64) * factor), shift, bits, signed=signed)


def quantise_thresholds(acc: AnyInt, thresholds: AnyInt, signed: bool = False) -> I32:
    """Number of thresholds below each accumulator, minus half the levels for signed results."""
    if np.any(np.diff(thresholds, axis=1) < 0):
        raise LayerError("`thresholds` must be ascending in every channel, not falling")
    levels = thresholds.shape[1] + 1
    below = (acc[..., None] > thresholds).sum(axis=-1)
    return (below - (levels // 2 if signed else 0)).astype(np.int32)


def quantise_sign(acc: AnyInt, thresholds: AnyInt) -> I32:
    """+1 for accumulators above the threshold of their channel, -1 for all others."""
    return np.where(acc > thresholds, 1, -1).astype(np.int32)


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
    """``clip((sums * factor / area + summand) >> shift)`` for the scale (factor, summand, shift). The product is
    divided, not the factor, and the quotient rounded towards zero as in C; the shift rounds down."""
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
