"""Operands at the ends of their ranges, where sums and products are greatest."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision

_WIDTHS = {
    "activations": ("x", "x_signed"),
    "first": ("x", "x_signed"),
    "weights": ("w", "w_signed"),
    "second": ("w", "w_signed"),
}
"""Operands of any kernel: where a precision has their width and sign."""


def at_the_ends(tensors: Any, precision: Precision, rng: np.random.Generator) -> Any:
    """The same with each operand's elements all the least, all the greatest, or some of both."""
    changed: dict[str, Ints] = {}
    for field in fields(tensors):
        if field.name in _WIDTHS:
            width, sign = (getattr(precision, name) for name in _WIDTHS[field.name])
            least = -(1 << (width - 1)) if sign else 0
            greatest = least + (1 << width) - 1
            if width == SIGN_BITS:
                least, greatest = -1, 1
            shape = getattr(tensors, field.name).shape
            share = float(rng.choice((0, 1 / 2, 1)))
            changed[field.name] = np.where(rng.random(shape) < share, least, greatest)
    return replace(tensors, **changed)
