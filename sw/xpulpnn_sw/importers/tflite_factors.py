"""Factors and shifts of TFLite's sums and means, such that no product leaves 32 bits whatever the inputs are."""

from typing import Any

from xpulpnn.errors import LayerError
from xpulpnn_sw.importers.fixed_point import Range
from xpulpnn_sw.importers.tflite_model import Value

_MAX_SHIFT = 24  # of additions and averages: factors are exact enough long before


def shifted_sum(factors: list[float], maps: tuple[Value, Value], zero: int) -> dict[str, Any]:
    """``(k1 * x1 + k2 * x2 + summand) >> shift`` within 32 bits."""
    for shift in reversed(range(_MAX_SHIFT)):
        kappas = [round(factor * 2.0**shift) for factor in factors]
        products = [Range(*one.ends).scaled(kappa, 0) for one, kappa in zip(maps, kappas, strict=True)]
        zeros = sum(kappa * one.zero for kappa, one in zip(kappas, maps, strict=True))
        summand = (zero << shift) - zeros + (1 << shift >> 1)
        low, high = sum(one.low for one in products), sum(one.high for one in products)
        # in whatever order they are added up
        parts = Range(min(low, low + summand, summand), max(high, high + summand, summand))
        if parts.fits(32) and all(one.fits(32) for one in products):
            return {"factors": kappas, "summand": summand, "shift": shift}
    raise LayerError(f"scales of the maps must be near those of the sum, not {max(factors):g} times as large")


def shifted_mean(factor: float, sums: Range, area: int, before: int, behind: int) -> dict[str, Any]:
    """``(sums * k / area + summand) >> shift``, products within 32 bits."""
    for shift in reversed(range(_MAX_SHIFT)):
        kappa = round(factor * 2.0**shift)
        summand = (behind << shift) - kappa * before + (1 << shift >> 1)
        products = sums.scaled(kappa, 0)
        quotients = Range(products.low // area, -(-products.high // area)).scaled(1, summand)
        if products.fits(32) and quotients.fits(32):
            return {"factor": kappa, "summand": summand, "shift": shift}
    raise LayerError(f"scale of the map must be near that of the average, not {factor:g} times as large")
