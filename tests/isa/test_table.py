"""The instruction table against a transcription of the manual that was typed independently of it."""

import csv
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import pytest

from xpulpnn.config import CoreConfig
from xpulpnn.errors import EncodingError
from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt, Extension, Op2Mode
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import INSNS, Decoder, enabled, find

MANUAL = Path(__file__).with_name("encodings.csv")
ALL_EXTENSIONS = frozenset(Extension)
ALL_WIDTHS = frozenset({16, 8, 4, 2})

TWO_PRODUCTS = """
h    000 0.   b    001 0.   n    010 0.   c    011 0.
h.b0 100 01   h.b1 101 01   h.n0 100 10   h.n1 101 10   h.n2 100 11   h.n3 101 11
b.n0 110 01   b.n1 111 01   b.c0 110 10   b.c1 111 10   b.c2 110 11   b.c3 111 11
n.c0 010 1.   n.c1 011 1.
"""
"""Suffix, funct3 and bits 26:25 of Mac&Load of two products; where bit 25 is a dot it leaves out the accumulation, else
bit 31 does."""


def _two_products() -> Iterator[tuple[str, ...]]:
    words = TWO_PRODUCTS.split()
    for suffix, funct3, upper in zip(words[::3], words[1::3], words[2::3], strict=True):
        extension = "XpulpMLmixed" if "." in suffix else "XpulpMLpair"
        for without, signed_weight, signed_activation, loads in product("01", "01", "01", (True, False)):
            signs = {"00": "up", "01": "usp", "10": "sup", "11": "sp"}[signed_weight + signed_activation]
            bits = upper.replace(".", without)
            bit31 = "0" if bits != upper else without
            entry, base, operands = ("--", "-----", "(rs1!),w,p,t") if loads else ("11", "00000", "w,p")
            pattern = f"{bit31}{entry}{signed_weight}{signed_activation}{bits}{entry}---{base}{funct3}----01110111"
            name, sums = ("pv.mlduo", "rd2") if without == "1" else ("pv.mlsduo", "rd2~")
            yield f"{name}{signs}.{suffix}", pattern, f"{sums},{operands}", extension


with MANUAL.open(newline="") as file:
    ROWS = [*map(tuple, csv.reader(file)), *_two_products()][1:]


def _patterns(insn: Insn) -> list[str]:
    """Patterns of the legal words."""
    operands = insn.operands.split(",")
    if "t" in operands:
        # upper half of an entry at 30:29, lower half at 24:23
        before, after = insn.pattern[:1], insn.pattern[3:7]
        entries = [f"{number:04b}" for number in (*range(6), 8, 9)]
        return [f"{before}{bits[:2]}{after}{bits[2:]}{insn.pattern[9:]}" for bits in entries]
    before, rest = insn.pattern[:7], insn.pattern[9:]
    return [f"{before}{bits}{rest}" for bits in ("00", "01", "10")] if "nnimm5" in operands else []


def _meet(a: str, b: str) -> bool:
    return all(x == y or "-" in (x, y) for x, y in zip(a, b, strict=True))


def _overlap(a: Insn, b: Insn) -> bool:
    common = a.mask & b.mask
    if a.match & common != b.match & common:
        return False
    return any(_meet(x, y) for x in _patterns(a) or [a.pattern] for y in _patterns(b) or [b.pattern])


def test_rows_equal_the_manual():
    table = [
        (i.mnemonic, i.pattern, i.operands, "+".join(e.value for e in i.needs) + (":alias" if i.alias else ""))
        for i in INSNS
    ]
    assert sorted(table) == sorted(ROWS)


def test_words_of_two_rows_never_meet():
    rows = [i for i in INSNS if i.size == 4 and not i.alias]
    assert [(a.mnemonic, b.mnemonic) for a, b in combinations(rows, 2) if _overlap(a, b)] == []


