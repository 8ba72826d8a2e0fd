"""Operand fields: every value survives the word, everything else is refused."""

import random

import pytest
from tests.isa.rows import in_groups

from xpulpnn.errors import EncodingError
from xpulpnn.isa.fields import HALF_FIELDS, WORD_FIELDS, Field
from xpulpnn.isa.table import INSNS, find

FIELDS = [*WORD_FIELDS.items(), *HALF_FIELDS.items()]


def _legal(field: Field, count: int, seed: int) -> list[int]:
    values = range(field.low, field.high + 1, field.step)
    if len(values) <= count:
        return list(values)
    return [values[0], values[-1], *random.Random(seed).sample(values, count - 2)]


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=lambda item: item if isinstance(item, str) else "")
def test_values_survive(name: str, field: Field):
    ones = field.insert(-1 if field.signed else field.high)
    for value in _legal(field, 500, seed=1):
        word = field.insert(value)
        assert word & ~ones == 0, (name, value)
        assert field.extract(word | ~ones & 0xFFFF_FFFF) == value


@pytest.mark.parametrize(
    ("name", "word", "value"),
    [
        ("imm12", 0xFFF0_0000, -1),
        ("stimm12", 0x8000_0080, -2047),
        ("boff13", 0x0000_0080, 1 << 11),
        ("boff13", 0x8000_0000, -4096),
        ("joff21", 0x0010_0000, 1 << 11),
        ("joff21", 0x0000_1000, 1 << 12),
        ("imm6", 0x0200_0000, 1),
        ("imm6", 0x0010_0000, 2),
        ("imm6", 0x0100_0000, -32),
        ("uimm6", 0x0100_0000, 32),
        ("Is3", 0xFFFF_FFFF, 31),
        ("lpoff12", 0xFFF0_0000, 8190),
        ("lpoff5", 0x000F_8000, 62),
    ],
)
def test_word_bits(name: str, word: int, value: int):
    assert WORD_FIELDS[name].extract(word) == value


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("ciw10", {12: 5, 11: 4, 10: 9, 7: 6, 6: 2, 5: 3}),
        ("cl7", {12: 5, 10: 3, 6: 2, 5: 6}),
        ("ci10", {6: 4, 5: 6, 4: 8, 3: 7, 2: 5}),
        ("cj12", {11: 4, 10: 9, 9: 8, 8: 10, 7: 6, 6: 7, 5: 3, 3: 1, 2: 5}),
        ("cb9", {11: 4, 10: 3, 6: 7, 5: 6, 4: 2, 3: 1, 2: 5}),
        ("clsp8", {12: 5, 6: 4, 4: 2, 3: 7, 2: 6}),
        ("cssp8", {12: 5, 9: 2, 8: 7, 7: 6}),
    ],
)
def test_half_bits(name: str, bits: dict[int, int]):
    assert {bit: HALF_FIELDS[name].extract(1 << bit) for bit in bits} == {b: 1 << v for b, v in bits.items()}


@pytest.mark.parametrize(
    ("mnemonic", "values", "message"),
    [
        ("addi", {"rd": 1, "rs1": 2, "imm12": 2048}, "imm12 must be -2048..2047, not 2048"),
        ("add", {"rd": 32, "rs1": 2, "rs2": 2}, "rd must be x0..x31, not x32"),
        ("beq", {"rs1": 1, "rs2": 2, "boff13": 3}, "boff13 must be -4096..4094 and a multiple of 2, not 3"),
        ("c.and", {"rs1": 7, "rs2": 8}, "rs1 must be x8..x15, not x7"),
        ("c.lui", {"rd": 2, "clui6": 1}, "rd must be x0..x31 except x2, not x2"),
        ("c.addi4spn", {"rd": 8, "ciw10": 0}, "ciw10 must be 0..1020 and a multiple of 4 except 0, not 0"),
        (
            "pv.mlsdotup.n",
            {"rd": 1, "rs1": 2, "nnimm5": 24},
            "nnimm5 must be 0..31 with at most one of the update bits 8 and 16, not 24",
        ),
        ("pv.rqu.b", {"rd": 1, "rs1": 2, "rs2": 3, "lane": 4}, "lane must be 0..3, not 4"),
        ("sub", {"rd": 1, "rs1": 2}, "operands of sub must be rd, rs1, rs2, not rd, rs1"),
        ("ecall", {"rd": 1}, "operands of ecall must be none, not rd"),
    ],
)
def test_refusals(mnemonic: str, values: dict[str, int], message: str):
    with pytest.raises(EncodingError) as caught:
        find(mnemonic).encode(**values)
    assert str(caught.value) == message


@in_groups(INSNS)
def test_encode_decode(insn):
    rng = random.Random(insn.mnemonic)
    for _ in range(20):
        values = {
            t.field.name: rng.choice([v for v in _legal(t.field, 64, rng.random()) if t.accepts(v)])
            for t in insn.tokens
        }
        word = insn.encode(**values)
        assert insn.matches(word)
        assert insn.decode(word) == values
