"""Fixed-point factors, summands and shifts that replace real scales between layers, without overflow for any input."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import frexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError, require
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_EXACT_SHIFT, MAX_SHIFT
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS

_MAX_MAP_SHIFT = 24  # of additions and averages
_LARGEST = (1 << (ACCUMULATOR_BITS - 1)) - 1


@dataclass(frozen=True, slots=True)
class Range:
    low: int
    high: int

    def fits(self, bits: int) -> bool:
        return -(1 << (bits - 1)) <= self.low and self.high < 1 << (bits - 1)

    def scaled(self, factor: int, summand: int) -> "Range":
        ends = (self.low * factor + summand, self.high * factor + summand)
        return Range(min(ends), max(ends))


def check_sums(least: Sequence[int], most: Sequence[int], bias: Sequence[int]) -> None:
    """Raise :class:`LayerError` for a channel whose accumulator, which starts at the bias, overflows 32 bits."""
    for number, (low, high, start) in enumerate(zip(least, most, bias, strict=True)):
        # partial sums too
        if not Range(min(low, 0) + start, max(high, 0) + start).fits(ACCUMULATOR_BITS):
            raise LayerError(f"sums must be of 32 bits, not {low + start}..{high + start} in channel {number}")


def exact(factors: Sequence[float], zero: int) -> dict[str, Any]:
    """Return the arrays of the exact rule for ``factor * x + zero``; as in TFLite, a factor has a 31-bit mantissa."""
    pairs = [mantissa(factor) for factor in factors]
    mantissas, shifts = (np.array(values, np.int64) for values in zip(*pairs, strict=True))
    return {"factors": mantissas, "shifts": shifts, "zero": np.array(zero)}


def mantissa(factor: float) -> tuple[int, int]:
    fraction, exponent = frexp(factor)
    shift = ACCUMULATOR_BITS - 1 - exponent
    require(shift >= 1, f"factors must be below 2**30, not {factor:g}", LayerError)
    if shift > MAX_EXACT_SHIFT:
        # products of 32-bit sums then round to 0
        return 0, 1
    whole = round(fraction * 2.0 ** (ACCUMULATOR_BITS - 1))
    is_whole = abs(whole) == 1 << (ACCUMULATOR_BITS - 1)
    return (whole // 2, shift - 1) if is_whole else (whole, shift)


def fixed_point(factors: Sequence[float], offset: int, ranges: Sequence[Range], bias: Sequence[int]) -> dict[str, Ints]:
    """Return the arrays with which ``(kappa*x + lambda) >> shift`` rounds ``factor*(x + bias) + offset``.

    The shift is the largest that does not overflow 32 bits. ``lambda`` includes the bias, which then counts even where
    ``kappa`` rounds to 0.
    """
    bits = ACCUMULATOR_BITS
    for shift in reversed(range(MAX_SHIFT + 1)):
        common = (offset << shift) + (1 << shift >> 1)
        kappas = [round(factor * 2.0**shift) for factor in factors]
        summands = [common + round(factor * own * 2.0**shift) for factor, own in zip(factors, bias, strict=True)]
        if all(
            kappa < 1 << (ACCUMULATOR_BITS - 1)
            and bounds.scaled(kappa, 0).fits(bits)
            and Range(summand, summand).fits(bits)
            and (total := bounds.scaled(kappa, summand)).fits(bits)
            and Range(total.low >> shift, total.high >> shift).fits(ACCUMULATOR_BITS)
            for kappa, summand, bounds in zip(kappas, summands, ranges, strict=True)
        ):
            arrays = {"kappa": kappas, "lambda": summands, "shift": shift}
            return {name: np.array(values, np.int64) for name, values in arrays.items()}
    largest = max(factors)
    raise LayerError(f"factors must be such that their products have {bits} bits, not {largest:g}")


def shifted_sum(factors: list[float], maps: Sequence[tuple[Range, int]], zero: int, area: int = 1) -> dict[str, Any]:
    """Return the parameters of ``(k1 * x1 / area + k2 * x2 / area + summand) >> shift`` for a scaled sum of maps.

    ``maps`` holds the range and the zero point of each ``x``, which may be the sum over a window of ``area`` elements;
    ``zero`` is the zero point of the result.
    """
    for shift in reversed(range(_MAX_MAP_SHIFT)):
        kappas = [round(factor * 2.0**shift) for factor in factors]
        products = [bounds.scaled(kappa, 0) for (bounds, _), kappa in zip(maps, kappas, strict=True)]
        zeros = sum(kappa * own for kappa, (_, own) in zip(kappas, maps, strict=True))
        summand = (zero << shift) - zeros + (1 << shift >> 1)
        low, high = (
            sum(product.low // area for product in products),
            sum(-(-product.high // area) for product in products),
        )
        # in any order of summation
        parts = Range(min(low, low + summand, summand), max(high, high + summand, summand))
        if parts.fits(32) and all(product.fits(32) for product in products):
            return {"factors": kappas, "summand": summand, "shift": shift}
    raise LayerError(f"scales of the maps must be near that of the result, not {max(factors):g} times as large")


def largest_sums(weights: Ints, least: int, most: int) -> Ints:
    """Return the largest magnitude of the sums of each output channel for inputs ``least..most``."""
    rows = weights.reshape(len(weights), -1).astype(np.int64)
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    return np.maximum(positive * most + negative * least, -(positive * least + negative * most))


def normalised(factor: NDArray[np.float64], offset: NDArray[np.float64], sums: Ints) -> dict[str, Ints]:
    """Return kappa, lambda and the largest shift for which ``kappa * sum + lambda`` stays within 32 bits."""
    for shift in range(MAX_SHIFT, -1, -1):
        unit = float(1 << shift)
        # 0.5 makes the shift round to the nearest
        kappa, lam = np.rint(factor * unit), np.rint((offset + 0.5) * unit)
        if (np.abs(kappa) * sums + np.abs(lam)).max() <= _LARGEST:
            return {"kappa": kappa.astype(np.int64), "lambda": lam.astype(np.int64), "shift": np.array(shift)}
    raise LayerError(f"normalised sums must be of {ACCUMULATOR_BITS} bits, not beyond without a shift")
