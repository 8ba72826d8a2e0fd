"""Loads, stores and their addressing forms (guide, "RV32I" and "Loads and stores of XpulpV2")."""

import pytest

pytestmark = pytest.mark.unit

IMMEDIATE, POST_IMMEDIATE, POST_REGISTER, REGISTER = "rd,imm12(rs1)", "rd,imm12(rs1!)", "rd,rs2(rs1!)", "rd,rs2(rs1)"
STORE, STORE_POST, STORE_POST_REGISTER, STORE_REGISTER = (
    "rs2,stimm12(rs1)",
    "rs2,stimm12(rs1!)",
    "rs2,rs3(rs1!)",
    "rs2,rs3(rs1)",
)


@pytest.mark.parametrize(
    ("mnemonic", "size", "expected"),
    [
        ("lb", 1, 0xFFFF_FFF4),
        ("lbu", 1, 0xF4),
        ("lh", 2, 0xFFFF_83F4),
        ("lhu", 2, 0x83F4),
        ("lw", 4, 0x1122_83F4),
    ],
)
def test_loads_extend(once, mnemonic, size, expected):
    effects = once(mnemonic, IMMEDIATE, rs1=0x100, imm12=-1, loaded=0x1122_83F4)
    assert (effects["rd"], effects["size"], effects["address"], effects["base"]) == (expected, size, 0xFF, None)
    for form in (POST_IMMEDIATE, POST_REGISTER, REGISTER):
        assert once(f"p.{mnemonic}", form, loaded=0x1122_83F4)["rd"] == expected


def test_event_load_is_a_word_load(once):
    effects = once("p.elw", rs1=0x100, imm12=8, loaded=0x8765_4321)
    assert (effects["rd"], effects["address"], effects["size"], effects["base"]) == (0x8765_4321, 0x108, 4, None)


def test_post_increment_accesses_the_old_base(once):
    load = once("p.lb", POST_IMMEDIATE, rs1=0xFFFF_FFFE, imm12=4)
    assert (load["address"], load["base"], load["base_written"]) == (0xFFFF_FFFE, 2, 1)
    load = once("p.lw", POST_REGISTER, rs1=0x100, rs2=-8)
    assert (load["address"], load["base"]) == (0x100, 0xF8)


def test_register_offset_without_increment(once):
    load = once("p.lw", REGISTER, rs1=0x100, rs2=-8)
    assert (load["address"], load["base"]) == (0xF8, None)


def test_register_loads_keep_the_size_in_funct7(once):
    assert [once(f"p.{op}", REGISTER)["size"] for op in ("lb", "lh", "lw", "lbu", "lhu")] == [1, 2, 4, 1, 2]


@pytest.mark.parametrize(("mnemonic", "size", "stored"), [("sb", 1, 0xF4), ("sh", 2, 0x83F4), ("sw", 4, 0x1122_83F4)])
def test_stores_cut(once, mnemonic, size, stored):
    effects = once(mnemonic, STORE, rs1=0x10, rs2=0x1122_83F4, stimm12=-17)
    assert (effects["store"], effects["size"], effects["address"]) == (stored, size, 0xFFFF_FFFF)
    assert effects["rd"] is None


def test_store_with_register_offset_takes_it_from_the_rd_field(once):
    effects = once("p.sw", STORE_REGISTER, rs1=0x100, rs2=7, rd=0x20)
    assert (effects["address"], effects["store"], effects["base"]) == (0x120, 7, None)
    effects = once("p.sh", STORE_POST_REGISTER, rs1=0x100, rs2=7, rd=0x20)
    assert (effects["address"], effects["store"], effects["base"]) == (0x100, 7, 0x120)


def test_store_with_post_increment(once):
    effects = once("p.sb", STORE_POST, rs1=0x100, rs2=0x1FF, stimm12=2047)
    assert (effects["address"], effects["store"], effects["base"]) == (0x100, 0xFF, 0x8FF)


# Words typed from the guide, "Sample encodings".
@pytest.mark.parametrize(
    ("word", "form", "address", "base"),
    [
        (0x0045_A50B, POST_IMMEDIATE, 0x1000, 0x1004),
        (0x20C5_F50B, POST_REGISTER, 0x1000, 0x1300),
    ],
)
def test_sample_loads(once, word, form, address, base):
    effects = once("p.lw", form, word=word, rs1=0x1000, rs2=0x300)
    assert (effects["address"], effects["base"]) == (address, base)


def test_sample_stores(once):
    effects = once("p.sw", STORE_POST_REGISTER, word=0x00C5_E52B, rs1=0x1000, rd=0x300, rs2=5)
    assert (effects["address"], effects["base"], effects["store"]) == (0x1000, 0x1300, 5)
    assert once("p.sb", STORE_POST, word=0xFEC5_8FAB, rs1=0x1000)["base"] == 0xFFF
