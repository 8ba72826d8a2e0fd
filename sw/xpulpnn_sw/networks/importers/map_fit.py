"""Parameters of products of two maps, softmax and layer normalisation, from the quantiser of their results."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, require
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.channelwise.attention import most_left
from xpulpnn_sw.kernels.channelwise.moves import PRODUCT_BITS
from xpulpnn_sw.kernels.channelwise.pixels import EPSILON_BITS, GAIN_PLACES, SHARE_PLACES, exponential_bits
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT
from xpulpnn_sw.layers.layer import LayerNormLayer
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS
from xpulpnn_sw.networks.importers.quantiser import Channel, Quantiser, summands
from xpulpnn_sw.networks.importers.rule_fit import RuleFit, have_equal_channels, rule_error
from xpulpnn_sw.networks.importers.values import Sums


def fit_product(sums: Sums, quantiser: Quantiser, products: int = 1) -> RuleFit:
    """Fit the rule of sums of so many products of two maps; raises :class:`InputError` without zero points."""
    if not have_equal_channels(sums) or quantiser.bits == SIGN_BITS:
        raise InputError("what follows a product must be the same for all channels, and have two bits at least")
    affine, most = sums.channels[0], products << 2 * BYTE_BITS
    channel = Channel.of(quantiser, replace(affine, a=abs(affine.a), least=-most, most=most), 0)
    places = ACCUMULATOR_BITS - min(ACCUMULATOR_BITS - PRODUCT_BITS, most_left(products))
    reach, shift = channel.slope * most + abs(affine.b - quantiser.offset) / quantiser.scale + 1, MAX_SHIFT
    while shift and max(reach * (1 << shift), channel.slope * (1 << places + shift)) >= 1 << ACCUMULATOR_BITS - 2:
        shift -= 1
    factor = round(channel.slope * (1 << places + shift))
    lowest, highest = summands(channel, quantiser.results, factor, places + shift)
    summand = -(-lowest >> places) if lowest <= highest else lowest + highest >> places + 1
    rule = [factor], [summand << places], places + shift
    inexact, error = rule_error(rule, [channel], quantiser.results)
    numbers = {"factor": factor if affine.a >= 0 else -factor, "summand": summand, "shift": shift}
    errors: dict[str, Any] = {"inexact": inexact, "total": len(quantiser.results), "max_error": error}
    return RuleFit(arrays=product_arrays(sums, numbers), reach=(most * factor >> places) + summand >> shift, **errors)


def fit_softmax(sums: Sums, quantiser: Quantiser) -> RuleFit:
    """Return the exponentials of differences, and the factor of their sums for the step of the quantiser."""
    affine, source, zero = sums.channels[0], sums.sources[0], _rounded_zero(sums, quantiser)
    step, entries = quantiser.scale / affine.a, (1 << exponential_bits(source.shape[2])) - 1
    plain, most = have_equal_channels(sums) and not affine.b, 2 << SHARE_PLACES
    require(plain, "what follows a softmax must be a factor, the same for all channels")
    require(0 < step * most < 1, f"step of a softmax's results must be less than 1/{most}, not {float(step)}")
    table = np.rint(np.exp(np.arange(1 - (1 << BYTE_BITS), 1) * float(source.scale)) * entries).astype(np.int64)
    factor = round(step * (1 << ACCUMULATOR_BITS + SHARE_PLACES))
    return RuleFit(arrays={"table": table, "factor": np.array(factor), "summand": np.array(zero)})


def fit_layernorm(sums: Sums, quantiser: Quantiser) -> RuleFit:
    """Return gains and offsets of the channels by the step of the quantiser, and the constant that variances get."""
    zero, channels = _rounded_zero(sums, quantiser) + Fraction(1, 2), sums.shape[2]
    layer = LayerNormLayer.parse(sums.layer)
    square = Fraction(channels << layer.places) / sums.sources[0].scale
    gains, offsets = ([getattr(own, part) / quantiser.scale for own in sums.channels] for part in "ab")
    greatest = max(*(abs(gain) * (1 << GAIN_PLACES) for gain in gains), *(abs(offset + zero) for offset in offsets))
    shift = ACCUMULATOR_BITS - 2 - ceil(greatest).bit_length()
    epsilon = round(Fraction(sums.epsilon) * square * square)
    fits = shift >= 0 and epsilon < 1 << EPSILON_BITS
    require(fits, "scales of a layer normalisation must be in a range of 24 bits, not far from each other")
    arrays = {
        "gains": [round(gain * (1 << shift + GAIN_PLACES)) for gain in gains],
        "offsets": [round((offset + zero) * (1 << shift)) for offset in offsets],
        "epsilon": epsilon,
        "shift": shift,
    }
    return RuleFit(arrays={name: np.array(values, np.int64) for name, values in arrays.items()})


def _rounded_zero(sums: Sums, quantiser: Quantiser) -> int:
    """Return the zero point of a quantiser that rounds numbers, which are not clipped, to the nearest."""
    zero, scale = -quantiser.offset / quantiser.scale, quantiser.scale
    halves = {real / scale + zero - result for result, real, *_ in quantiser.bounds(0) if real is not None}
    is_clipped = any(channel.low is not None or channel.high is not None for channel in sums.channels)
    is_plain = zero.denominator == 1 and halves == {Fraction(-1, 2)} and not is_clipped
    require(is_plain, f"what follows a {sums.kernel} must be a quantiser that rounds to the nearest number")
    return int(zero)


def product_arrays(sums: Sums, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the arrays of a product of two maps with these ``numbers`` and their zero points."""
    zeros = [-source.offset / source.scale for source in sums.sources]
    require(all(zero.denominator == 1 for zero in zeros), "factors must have zero points that are whole numbers")
    known = {"twice": 0, **numbers} if sums.kernel == "batchmatmul" else numbers
    return {name: np.array(number) for name, number in known.items()} | {"zeros": np.array(zeros, np.int64)}
