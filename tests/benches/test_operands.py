"""Operands of rows in benches: what each kind of row must meet."""

from random import Random

import pytest

from xpulpnn.isa.table import find
from xpulpnn_sim.benches.vectors.operands import executions
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.stimuli import paired_corners


def drawn(mnemonic: str, operands: str, *, corners: int = 0, places: int = 0) -> Sources:
    """Two executions of a row, and the directed ones."""
    return executions(find(mnemonic, operands), 2, Random(7), corners=corners, places=places)


@pytest.mark.parametrize(
    ("width", "corners"),
    [
        (32, {0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF}),
        (16, {0, 1, 0x7FFF, 0x8000, 0xFFFF}),
        (8, {0, 1, 0x7F, 0x80, 0xFF}),
        (4, {0, 1, 7, 8, 15}),
        (2, {0, 1, 2, 3}),
    ],
)
def test_every_two_corners_meet(width: int, corners: set[int]) -> None:
    left, right = paired_corners(width, Random(7))
    places = range(0, 32, width)
    met = {
        (int(left_word) >> place & (1 << width) - 1, int(right_word) >> place & (1 << width) - 1)
        for left_word, right_word in zip(left, right, strict=True)
        for place in places
    }
    assert met == {(left_word, right_word) for left_word in corners for right_word in corners}
    assert len(left) == -(-25 // len(places))


def test_corners_are_factors_and_operands() -> None:
    executed = drawn("pv.sdotsp.b", "rd~,rs1,rs2", corners=25)
    assert len(executed.rs1) == 2 + 7
    assert [*executed.rs2[2:]] == [*executed.act[2:]]
    assert any(
        0x80 in left_word.tobytes() and 0x80 in right_word.tobytes()
        for left_word, right_word in zip(executed.rs1, executed.rs2, strict=True)
    )


@pytest.mark.parametrize("operands", ["rd,rs1,Is3,Is2", "rd,rs1,rs2"])
def test_signed_fields_end_in_every_bit_with_either_sign(operands: str) -> None:
    name = "p.extracti" if "Is3" in operands else "p.extract"
    executed, met = drawn(name, operands, places=32), set[tuple[int, int]]()
    for word, operand, field in zip(executed.word.tolist(), executed.rs1.tolist(), executed.rs2.tolist(), strict=True):
        length, first = (word >> 25 & 31, word >> 20 & 31) if "Is3" in operands else (field >> 5 & 31, field & 31)
        met.add((length + first, operand >> length + first & 1))
    assert met >= {(end, sign) for end in range(32) for sign in (0, 1)}


def test_runs_of_equal_bits_have_every_length() -> None:
    lowest = drawn("p.ff1", "rd,rs1", places=32).rs1[2:].tolist()
    assert {(word & -word).bit_length() - 1 for word in lowest} == {*range(32)}
    runs = [word ^ (0xFFFF_FFFF if word >> 31 else 0) for word in drawn("p.clb", "rd,rs1", places=32).rs1[2:].tolist()]
    assert {word.bit_length() for word in runs} >= {*range(1, 31)}


@pytest.mark.parametrize(("name", "sign"), [("p.addRNi", 1), ("p.subuRNi", -1)])
def test_rounded_sums_are_next_to_what_loses_zeros(name: str, sign: int) -> None:
    executed = drawn(name, "rd,rs1,rs2,Is3", places=32)
    places = executed.word[2:] >> 25 & 31
    assert {*places.tolist()} == {*range(32)}
    for place, augend, addend in zip(
        places.tolist(), executed.rs1[2:].tolist(), executed.rs2[2:].tolist(), strict=True
    ):
        lost = augend + sign * addend + (1 << place >> 1) & (1 << place) - 1
        assert lost in (0, (1 << place) - 1)
