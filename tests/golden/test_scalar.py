"""Scalar operations against values worked out by hand (guide, "XpulpV2: scalar instructions")."""

import pytest

pytestmark = pytest.mark.unit

MIN = 0x8000_0000
ONES = 0xFFFF_FFFF


@pytest.mark.parametrize(
    ("mnemonic", "rs1", "rs2", "expected"),
    [
        ("add", ONES, 2, 1),
        ("sub", 0, 1, ONES),
        ("sll", 1, 0x3F, MIN),
        ("srl", MIN, 31, 1),
        ("srl", MIN, 32, MIN),
        ("sra", MIN, 31, ONES),
        ("slt", ONES, 0, 1),
        ("sltu", ONES, 0, 0),
        ("xor", 0xF0F0, 0x0FF0, 0xFF00),
        ("or", 0xF000, 0x000F, 0xF00F),
        ("and", 0xFF00, 0x0FF0, 0x0F00),
        ("p.slet", 5, 5, 1),
        ("p.slet", MIN, 0, 1),
        ("p.sletu", MIN, 0, 0),
        ("p.min", ONES, 1, ONES),
        ("p.minu", ONES, 1, 1),
        ("p.max", ONES, 1, 1),
        ("p.maxu", ONES, 1, ONES),
        ("mul", 0x1_0001, 0x1_0001, 0x0002_0001),
        ("mulh", ONES, ONES, 0),
        ("mulh", MIN, MIN, 0x4000_0000),
        ("mulh", MIN, 2, ONES),
        ("mulhsu", ONES, ONES, ONES),
        ("mulhsu", MIN, ONES, MIN),
        ("mulhu", ONES, ONES, 0xFFFF_FFFE),
        ("div", 7, -2, -3),
        ("div", -7, 2, -3),
        ("div", 5, 0, ONES),
        ("div", MIN, ONES, MIN),
        ("divu", 5, 0, ONES),
        ("divu", ONES, 2, 0x7FFF_FFFF),
        ("divu", MIN, ONES, 0),
        ("rem", 7, -2, 1),
        ("rem", -7, 2, -1),
        ("rem", -7, 0, -7),
        ("rem", MIN, ONES, 0),
        ("remu", -7, 0, -7),
        ("remu", MIN, ONES, MIN),
        ("p.ror", 0x8000_0001, 1, 0xC000_0000),
        ("p.ror", 0x1234_5678, 32, 0x1234_5678),
        ("p.ror", 0x1234_5678, 8, 0x7812_3456),
    ],
)
def test_register_operations(once, mnemonic, rs1, rs2, expected):
    assert once(mnemonic, rs1=rs1, rs2=rs2)["rd"] == expected & ONES


@pytest.mark.parametrize(
    ("mnemonic", "rs1", "operand", "expected"),
    [
        ("addi", 5, {"imm12": -6}, ONES),
        ("slti", -3, {"imm12": -2}, 1),
        ("sltiu", 5, {"imm12": -1}, 1),
        ("xori", 0x0F, {"imm12": -1}, 0xFFFF_FFF0),
        ("ori", 0, {"imm12": -2048}, 0xFFFF_F800),
        ("andi", ONES, {"imm12": 2047}, 2047),
        ("slli", 3, {"uimm5": 31}, MIN),
        ("srli", MIN, {"uimm5": 4}, 0x0800_0000),
        ("srai", MIN, {"uimm5": 4}, 0xF800_0000),
        ("lui", 0, {"uimm20": 0xFFFFF}, 0xFFFF_F000),
        ("p.clipi", 200, {"Is2": 8}, 127),
        ("p.clipi", -200, {"Is2": 8}, -128),
        ("p.clipi", -128, {"Is2": 8}, -128),
        ("p.clipi", 100, {"Is2": 1}, 0),
        ("p.clipi", -100, {"Is2": 1}, -1),
        ("p.clipi", 100, {"Is2": 0}, 0),
        ("p.clipi", -100, {"Is2": 0}, -1),
        ("p.clipi", MIN, {"Is2": 31}, -0x4000_0000),
        ("p.clipui", 300, {"Is2": 9}, 255),
        ("p.clipui", -1, {"Is2": 9}, 0),
        ("p.clipui", 77, {"Is2": 9}, 77),
        ("p.clipui", 5, {"Is2": 0}, 0),
        ("p.clipui", 0x7FFF_FFFF, {"Is2": 31}, 0x3FFF_FFFF),
    ],
)
def test_immediate_operations(once, mnemonic, rs1, operand, expected):
    assert once(mnemonic, rs1=rs1, **operand)["rd"] == expected & ONES


