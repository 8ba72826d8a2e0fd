"""Factors as integers: near the real ones, and no product or sum that leaves its word, by exact arithmetic."""

import re

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sw.networks.normalisation import Range, fixed_point, sum_ranges


def fits(low, high, bits):
    return -(2 ** (bits - 1)) <= low and high < 2 ** (bits - 1)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("offset", [0, -128, 5_000_000])
def test_words_are_filled_and_not_left(wide, offset):
    rng = np.random.default_rng(4)
    bits = 64 if wide else 32
    for _ in range(200):
        factors = (rng.uniform(1, 2, 3) * 2.0 ** -rng.integers(0, 14)).tolist()
        ends = np.sort(rng.integers(-(1 << 31), 1 << 31, (3, 2)) >> rng.integers(8, 20))
        ranges = [Range(int(low), int(high)) for low, high in ends]
        found = fixed_point(factors, offset, ranges, wide=wide)
        found_shift = int(found["shift"])

        def held(shift, factors=factors, ranges=ranges):
            """Whether this shift is one that needs no more bits."""
            lam = (offset << shift) + (1 << shift >> 1)
            for factor, one in zip(factors, ranges, strict=True):
                products = [round(factor * 2**shift) * end for end in (one.low, one.high)]
                sums = [product + lam for product in products]
                if round(factor * 2**shift) >= 2**31 or not (fits(*products, bits) and fits(*sums, bits)):
                    return False
            return True

        assert held(found_shift)
        assert found_shift == (62 if wide else 31) or not held(found_shift + 1)
        for kappa, lam, factor in zip(found["kappa"], found["lambda"], factors, strict=True):
            assert abs(int(kappa) / 2**found_shift - factor) <= 0.5 / 2**found_shift
            assert int(lam) == (offset << found_shift) + (1 << found_shift >> 1)


def test_sums_reach_their_ends():
    assert sum_ranges([-510, -765], [765, 0], [10, -4]) == [Range(10 - 510, 10 + 765), Range(-4 - 765, -4)]


def test_what_has_no_room():
    with pytest.raises(LayerError, match=re.escape("sums must be of 32 bits, not 2147483647..2147483902 in channel 0")):
        sum_ranges([0], [255], [2**31 - 1])
    with pytest.raises(LayerError, match=r"^factors must be such that their products have 32 bits, not 1e\+06$"):
        fixed_point([1e6], 0, [Range(-4000, 4000)])