def test_each_alias_overlaps_one_row():
    rows = [i for i in INSNS if i.size == 4 and not i.alias]
    names = {i.mnemonic: [r.mnemonic for r in rows if _overlap(i, r)] for i in INSNS if i.alias}
    expected = {
        f"p.{op}{half}{sign}": [f"p.{op}{half}{sign}N"] for op in ("mul", "mac") for half in ("", "hh") for sign in "su"
    }
    for fmt in "hbnc":
        expected |= {
            f"pv.nnsdotup.{fmt}": [f"pv.mlsdotup.{fmt}"],
            f"pv.nnsdotusp.{fmt}": [f"pv.mlsdotsup.{fmt}"],
            f"pv.nnsdotsp.{fmt}": [f"pv.mlsdotsp.{fmt}"],
        }
    assert names == expected


def test_aliases_mean_what_their_row_means():
    decoder = Decoder(INSNS)
    for alias in (i for i in INSNS if i.alias):
        row = decoder.decode(alias.match)
        assert row is not None
        assert (row.op, row.fmt, row.a_signed, row.b_signed) == (alias.op, alias.fmt, alias.a_signed, alias.b_signed)


def test_decoder_knows_no_aliases_whatever_the_order_of_rows():
    decoder = Decoder(reversed(INSNS))
    decoded = [decoder.decode(row.match) for row in INSNS if row.size == 4]
    assert not [row.mnemonic for row in decoded if row is None or row.alias]


WORDS = {
    0x0000_0000: None,
    0xFFFF_FFFF: None,
    0x0000_8002: None,  # c.jr x0
    0x0440_9533: None,  # p.avgu of RI5CY
    0xC000_5533: None,  # bit reversal
    0xD200_0057: None,  # pv.pack of the high half-words
    0x5400_0057: None,  # complex multiplication
    0x7821_2557: None,  # pv.extract on nibbles
    0xE3F5_3557: None,  # pv.qnt with funct3 011
    0xE000_4077: None,  # Mac&Load with funct3 100
    0x0000_40F7: None,  # pv.rqld with a non-zero rd
    0x0020_4077: None,  # pv.rqld of entry 8
    0x4000_5077: None,  # lane 4 of bytes
    0x8000_6077: None,  # lane 8 of nibbles
    0x0200_70F7: None,  # pv.rqu with bit 25 set, or two products with narrower weights and an odd rd
    0x0400_70F7: None,  # the same with bit 26
    0xB000_0077: None,  # the code 10110
    0x0000_00F7: None,  # two products with an odd rd
    0x2100_0077: None,  # loading entry 6 of two products
    0x4100_0077: None,  # loading entry 10
    0x6100_0077: None,  # loading entry 14
    0x6180_8077: None,  # loading none, with a base
    0x8400_0077: None,  # lane 16 of crumbs, exactly
    0x6400_1077: None,  # lane 4 of bytes, exactly
    0x0000_300B: None,  # post-increment with funct3 011
    0x02C5_C52B: None,  # store with register offset and a non-zero funct7
    0x0400_0033 | 1 << 20: None,  # one operand and a non-zero rs2
    0x4200_205B: None,  # addN register form with a non-zero [29:25]
    0x0200_1013: None,  # slli by 32
    0x0000_607B: None,  # hardware loop, funct3 110
    0x0000_017B: None,  # hardware loop 2
    0x0020_0073: None,  # uret
    0x0000_202F: None,  # atomics
    0x0000_2007: None,  # floating-point load
    0xE0C5_A557: "pv.qnt.n",
    0xE000_1057: "pv.packlo.b",
    0x0200_0057: "pv.add.h",  # bit 25 of .h is ignored
    0x0000_8001: "c.srli",  # shift by 0, a hint
    0x0000_9001: None,  # shift amount bit 5
    0x0000_6005: "c.lui",  # rd = x0, a hint
    0x8000_005B: "p.mulsN",  # not its alias p.muls
    0xE080_0077: "pv.mlsdotup.h",  # not its alias pv.nnsdotup
    0x0FF0_000F: "fence",
    0xFFFF_0001: "c.nop",  # whatever follows it
}
"""Illegal words, and legal ones beside them with their mnemonics."""