@pytest.mark.parametrize(
    ("mnemonic", "value", "expected"),
    [
        ("p.abs", -5, 5),
        ("p.abs", MIN, MIN),
        ("p.exths", 0x1234_8000, 0xFFFF_8000),
        ("p.exthz", 0x1234_8000, 0x8000),
        ("p.extbs", 0x1234_5680, 0xFFFF_FF80),
        ("p.extbz", 0x1234_5680, 0x80),
        ("p.ff1", 0, 32),
        ("p.ff1", 0x0000_0100, 8),
        ("p.ff1", MIN, 31),
        ("p.fl1", 0, 32),
        ("p.fl1", 0x0000_0100, 8),
        ("p.fl1", ONES, 31),
        ("p.clb", 0, 0),
        ("p.clb", ONES, 31),
        ("p.clb", 1, 30),
        ("p.clb", 0x7FFF_FFFF, 0),
        ("p.clb", 0xF000_0000, 3),
        ("p.cnt", 0, 0),
        ("p.cnt", ONES, 32),
        ("p.cnt", 0x8000_0101, 3),
    ],
)
def test_unary_operations(once, mnemonic, value, expected):
    assert once(mnemonic, rs1=value)["rd"] == expected & ONES


@pytest.mark.parametrize(
    ("mnemonic", "value", "bound", "expected"),
    [
        ("p.clip", 10, 5, 5),
        ("p.clip", -10, 5, -6),
        ("p.clip", MIN, 0x7FFF_FFFF, MIN),
        # a negative bound: -B-1 = 4 is tested first, then min(value, -5)
        ("p.clip", 3, -5, 4),
        ("p.clip", 4, -5, 4),
        ("p.clip", 5, -5, -5),
        ("p.clip", 0x7FFF_FFFF, MIN, 0x7FFF_FFFF),
        ("p.clipu", 10, 5, 5),
        ("p.clipu", -10, 5, 0),
        ("p.clipu", 0, -5, 0),
        ("p.clipu", 1, -5, -5),
    ],
)
def test_clip_tests_the_lower_bound_first(once, mnemonic, value, bound, expected):
    assert once(mnemonic, rs1=value, rs2=bound)["rd"] == expected & ONES


@pytest.mark.parametrize(
    ("operation", "rs1", "start", "width", "old", "expected"),
    [
        ("extract", 0x0000_0F00, 8, 4, 0, ONES),
        ("extract", 0x0000_0700, 8, 4, 0, 7),
        ("extract", 0x8000_0000, 0, 32, 0, MIN),
        ("extract", 0x8000_0000, 28, 16, 0, 0xFFFF_FFF8),
        ("extract", 0x4000_0000, 28, 16, 0, 4),
        ("extractu", 0x8000_0000, 28, 16, 0, 8),
        ("extractu", 0xDEAD_BEEF, 0, 32, 0, 0xDEAD_BEEF),
        ("extractu", 0x0000_0F00, 8, 4, 0, 15),
        ("insert", 0xAB, 8, 8, 0x1111_1111, 0x1111_AB11),
        ("insert", 0xFFFF_FFA5, 28, 8, 0x1111_1111, 0x5111_1111),
        ("insert", 0x1234_5678, 0, 32, ONES, 0x1234_5678),
        ("bclr", ONES, 4, 4, 0, 0xFFFF_FF0F),
        ("bclr", ONES, 30, 32, 0, 0x3FFF_FFFF),
        ("bset", 0, 31, 1, 0, MIN),
        ("bset", 0, 24, 32, 0, 0xFF00_0000),
    ],
)
def test_bit_fields_in_both_forms(once, operation, rs1, start, width, old, expected):
    immediate = once(f"p.{operation}i", rs1=rs1, rd=old, Is3=width - 1, Is2=start)
    register = once(f"p.{operation}", rs1=rs1, rd=old, rs2=0xFFFF_FC00 | (width - 1) << 5 | start)
    assert (immediate["rd"], register["rd"]) == (expected, expected)


@pytest.mark.parametrize(
    ("mnemonic", "first", "second", "amount", "expected"),
    [
        ("p.addN", 7, 1, 1, 4),
        ("p.addN", 0x7FFF_FFFF, 1, 1, 0xC000_0000),
        ("p.adduN", 0x7FFF_FFFF, 1, 1, 0x4000_0000),
        ("p.adduN", ONES, 1, 0, 0),
        ("p.addRN", 2, 1, 1, 2),
        ("p.addRN", 3, 4, 0, 7),
        ("p.addRN", 0x7FFF_FFFF, 0, 1, 0xC000_0000),
        ("p.adduRN", ONES, 0, 1, 0),
        ("p.subN", 3, 5, 1, ONES),
        ("p.subuN", 3, 5, 1, 0x7FFF_FFFF),
        ("p.subRN", 3, 6, 1, ONES),
        ("p.subRN", 8, 5, 1, 2),
        ("p.subuRN", 0, 1, 31, 0),
        ("p.subuRN", 3, 6, 4, 0),
        ("p.addN", MIN, 0, 31, ONES),
    ],
)
def test_normalising_additions_in_both_forms(once, mnemonic, first, second, amount, expected):
    immediate = once(f"{mnemonic}i", rs1=first, rs2=second, rd=0x5555, Is3=amount)
    register = once(mnemonic, rd=first, rs1=second, rs2=0xFFFF_FFE0 | amount)
    assert (immediate["rd"], register["rd"]) == (expected, expected)


