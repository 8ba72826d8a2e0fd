"""Feature maps whose columns are partly pooled: what a convolution leaves for the maximum pooling behind it.

A pooling of 3x3 windows with steps of two takes the columns 0, 1, 2 and 2, 3, 4 of each four and the next. Instead of
pixels 1 and 2 of four there are the greatest elements of pixels 0, 1, 2 and of pixels 2, 3. Pixel 3 itself is not
stored: nothing tells what lies there.
"""

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.channelwise import MaxPoolLayer

FOLDED_COLUMNS = 4  # pixels that are folded together, of which one less is stored
_WINDOW, _STRIDE, _PADDING = (3, 3), (2, 2), (0, 1, 0, 1)


def fold(values: Ints) -> Ints:
    """A map ``[row][column][channel]`` with its columns folded; zeros where nothing is stored."""
    first, second, third, last = (values[:, place::FOLDED_COLUMNS] for place in range(FOLDED_COLUMNS))
    folded = np.zeros_like(values)
    folded[:, ::FOLDED_COLUMNS] = first
    folded[:, 1::FOLDED_COLUMNS] = np.maximum(np.maximum(first, second), third)
    folded[:, 2::FOLDED_COLUMNS] = np.maximum(third, last)
    return folded


def is_stored(values: Ints) -> Ints:
    """Return the stored elements of such a map, as a map of 0 and 1."""
    stored = np.ones_like(values)
    stored[:, FOLDED_COLUMNS - 1 :: FOLDED_COLUMNS] = 0
    return stored


def takes_folded(layer: MaxPoolLayer) -> bool:
    """Tell whether a pooling can take a folded map."""
    window = (layer.kernel_height, layer.kernel_width)
    return (window, layer.stride, layer.padding) == (_WINDOW, _STRIDE, _PADDING) and not layer.width % FOLDED_COLUMNS


def check_folded(layer: MaxPoolLayer) -> None:
    """Raise :class:`LayerError` unless a pooling can take a folded map."""
    if not takes_folded(layer):
        raise LayerError(f"pooling of a folded map must be 3x3:s=2,p=0x1x0x1 of whole fours of columns, not {layer}")
