"""Order of the elements in activation rows, and so in the filter rows that meet them.

Cores with sub-byte products multiply operands of one width, that of the weights. Where the inputs have another, it is
cheapest to change it without keeping their order:

* wider inputs are cut: words ``0..n-1`` trade parts until each holds one part of all elements. Lane ``n*i + j`` is then
  that of element ``i`` of word ``j``;
* narrower inputs are widened: of each word every ``n``-th element from the first on becomes a word, from the second
  on the next. Lane ``i`` of word ``k`` is element ``n*i + k``.

Weights are laid out once, in the order of the activations.
"""

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sw.kernels.variants import WORD_BITS, Variant
from xpulpnn_sw.layout import Ints, Words, pack_words, pad_axis
from xpulpnn_sw.precision import Precision


def element_order(chosen: Variant, precision: Precision) -> NDArray[np.intp] | None:
    """Of a chunk of elements the numbers in the order of the lanes; None if nothing changes."""
    if chosen.unpacks or precision.x == precision.w:
        return None
    lanes = WORD_BITS // precision.x
    if (planes := chosen.planes(precision)) > 1:
        return np.arange(planes * lanes).reshape(planes, lanes).T.reshape(-1)
    return np.arange(lanes).reshape(-1, chosen.expansion(precision)).T.reshape(-1)


def ordered(values: Ints, order: NDArray[np.intp] | None) -> Ints:
    """Elements along the last axis, filled up to whole chunks, in another order within each."""
    if order is None:
        return values
    axis = values.ndim - 1
    chunks = -(-values.shape[axis] // order.size)
    filled = pad_axis(values, axis, chunks * order.size).reshape(*values.shape[:-1], chunks, order.size)
    return filled[..., order].reshape(*values.shape[:-1], -1)


def activation_rows(activations: Ints, chosen: Variant, precision: Precision, words: int) -> Words:
    """Rows as an im2col would leave them, from ``[pixel][element]``, for filter rows of ``words`` words.

    Rows are filled up to whole pixel groups; their planes follow each other, the uppermost first.
    """
    groups, planes = -(-activations.shape[0] // chosen.npx), chosen.planes(precision)
    bits = chosen.row_bits(precision.w)
    rows = ordered(pad_axis(activations, 0, groups * chosen.npx), element_order(chosen, precision))
    rows = pad_axis(rows, 1, words * WORD_BITS // precision.w)
    parts = np.stack([rows >> (plane * bits) for plane in reversed(range(planes))], axis=1)
    packed = pack_words(parts, bits)
    if chosen.interleaved:
        return packed.reshape(groups, chosen.npx, planes, words).transpose(0, 2, 3, 1)
    return packed
