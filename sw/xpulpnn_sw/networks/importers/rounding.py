"""Weights in floating point as integers: scales of least squared error, and errors that make up for each other.

Rounded one by one, weights are nearest to those of the model; its sums are not, as what a layer reads is neither
independent nor of one size. Here the error of a weight is made up for by the weights of its filter that are not rounded
yet, as far as the inputs go together (optimal brain surgery, as of Hassibi 1993 and of Frantar 2022). What is known of
the inputs is the mean of their products with each other for some images.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sw.kernels.layout import Ints

Reals = NDArray[np.floating[Any]]

_STEPS = 60  # scales that are tried
_LEAST = 0.3  # the smallest of them, over the one that clips nothing
_DAMPING = 0.01  # of the mean square of the inputs, added to that of each: images are few
_PASSES = 3  # how often weights are rounded, each time by scales that suit those of the time before


@dataclass(frozen=True, eq=False, kw_only=True)
class FilterInputs:
    """Statistics of the inputs that the filters of a layer meet."""

    products: Reals  # `[weight][weight]`: the mean of the product of the inputs of two weights of a filter
    is_turned: bool = False  # whether the tensor of the weights is `[in][out]`, not `[out][...]`


def best_scale(values: Reals, low: int, high: int) -> float:
    """The scale with the least squared error of ``clip(round(values / scale))``."""
    most = max(float(values.max()) / high, float(values.min()) / low if low else 0.0)
    if most <= 0:
        return 1.0
    tried = most * np.linspace(_LEAST, 1, _STEPS)
    errors = [float(np.square(np.clip(np.rint(values / scale), low, high) * scale - values).sum()) for scale in tried]
    return float(tried[int(np.argmin(errors))])


def rounded(rows: Reals, most: int, inputs: FilterInputs | None, *, one_scale: bool) -> tuple[Ints, Reals]:
    """Integers up to ``most`` from 0 and the scale of each row; all rows have one with ``one_scale``."""
    if one_scale:
        scales = np.full(len(rows), best_scale(rows, -most, most))
    else:
        scales = np.array([best_scale(row, -most, most) for row in rows])
    if inputs is None:
        return np.clip(np.rint(rows / scales[:, np.newaxis]), -most, most).astype(np.int64), scales
    products = inputs.products
    own = np.diag(products)
    damped = products + np.eye(len(products)) * max(_DAMPING * float(own.mean()), np.finfo(np.float64).tiny)
    # inputs that matter most first, as others can make up for theirs
    order = np.argsort(-own, kind="stable")
    spread = np.linalg.cholesky(np.linalg.inv(damped[np.ix_(order, order)])).T
    whole = _compensated(rows[:, order], scales, most, spread)
    for _ in range(_PASSES - 1):
        scales = _fitted(rows[:, order], whole, damped[np.ix_(order, order)], scales, one_scale=one_scale)
        whole = _compensated(rows[:, order], scales, most, spread)
    found = np.empty_like(whole)
    found[:, order] = whole
    return found.astype(np.int64), scales


def _compensated(rows: Reals, scales: Reals, most: int, spread: Reals) -> Reals:
    """Rows rounded from left to right; ``spread`` says what an error is to the weights behind it."""
    left = rows.copy()
    whole = np.empty_like(left)
    for place in range(rows.shape[1]):
        whole[:, place] = np.clip(np.rint(left[:, place] / scales), -most, most)
        error = (left[:, place] - whole[:, place] * scales) / spread[place, place]
        left[:, place + 1 :] -= np.outer(error, spread[place, place + 1 :])
    return whole


def _fitted(rows: Reals, whole: Reals, products: Reals, scales: Reals, *, one_scale: bool) -> Reals:
    """The scales with which the sums of ``whole`` are nearest to those of ``rows``."""
    weighed = whole @ products
    to_rows, to_itself = (weighed * rows).sum(axis=1), (weighed * whole).sum(axis=1)
    if one_scale:
        to_rows, to_itself = (np.full(len(rows), one.sum()) for one in (to_rows, to_itself))
    fits = (to_rows > 0) & (to_itself > 0)
    return np.where(fits, to_rows / np.where(fits, to_itself, 1), scales)
