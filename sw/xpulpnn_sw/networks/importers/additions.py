"""Additions of two maps behind a quantiser: two factors, a summand and a shift, tried with every pair of numbers."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS
from xpulpnn_sw.networks.importers.levels import Affine, Levels, step_sums
from xpulpnn_sw.networks.importers.values import Map

_EXACT_BITS = 62  # of numbers that numpy computes with
_TRIES = 6  # shifts that are tried, the largest first


@dataclass(frozen=True, eq=False, kw_only=True)
class Addition:
    """``clip((factors[0] * x0 + factors[1] * x1 + summand) >> shift)``."""

    factors: tuple[int, int]  # of both maps
    summand: int
    shift: int
    differing: int  # pairs of numbers whose result is not the quantiser's
    pairs: int  # all pairs of numbers
    worst: int  # how far results are from the quantiser's, at the most
    reach: int  # the greatest result before memory clips it


def addition(maps: tuple[Map, Map], factors: tuple[Fraction, Fraction], common: Affine, levels: Levels) -> Addition:
    """The addition with the fewest results that are not those of the quantiser ``levels`` for
    ``factors[0] * x0 + factors[1] * x1 + common.b``, clipped as ``common`` says.

    Raises :class:`InputError` for results of one bit, or numbers that no 32 bits hold.
    """
    if levels.bits == SIGN_BITS:
        raise InputError("results of an addition must have two bits at least, not one")
    first, second = (np.arange(one.low, one.high + 1) for one in maps)
    expected = _expected(first, second, factors, common, levels)
    least, most = levels.results.start - 1, levels.results.stop - 1
    ratios = [factor / levels.scale for factor in factors]
    offset = (common.b - levels.offset) / levels.scale
    # where a result begins, as near as the bounds are to each other
    middle = levels.results.start
    real, _ = levels.bound(max(levels.low + 1, middle), 0)
    begins = max(levels.low + 1, middle) - (real - levels.offset) / levels.scale
    best: Addition | None = None
    reach = sum(abs(ratio) * max(abs(one.low), abs(one.high)) for ratio, one in zip(ratios, maps, strict=True))
    most_shift = MAX_SHIFT
    while most_shift and (reach + abs(offset) + 1) * (1 << most_shift) >= 1 << (ACCUMULATOR_BITS - 2):
        most_shift -= 1
    for shift in range(most_shift, max(most_shift - _TRIES, -1), -1):
        whole = (round(ratios[0] * (1 << shift)), round(ratios[1] * (1 << shift)))
        sums = whole[0] * first[:, np.newaxis] + whole[1] * second
        ideal = round((offset + begins) * (1 << shift))
        # bounds that belong to the result below them are met a little earlier
        for summand in (
            ideal,
            ideal - 1,
            ideal + 1,
            ideal - (1 << max(shift - 8, 0)),
            ideal + (1 << max(shift - 8, 0)),
        ):
            shifted = (sums + summand) >> shift
            results = np.clip(shifted, least, most)
            differing = int((results != expected).sum())
            if best is None or differing < best.differing:
                best = Addition(
                    factors=whole,
                    summand=summand,
                    shift=shift,
                    differing=differing,
                    pairs=sums.size,
                    worst=int(np.abs(results - expected).max()),
                    reach=int(shifted.max()),
                )
        assert best is not None
        if not best.differing:
            break
    assert best is not None
    return best


def _expected(first: Ints, second: Ints, factors: tuple[Fraction, Fraction], common: Affine, levels: Levels) -> Ints:
    unit = Fraction(1, factors[0].denominator * factors[1].denominator)
    whole = [int(factor / unit) for factor in factors]
    divisor = int(np.gcd.reduce(np.array(whole, object)))
    whole = [one // divisor for one in whole]
    ends = [
        abs(number) * max(abs(int(values[0])), abs(int(values[-1])))
        for number, values in zip(whole, (first, second), strict=True)
    ]
    if sum(ends).bit_length() > _EXACT_BITS:
        raise InputError("scales of both maps must be in proportion of numbers with 50 bits, not of longer ones")
    sums = whole[0] * first[:, np.newaxis].astype(np.int64) + whole[1] * second.astype(np.int64)
    moved = Affine(a=unit * divisor, b=common.b, low=common.low, high=common.high)
    found = step_sums(levels, moved, 0, int(sums.min()), int(sums.max()))
    return np.searchsorted(np.array(found, np.int64), sums, side="right") + levels.results.start - 1
