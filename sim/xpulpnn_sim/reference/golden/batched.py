"""Layers on plain integers for many images at once.

Maps are ``[image][row][column][channel]``, accumulators 32-bit and wrapping. Products are left to BLAS where floating
point has them exactly.
"""

import numpy as np

from xpulpnn_sim.reference.golden.effects import I32, I64
from xpulpnn_sim.reference.golden.layers import AnyInt, Window, views

_EXACT = ((np.float32, 24), (np.float64, 53))  # Floating point, and the bits of the integers that it has all of


def products(rows: AnyInt, weights: AnyInt, most: int) -> I64:
    """``sum_k rows[r, k] * weights[c, k]``, exact."""
    greatest = int(np.abs(weights.astype(np.int64)).sum(axis=1).max()) * most
    for kind, bits in _EXACT:
        # sums of any part of the products are not greater
        if greatest <= 1 << bits:
            return (rows.astype(kind) @ weights.astype(kind).T).astype(np.int64)
    return rows.astype(np.int64) @ weights.astype(np.int64).T


def conv(maps: AnyInt, weights: AnyInt, window: Window, outside: int, most: int) -> I64:
    """Sums of the products of filters and maps, ``[image][row][column][out]``."""
    seen = np.stack([view for _, view in views(maps, window, outside)], axis=-2)
    sums = products(seen.reshape(-1, weights[0].size), weights.reshape(len(weights), -1), most)
    return sums.reshape(*seen.shape[:3], len(weights))


def below(accumulators: I32, thresholds: AnyInt) -> I32:
    """Count the thresholds of its channel that are below each accumulator."""
    rows = accumulators.reshape(-1, accumulators.shape[-1])
    counts = np.empty(rows.shape, np.int32)
    for channel, levels in enumerate(thresholds):
        counts[:, channel] = np.searchsorted(levels, rows[:, channel], side="left")
    return counts.reshape(accumulators.shape)
