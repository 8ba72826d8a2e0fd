"""Quantisers of sums and of additions: every number there can be, against fractions."""

from fractions import Fraction

import numpy as np
import pytest

from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.networks.importers.layer_builder import LayerBuilder
from xpulpnn_sw.networks.importers.quantiser import Affine, Channel, step_sums, uniform_quantiser
from xpulpnn_sw.networks.importers.rule_fit import addition, rule_of
from xpulpnn_sw.networks.importers.values import Map, Sums


def source(low: int, high: int, bits: int, *, signed: bool, channels: int = 2, stage: str = "input") -> Map:
    return Map(
        stage=stage,
        indices=np.arange(channels).reshape(1, channels),
        shape=(1, 1, channels),
        bits=bits,
        signed=signed,
        low=low,
        high=high,
        scale=Fraction(1),
        offset=Fraction(0),
    )


def quantised(real: Fraction, scale: Fraction, low: int, high: int) -> int:
    """To the nearest, halves to even numbers, as Fraction rounds."""
    return min(max(round(real / scale), low), high)


@pytest.mark.flow
def test_quantisers_of_large_sums_take_the_exact_rule() -> None:
    """Factors that 32 bits round too much: results at the ends of all steps are those of fractions."""
    quantiser = uniform_quantiser(Fraction(1, 16), Fraction(-37), -128, 127, "ROUND", rounds_first=True)
    affine = [
        Affine(a=Fraction(*a), b=Fraction(*a) * start, least=-(1 << 20), most=1 << 20)
        for a, start in (((1, 180_001), 5000), ((7, 1_100_003), -77), ((1, 90_007), 123_456))
    ]
    fit = rule_of(quantiser, [Channel.of(quantiser, function, number) for number, function in enumerate(affine)])
    assert fit.rule is Rule.EXACT
    arrays = [fit.arrays[name].tolist() for name in ("factors", "shifts", "bias")]
    assert int(fit.arrays["zero"]) == -37
    for function, factor, shift, bias in zip(affine, *arrays, strict=True):
        steps = [step for step in step_sums(quantiser, function, 0) if function.least < step <= function.most]
        for number in {function.least, function.most, *steps, *(step - 1 for step in steps)}:
            result = ((number + bias) * factor + (1 << (shift - 1)) >> shift) - 37
            assert min(max(result, -128), 127) == quantiser.result(function.at(number), 0)


@pytest.mark.parametrize("factor", [Fraction(1, 3), Fraction(-1, 3), Fraction(-1, 7)])
@pytest.mark.parametrize("weights", [[3, 4], [-3, -1], [-4, 3]])
@pytest.mark.parametrize("summand", [Fraction(1, 5), Fraction(5), Fraction(-5)])
def test_channels_whose_factor_is_negative(factor: Fraction, weights: list[int], summand: Fraction) -> None:
    taken = source(0, 3, 2, signed=False)
    ends = [[weight * end for end in (0, 3)] for weight in weights]
    sums = Sums(
        name="product",
        kernel="linear",
        layer="2:1",
        sources=(taken,),
        weights=np.array([weights]),
        weight_bits=4,
        channels=(Affine(a=factor, b=summand, least=sum(map(min, ends)), most=sum(map(max, ends))),),
        shape=(1, 1, 1),
        indices=np.array([[0]]),
    )
    quantiser = uniform_quantiser(Fraction(1, 2), Fraction(0), -8, 7, "ROUND")
    builder = LayerBuilder("turned", print)
    builder.quantised(sums, quantiser)
    network = builder.finish().network
    inputs = np.array([[first, second] for first in range(4) for second in range(4)])
    results = run_reference(network, inputs)[-1].ravel()
    expected = [quantised(factor * int(np.dot(row, weights)) + summand, Fraction(1, 2), -8, 7) for row in inputs]
    assert results.tolist() == expected


@pytest.mark.flow
@pytest.mark.parametrize("factors", [(Fraction(1), Fraction(2, 3)), (Fraction(1, 2), Fraction(-3, 4))])
@pytest.mark.parametrize("low", [None, Fraction(-2)])
def test_additions_are_right_for_every_pair(factors: tuple[Fraction, Fraction], low: Fraction | None) -> None:
    """Results clipped where they do not end cannot be right, and are counted."""
    first, second = source(0, 15, 4, signed=False), source(-8, 7, 4, signed=True)
    quantiser = uniform_quantiser(Fraction(4, 5), Fraction(3), -8, 7, "ROUND")
    common = Affine(a=Fraction(1), b=Fraction(1, 7), low=low, least=0, most=0)
    rule = addition((first, second), factors, common, quantiser)
    first_factor, second_factor = rule.arrays["factors"]
    wrong = 0
    for x0 in range(16):
        for x1 in range(-8, 8):
            real = factors[0] * x0 + factors[1] * x1 + Fraction(1, 7)
            real = real if low is None else max(real, low)
            expected = min(max(round(real / Fraction(4, 5) + 3), -8), 7)
            got = int(first_factor * x0 + second_factor * x1 + rule.arrays["summand"] >> rule.arrays["shift"])
            wrong += min(max(got, -8), 7) != expected
    assert (rule.total, rule.inexact) == (256, wrong)
    assert (wrong == 0) == (low is None)
