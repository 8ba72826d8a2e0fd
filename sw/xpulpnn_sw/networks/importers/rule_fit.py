"""Requantisation rules and parameters that reproduce a quantiser, exactly or with a known error."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import gcd, lcm
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, LayerError, require
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT, MAX_WIDE_SHIFT, ExactRequantisation, Rule
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS
from xpulpnn_sw.networks.importers.quantiser import (
    Affine,
    Channel,
    Fit,
    Quantiser,
    fitted,
    quotient,
    step_sums,
    summands,
    uniform_quantiser,
)
from xpulpnn_sw.networks.importers.values import Map, Sums, dims
from xpulpnn_sw.networks.normalisation import Range, mantissa

_NEAR_BITS = 40  # precision of factors that may be rounded
_EXACT_BITS = 62  # of integers in numpy
_LARGEST_SLOPE = 1 << (ACCUMULATOR_BITS - 2)  # of the exact rule
_TRIES = 6  # shifts that are tried, the largest first
_THRESHOLD_BITS = 16
# rules with a factor and a summand, their width and largest shift; the cheapest first
_NORMALISING = ((Rule.BN32, ACCUMULATOR_BITS, MAX_SHIFT), (Rule.BN64, 2 * ACCUMULATOR_BITS, MAX_WIDE_SHIFT))
_SLOPES = (0, 1000, 500, 250, 150, 135)  # 1/part of a step by which the factor is enlarged, so that ties round away


@dataclass(frozen=True, eq=False, kw_only=True)
class RuleFit:
    """A requantisation rule with its error and with arrays, which are named as ``xpulpnn pack`` expects."""

    arrays: dict[str, Any]
    rule: Rule = Rule.BN32
    inexact: int = 0  # steps, or pairs of inputs of an addition, with an inexact result
    total: int = 0  # steps or pairs that were compared
    max_error: int = 0  # the largest error of a result
    reach: int | None = None  # the greatest result before clipping; None: that of the elements


def addition(
    maps: tuple[Map, Map], factors: tuple[Fraction, Fraction], common: Affine, quantiser: Quantiser
) -> RuleFit:
    """Fit ``clip((f0 * x0 + f1 * x1 + summand) >> shift)`` to ``quantiser`` of the sum of two maps.

    The sum is ``factors[0] * x0 + factors[1] * x1 + common.b``, clipped as ``common``. Raises :class:`InputError` for
    results of one bit and on overflow of 32 bits.
    """
    require(quantiser.bits != SIGN_BITS, "results of an addition must have two bits at least, not one")
    first, second = (np.arange(source.low, source.high + 1) for source in maps)
    expected = _expected(first, second, factors, common, quantiser)
    least, most = quantiser.results.start - 1, quantiser.results.stop - 1
    ratios = [factor / quantiser.scale for factor in factors]
    offset = (common.b - quantiser.offset) / quantiser.scale
    # offset of a bound in the middle of the range
    middle = quantiser.results.start
    real, _ = quantiser.bound(max(quantiser.low + 1, middle), 0)
    begins = max(quantiser.low + 1, middle) - (real - quantiser.offset) / quantiser.scale
    best: RuleFit | None = None
    reach = sum(abs(ratio) * max(abs(source.low), abs(source.high)) for ratio, source in zip(ratios, maps, strict=True))
    most_shift = MAX_SHIFT
    while most_shift and (reach + abs(offset) + 1) * (1 << most_shift) >= 1 << (ACCUMULATOR_BITS - 2):
        most_shift -= 1
    for shift in range(most_shift, max(most_shift - _TRIES, -1), -1):
        whole = [round(ratio * (1 << shift)) for ratio in ratios]
        sums = whole[0] * first[:, np.newaxis] + whole[1] * second
        ideal, further = round((offset + begins) * (1 << shift)), 1 << max(shift - 8, 0)
        # exclusive bounds need a slightly smaller summand
        for summand in (ideal, ideal - 1, ideal + 1, ideal - further, ideal + further):
            shifted = (sums + summand) >> shift
            results = np.clip(shifted, least, most)
            inexact = int((results != expected).sum())
            if best is None or inexact < best.inexact:
                arrays = {"factors": np.array(whole), "summand": np.array(summand), "shift": np.array(shift)}
                max_error, reached = int(np.abs(results - expected).max()), int(shifted.max())
                best = RuleFit(arrays=arrays, inexact=inexact, total=sums.size, max_error=max_error, reach=reached)
        if best and not best.inexact:
            break
    assert best is not None
    return best


def _expected(
    first: Ints, second: Ints, factors: tuple[Fraction, Fraction], common: Affine, quantiser: Quantiser
) -> Ints:
    over = lcm(factors[0].denominator, factors[1].denominator)
    unit = Fraction(gcd(*(int(factor * over) for factor in factors)), over)
    whole = [int(factor / unit) for factor in factors]
    pairs = zip(whole, (first, second), strict=True)
    bits = sum(abs(number) * int(max(abs(own[0]), abs(own[-1]))) for number, own in pairs).bit_length()
    if bits > _EXACT_BITS and quantiser.is_free:
        unit = max(map(abs, factors)) / (1 << _NEAR_BITS)
        near = (round(factors[0] / unit) * unit, round(factors[1] / unit) * unit)
        return _expected(first, second, near, common, quantiser)
    if bits > _EXACT_BITS:
        raise InputError("scales of both maps must be in proportion of numbers with 50 bits, not of longer ones")
    sums = whole[0] * first[:, np.newaxis].astype(np.int64) + whole[1] * second.astype(np.int64)
    scaled = replace(common, a=unit, least=int(sums.min()), most=int(sums.max()))
    steps = step_sums(quantiser, scaled, 0)
    return np.searchsorted(np.array(steps, np.int64), sums, side="right") + quantiser.results.start - 1


def rule_of(quantiser: Quantiser, channels: Sequence[Channel]) -> RuleFit:
    """Return the cheapest rule that equals the quantiser for every sum, or the nearest one if there is none.

    The exact rule of TFLite is tried before ``bn64``. Raises :class:`InputError` for sums that overflow every
    rule.
    """
    if quantiser.bits != SIGN_BITS:
        for rule, bits, longest in _NORMALISING:
            if rule is Rule.BN64 and (exact := _exact(quantiser, channels)) is not None:
                return exact
            fit = fitted(channels, quantiser.results, bits=bits, longest=longest, is_free=quantiser.is_free)
            if fit is not None:
                return _normalising(rule, fit, channels)
    if quantiser.top is None and (values := _thresholds(channels)) is not None:
        return RuleFit(rule=Rule.THRESHOLDS, arrays={"thresholds": values})
    for rule, bits, longest in () if quantiser.bits == SIGN_BITS else _NORMALISING:
        fit = fitted(channels, quantiser.results, bits=bits, longest=longest, is_free=True)
        if fit is not None:
            inexact, max_error = rule_error(fit, channels, quantiser.results)
            return replace(_normalising(rule, fit, channels), inexact=inexact, max_error=max_error)
    raise InputError(f"sums of a quantiser must have {ACCUMULATOR_BITS} bits at most, not more")


def _exact(quantiser: Quantiser, channels: Sequence[Channel]) -> RuleFit | None:
    zero = round(-quantiser.offset / quantiser.scale)
    parameters: list[tuple[int, int, int]] = []
    for channel in channels:
        factor, shift = mantissa(float(channel.slope)) if 0 < channel.slope < _LARGEST_SLOPE else (0, 1)
        offset = (2 * zero + 1) << (shift - 1)
        if not factor:
            return None
        lowest, highest = summands(channel, quantiser.results, factor, shift)
        bias = -((offset - lowest) // factor)
        if bias * factor + offset > highest or not all(
            Range(end, end).fits(ACCUMULATOR_BITS) for end in (bias, channel.least + bias, channel.most + bias)
        ):
            return None
        parameters.append((factor, shift, bias))
    factors, shifts, biases = np.array(parameters, np.int64).T
    try:
        rule = ExactRequantisation(factors=factors, shifts=shifts, zero=zero)
        rule.in_software(biases, np.array([max(abs(channel.least), abs(channel.most)) for channel in channels]))
    except LayerError:
        return None
    arrays = {"factors": factors, "shifts": shifts, "zero": np.array(zero), "bias": biases}
    reach = max(
        zero + ((channel.most + bias) * factor + (1 << (shift - 1)) >> shift)
        for channel, (factor, shift, bias) in zip(channels, parameters, strict=True)
    )
    return RuleFit(rule=Rule.EXACT, arrays=arrays, reach=reach)


def _thresholds(channels: Sequence[Channel]) -> Any:
    bound = 1 << (_THRESHOLD_BITS - 1)
    exact = np.array([[step - 1 for step in channel.steps] for channel in channels], np.int64)
    values = np.clip(exact, -bound, bound - 1)
    least, most = (np.array([[getattr(channel, end)] for channel in channels]) for end in ("least", "most"))
    # clipping a threshold is harmless if no sum lies beyond it
    is_same = (values == exact) | ((values > exact) & (values < least)) | ((values < exact) & (values >= most))
    return values if bool(is_same.all()) else None


def _normalising(rule: Rule, fit: Fit, channels: Sequence[Channel]) -> RuleFit:
    kappa, lam, shift = fit
    arrays = {"kappa": np.array(kappa, np.int64), "lambda": np.array(lam, np.int64), "shift": np.array(shift)}
    rows = zip(channels, kappa, lam, strict=True)
    reach = max(channel.most * factor + rest >> shift for channel, factor, rest in rows)
    return RuleFit(rule=rule, arrays=arrays, reach=reach)


def rule_error(fit: Fit, channels: Sequence[Channel], results: range, area: int = 1) -> tuple[int, int]:
    """Return the number of steps of a rule that differ from the quantiser's, and the largest error of a result."""
    factors, summands, shift = fit
    inexact = max_error = 0

    def given(product: int, lam: int) -> int:
        return min(max(quotient(product, area) + lam >> shift, results.start - 1), results.stop - 1)

    for kappa, lam, channel in zip(factors, summands, channels, strict=True):
        for result, step in zip(results, channel.steps, strict=True):
            late = result - given(kappa * step, lam) if step <= channel.most else 0
            early = given(kappa * (step - 1), lam) - result + 1 if step > channel.least else 0
            inexact += late > 0 or early > 0
            max_error = max(max_error, late, early)
    return inexact, max_error


