"""Integers for what floating point does between the sums of one layer and the inputs of the next."""

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS

_LARGEST = (1 << (ACCUMULATOR_BITS - 1)) - 1


def largest_sums(weights: Ints, least: int, most: int) -> Ints:
    """Return the largest distance from 0 of the sums of each output channel, ``[out]``."""
    rows = weights.reshape(len(weights), -1).astype(np.int64)
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    return np.maximum(positive * most + negative * least, -(positive * least + negative * most))


def normalised(factor: NDArray[np.float64], offset: NDArray[np.float64], sums: Ints) -> dict[str, Ints]:
    """``kappa``, ``lambda`` and ``shift`` with which ``(kappa*sum + lambda) >> shift`` rounds ``factor*sum + offset``.

    The shift is the largest with which no product and no total leaves 32 bits, whatever the inputs are: the results are
    those of the rounded factors in integers without bounds.
    """
    for shift in range(MAX_SHIFT, -1, -1):
        unit = float(1 << shift)
        # half a unit, since the shift rounds down
        kappa, lam = np.rint(factor * unit), np.rint((offset + 0.5) * unit)
        if (np.abs(kappa) * sums + np.abs(lam)).max() <= _LARGEST:
            return {"kappa": kappa.astype(np.int64), "lambda": lam.astype(np.int64), "shift": np.array(shift)}
    raise LayerError(f"normalised sums must be of {ACCUMULATOR_BITS} bits, not beyond without a shift")
