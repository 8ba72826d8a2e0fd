"""Packed operations: directed values (guide, "Easily mistaken", "Mac&Load") and lanes of plain integers; pv.qnt
against the counting definition and the narrow address arithmetic (guide, "Threshold quantisation")."""

from fractions import Fraction
from math import floor
from random import Random

import numpy as np
import pytest
from tests.isa.rows import in_groups
from tests.reference.golden.executions import many

from xpulpnn.errors import EncodingError
from xpulpnn.isa.formats import Op2Mode
from xpulpnn.isa.table import INSNS, find
from xpulpnn_sim.reference.golden.dotp import quantise
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import execute
from xpulpnn_sim.reference.statements.compiled import Hart

SEED = 20260
WIDTHS = {"h": 16, "b": 8, "n": 4, "c": 2}
ONES = 0xFFFF_FFFF


def signed(value, width):
    value %= 1 << width
    return value - (1 << width) if value >> (width - 1) else value


def split(word, width, is_signed=False):
    lanes = [(word >> lsb) % (1 << width) for lsb in range(0, 32, width)]
    return [signed(lane, width) for lane in lanes] if is_signed else lanes


def check(executions, effects, expected):
    for execution, result, value in zip(executions, effects.rd, expected, strict=True):
        assert result == value & ONES, f"seed {SEED}: {execution}"


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
LANE_CORNERS = (0, 0xFFFF_FFFF, 0x8000_0000, 0x7FFF_7FFF, 0x8080_8080, 0x7F7F_7F7F, 0x7777_8888, 0xAAAA_5555)


def test_every_lane_operation_has_its_forms():
    assert len(LANE_ROWS) == len(LANE) * (2 * 3 + 2 * 2)
    assert {insn.mode for insn in LANE_ROWS} == set(Op2Mode)


@in_groups(LANE_ROWS)
def test_lanes_stand_alone(insn):
    generator = Random(f"{SEED}{insn.mnemonic}")
    name, width = insn.mnemonic.split(".")[1], WIDTHS[insn.mnemonic[-1]]
    ones = (1 << width) - 1
    immediates = range(64) if name in ZERO_EXTENDED else range(-32, 32)
    field = "uimm6" if name in ZERO_EXTENDED else "imm6"
    cases = [(a, b) for a in LANE_CORNERS for b in LANE_CORNERS]
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
    check(executions, many(insn, executions), expected)


CORNERS = (0, ONES, 0x8000_8000, 0x8080_8080, 0x8888_8888, 0xAAAA_AAAA, 0x7777_7777, 0x5555_5555, 0x0102_0304)
# Signs of (first, second) factor, transcribed from sections 5.2, 7.2 and 7.3.
DOT_SIGNS = {"up": (False, False), "usp": (False, True), "sp": (True, True)}
NN_SIGNS = {"up": (False, False), "usp": (False, True), "sup": (True, False), "sp": (True, True)}
CU_SIGNS = {"up": (False, False), "usp": (True, False), "sp": (True, True)}
DOT_ROWS = [insn for insn in INSNS if insn.uses_dotp and not insn.is_mac_load]
NN_ROWS = [insn for insn in INSNS if insn.op in ("pv.mlsdot", "pv.mldot") and not insn.alias]
PAIR_ROWS = [insn for insn in INSNS if insn.op in ("pv.mlsduo", "pv.mlduo")]
CU_ROWS = [insn for insn in INSNS if insn.op == "pv.cusdot"]


def products(first, second):
    return sum(a * b for a, b in zip(first, second, strict=True))


def words(generator):
    yield from ((a, b, 0x7FFF_FFFF) for a in CORNERS for b in CORNERS)
    yield from (tuple(generator.getrandbits(32) for _ in range(3)) for _ in range(64))


