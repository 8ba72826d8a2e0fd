"""The binarised vehicle classifier on numbers +1 and -1, without words of bits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]
Numbers = NDArray[np.int64]


def signs(values: Ints) -> Numbers:
    """+1 for positive numbers, -1 for all others."""
    return np.where(values > 0, 1, -1)


def binary_image(image: NDArray[np.uint8], offsets: tuple[int, ...] = (-127, -100, -70)) -> Numbers:
    """The image [y, x, colour], each colour with an offset of its own."""
    return signs(image.astype(np.int64) + np.array(offsets))


def convolution(values: Ints, weights: Ints) -> Numbers:
    """Products of a map [y, x, channel] with filters [out, ky, kx, channel] at all its pixels, -1 outside it."""
    _, height, width, _ = weights.shape
    around = ((height // 2, height // 2), (width // 2, width // 2), (0, 0))
    padded = np.pad(values, around, constant_values=-1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(0, 1))
    rows = windows.transpose(0, 1, 3, 4, 2).reshape(values.shape[0] * values.shape[1], -1)
    products = rows.astype(np.float64) @ weights.reshape(weights.shape[0], -1).T.astype(np.float64)
    # sums of so few are exact
    return products.astype(np.int64).reshape(*values.shape[:2], -1)


def pooled(values: Numbers) -> Numbers:
    """The largest of each 2 x 2 window."""
    height, width, channels = values.shape
    return values.reshape(height // 2, 2, width // 2, 2, channels).max(axis=(1, 3))


def classify(
    image: NDArray[np.uint8],
    filters: tuple[Ints, ...],
    layers: tuple[Ints, ...],
) -> list[Numbers]:
    """The results of every layer for an image, with the filters of the convolutions and the weights of the others."""
    values, found = binary_image(image), list[Numbers]()
    for weights in filters:
        values = signs(pooled(convolution(values, weights)))
        found.append(values)
    values = values.reshape(-1)
    *hidden, last = layers
    for weights in hidden:
        values = signs(weights @ values)
        found.append(values)
    return [*found, (last @ values).astype(np.int64)]
