"""Factors and offsets in integers against exact fractions."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sw.networks.normalisation import largest_sums, normalised


def test_largest_sums_are_reached_and_not_exceeded():
    weights = np.array([[3, -2], [1, 1], [-4, -4]])
    inputs = np.array([(a, b) for a in range(-2, 6) for b in range(-2, 6)])
    assert largest_sums(weights, -2, 5).tolist() == np.abs(inputs @ weights.T).max(axis=0).tolist() == [19, 10, 40]


def test_results_are_rounded():
    factors, offsets, sums = np.array([0.0371, -1.25e-3, 2.0]), np.array([-3.7, 100.2, 0.25]), np.array([900, 9000, 70])
    rule = normalised(factors, offsets, sums)
    for channel, most in enumerate(sums.tolist()):
        for total in range(-most, most + 1, 7):
            exact = Fraction(factors[channel]) * total + Fraction(offsets[channel])
            found = int(rule["kappa"][channel] * total + rule["lambda"][channel]) >> int(rule["shift"])
            # where rounding of the factor can move a result past a half
            near = Fraction(total + 1) / (1 << int(rule["shift"]) + 1)
            assert floor(exact + Fraction(1, 2) - abs(near)) <= found <= floor(exact + Fraction(1, 2) + abs(near))


@pytest.mark.parametrize("factor", [1e-6, 0.3, 17.0, 4000.0])
def test_shift_is_the_largest_within_32_bits(factor):
    sums = np.array([123_456])
    rule = normalised(np.array([factor]), np.array([5.0]), sums)
    shift = int(rule["shift"])
    assert abs(int(rule["kappa"][0])) * 123_456 + abs(int(rule["lambda"][0])) < 1 << 31
    larger = 1 << shift + 1
    assert shift == 31 or round(factor * larger) * 123_456 + round(5.5 * larger) >= 1 << 31


def test_what_fits_for_no_shift_is_refused():
    with pytest.raises(LayerError, match=r"^normalised sums must be of 32 bits, not beyond without a shift$"):
        normalised(np.array([1e5]), np.array([0.0]), np.array([1 << 20]))
