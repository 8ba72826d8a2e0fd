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


def test_lane_rows_cover_all_operand_forms():
    assert {insn.mode for insn in LANE_ROWS} == set(Op2Mode)
