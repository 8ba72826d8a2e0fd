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
DOT_ROWS = [insn for insn in INSNS if insn.op.startswith(("pv.dot", "pv.sdot"))]
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


def test_usp_means_rs1_unsigned(once):
    for mnemonic, lanes in (("pv.dotusp.h", 2), ("pv.dotusp.b", 4), ("pv.dotusp.n", 8), ("pv.dotusp.c", 16)):
        greatest = (1 << 32 // lanes) - 1
        assert once(mnemonic, rs1=ONES, rs2=ONES)["rd"] == -greatest * lanes & ONES
    assert once("pv.sdotusp.b", word=0xA8C5_9557, rs1=0x0000_00FF, rs2=0x0000_00FF, rd=300)["rd"] == 45
    assert once("pv.sdotusp.n", word=0xA8C5_A557, rs1=0xF, rs2=0xF, rd=300)["rd"] == 285


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


@pytest.mark.parametrize("letter", WIDTHS)
@pytest.mark.parametrize(
    ("selector", "entry", "updates"),
    # bit 3 reloads activation imm5[0], bit 4 weight imm5[2:1] + 2
    [(0, None, 0), (7, None, 0), (8, 0, 1), (9, 1, 1), (15, 1, 1), (16, 2, 1), (17, 2, 1), (18, 3, 1), (23, 5, 1)],
)
def test_update_bits_choose_the_entry(once, letter, selector, entry, updates):
    effects = once(f"pv.mlsdotsup.{letter}", rs1=0x1001, nnimm5=selector)
    assert (effects["accessed"], effects["nn_written"], effects["base_written"]) == (updates, updates, updates)
    if updates:
        assert (effects["nn_index"], effects["address"], effects["base"]) == (entry, 0x1001, 0x1005)
        assert effects["size"] == 4


@pytest.mark.parametrize(("name", "rd"), [("pv.mlsdotsup", "rd~"), ("pv.mldotsup", "rd")])
@pytest.mark.parametrize(("selector", "entry"), [(24, 1), (25, 0), (30, 1), (31, 0)])
def test_both_update_bits_reload_the_other_activation(once, name, rd, selector, entry):
    form = f"{rd},(rs1!),nnimm5'"
    effects = once(f"{name}.n", form, rs1=0xFFFF_FFFD, nnimm5=selector, act=3, wgt=0xF, rd=10)
    assert (effects["accessed"], effects["nn_written"], effects["base_written"]) == (1, 1, 1)
    assert (effects["nn_index"], effects["address"], effects["base"], effects["size"]) == (entry, 0xFFFF_FFFD, 1, 4)
    assert effects["rd"] == ((10 if rd == "rd~" else 0) - 3) & ONES


def test_the_same_signs_have_three_names(once):
    activation, weight = 0x0000_00FF, 0x0000_00FF
    expected = -255 & ONES
    assert once("pv.sdotusp.b", rs1=activation, rs2=weight)["rd"] == expected
    assert once("pv.mlsdotsup.b", act=activation, wgt=weight)["rd"] == expected
    assert once("pv.nnsdotusp.b", act=activation, wgt=weight)["rd"] == expected
    assert once("pv.cusdotusp.b.0", wgt=weight, rs2=activation)["rd"] == expected


def test_sample_words(once):
    effects = once("pv.mlsdotsup.b", word=0xD915_9577, rs1=8, act=2, wgt=0xFD, rd=10)
    assert (effects["rd"], effects["nn_index"], effects["base"]) == (4, 2, 12)
    assert once("pv.mlsdotup.h", word=0xE095_8077, rs1=8)["nn_index"] == 1
    effects = once("pv.cusdotusp.b.2", word=0xACC5_9577, rs1=8, rs2=2, wgt=0xFD, rd=10)
    assert (effects["rd"], effects["nn_index"]) == (4, 4)