@pytest.mark.parametrize("word", WORDS, ids=hex)
def test_words(word: int):
    insn = Decoder(INSNS).decode(word)
    assert (insn and insn.mnemonic) == WORDS[word]


def test_enabled_drops_extensions():
    plain = enabled(BASE_EXTENSIONS, frozenset())
    base = {extension.value for extension in BASE_EXTENSIONS}
    assert [i.key for i in plain] == [(row[0], row[2]) for row in ROWS if row[3] in base]
    names = [i.mnemonic for i in enabled(ALL_EXTENSIONS, ALL_WIDTHS)]
    assert sorted(names) == sorted(row[0] for row in ROWS if not row[3].endswith(":alias"))
    assert len(enabled(ALL_EXTENSIONS, ALL_WIDTHS, aliases=True)) == len(ROWS)


OPTIONS = {
    "XpulpMLcross": "mac_load_cross",
    "XpulpMLdot": "mac_load_dot",
    "XpulpRq": "requantise",
    "XpulpRqx": "requantise_exact",
}


def option_words() -> dict[tuple[str, int], set[str]]:
    """Words of the rows with options by mnemonic and word, every selector and every lane, and the options of each."""
    words: dict[tuple[str, int], set[str]] = {}
    for name, pattern, _, extensions in ROWS:
        options = {OPTIONS[extension] for extension in extensions.split("+") if extension in OPTIONS}
        free = [bit for bit in (31, 30, 29, 28, 27, 24, 23, 22, 21, 20) if pattern[31 - bit :][:1] == "-"]
        fixed = int(pattern.replace("-", "0"), 2)
        for bits in product((0, 1), repeat=len(free) if options else 0):
            word = fixed | sum(bit << place for bit, place in zip(bits, free, strict=False))
            # a selector that another row has too needs what both do
            words.setdefault((name, word), set()).update(options)
    return {key: options for key, options in words.items() if options}


@pytest.mark.parametrize(
    "on",
    [
        set(on)
        for count in range(len(OPTIONS) + 1)
        for on in combinations(OPTIONS.values(), count)
        if "requantise_exact" not in on or "requantise" in on
    ],
    ids=sorted,
)
def test_words_are_legal_with_their_options_only(on: set[str]):
    config = CoreConfig(**dict.fromkeys(on, True))
    decoder = Decoder(enabled(config.extensions, config.widths))
    for (name, word), options in option_words().items():
        insn = decoder.decode(word)
        assert (insn and insn.mnemonic) == (name if options <= on else None), (hex(word), on)


@pytest.mark.parametrize("width", sorted(ALL_WIDTHS))
def test_enabled_drops_absent_widths(width: int):
    suffix = ElemFmt.of_width(width).suffix
    present = {i.key for i in enabled(ALL_EXTENSIONS, ALL_WIDTHS - {width}, aliases=True)}
    missing = {i.mnemonic for i in INSNS if i.key not in present}
    by_name = {i.mnemonic for i in INSNS if i.mnemonic.startswith("pv.") and suffix in i.mnemonic.split(".")[2:]}
    assert missing == by_name


READS = {
    "": "pv.mlduosp.h|rd2,w,p lui jal csrrwi fence lp.setupi",
    "rs1": "jalr p.beqimm lw csrrw lp.setup p.abs p.bclri pv.add.sci.b pv.mldotup.n pv.rqld p.lw|rd,imm12(rs1!)",
    "rs1 rs2": "beq sw p.addNi pv.pack.h pv.qnt.n p.lw|rd,rs2(rs1!) p.sw|rs2,stimm12(rs1!)",
    "rs1 rd": "p.inserti pv.insert.h pv.sdotup.sci.h pv.mlsdotup.n pv.mlsdotup.n|rd~,(rs1!),nnimm5' pv.mlsduosp.h",
    "rd": "pv.mlsduosp.h|rd2~,w,p",
    "rs1 rs2 rd": "p.addN p.mac pv.shuffle2.b pv.sdotusp.sc.n pv.cusdotup.n.0 pv.rqs.n pv.rqxu.b p.sw|rs2,rs3(rs1)",
}
"""Mnemonics, with operands where there are several forms, by the registers that they read."""