@in_groups(DOT_ROWS)
def test_dot_products(insn):
    generator = Random(f"{SEED}{insn.mnemonic}")
    name, width = insn.mnemonic.split(".")[1], WIDTHS[insn.mnemonic[-1]]
    accumulates = name.startswith("sdot")
    signs = DOT_SIGNS[name.removeprefix("s").removeprefix("dot")]
    executions, expected = [], []
    for rs1, rs2, old in words(generator):
        immediate = generator.randrange(64) if signs == (False, False) else generator.randrange(-32, 32)
        second, operands = split(rs2, width, signs[1]), {}
        if ".sci." in insn.mnemonic:
            second = [immediate] * (32 // width)
            operands = {"uimm6" if signs == (False, False) else "imm6": immediate}
        elif ".sc." in insn.mnemonic:
            second = second[:1] * (32 // width)
        expected.append(products(split(rs1, width, signs[0]), second) + (old if accumulates else 0))
        executions.append({"rs1": rs1, "rs2": rs2, "rd": old, **operands})
    check(executions, many(insn, executions), expected)


@in_groups(NN_ROWS)
def test_mac_load_products_use_the_old_entries(insn):
    generator = Random(f"{SEED}{insn.mnemonic}")
    width = WIDTHS[insn.mnemonic[-1]]
    name = insn.mnemonic.split(".")[1]
    signs, accumulates = NN_SIGNS[name.removeprefix("mlsdot").removeprefix("mldot")], name.startswith("mls")
    selectors = [value for value in range(32) if (value >> 3 == 0b11) == insn.operands.endswith("'")]
    executions, expected = [], []
    for weight, activation, old in words(generator):
        selector = generator.choice(selectors)
        total = products(split(weight, width, signs[0]), split(activation, width, signs[1]))
        expected.append(total + (old if accumulates else 0))
        executions.append({"rd": old, "wgt": weight, "act": activation, "loaded": 0x1234_5678, "nnimm5": selector})
    check(executions, many(insn, executions), expected)


@in_groups(PAIR_ROWS, 8)
def test_two_products_with_the_old_entries(insn):
    generator = Random(f"{SEED}{insn.mnemonic}")
    _, name, letter, *narrow = insn.mnemonic.split(".")
    width = WIDTHS[letter]
    weights, part = (WIDTHS[narrow[0][0]], int(narrow[0][1])) if narrow else (width, 0)
    slice_of = slice(part * 32 // width, (part + 1) * 32 // width)
    signs, accumulates = NN_SIGNS[name.removeprefix("mlsduo").removeprefix("mlduo")], name.startswith("mls")
    loads = "(" in insn.operands
    entries = (0, 1, 2, 3, 4, 5, 8, 9)
    executions, sums, loaded = [], ([], []), []
    for weight, activation, old in words(generator):
        other, old2 = generator.getrandbits(32), generator.getrandbits(32)
        for total, factor, before in zip(sums, (activation, other), (old, old2), strict=True):
            product = products(split(weight, weights, signs[0])[slice_of], split(factor, width, signs[1]))
            total.append((product + (before if accumulates else 0)) & 0xFFFF_FFFF)
        loaded.append(generator.choice(entries))
        fields = {"w": generator.randrange(4), "p": generator.randrange(2)} | ({"t": loaded[-1]} if loads else {})
        executions.append({"rd": old, "rs2": old2, "wgt": weight, "act": activation, "act2": other, **fields})
    effects = many(insn, executions)
    check(executions, effects, sums[0])
    assert effects.rd2.tolist() == sums[1]
    if loads:
        assert effects.accessed.all()
        assert effects.nn_index.tolist() == loaded
    else:
        assert effects.address is effects.nn_index is None


@in_groups(CU_ROWS)
def test_compute_and_update(insn):
    generator = Random(f"{SEED}{insn.mnemonic}")
    _, name, letter, entry = insn.mnemonic.split(".")
    width, signs = WIDTHS[letter], CU_SIGNS[name.removeprefix("cusdot")]
    executions, expected = [], []
    for weight, activation, old in words(generator):
        expected.append(products(split(weight, width, signs[0]), split(activation, width, signs[1])) + old)
        executions.append({"rs1": 0xFFFF_FFFE, "rs2": activation, "rd": old, "wgt": weight, "act": 0x5555})
    effects = many(insn, executions)
    check(executions, effects, expected)
    assert set(effects.address) == {0xFFFF_FFFE}
    assert set(effects.base) == {2}
    assert set(effects.nn_index) == {2 + int(entry)}
    assert effects.accessed.all()
    assert effects.size == 4


RQ_CORNERS = (0, 1, ONES, 0x7FFF_FFFF, 0x8000_0000, 0x0001_0000, 0xFFFF_0000, 0x0000_8000)


def element(name, letter, factor, summand, rs1, shift):
    """The element that goes into the lane, as the text of the guide says it."""
    width = WIDTHS[letter]
    y = signed(factor * rs1 + summand, 32) >> (shift & 31)
    low, high = (0, (1 << width) - 1) if name == "pv.rqu" else (-(1 << width - 1), (1 << width - 1) - 1)
    return min(max(y, low), high) & ((1 << width) - 1)


@pytest.mark.parametrize("letter", "bnc")
@pytest.mark.parametrize("name", ["pv.rqu", "pv.rqs"])
def test_every_lane_and_shift(name, letter):
    rng = Random(f"{SEED}{name}{letter}")
    width, executions, expected = WIDTHS[letter], [], []
    for lane in range(32 // width):
        for shift in range(32):
            factor, summand, rs1 = (rng.choice((rng.getrandbits(32), rng.choice(RQ_CORNERS))) for _ in range(3))
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
    check(executions, many(find(f"{name}.{letter}"), executions), expected)


@pytest.mark.parametrize("letter", "bnc")
@pytest.mark.parametrize("name", ["pv.rqxu", "pv.rqxs"])
def test_every_lane_and_shift_of_64_bits(name, letter):
    rng = Random(f"{SEED}{name}{letter}")
    width, executions, expected = WIDTHS[letter], [], []
    low, high = (0, (1 << width) - 1) if name == "pv.rqxu" else (-(1 << width - 1), (1 << width - 1) - 1)
    inside = 0
    for lane in range(32 // width):
        for shift in range(64):
            factor, summand, rs1 = (rng.choice((rng.getrandbits(32), rng.choice(RQ_CORNERS))) for _ in range(3))
            zero = rng.randrange(-128, 128)
            if rng.randrange(2):
                # a result near the bounds, wherever the shift puts them
                factor = rng.choice((1, 0x4000_0000, -(1 << 31), rng.getrandbits(31) | 1))
                zero = rng.choice((0, 1, -1))
                rs1 = (rng.randrange(low - 1, high + 2) << shift) // factor - summand & ONES
            rs2, old = (
                rng.getrandbits(16) << 16 | (zero & 0xFF) << 8 | rng.getrandbits(2) << 6 | shift,
                rng.getrandbits(32),
            )
            executions.append({"rs1": rs1, "rs2": rs2, "rd": old, "act": factor & ONES, "wgt": summand, "lane": lane})
            # the nearest integer, halves up
            scaled = Fraction(signed(rs1 + summand, 32) * signed(factor, 32), 1 << shift)
            y = floor(scaled + Fraction(1, 2)) + zero
            inside += low < y < high
            mask = (1 << width) - 1 << lane * width
            expected.append(old & ~mask | (min(max(y, low), high) & mask >> lane * width) << lane * width)
    check(executions, many(find(f"{name}.{letter}"), executions), expected)
    assert inside > len(executions) / 20


class Recorder:
    """Half-words by address, and the addresses asked for."""

    def __init__(self, halves):
        self.halves, self.addresses = halves, []

    def __call__(self, addresses):
        self.addresses += addresses.tolist()
        return np.array([self.halves.get(address, 0) & 0xFFFF for address in addresses.tolist()], np.uint32)


def quantised(mnemonic, pixels, middle, memory):
    word = find(mnemonic).encode(rd=10, rs1=11, rs2=12)
    rs1 = (pixels[0] & 0xFFFF) | (pixels[1] & 0xFFFF) << 16
    arrays = [np.array([value], np.uint32) for value in (word, rs1, middle)]
    result = int(quantise(find(mnemonic), Sources(word=arrays[0], rs1=arrays[1], rs2=arrays[2]), memory).rd[0])
    # so do the statements, which the simulator executes
    regs = [0] * 11 + [rs1, middle] + [0] * 19
    hart = Hart(regs=regs, read=lambda at: memory.halves.get(at & ~1, 0) >> at % 2 * 8 & 0xFF)
    hart.execute(find(mnemonic), word)
    assert hart.regs[10] == result
    return result


@pytest.mark.parametrize(("letter", "width", "stride", "middle"), [("n", 4, 32, 14), ("c", 2, 8, 2)])
def test_codes_count_the_thresholds_below(letter, width, stride, middle):
    generator = Random(SEED)
    start = 0x1000
    for _ in range(200):
        rows = [sorted(generator.randrange(-32768, 32768) for _ in range(2**width - 1)) for _ in range(2)]
        pixels = [generator.choice([generator.randrange(-32768, 32768), generator.choice(row)]) for row in rows]
        memory = Recorder(
            {
                start + stride * pixel + 2 * index: value
                for pixel, row in enumerate(rows)
                for index, value in enumerate(row)
            }
        )
        codes = [
            (sum(threshold < pixel for threshold in row) - 2 ** (width - 1)) % 2**width
            for pixel, row in zip(pixels, rows, strict=True)
        ]
        assert quantised(f"pv.qnt.{letter}", pixels, start + middle, memory) == codes[1] << width | codes[0], (
            f"seed {SEED}"
        )
        assert len(memory.addresses) == 2 * width


def test_extreme_pixels():
    memory = Recorder({})
    assert quantised("pv.qnt.n", (-1, 1), 0x100E, memory) == 0x78
    assert quantised("pv.qnt.c", (-1, 1), 0x1002, memory) == 0b0110


def test_search_stays_in_its_block_and_the_second_address_in_its_half():
    memory = Recorder({})
    quantised("pv.qnt.n", (1, -1), 0x0001_FFFC, memory)
    # pixel 0: up by 8, 4, 2 within 0x1FFC0..0x1FFFF; pixel 1: 0xFFFC + 32 wraps in 16 bits, then down
    assert memory.addresses[:4] == [0x1_FFFC, 0x1_FFC4, 0x1_FFC8, 0x1_FFCA]
    assert memory.addresses[4:] == [0x1_001C, 0x1_0014, 0x1_0010, 0x1_000E]


def test_execute_refuses_the_operation_without_memory():
    with pytest.raises(EncodingError, match=r"^`insn\.op` must be one of the reference operations, not `pv\.qnt`$"):
        execute(find("pv.qnt.n"), Sources(word=np.zeros(1, np.uint32)))
