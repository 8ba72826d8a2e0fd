"""Rules of kernels for the quantisers of models: which there are with the same steps, and how far others are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT, MAX_WIDE_SHIFT, Rule
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS
from xpulpnn_sw.networks.importers.levels import Channel, Fit, Levels, fitted

_THRESHOLD_BITS = 16


@dataclass(frozen=True, eq=False, kw_only=True)
class Chosen:
    """A rule and its arrays, as ``xpulpnn pack`` takes them."""

    rule: Rule
    arrays: dict[str, Any]
    moved: int = 0  # steps that are not where the quantiser has them
    worst: int = 0  # how far results are from the quantiser's then, at the most
    reach: int | None = None  # the greatest result before memory clips it; None: that is what memory holds


# rules with a factor and a summand, their bits and the longest shift; the cheapest first
_NORMALISING = (
    (Rule.BN32, ACCUMULATOR_BITS, MAX_SHIFT),
    (Rule.BN64, 2 * ACCUMULATOR_BITS, MAX_WIDE_SHIFT),
)


def rule_of(levels: Levels, channels: Sequence[Channel]) -> Chosen:
    """The cheapest rule that is the quantiser for every sum in the range, or free to be; without any the nearest one.

    Raises :class:`InputError` for sums of more bits than a rule has.
    """
    if levels.bits != SIGN_BITS:
        for rule, bits, longest in _NORMALISING:
            found = fitted(channels, levels.results, bits=bits, longest=longest, is_free=levels.is_free)
            if found is not None:
                return _normalising(rule, found, channels)
    if levels.top is None and (values := _thresholds(channels)) is not None:
        return Chosen(rule=Rule.THRESHOLDS, arrays={"thresholds": values})
    for rule, bits, longest in () if levels.bits == SIGN_BITS else _NORMALISING:
        found = fitted(channels, levels.results, bits=bits, longest=longest, is_free=True)
        if found is not None:
            moved, worst = distance(found, channels, levels.results)
            return replace(_normalising(rule, found, channels), moved=moved, worst=worst)
    raise InputError(f"sums of a quantiser must have {ACCUMULATOR_BITS} bits at most, not more")


def _thresholds(channels: Sequence[Channel]) -> Any:
    bound = 1 << (_THRESHOLD_BITS - 1)
    # sums above a threshold count, and those equal to a step do
    wanted = np.array([[step - 1 for step in one.steps] for one in channels], np.int64)
    values = np.clip(wanted, -bound, bound - 1)
    least, most = (np.array([[getattr(one, end)] for one in channels]) for end in ("least", "most"))
    # a threshold at an end serves as well if no sum lies beyond
    is_same = (values == wanted) | ((values > wanted) & (values < least)) | ((values < wanted) & (values >= most))
    return values if bool(is_same.all()) else None


def _normalising(rule: Rule, found: Fit, channels: Sequence[Channel]) -> Chosen:
    kappa, lam, shift = found
    arrays = {"kappa": np.array(kappa, np.int64), "lambda": np.array(lam, np.int64), "shift": np.array(shift)}
    reach = max(one.most * factor + rest >> shift for one, factor, rest in zip(channels, kappa, lam, strict=True))
    return Chosen(rule=rule, arrays=arrays, reach=reach)


def distance(found: Fit, channels: Sequence[Channel], results: range, area: int = 1) -> tuple[int, int]:
    """Steps that a rule has at other sums, and how far results are from those of the steps at the most."""
    factors, summands, shift = found
    moved = worst = 0

    def given(product: int, lam: int) -> int:
        quotient = -(-product // area) if product < 0 else product // area
        return min(max(quotient + lam >> shift, results.start - 1), results.stop - 1)

    for kappa, lam, one in zip(factors, summands, channels, strict=True):
        for result, step in zip(results, one.steps, strict=True):
            late = result - given(kappa * step, lam) if step <= one.most else 0
            early = given(kappa * (step - 1), lam) - result + 1 if step > one.least else 0
            moved += late > 0 or early > 0
            worst = max(worst, late, early)
    return moved, worst
