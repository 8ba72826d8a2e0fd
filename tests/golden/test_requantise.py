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


@pytest.mark.parametrize(
    ("mnemonic", "values", "rd"),
    [
        # 3 * 100 - 44 = 256, clipped to 255, then 16, into lane 1
        ("pv.rqu.b", {"act": 3, "wgt": -44, "rs1": 100, "lane": 1}, 0x1111_FF11),
        ("pv.rqu.b", {"act": 3, "wgt": -44, "rs1": 100, "rs2": 4, "lane": 1}, 0x1111_1011),
        ("pv.rqs.b", {"act": 3, "wgt": -44, "rs1": 100, "lane": 3}, 0x7F11_1111),
        # -7 >> 1 is -4: rounded down
        ("pv.rqs.n", {"act": 7, "rs1": -1, "rs2": 1, "lane": 7}, 0xC111_1111),
        ("pv.rqu.n", {"act": 7, "rs1": -1, "rs2": 1, "lane": 7}, 0x0111_1111),
        ("pv.rqs.c", {"act": 7, "rs1": -1, "lane": 15}, 0x9111_1111),
        # the sum wraps at 32 bits before the shift: 0x80000000 is negative
        ("pv.rqu.c", {"act": 0x4000_0000, "wgt": 0x4000_0000, "rs1": 1, "rs2": 31, "lane": 0}, 0x1111_1110),
        ("pv.rqs.c", {"act": 0x4000_0000, "wgt": 0x4000_0000, "rs1": 1, "rs2": 31, "lane": 0}, 0x1111_1113),
    ],
)
def test_by_hand(once, mnemonic, values, rd):
    assert once(mnemonic, rd=0x1111_1111, **values)["rd"] == rd


@pytest.mark.parametrize("parameter", [0, 1])
def test_parameters_are_loaded_like_any_word(once, parameter):
    effects = once("pv.rqld", uimm1=parameter, rs1=0xFFFF_FFFE)
    assert (effects["nn_index"], effects["address"], effects["base"], effects["size"]) == (
        6 + parameter,
        0xFFFF_FFFE,
        2,
        4,
    )
    assert (effects["accessed"], effects["nn_written"], effects["base_written"], effects["rd"]) == (1, 1, 1, None)
