"""Exact rule of requantisation: by its instruction, with one shift for all channels, and without either."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.requantisation import ExactRequantisation, OneShiftRequantisation, Rule
from xpulpnn_sw.layers.layer import ConvLayer
from xpulpnn_sw.layers.precision import Precision

from .runs import LONG, check_named, tensors_of


def exact(factors: list[int], shifts: list[int], zero: int, bias: list[int]) -> dict[str, Any]:
    after = ExactRequantisation(factors=np.array(factors), shifts=np.array(shifts), zero=zero)
    return {"bias": np.array(bias), "requantisation": after}


ENDS = exact([LONG, -LONG - 1, 1 << 30, -1], [62, 1, 40, 33], -128, [LONG, -LONG - 1, 0, LONG])
SMALL = exact([3, -5, 77, 1 << 20], [2, 4, 11, 25], 127, [-9, 1, 0, 300])
EXACT = {"ends of factors, shifts and zero": ENDS, "shifts of small sums": SMALL}


@pytest.mark.parametrize(("kernel", "layer", "variant"), [
    ("conv", "3x3x4:4x3x3", "x3_4x4"), ("conv", "3x3x4:4x3x3", "x2_4x2"), ("linear", "20:4", "x2_4x1"),
    ("linear", "20:4", "x2_2x1"), ("depthwise", "3x3x4:3x3", "xpulpnn2"),
])  # fmt: skip
@pytest.mark.parametrize("result", ["8", "i4", "i8"])
@pytest.mark.parametrize("name", EXACT)
def test_exact_rule_by_instruction(name: str, result: str, kernel: str, layer: str, variant: str):
    """Sums that wrap with their biases, products of 62 bits, results far beyond the range."""
    run, *_ = check_named(kernel, layer, f"8x8x{result}", variant, change=partial(replace, **EXACT[name]))
    assert run.name.endswith("_exact")
    assert Extension.XPULPRQ_EXACT in run.extensions


@pytest.mark.parametrize("factor", [LONG, -LONG - 1, 3])
def test_filters_of_zeros_without_the_instruction(factor: int):
    def change(tensors: Any) -> Any:
        values = exact([factor] * 4, [1, 2, 31, 62], 7, [0] * 4)
        return replace(tensors, weights=np.zeros_like(tensors.weights), **values)

    check_named("conv", "3x3x4:4x3x3", "8x8x8", "nn_4x4", change=change)


def test_exact_rule_without_its_instruction():
    text = "results of the exact rule must have sums of 64 bits where it runs in software"
    with pytest.raises(LayerError, match=f"^{text}$"):
        check_named("conv", "3x3x4:4x3x3", "8x8x8", "nn_4x4", change=partial(replace, **ENDS))
    run, *_ = check_named("conv", "3x3x4:6x3x3", "8x8x8", "nn_4x4", rule=Rule.EXACT)
    assert run.rule is Rule.BN64
    # sums that are small beside their biases, with few results, whose factors are rounded to a shorter shift
    factors, shifts = [1 << 30, 2**31 - 1, -(2**31) + 9, 2**31 - 7], [38, 56, 55, 61]
    bias, steps = [0, 3 << 25, (5 << 24) + 77, -(1 << 29)], set[int]()
    for seed in range(4):
        change = partial(replace, **exact(factors, shifts, seed, bias))
        run, *_ = check_named("conv", "3x3x4:4x3x3", "8x8xi8", "nn_4x4", change=change, seed=seed)
        steps.add(run.arguments["shift"])
    assert max(steps) < 56 - 32


def _clipped(after: ExactRequantisation, sums: np.ndarray) -> np.ndarray:
    """Results of 8 bits of sums ``[channel][sum]``; products have less than 62 bits."""
    factors, shifts = after.factors[:, np.newaxis], after.shifts[:, np.newaxis]
    return np.clip((factors * sums + (1 << shifts - 1) >> shifts) + after.zero, -128, 127)


@pytest.mark.flow
def test_one_shift_for_all_channels_gives_the_same_results():
    """Every sum of each channel: usual factors, negative ones, rounded by many bits, one step beside a large bias."""
    rng, moved, refused, cases = np.random.default_rng(3), 0, 0, 150
    for number in range(cases):
        reach = 1 << rng.integers(6, 13, 4)
        scales = (200 + rng.random(4) * 50) / (2 * reach) * rng.choice((-1, 1), 4)
        scales[1] *= 1 << int(rng.integers(0, 20))
        bias = rng.integers(-1, 1, 4, endpoint=True) << int(rng.integers(4, 18))
        if number % 3 == 1:
            scales[0] = 0
        elif number % 3:
            # the step between two results is met somewhere about the ends of the sums
            bias[0], scales[0] = 1 << 29, 100.5 / ((1 << 29) + int(rng.uniform(-1.2, 1.2) * reach[0]))
        mantissas, exponents = np.frexp(scales)
        factors = np.rint(mantissas * LONG).astype(np.int64)
        shifts = np.clip(31 - exponents.astype(np.int64), 1, 60)
        after = ExactRequantisation(factors=factors, shifts=shifts, zero=int(rng.integers(-20, 20)))
        one_shift = after.with_one_shift(bias, reach, range(-128, 128))
        if one_shift is None:
            refused += 1
            continue
        (rule, other), every = one_shift, np.arange(-(1 << 12), (1 << 12) + 1)
        sums = np.clip(every, -reach[:, np.newaxis], reach[:, np.newaxis])
        moved += (bias != other).any()
        assert len({*rule.shifts.tolist()}) == 1
        assert np.abs(rule.factors).max() <= LONG
        expected = _clipped(after, sums + bias[:, np.newaxis])
        np.testing.assert_array_equal(_clipped(rule, sums + other[:, np.newaxis]), expected, str(number))
    assert 20 < moved < cases - 20
    assert 20 < refused < cases - 20


def test_one_shift_brings_no_result_that_was_not_there():
    after = ExactRequantisation(factors=np.array([1 << 30, 1_156_918_367]), shifts=np.array([32, 61]), zero=0)
    assert after.with_one_shift(np.array([0, -1_755_009_312]), np.array([9, 339_566_304]), range(-128, 128)) is None


def test_factors_without_a_common_shift_keep_theirs():
    layer, precision = ConvLayer.parse("3x3x4:4x3x3"), Precision.parse("8x8x8")
    tensors = replace(tensors_of(layer, precision), **ENDS)
    assert tensors.with_one_shift(precision) is tensors


@pytest.mark.parametrize(("kernel", "layer", "variant"), [
    ("conv", "3x3x4:6x3x3", "x3_4x4"), ("pointwise", "3x3x12:9", "x3_4x4"), ("pointwise", "3x3x12:9", "x2_4x2"),
    ("linear", "20:9", "x2_4x1"),
])  # fmt: skip
@pytest.mark.parametrize("widths", ["8x8x8", "8x8xi4", "4x4x2"])
def test_exact_rule_with_one_shift(kernel: str, layer: str, variant: str, widths: str):
    run, *_ = check_named(kernel, layer, widths, variant, rule=Rule.EXACT_ONE_SHIFT)
    assert run.name.endswith("_exact_one_shift")
    assert Extension.XPULPRQ_EXACT in run.extensions


@pytest.mark.parametrize(("rule", "field", "value", "text"), [
    (ExactRequantisation, "shifts", np.array([63]), "1..62, not 63..63"),
    (ExactRequantisation, "shifts", np.array([0]), "1..62, not 0..0"),
    (ExactRequantisation, "zero", 128, "-128..127, not 128"),
    (OneShiftRequantisation, "shifts", np.array([3, 4]), "the same for all channels, not 3..4"),
])  # fmt: skip
def test_exact_rule_of_other_numbers(rule: type[ExactRequantisation], field: str, value: Any, text: str):
    known = {"factors": np.ones(np.size(value), int), "shifts": np.array([1]), "zero": 0} | {field: value}
    with pytest.raises(LayerError, match=f"^{field} must be {re.escape(text)}$"):
        rule(**known)
