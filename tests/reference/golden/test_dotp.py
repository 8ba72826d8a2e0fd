"""Dot products and Mac&Load: directed values (guide, "Mac&Load" and "Easily mistaken") and plain-integer sums."""

from random import Random

import pytest

from xpulpnn.isa.table import INSNS

pytestmark = pytest.mark.unit

SEED = 31415
WIDTHS = {"h": 16, "b": 8, "n": 4, "c": 2}
ONES = 0xFFFF_FFFF
CORNERS = (0, ONES, 0x8000_8000, 0x8080_8080, 0x8888_8888, 0xAAAA_AAAA, 0x7777_7777, 0x5555_5555, 0x0102_0304)

# Signs of (first, second) factor, transcribed from sections 5.2, 7.2 and 7.3.
DOT_SIGNS = {"up": (False, False), "usp": (False, True), "sp": (True, True)}
NN_SIGNS = {"up": (False, False), "usp": (False, True), "sup": (True, False), "sp": (True, True)}
CU_SIGNS = {"up": (False, False), "usp": (True, False), "sp": (True, True)}
DOT_ROWS = [insn for insn in INSNS if insn.uses_dotp and not insn.is_mac_load]
NN_ROWS = [insn for insn in INSNS if insn.op in ("pv.mlsdot", "pv.mldot") and not insn.alias]
CU_ROWS = [insn for insn in INSNS if insn.op == "pv.cusdot"]


def elements(word, width, is_signed):
    lanes = [(word >> lsb) % (1 << width) for lsb in range(0, 32, width)]
    return [lane - (1 << width) if is_signed and lane >= 1 << (width - 1) else lane for lane in lanes]


def products(first, second):
    return sum(a * b for a, b in zip(first, second, strict=True))


def words(generator):
    yield from ((a, b, 0x7FFF_FFFF) for a in CORNERS for b in CORNERS)
    yield from (tuple(generator.getrandbits(32) for _ in range(3)) for _ in range(64))


def check(executions, effects, expected):
    for execution, result, wanted in zip(executions, effects.rd, expected, strict=True):
        assert result == wanted & ONES, f"seed {SEED}: {execution}"


@pytest.mark.parametrize("insn", DOT_ROWS, ids=lambda insn: insn.mnemonic)
def test_dot_products(many, insn):
    generator = Random(f"{SEED}{insn.mnemonic}")
    name, width = insn.mnemonic.split(".")[1], WIDTHS[insn.mnemonic[-1]]
    accumulates = name.startswith("sdot")
    signs = DOT_SIGNS[name.removeprefix("s").removeprefix("dot")]
    executions, expected = [], []
    for rs1, rs2, old in words(generator):
        immediate = generator.randrange(64) if signs == (False, False) else generator.randrange(-32, 32)
        second, operands = elements(rs2, width, signs[1]), {}
        if ".sci." in insn.mnemonic:
            second = [immediate] * (32 // width)
            operands = {"uimm6" if signs == (False, False) else "imm6": immediate}
        elif ".sc." in insn.mnemonic:
            second = second[:1] * (32 // width)
        expected.append(products(elements(rs1, width, signs[0]), second) + (old if accumulates else 0))
        executions.append({"rs1": rs1, "rs2": rs2, "rd": old, **operands})
    check(executions, many(insn, executions), expected)


@pytest.mark.parametrize("insn", NN_ROWS, ids=lambda insn: f"{insn.mnemonic} {insn.operands}")
def test_mac_load_products_use_the_old_entries(many, insn):
    generator = Random(f"{SEED}{insn.mnemonic}")
    width = WIDTHS[insn.mnemonic[-1]]
    name = insn.mnemonic.split(".")[1]
    signs, accumulates = NN_SIGNS[name.removeprefix("mlsdot").removeprefix("mldot")], name.startswith("mls")
    selectors = [value for value in range(32) if (value >> 3 == 0b11) == insn.operands.endswith("'")]
    executions, expected = [], []
    for weight, activation, old in words(generator):
        selector = generator.choice(selectors)
        total = products(elements(weight, width, signs[0]), elements(activation, width, signs[1]))
        expected.append(total + (old if accumulates else 0))
        executions.append({"rd": old, "wgt": weight, "act": activation, "loaded": 0x1234_5678, "nnimm5": selector})
    check(executions, many(insn, executions), expected)


@pytest.mark.parametrize("insn", CU_ROWS, ids=lambda insn: insn.mnemonic)
def test_compute_and_update(many, insn):
    generator = Random(f"{SEED}{insn.mnemonic}")
    _, name, letter, entry = insn.mnemonic.split(".")
    width, signs = WIDTHS[letter], CU_SIGNS[name.removeprefix("cusdot")]
    executions, expected = [], []
    for weight, activation, old in words(generator):
        expected.append(products(elements(weight, width, signs[0]), elements(activation, width, signs[1])) + old)
        executions.append({"rs1": 0xFFFF_FFFE, "rs2": activation, "rd": old, "wgt": weight, "act": 0x5555})
    effects = many(insn, executions)
    check(executions, effects, expected)
    assert set(effects.address) == {0xFFFF_FFFE}
    assert set(effects.base) == {2}
    assert set(effects.nn_index) == {2 + int(entry)}
    assert effects.accessed.all()
    assert effects.base_written.all()
    assert effects.nn_written.all()
    assert effects.size == 4
