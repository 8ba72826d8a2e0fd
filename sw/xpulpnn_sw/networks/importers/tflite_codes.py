"""Codes (quantised values) of TFLite tensors, and operators by lookup tables of 256 codes."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import exp, floor, frexp, tanh
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers.quantiser import Quantiser, uniform_quantiser
from xpulpnn_sw.networks.importers.tflite_file import TfliteTensor
from xpulpnn_sw.networks.importers.values import dims

LEAST, GREATEST = -128, 127  # codes of INT8
_BITS = 31  # of TFLite's multipliers


def require(condition: bool, what: str) -> None:
    """Raise :class:`InputError` with the message ``what`` unless the condition holds."""
    if not condition:
        raise InputError(what)


def tensor_codes(tensor: TfliteTensor) -> Quantiser:
    """Return the quantiser to the codes of a tensor in the network, unsigned if the zero point is -128."""
    require(tensor.type == "INT8", f"{tensor.name} must be INT8, not {tensor.type}")
    require(len(tensor.scales) == 1, f"{tensor.name} must have one scale, not {len(tensor.scales)}")
    require(tensor.shape[:1] == (1,), f"{tensor.name} must be a batch of 1, not {dims(tensor.shape)}")
    zero = int(tensor.zeros[0])
    ends = f"{LEAST}..{GREATEST}"
    require(LEAST <= zero <= GREATEST, f"zero point of {tensor.name} must be {ends}, not {zero}")
    less = 0 if zero != LEAST else LEAST
    scale = Fraction(float(tensor.scales[0]))
    return uniform_quantiser(scale, Fraction(zero - less), LEAST - less, GREATEST - less, "ROUND")


def _logistic(real: float) -> float:
    return 1 / (1 + exp(-real)) if real >= 0 else exp(real) / (1 + exp(real))


_SHORT, _LARGEST_SHORT, _HALF = 1 << 8, 1 << 7, Fraction(1, 2)
_FUNCTIONS: Mapping[str, Callable[[float], float]] = {"LOGISTIC": _logistic, "TANH": tanh}
TABLE_KINDS = (*_FUNCTIONS, "LEAKY_RELU")


def short_factor(ratio: float) -> Fraction | None:
    """Return the 8-bit factor between scales in TFLite's default interpreter; None if it is out of range."""
    return Fraction(round(ratio * _SHORT), _SHORT) if 1 / _SHORT <= ratio <= _LARGEST_SHORT else None


def code_table(kind: str, source: TfliteTensor, output: TfliteTensor, options: Mapping[str, Any]) -> Ints:
    """Return an operator's results for all input codes -128..127 as TFLite computes them."""
    (scale, zero), (unit, offset) = ((float(tensor.scales[0]), int(tensor.zeros[0])) for tensor in (source, output))
    steps = [code - zero for code in range(LEAST, GREATEST + 1)]
    if kind in _FUNCTIONS:
        real = np.array([_FUNCTIONS[kind](scale * step) / unit for step in steps])
        codes = np.trunc(real + np.copysign(0.5, real)).astype(np.int64)
    else:
        # single precision; infinite in damaged files
        with np.errstate(all="ignore"):
            slopes = [
                float(np.float32(scale) * np.float32(factor) / np.float32(unit)) for factor in (1, options["Alpha"])
            ]
        first, second = (short_factor(slope) for slope in slopes)
        if first and second:
            codes = np.array([floor(step * (second if step < 0 else first) + _HALF) for step in steps])
        else:
            codes = np.array([_multiplied(step, slopes[step < 0]) for step in steps])
    return np.clip(codes + offset, LEAST, GREATEST)


def _multiplied(value: int, factor: float) -> int:
    """Multiply as TFLite does: by a 31-bit factor, then by a shift; ties are rounded away from 0."""
    fraction, exponent = frexp(factor)
    whole = round(fraction * 2.0**_BITS)
    if whole == 1 << _BITS:
        whole, exponent = whole >> 1, exponent + 1
    left, right = max(exponent, 0), max(-exponent, 0)
    return _shifted(_high_product(value << left, whole), right)


def _high_product(value: int, whole: int) -> int:
    product = value * whole
    nudged = product + (1 << _BITS - 1 if product >= 0 else 1 - (1 << _BITS - 1))
    return -(-nudged >> _BITS) if nudged < 0 else nudged >> _BITS


def _shifted(value: int, shift: int) -> int:
    half = 1 << shift >> 1
    return -(-value + half >> shift) if value < 0 else value + half >> shift