@pytest.mark.parametrize(
    ("mnemonic", "rs1", "rs2", "old", "amount", "expected"),
    [
        ("p.mulsN", 0x0001_FFFF, 0x0002_0003, 0, 0, -3),
        ("p.muluN", 0x0001_FFFF, 0x0002_0003, 0, 0, 0x2_FFFD),
        ("p.mulhhsN", 0xFFFE_1111, 0x0003_2222, 0, 1, -3),
        ("p.mulhhuN", 0xFFFE_1111, 0x0003_2222, 0, 1, 0x1_7FFD),
        ("p.mulsNR", 0x8000, 0x8000, 0, 31, -1),
        ("p.mulsN", 0x8000, 0x8000, 0, 30, 1),
        ("p.muluNR", 3, 1, 0, 1, 2),
        ("p.muluNR", 3, 1, 0, 0, 3),
        ("p.mulhhuNR", 0xFFFF_0000, 0xFFFF_0000, 0, 16, 0xFFFE),
        ("p.macsN", 0xFFFF, 4, 3, 0, -1),
        ("p.macuN", 0xFFFF, 0xFFFF, 0x0002_0000, 1, 0),
        ("p.machhsN", 0x7FFF_0000, 0x0001_0000, 0x7FFF_FFFF, 4, 0xF800_07FF),
        ("p.machhuNR", 0x0002_0000, 0x0003_0000, 1, 1, 4),
        ("p.macsNR", 0xFFFF, 4, 3, 1, 0),
        ("p.macuNR", 0, 0, ONES, 1, 0),
        ("p.machhsNR", 0x0001_0000, 0xFFFF_0000, 0, 2, 0),
    ],
)
def test_half_word_multiplications(once, mnemonic, rs1, rs2, old, amount, expected):
    assert once(mnemonic, rs1=rs1, rs2=rs2, rd=old, Is3=amount)["rd"] == expected & ONES


def test_aliases_multiply_without_shift(once):
    assert once("p.muls", rs1=0xFFFF, rs2=5)["rd"] == -5 & ONES
    assert once("p.machhu", rs1=0x2_0000, rs2=0x3_0000, rd=1)["rd"] == 7


def test_mac_and_msu(once):
    assert once("p.mac", rs1=-3, rs2=5, rd=20)["rd"] == 5
    assert once("p.msu", rs1=-3, rs2=5, rd=20)["rd"] == 35
    assert once("p.mac", rs1=0x1_0000, rs2=0x1_0000, rd=9)["rd"] == 9


@pytest.mark.parametrize(
    ("mnemonic", "rs1", "rs2", "taken"),
    [
        ("beq", 1, 1, 1),
        ("beq", 1, 2, 0),
        ("bne", 1, 2, 1),
        ("blt", ONES, 0, 1),
        ("bltu", ONES, 0, 0),
        ("bge", 3, 3, 1),
        ("bge", ONES, 0, 0),
        ("bgeu", ONES, 0, 1),
    ],
)
def test_branches(once, mnemonic, rs1, rs2, taken):
    effects = once(mnemonic, rs1=rs1, rs2=rs2, pc=0x1000, boff13=-4096)
    assert (effects["taken"], effects["target"], effects["rd"]) == (taken, 0, None)


def test_branches_with_immediate(once):
    assert once("p.beqimm", rs1=-16, simm5=-16, boff13=4094, pc=2)["taken"] == 1
    assert once("p.beqimm", rs1=16, simm5=-16, boff13=4094, pc=2)["taken"] == 0
    assert once("p.bneimm", rs1=15, simm5=15, boff13=4094, pc=2)["taken"] == 0
    assert once("p.bneimm", rs1=0, simm5=15, boff13=4094, pc=2)["target"] == 4096


def test_jumps_link_past_the_instruction(once):
    jump = once("jal", pc=0x100, joff21=-0x100)
    assert (jump["rd"], jump["taken"], jump["target"]) == (0x104, 1, 0)
    assert once("jal", pc=0x100, joff21=0x7FFFE)["target"] == 0x800FE
    assert once("jal", pc=0x100, joff21=4, length=2)["rd"] == 0x102
    indirect = once("jalr", rs1=0x2001, imm12=4, pc=0x100)
    assert (indirect["rd"], indirect["target"]) == (0x104, 0x2004)


def test_auipc(once):
    assert once("auipc", pc=0x1004, uimm20=0xFFFFF)["rd"] == 4


def test_sequencer_operations_have_no_effect(once):
    for mnemonic in ("fence", "fence.i", "ecall", "ebreak", "mret", "wfi", "csrrw", "lp.setup"):
        assert set(once(mnemonic).values()) == {None}
