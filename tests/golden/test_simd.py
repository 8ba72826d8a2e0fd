"""Lane-wise SIMD and lane moves: directed values (guide, "Easily mistaken") and plain-integer lanes."""

from random import Random

import pytest

from xpulpnn.isa.formats import Op2Mode
from xpulpnn.isa.table import INSNS

pytestmark = pytest.mark.unit

SEED = 20260
WIDTHS = {"h": 16, "b": 8, "n": 4, "c": 2}


def signed(value, width):
    value %= 1 << width
    return value - (1 << width) if value >> (width - 1) else value


def split(word, width):
    return [(word >> lsb) % (1 << width) for lsb in range(0, 32, width)]


def join(lanes, width):
    return sum((lane % (1 << width)) << (index * width) for index, lane in enumerate(lanes))


# Transcribed from the tables of sections 5.1 and 6: a, b unsigned, x, y signed, w lane width, m all ones.
LANE = {
    "add": lambda a, b, x, y, w, m: a + b,
    "sub": lambda a, b, x, y, w, m: a - b,
    "avg": lambda a, b, x, y, w, m: signed(a + b, w) // 2,
    "avgu": lambda a, b, x, y, w, m: (a + b) % (m + 1) // 2,
    "min": lambda a, b, x, y, w, m: x if x < y else y,
    "max": lambda a, b, x, y, w, m: y if x < y else x,
    "minu": lambda a, b, x, y, w, m: a if a < b else b,
    "maxu": lambda a, b, x, y, w, m: b if a < b else a,
    "srl": lambda a, b, x, y, w, m: a // 2 ** (b % w),
    "sra": lambda a, b, x, y, w, m: x // 2 ** (b % w),
    "sll": lambda a, b, x, y, w, m: a * 2 ** (b % w),
    "or": lambda a, b, x, y, w, m: a | b,
    "xor": lambda a, b, x, y, w, m: a ^ b,
    "and": lambda a, b, x, y, w, m: a & b,
    "cmpeq": lambda a, b, x, y, w, m: m if a == b else 0,
    "cmpne": lambda a, b, x, y, w, m: 0 if a == b else m,
    "cmpgt": lambda a, b, x, y, w, m: m if x > y else 0,
    "cmpge": lambda a, b, x, y, w, m: 0 if x < y else m,
    "cmplt": lambda a, b, x, y, w, m: m if x < y else 0,
    "cmple": lambda a, b, x, y, w, m: 0 if x > y else m,
    "cmpgtu": lambda a, b, x, y, w, m: m if a > b else 0,
    "cmpgeu": lambda a, b, x, y, w, m: 0 if a < b else m,
    "cmpltu": lambda a, b, x, y, w, m: m if a < b else 0,
    "cmpleu": lambda a, b, x, y, w, m: 0 if a > b else m,
}
ZERO_EXTENDED = {"avgu", "minu", "maxu", "cmpgtu", "cmpgeu", "cmpltu", "cmpleu"}
LANE_ROWS = [insn for insn in INSNS if insn.mnemonic.startswith("pv.") and insn.mnemonic.split(".")[1] in LANE]
CORNERS = (0, 0xFFFF_FFFF, 0x8000_0000, 0x7FFF_7FFF, 0x8080_8080, 0x7F7F_7F7F, 0x7777_8888, 0xAAAA_5555)


def test_every_lane_operation_has_its_forms():
    assert len(LANE_ROWS) == len(LANE) * (2 * 3 + 2 * 2)


