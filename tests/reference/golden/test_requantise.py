"""Requantisation: directed values and plain integers, whose shifts round down as the instruction's do."""

from random import Random

import pytest

from xpulpnn.isa.table import find

pytestmark = pytest.mark.unit

SEED = 2718
WIDTHS = {"b": 8, "n": 4, "c": 2}
ONES = 0xFFFF_FFFF
CORNERS = (0, 1, ONES, 0x7FFF_FFFF, 0x8000_0000, 0x0001_0000, 0xFFFF_0000, 0x0000_8000)


def number(word):
    return word - (1 << 32) if word >> 31 else word


def element(name, letter, factor, summand, rs1, shift):
    """What goes into the lane, as the text of the guide says it."""
    width = WIDTHS[letter]
    y = number((factor * rs1 + summand) & ONES) >> (shift & 31)
    low, high = (0, (1 << width) - 1) if name == "pv.rqu" else (-(1 << width - 1), (1 << width - 1) - 1)
    return min(max(y, low), high) & ((1 << width) - 1)


@pytest.mark.parametrize("letter", WIDTHS)
@pytest.mark.parametrize("name", ["pv.rqu", "pv.rqs"])
def test_every_lane_and_shift(many, name, letter):
    rng = Random(f"{SEED}{name}{letter}")
    width, executions, expected = WIDTHS[letter], [], []
    for lane in range(32 // width):
        for shift in range(32):
            factor, summand, rs1 = (rng.choice((rng.getrandbits(32), rng.choice(CORNERS))) for _ in range(3))
            if rng.randrange(2):
                # a result near the bounds, wherever the shift puts them
                factor, rs1 = 1, 0
                summand = (rng.randrange(-(1 << width) - 1, (1 << width) + 2) << shift) + rng.randrange(
                    1 << shift
                ) & ONES
            # bits above the shift amount mean nothing
            rs2, old = shift | rng.getrandbits(27) << 5, rng.getrandbits(32)
            executions.append({"rs1": rs1, "rs2": rs2, "rd": old, "act": factor, "wgt": summand, "lane": lane})
            mask = (1 << width) - 1 << lane * width
            expected.append(old & ~mask | element(name, letter, factor, summand, rs1, rs2) << lane * width)
    results = many(find(f"{name}.{letter}"), executions).rd
    for execution, result, wanted in zip(executions, results, expected, strict=True):
        assert result == wanted, f"seed {SEED}: {execution}"