@pytest.mark.parametrize("reads", READS)
def test_reads(reads: str):
    for name in READS[reads].split():
        mnemonic, _, operands = name.partition("|")
        assert find(mnemonic, operands or None).reads == set(reads.split()), name


def test_writes():
    wide = [row for row in ROWS if len(row[1]) == 32]
    assert {i.key for i in INSNS if i.writes_rd and i.size == 4} == {(n, o) for n, _, o, _ in wide if "rd" in o}
    assert {i.key for i in INSNS if i.writes_base} == {(row[0], row[2]) for row in ROWS if "!" in row[2]}


SIGNS = {
    (False, False): "pv.dotup.h pv.mlsdotup.h pv.mldotup.h pv.cusdotup.h.0 pv.mlsduoup.h",
    (False, True): "pv.dotusp.sc.b pv.sdotusp.n pv.mlsdotusp.h pv.mldotusp.h pv.mlduousp.h",
    (True, False): "pv.mlsdotsup.h pv.nnsdotusp.h pv.mldotsup.h pv.cusdotusp.h.1 pv.mlsduosup.h",
    (True, True): "pv.sdotsp.c pv.mlsdotsp.h pv.mldotsp.h pv.cusdotsp.h.2 pv.mlduosp.h",
}


@pytest.mark.parametrize("signs", SIGNS)
def test_signs(signs: tuple[bool, bool]):
    insns = {name: find(name) for name in SIGNS[signs].split()}
    assert {name: (insn.a_signed, insn.b_signed) for name, insn in insns.items()} == dict.fromkeys(insns, signs)


PLAIN_OPERATIONS = """
    addi add, sltiu sltu, c.addi4spn add, c.jr jalr, c.beqz beq, p.elw elw, lp.counti lp.count, lp.starti lp.starti,
    p.beqimm beq, p.clipui clipu, p.fl1 fl1, p.adduRNi adduRN, p.macs macsN, p.machhuNR machhuNR, pv.rqld pv.rqld
"""
OPERATIONS = {
    **{name: (op, None, None, None) for name, op in (pair.split() for pair in PLAIN_OPERATIONS.split(","))},
    "pv.add.sci.b": ("pv.add", ElemFmt.B, Op2Mode.SCI, None),
    "pv.cmpleu.sc.c": ("pv.cmpleu", ElemFmt.C, Op2Mode.SC, None),
    "pv.extract.h": ("pv.extract", ElemFmt.H, None, None),
    "pv.shuffle.sci.h": ("pv.shuffle", ElemFmt.H, Op2Mode.SCI, None),
    "pv.shufflei2.sci.b": ("pv.shufflei", ElemFmt.B, Op2Mode.SCI, 2),
    "pv.mlsdotup.n": ("pv.mlsdot", ElemFmt.N, None, None),
    "pv.cusdotsp.c.3": ("pv.cusdot", ElemFmt.C, None, 3),
    "pv.qnt.c": ("pv.qnt", ElemFmt.C, None, None),
    "pv.mldotsup.b": ("pv.mldot", ElemFmt.B, None, None),
    "pv.rqs.c": ("pv.rqs", ElemFmt.C, None, None),
    "pv.rqxs.n": ("pv.rqxs", ElemFmt.N, None, None),
}


def test_operations():
    insns = {name: find(name) for name in OPERATIONS}
    assert {name: (insn.op, insn.fmt, insn.mode, insn.entry) for name, insn in insns.items()} == OPERATIONS


def test_find_refuses():
    with pytest.raises(EncodingError, match=r"^mnemonic must be in the instruction table, not pv\.foo$"):
        find("pv.foo")
    message = r"^operands of p\.lw must be rd,imm12\(rs1!\) or rd,rs2\(rs1!\) or rd,rs2\(rs1\), not open$"
    with pytest.raises(EncodingError, match=message):
        find("p.lw")
