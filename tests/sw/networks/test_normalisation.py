"""Factors and offsets as integers: near the real ones, and no product or sum that leaves its word."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sw.networks.normalisation import Range, check_sums, exact, fixed_point, largest_sums, normalised


def test_largest_sums_are_reached_and_not_exceeded():
    weights = np.array([[3, -2], [1, 1], [-4, -4]])
    inputs = np.array([(a, b) for a in range(-2, 6) for b in range(-2, 6)])
    assert largest_sums(weights, -2, 5).tolist() == np.abs(inputs @ weights.T).max(axis=0).tolist() == [19, 10, 40]


@pytest.mark.flow
def test_results_are_rounded():
    factors, offsets, sums = np.array([0.0371, -1.25e-3, 2.0]), np.array([-3.7, 100.2, 0.25]), np.array([900, 9000, 70])
    rule = normalised(factors, offsets, sums)
    for channel, most in enumerate(sums.tolist()):
        for total in range(-most, most + 1, 23):
            exact = Fraction(factors[channel]) * total + Fraction(offsets[channel])
            result = int(rule["kappa"][channel] * total + rule["lambda"][channel]) >> int(rule["shift"])
            # where rounding of the factor can move a result past a half
            near = Fraction(total + 1) / (1 << int(rule["shift"]) + 1)
            assert floor(exact + Fraction(1, 2) - abs(near)) <= result <= floor(exact + Fraction(1, 2) + abs(near))


@pytest.mark.parametrize("factor", [1e-6, 0.3, 17.0, 4000.0])
def test_shift_is_the_largest_within_32_bits(factor):
    sums = np.array([123_456])
    rule = normalised(np.array([factor]), np.array([5.0]), sums)
    shift = int(rule["shift"])
    assert abs(int(rule["kappa"][0])) * 123_456 + abs(int(rule["lambda"][0])) < 1 << 31
    larger = 1 << shift + 1
    assert shift == 31 or round(factor * larger) * 123_456 + round(5.5 * larger) >= 1 << 31


def fits(low, high, bits):
    return -(2 ** (bits - 1)) <= low and high < 2 ** (bits - 1)


@pytest.mark.flow
@pytest.mark.parametrize("offset", [0, -128, 5_000_000])
def test_words_are_filled_and_not_left(offset):
    rng = np.random.default_rng(4)
    for _ in range(60):
        factors = (rng.uniform(1, 2, 3) * 2.0 ** -rng.integers(0, 14)).tolist()
        ends = np.sort(rng.integers(-(1 << 31), 1 << 31, (3, 2)) >> rng.integers(8, 20))
        ranges = [Range(int(low), int(high)) for low, high in ends]
        bias = [int(result / factor) for result, factor in zip(rng.uniform(-200, 200, 3), factors, strict=True)]
        rule = fixed_point(factors, offset, ranges, bias)
        found_shift = int(rule["shift"])

        def summand(shift, factor, own):
            return (offset << shift) + (1 << shift >> 1) + round(Fraction(factor) * own * 2**shift)

        def held(shift, factors=factors, ranges=ranges, bias=bias, summand=summand):
            """Tell whether this shift needs no more bits."""
            for factor, bounds, own in zip(factors, ranges, bias, strict=True):
                lam = summand(shift, factor, own)
                products = [round(factor * 2**shift) * end for end in (bounds.low, bounds.high)]
                sums = [product + lam for product in products]
                are_in = all(fits(*ends, 32) for ends in (products, sums, (lam, lam)))
                if round(factor * 2**shift) >= 2**31 or not are_in:
                    return False
            return True

        assert held(found_shift)
        assert found_shift == 31 or not held(found_shift + 1)
        for kappa, lam, factor, own in zip(rule["kappa"], rule["lambda"], factors, bias, strict=True):
            assert abs(int(kappa) / 2**found_shift - factor) <= 0.5 / 2**found_shift
            assert int(lam) == summand(found_shift, factor, own)


def test_factors_of_the_exact_rule_are_those_of_tflite():
    """A mantissa of 31 bits and a shift; one that rounds up to a power of two, and one too small for any sum."""
    rule = exact([0.75, -3.0, 2.0**-20, (2**32 - 1) / 2**40, 2.0**-40], -7)
    assert rule["factors"].tolist() == [3 << 29, -3 << 29, 1 << 30, 1 << 30, 0]
    assert rule["shifts"].tolist() == [31, 29, 50, 38, 1]
    assert rule["zero"] == -7


def test_sums_reach_their_ends():
    most = 2**31 - 1
    check_sums([-510, -765], [765, 0], [most - 765, -most + 764])


def test_a_factor_of_0_keeps_its_bias():
    """Beside a channel that leaves no room for its digits."""
    rule = fixed_point([0.5, 2.0**-22], -128, [Range(0, 255 * 2**16), Range(-10, 10)], [3, 100 << 22])
    assert rule["shift"] == 8
    assert rule["kappa"].tolist() == [128, 0]
    assert ((rule["lambda"] >> 8) + 128).tolist() == [2, 100]


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        (normalised, (np.array([1e5]), np.zeros(1), np.array([1 << 20])), "normalised sums must be of 32 bits"),
        (check_sums, ([0], [255], [2**31 - 1]), "sums must be of 32 bits, not 2147483647..2147483902 in channel 0"),
        (fixed_point, ([1e6], 0, [Range(-4000, 4000)], [0]), "factors must be such that their products have 32 bits"),
        (exact, ([2.0**30], 0), "factors must be below 2"),
    ],
)
def test_what_has_no_room(function, arguments, text):
    with pytest.raises(LayerError, match=f"^{text}"):
        function(*arguments)
