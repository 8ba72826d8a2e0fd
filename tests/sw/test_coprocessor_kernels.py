"""Kernels for RV32IMC and the coprocessor against the golden layers, on the instruction-set simulator."""

from dataclasses import replace
from functools import partial

import pytest

from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.variants import XIF_VARIANTS

from .runs import RULES, alternating, check_named

LAYERS = {
    "borders, leftover pixels and channels": ("conv", "3x6x9:5x3x2:p=1x0x1x0", "8x8x8"),
    "another value around the input": ("conv", "5x6x8:8x3x3:v=1", "i8xi8xi8"),
    "half of a word of weights for a word of inputs": ("conv", "5x6x16:8x3x3", "8x4x4"),
    "a quarter": ("conv", "5x6x16:9x3x3", "i8xu2xi2"),
    "half, of nibbles": ("pointwise", "3x5x40:9", "4xi2x4"),
    "narrower inputs": ("conv", "5x6x16:8x3x3", "u2x4x8"),
    "narrower inputs with sign": ("conv", "5x6x12:8x3x3", "i4x8x32"),
    "more steps than an instruction makes": ("conv", "4x4x516:5x3x3:p=0", "8x8x8"),
    "the same of mixed widths": ("conv", "4x4x516:5x3x3:p=0", "8x2x32"),
    "a step": ("conv", "4x4x4:8x1x1:p=0", "8x8x8"),
    "gaps": ("conv1d", "12x4:9x2:s=2,p=2x1,d=2", "4x4x2"),
    "rows in memory": ("matmul", "9x28x7", "i2x2x32"),
    "a pixel of mixed widths": ("pointwise", "1x1x40:9", "4x2x4"),
    "a pixel": ("linear", "67:9", "8xi8x8"),
    "a pixel, results of 32 bits": ("linear", "61:7:raw", "4x4x32"),
}


PIXELS = [name for name, (kernel, *_) in LAYERS.items() if kernel == "linear"]
CASES = alternating([name for name in LAYERS if name not in PIXELS], XIF_VARIANTS, (False, True))
CASES += alternating(PIXELS, ("blk_4x1", "blkq_4x1"), (False, True))


@pytest.mark.parametrize(("name", "variant", "specialise"), CASES)
def test_layers(name: str, variant: str, specialise: bool):
    kernel, text, precision = LAYERS[name]
    check_named(kernel, text, precision, variant, specialise=specialise, cores=2 - specialise, seed=3)


@pytest.mark.parametrize(("name", "variant", "result"), alternating(RULES, XIF_VARIANTS, ("u4", "i4")))
def test_rules_at_their_ends(name: str, variant: str, result: str):
    change = partial(replace, requantisation=RULES[name])
    check_named("matmul", "4x9x6", f"8x4x{result}", variant, seed=3, change=change)


@pytest.mark.parametrize("rule", [rule for rule in Rule if rule is not Rule.QNT])
def test_rules_of_a_pixel(rule: Rule):
    for variant in ("blk_4x1", "blkq_4x1"):
        check_named("linear", "70:10", "i8xi8xi4", variant, rule=rule)
