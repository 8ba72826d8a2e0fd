"""The binarised vehicle classifier: its sizes, random weights and their memory layout.

The input has 96 x 96 pixels of 3 colours. Two stages follow, each a 5 x 5 convolution with 32 output channels, a 2 x 2
maximum pooling and the sign function, then three fully connected layers with 100, 100 and 4 outputs. Weights,
activations and borders are +1 or -1, stored as bits 1 or 0; a dot product of ``n`` terms is ``n`` less twice the number
of differing bits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sw.kernels.layout import Ints, Words, pack_words, pad_axis

# pixels of a side, colours of the image, channels of a map, side of a filter and of a pooling window
SIDE, COLOURS, CHANNELS, WINDOW, POOL = 96, 3, 32, 5, 2
BORDER = WINDOW // 2
HIDDEN, CLASSES = 100, 4
THRESHOLDS = (127, 100, 70)  # a colour above its threshold is +1
POOLED = SIDE // POOL
LAST = POOLED // POOL
FEATURES = LAST * LAST * CHANNELS
TAPS = WINDOW * WINDOW
MACS = TAPS * CHANNELS * (SIDE * SIDE * COLOURS + POOLED * POOLED * CHANNELS) + HIDDEN * (FEATURES + HIDDEN + CLASSES)

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False, kw_only=True)
class Weights:
    conv1: Ints
    conv2: Ints
    fc1: Ints  # `[out][feature]`, features in the order of rows, columns, channels
    fc2: Ints
    fc3: Ints


def random_weights(random: np.random.Generator) -> Weights:
    def signs(*shape: int) -> Ints:
        return random.integers(0, 2, shape) * 2 - 1

    first, second = (signs(CHANNELS, WINDOW, WINDOW, channels) for channels in (COLOURS, CHANNELS))
    fc1, fc2, fc3 = signs(HIDDEN, FEATURES), signs(HIDDEN, HIDDEN), signs(CLASSES, HIDDEN)
    return Weights(conv1=first, conv2=second, fc1=fc1, fc2=fc2, fc3=fc3)


def synthetic_image(random: np.random.Generator) -> Pixels:
    """Return a random image [96, 96, 3]: smooth shades, a bright box and noise."""
    rows, columns = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    phases = random.uniform(0, 2 * np.pi, COLOURS)
    shades = [100 + 60 * np.sin((rows + 2 * columns) / 20 + phase) for phase in phases]
    image = np.stack(shades, axis=-1)
    top, left = random.integers(10, 40, 2)
    image[top : top + 40, left : left + 45] += 50
    return np.clip(image + random.normal(0, 25, image.shape), 0, 255).astype(np.uint8)


def _bits(values: Ints) -> Ints:
    return (values > 0).astype(np.int64)


ROW_BITS = WINDOW * COLOURS  # bits of a filter row of the first convolution; two rows share a word


def first_filters(weights: Weights) -> Words:
    """Return the words ``[channel][3]``, last channel first; they hold the filter rows 0 and 1, 2 and 3, and 4."""
    rows = pack_words(_bits(weights.conv1).reshape(CHANNELS, WINDOW, ROW_BITS), 1)[..., 0]
    words = np.stack([rows[:, 0] | rows[:, 1] << ROW_BITS, rows[:, 2] | rows[:, 3] << ROW_BITS, rows[:, 4]], axis=1)
    return words[::-1].astype(np.uint32)


def second_filters(weights: Weights, group: int) -> Words:
    """Return words of the filters, last channel first; ``group`` channels alternate."""
    words = pack_words(_bits(weights.conv2), 1).reshape(CHANNELS, TAPS)
    return words[::-1].reshape(-1, group, TAPS).swapaxes(1, 2).astype(np.uint32)


def window_filters(filters: Ints, group: int) -> Words:
    """Return a word for each window of filters [out, ky, kx, in]; ``group`` filters alternate word by word."""
    count, channels = filters.shape[0], filters.shape[3]
    words = pack_words(_bits(filters).reshape(count, TAPS, channels).swapaxes(1, 2), 1)[..., 0]
    return words.reshape(-1, group, channels).swapaxes(1, 2).astype(np.uint32)


def crumb_filters(weights: Weights, channels: int, streams: int, stream_words: int) -> Words:
    """Return the second filters in streams of two-bit weights; even input channels of a position precede odd ones."""
    halves = weights.conv2.reshape(CHANNELS, TAPS, CHANNELS // 2, 2).swapaxes(2, 3)
    words = pack_words(halves, 2).reshape(CHANNELS // channels, channels // streams, streams, -1)
    filled = words.transpose(2, 0, 3, 1).reshape(streams, -1)
    return pad_axis(filled, 1, stream_words).astype(np.uint32)


def dense(rows: Ints, group: int) -> Words:
    """Return the rows of a fully connected layer as words; ``group`` rows alternate word by word."""
    words = pack_words(_bits(rows), 1)
    return words.reshape(-1, group, words.shape[1]).swapaxes(1, 2).astype(np.uint32)