@pytest.mark.parametrize("insn", LANE_ROWS, ids=lambda insn: insn.mnemonic)
def test_lanes_stand_alone(many, insn):
    generator = Random(f"{SEED}{insn.mnemonic}")
    name, width = insn.mnemonic.split(".")[1], WIDTHS[insn.mnemonic[-1]]
    ones = (1 << width) - 1
    immediates = range(64) if name in ZERO_EXTENDED else range(-32, 32)
    field = "uimm6" if name in ZERO_EXTENDED else "imm6"
    cases = [(a, b) for a in CORNERS for b in CORNERS]
    cases += [(generator.getrandbits(32), generator.getrandbits(32)) for _ in range(64)]
    executions, expected = [], []
    for rs1, rs2 in cases:
        immediate = generator.choice(immediates)
        if ".sci." in insn.mnemonic:
            lanes_b, operands = [immediate & ones] * (32 // width), {field: immediate}
        else:
            lanes_b, operands = split(rs2, width), {}
            if ".sc." in insn.mnemonic:
                lanes_b = lanes_b[:1] * (32 // width)
        lanes = [
            LANE[name](a, b, signed(a, width), signed(b, width), width, ones)
            for a, b in zip(split(rs1, width), lanes_b, strict=True)
        ]
        executions.append({"rs1": rs1, "rs2": rs2, **operands})
        expected.append(join(lanes, width))
    for execution, result, wanted in zip(executions, many(insn, executions).rd, expected, strict=True):
        assert result == wanted, f"seed {SEED}: {execution}"


@pytest.mark.parametrize(
    ("mnemonic", "rs1", "rs2", "expected"),
    [
        # the carry is dropped before the shift
        ("pv.avg.b", 0x7F, 0x7F, 0x0000_00FF),
        ("pv.avg.c", 1, 1, 3),
        ("pv.avgu.b", 0xFF, 0xFF, 0x7F),
        # carries and borrows stay in their lane
        ("pv.add.c", 0xFFFF_FFFF, 0x5555_5555, 0),
        ("pv.sub.n", 0, 0x1111_1111, 0xFFFF_FFFF),
        # point 7: amounts of each lane, masked to 4/3/2/1 bits
        ("pv.sll.n", 0x1111_1111, 0xFEDC_3210, 0x8421_8421),
        ("pv.sra.c", 0xAAAA_AAAA, 0xFFFF_FFFE, 0xFFFF_FFFE),
        ("pv.srl.sc.h", 0x8000_8000, 0xFFFF_FFF4, 0x0800_0800),
        ("pv.sra.sc.b", 0x8040_8040, 0x1234_567B, 0xF008_F008),
        # shifts sign with their own top bit, not with bit 31
        ("pv.sra.n", 0x7878_7878, 0x1111_1111, 0x3C3C_3C3C),
        ("pv.max.sc.c", 0x0000_00E4, 0x3, 0x0000_00F4),
    ],
)
def test_values_from_the_manual(once, mnemonic, rs1, rs2, expected):
    assert once(mnemonic, rs1=rs1, rs2=rs2)["rd"] == expected


def test_immediates_extend_by_operation(once):
    assert once("pv.add.sci.b", word=0x03E5_F557, rs1=0x0403_0201)["rd"] == 0x0100_FFFE
    assert once("pv.add.sci.h", rs1=0, imm6=-1)["rd"] == 0xFFFF_FFFF
    assert once("pv.maxu.sci.h", rs1=0, uimm6=63)["rd"] == 0x003F_003F
    assert once("pv.cmpgeu.sc.c", word=0x3EC5_B557, rs1=0x0000_00E4, rs2=0xFFFF_FFF2)["rd"] == 0xF0


@pytest.mark.parametrize(
    ("mnemonic", "value", "expected"),
    [
        ("pv.abs.h", 0x8000_FFFF, 0x8000_0001),
        ("pv.abs.b", 0x80FF_7F01, 0x8001_7F01),
        ("pv.abs.n", 0x8F71_89AB, 0x8171_8765),
        ("pv.abs.c", 0x0000_00E4, 0x0000_0064),
    ],
)
def test_absolute_value(once, mnemonic, value, expected):
    assert once(mnemonic, rs1=value)["rd"] == expected


WORD = 0x84F3_7261


@pytest.mark.parametrize(
    ("mnemonic", "selector", "expected"),
    [
        ("pv.extract.h", 1, 0xFFFF_84F3),
        ("pv.extract.h", 62, 0x7261),
        ("pv.extractu.h", 63, 0x84F3),
        ("pv.extract.b", 3, 0xFFFF_FF84),
        ("pv.extract.b", 4, 0x61),
        ("pv.extractu.b", 63, 0x84),
        ("pv.extractu.b", 2, 0xF3),
    ],
)
def test_extract_wraps_the_lane_number(once, mnemonic, selector, expected):
    assert once(mnemonic, rs1=WORD, uimm6=selector)["rd"] == expected


@pytest.mark.parametrize(
    ("mnemonic", "selector", "expected"),
    [
        ("pv.insert.h", 0, 0x1111_7261),
        ("pv.insert.h", 3, 0x7261_1111),
        ("pv.insert.b", 0, 0x1111_1161),
        ("pv.insert.b", 7, 0x6111_1111),
    ],
)
def test_insert_keeps_the_other_lanes(once, mnemonic, selector, expected):
    assert once(mnemonic, rs1=WORD, rd=0x1111_1111, uimm6=selector)["rd"] == expected


@pytest.mark.parametrize(
    ("mnemonic", "operands", "selectors", "old", "expected"),
    [
        ("pv.shuffle.h", {}, 0xFFFE_0001, 0, 0x7261_84F3),
        ("pv.shuffle.b", {}, 0xFC01_0203, 0, 0x6172_F384),
        ("pv.shuffle.sci.h", {"uimm6": 0b000010}, 0, 0, 0x84F3_7261),
        ("pv.shuffle.sci.h", {"uimm6": 0b111101}, 0, 0, 0x7261_84F3),
        ("pv.shufflei0.sci.b", {"uimm6": 0b011011}, 0, 0, 0x6172_F384),
        ("pv.shufflei1.sci.b", {"uimm6": 0b000000}, 0, 0, 0x7261_6161),
        ("pv.shufflei2.sci.b", {"uimm6": 0x1B}, 0, 0, 0xF372_F384),
        ("pv.shufflei3.sci.b", {"uimm6": 0b111111}, 0, 0, 0x8484_8484),
        ("pv.shuffle2.h", {}, 0x0001_0002, 0xAAAA_BBBB, 0xAAAA_7261),
        ("pv.shuffle2.h", {}, 0xFFFF_0000, 0xAAAA_BBBB, 0x84F3_BBBB),
        ("pv.shuffle2.b", {}, 0x0700_0405, 0xA3A2_A1A0, 0x84A0_6172),
        ("pv.shuffle2.b", {}, 0xFB0A_0903, 0xA3A2_A1A0, 0xA3A2_A1A3),
        ("pv.pack.h", {}, 0x9999_5555, 0xAAAA_BBBB, 0x7261_5555),
        ("pv.packhi.b", {}, 0x9999_5577, 0xAAAA_BBBB, 0x6177_BBBB),
        ("pv.packlo.b", {}, 0x9999_5577, 0xAAAA_BBBB, 0xAAAA_6177),
    ],
)
def test_shuffles_and_packs(once, mnemonic, operands, selectors, old, expected):
    assert once(mnemonic, rs1=WORD, rs2=selectors, rd=old, **operands)["rd"] == expected


def test_sample_shuffle(once):
    assert once("pv.shufflei2.sci.b", word=0xF2D5_F557, rs1=WORD)["rd"] == 0xF372_F384


def test_lane_rows_cover_all_operand_forms():
    assert {insn.mode for insn in LANE_ROWS} == set(Op2Mode)