def fit_products(sums: Sums, quantiser: Quantiser) -> RuleFit:
    """Fit the rule of a layer with weights; the fitted arrays include the weights."""
    weights = sums.weights
    assert weights is not None
    weights, channels, is_negated = _rising(sums, weights, quantiser)
    fit = rule_of(quantiser, channels)
    arrays: dict[str, Any] = {"weights": weights, **fit.arrays}
    if is_negated.any():
        negatable = {"kappa", "factors", "bias"} & {*arrays}
        require(negatable, "weights of a channel with a negative factor must be above their least number")
        arrays |= {name: np.where(is_negated, -arrays[name], arrays[name]) for name in negatable}
    return replace(fit, arrays=arrays, total=len(channels) * len(quantiser.results))


def _rising(sums: Sums, weights: Any, quantiser: Quantiser) -> tuple[Any, list[Channel], Any]:
    falls = np.array([channel.a < 0 for channel in sums.channels])
    lowest = -(1 << (sums.weight_bits - 1)) if sums.weight_bits != SIGN_BITS else -2
    stuck = falls & (weights.reshape(len(falls), -1).min(axis=1) == lowest)
    signs = np.where(falls & ~stuck, -1, 1).reshape(-1, *[1] * (weights.ndim - 1))
    channels: list[Channel] = []
    for number, affine in enumerate(sums.channels):
        if falls[number]:
            affine = replace(affine, a=-affine.a, least=-affine.most, most=-affine.least)
        channels.append(Channel.of(quantiser, affine, number))
    return weights * signs, channels, stuck


