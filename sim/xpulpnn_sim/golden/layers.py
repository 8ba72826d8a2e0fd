"""Quantised layers on plain integers: what the kernels must compute, whatever instructions they use.

Feature maps are ``[height, width, channel]``, weights ``[out, ky, kx, in]``, accumulators 32-bit and wrapping.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn_sim.golden.effects import I32, I64
from xpulpnn_sim.golden.packing import element_range

AnyInt = NDArray[np.integer[Any]]

ACCUMULATOR_BITS = 32


class Pads(NamedTuple):
    """Zero rows and columns around a feature map."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0


NO_PADS = Pads()


def _wrap(exact: I64) -> I32:
    """The accumulator that holds an exact sum."""
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


def conv(
    image: AnyInt,
    weights: AnyInt,
    bias: AnyInt | None = None,
    stride: tuple[int, int] = (1, 1),
    pads: Pads = NO_PADS,
    outside: int = 0,
) -> I32:
    """Convolution with ``outside`` around the map, ``acc[oy, ox, o]``.

    ``bias[o] + sum_{ky,kx,c} weights[o, ky, kx, c] * image[oy*sy - top + ky, ox*sx - left + kx, c]``, formed as one
    strided product per kernel position.
    """
    height, width, channels = image.shape
    outputs, kernel_y, kernel_x, weight_channels = weights.shape
    if weight_channels != channels:
        raise LayerError(f"`weights` must have {channels} input channels, not {weight_channels}")
    stride_y, stride_x = stride
    rows = output_size(height, kernel_y, stride_y, pads.top, pads.bottom)
    columns = output_size(width, kernel_x, stride_x, pads.left, pads.right)
    padded = np.full((height + pads.top + pads.bottom, width + pads.left + pads.right, channels), outside, np.int64)
    padded[pads.top : pads.top + height, pads.left : pads.left + width] = image
    total = np.zeros((rows, columns, outputs), np.int64)
    for ky, kx in np.ndindex(kernel_y, kernel_x):
        seen = padded[ky : ky + rows * stride_y : stride_y, kx : kx + columns * stride_x : stride_x]
        total += seen @ weights[:, ky, kx].astype(np.int64).T
    if bias is not None:
        total += bias
    return _wrap(total)


def conv1d(
    sequence: AnyInt,
    weights: AnyInt,
    bias: AnyInt | None = None,
    stride: int = 1,
    pads: tuple[int, int] = (0, 0),
    dilation: int = 1,
    outside: int = 0,
) -> I32:
    """Convolution along one direction with ``outside`` around the sequence, ``acc[t, o]``.

    ``bias[o] + sum_{k,c} weights[o, k, c] * sequence[t*stride - before + k*dilation, c]``.
    """
    if dilation < 1:
        raise LayerError(f"`dilation` must be at least 1, not {dilation}")
    outputs, kernel, _ = weights.shape
    count = output_size(sequence.shape[0], (kernel - 1) * dilation + 1, stride, *pads)
    padded = np.pad(sequence.astype(np.int64), (pads, (0, 0)), constant_values=outside)
    total = np.zeros((count, outputs), np.int64)
    for t, k in np.ndindex(count, kernel):
        total[t] += weights[:, k].astype(np.int64) @ padded[t * stride + k * dilation]
    return _wrap(total if bias is None else total + bias)


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

    The sum wraps at 64 bits, what the shift leaves of it at 32.
    """
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