def have_equal_channels(sums: Sums) -> bool:
    return len({(channel.a, channel.b, channel.low, channel.high) for channel in sums.channels}) == 1


def averaged(sums: Sums) -> Sums:
    layer = f"{dims(sums.sources[0].shape)}:1x1:scaled"
    return replace(sums, kernel="avgpool", layer=layer, name=sums.name or "requantise", weights=None)


def summed(sums: Sums) -> Sums:
    channels, window = sums.shape[2], sums.layer.split(":")[1]
    weights = np.ones((channels, *map(int, window.split("x"))), np.int64)
    layer = sums.layer.removesuffix(":scaled")
    return replace(sums, kernel="depthwise", layer=layer, weights=weights, weight_bits=2, area=1)


def fit_average(sums: Sums, quantiser: Quantiser) -> RuleFit:
    affine = sums.channels[0]
    if affine.a < 0 or not have_equal_channels(sums):
        raise InputError("what follows an average must be one factor for all channels, not negative")
    require(quantiser.bits != SIGN_BITS, "results of an average must have two bits at least, not one")
    channel, *others = (Channel.of(quantiser, affine, number) for number in range(len(sums.channels)))
    if any(other.steps != channel.steps for other in others):
        raise InputError("quantiser of an average must be the same for all channels, not different ones")
    results = quantiser.results
    fit = partial(fitted, [channel], results, bits=ACCUMULATOR_BITS, longest=MAX_SHIFT, area=sums.area)
    rule = fit() or fit(is_free=True)
    if rule is None:
        raise InputError("sums of an average must have 32 bits with a factor, not more")
    inexact, max_error = rule_error(rule, [channel], results, sums.area)
    (kappa,), (lam,), shift = rule
    arrays = {"factor": np.array(kappa), "summand": np.array(lam), "shift": np.array(shift)}
    reach = (kappa * channel.most // sums.area + lam) >> shift
    return RuleFit(arrays=arrays, inexact=inexact, total=len(results), max_error=max_error, reach=reach)


def away_average(sums: Sums, quantiser: Quantiser) -> dict[str, int] | None:
    """Return factor, summand and shift of an average that rounds ties away from the centre; None if impossible."""
    assert sums.centre is not None
    source, affine, area = sums.sources[0], sums.channels[0], sums.area
    difference = (source.offset - quantiser.offset) / quantiser.scale
    if source.scale != quantiser.scale or difference.denominator != 1:
        return None
    steps: list[int] = []
    for result in quantiser.results:
        above = result - int(difference) - sums.centre
        step = (sums.centre + above) * area - (area // 2 if above > 0 else (area - 1) // 2)
        steps.append(min(max(step, affine.least), affine.most + 1))
    for part in _SLOPES:
        slope = Fraction(1, area) * (1 + (Fraction(1, part * area) if part else 0))
        channel = Channel(least=affine.least, most=affine.most, slope=slope, steps=steps)
        rule = fitted([channel], quantiser.results, bits=ACCUMULATOR_BITS, longest=MAX_SHIFT, area=area)
        if rule is not None:
            (factor,), (summand,), shift = rule
            return {"factor": factor, "summand": summand, "shift": shift}
    return None


def obstacle_to_raw(sums: Sums) -> str:
    """Return the reason why sums without a quantiser cannot be the network's results; empty if they can."""
    if sums.curve is not None or sums.weights is None or sums.kernel == "depthwise" or sums.pools:
        return "results must be those of a quantiser or of a layer with weights, not others"
    if len({channel.a for channel in sums.channels}) != 1 or not sums.channels[0].a:
        return "results without a quantiser must have one scale for all channels, not different ones"
    if any(channel.low is not None or channel.high is not None for channel in sums.channels):
        return "results without a quantiser must be sums, not clipped ones"
    least = -(1 << (sums.weight_bits - 1))
    if sums.channels[0].a < 0 and sums.weight_bits != SIGN_BITS and int(sums.weights.min()) == least:
        return "weights of a layer with a negative factor must be above their least number"
    return ""


def fit_addition(sums: Sums, factors: tuple[Fraction, Fraction], quantiser: Quantiser) -> RuleFit:
    first, second = sums.sources
    affine = sums.channels[0]
    require(have_equal_channels(sums), "what follows an addition must be the same for all channels")
    require(affine.a, "factor of a sum must be other than 0, not 0")
    return addition((first, second), (factors[0] * affine.a, factors[1] * affine.a), affine, quantiser)


def fit_codes(source: Map, codes: Ints, quantiser: Quantiser, slopes: Sequence[Fraction] = ()) -> RuleFit:
    """Fit a rule that gives ``codes``, ``[channel][integer]``, which rise or fall in each channel, for a map."""
    falls = codes[:, 0] > codes[:, -1]
    rising = np.where(falls[:, np.newaxis], codes[:, ::-1], codes)
    require((np.diff(rising) >= 0).all(), "functions that differ between channels must rise or fall, not both")
    guesses = [Fraction(int(row[-1] - row[0]), max(len(row) - 1, 1)) for row in rising]
    channels: list[Channel] = []
    for row, is_falling, slope in zip(rising, falls, slopes or guesses, strict=True):
        least, most = (-source.high, -source.low) if is_falling else (source.low, source.high)
        steps = least + np.searchsorted(row, np.array(quantiser.results))
        channels.append(Channel(least=least, most=most, slope=abs(slope), steps=steps.tolist()))
    fit = rule_of(quantiser, channels)
    return replace(fit, arrays={"weights": np.where(falls, -1, 1).reshape(-1, 1, 1), **fit.arrays})


def plain_sum(sums: Sums, factors: tuple[Fraction, Fraction]) -> tuple[RuleFit, Quantiser] | None:
    """Return the rule and the quantiser of the exact sum of two maps in 8 bits; None if the sum has more bits."""
    real = [factor * sums.channels[0].a for factor in factors]
    divisor = lcm(*(number.denominator for number in real))
    unit = Fraction(gcd(*(int(number * divisor) for number in real)), divisor)
    whole = [int(number / unit) for number in real]
    ends = [sorted((factor * own.low, factor * own.high)) for factor, own in zip(whole, sums.sources, strict=True)]
    least, most = (sum(end[place] for end in ends) for place in (0, 1))
    if most - least >= 1 << BYTE_BITS or max(map(abs, whole)) >= 1 << BYTE_BITS:
        return None
    zero = -(sums.channels[0].b + unit * least) / unit
    quantiser = replace(uniform_quantiser(unit, zero, 0, (1 << BYTE_BITS) - 1, "ROUND"), high=most - least)
    arrays = {"factors": np.array(whole), "summand": np.array(-least), "shift": np.array(0)}
    return RuleFit(arrays=arrays), quantiser
