"""Assembler and disassembler: samples, spellings, every row there and back, programs and messages."""

import random
import zlib
from collections.abc import Sequence

import pytest
from tests.isa.rows import in_groups
from tests.programs import encode_line

from xpulpnn.errors import EncodingError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import INSNS, Decoder, find
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.assembly.disasm import disassemble, render

REPEATS = 8


def _random_words(insn: Insn, rng: random.Random) -> list[int]:
    choices: dict[str, Sequence[int]] = {}
    for token in insn.tokens:
        f = token.field
        values = range(f.low, f.high + 1, f.step)
        choices[f.name] = [value for value in values if token.accepts(value)] if f.high < 1 << 13 else values
    return [insn.encode(**{name: rng.choice(values) for name, values in choices.items()}) for _ in range(REPEATS)]


@in_groups(INSNS)
def test_round_trip(insn: Insn):
    seed = zlib.crc32(" ".join(insn.key).encode())
    rng = random.Random(seed)
    words = _random_words(insn, rng)
    # written under the row's own name, aliases included
    own = [render(insn, word) for word in words]
    assert all(text.split()[0] == insn.mnemonic for text in own)
    assert assemble("\n".join(own)).words == words, seed
    canonical = [disassemble(word) for word in words]
    assert assemble("\n".join(canonical), base=0x100).words == words, seed
    if not insn.alias:
        assert canonical == own, seed


@pytest.mark.flow
def test_unlisted_bits_do_not_hinder():
    """A legal compressed word, hints included, has a text; reassembled, it has the same meaning."""
    decoder = Decoder(INSNS)
    for half in (half for half in range(0, 1 << 16, 23) if half & 3 != 3):
        insn = decoder.decode(half)
        if insn is not None:
            again = encode_line(disassemble(half))
            assert decoder.decode(again) is insn
            assert insn.decode(again) == insn.decode(half)


def test_targets():
    assert disassemble(0xFEB5_0EE3, pc=0x104) == "beq a0, a1, pc-4  # 0x100"


def test_illegal_words():
    with pytest.raises(EncodingError, match=r"^word must be an enabled instruction, not 0xffffffff$"):
        disassemble(0xFFFF_FFFF)


@pytest.mark.parametrize("make", [tuple, Decoder])
def test_subset_of_the_table(make):
    subset = make([find("add")])
    assert disassemble(0x00C5_8533, insns=subset) == "add a0, a1, a2"
    with pytest.raises(EncodingError):
        disassemble(0x0045_A50B, insns=subset)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        # the manual's sample encodings
        ("p.lw a0, 4(a1!)", 0x0045_A50B),
        ("p.lw a0, a2(a1!)", 0x20C5_F50B),
        ("p.sw a2, a0(a1!)", 0x00C5_E52B),
        ("p.sb a2, -1(a1!)", 0xFEC5_8FAB),
        ("lp.setup 0, a1, pc+16", 0x0085_C07B),
        ("p.beqimm a1, -3, pc+8", 0x01D5_A463),
        ("p.subRN a0, a1, a2", 0x40C5_F55B),
        ("p.mulhhsNR a0, a1, a2, 15", 0xDEC5_C55B),
        ("pv.add.sci.b a0, a1, -3", 0x03E5_F557),
        ("pv.sdotusp.b a0, a1, a2", 0xA8C5_9557),
        ("pv.mlsdotsup.b a0, (a1!), 17", 0xD915_9577),
        ("pv.mlsdotup.h zero, (a1!), 9", 0xE095_8077),
        ("pv.cusdotusp.b.2 a0, (a1!), a2", 0xACC5_9577),
        ("pv.qnt.n a0, a1, (a2)", 0xE0C5_A557),
        ("pv.mlsdotup.b a0, (a1!), 24", 0xE185_9577),
        ("pv.mldotsup.n a0, (a1!), 7", 0xDA75_A577),
        ("pv.rqld 1, (a1!)", 0x0015_C077),
        ("pv.mlsduosup.b a0, (a1!), 2, 1, 9", 0x50D5_9577),
        ("pv.mlduosp.c a2, 3, 0", 0x7BE0_3677),
        ("pv.rqs.c a0, a1, a2, 15", 0xF8C5_F577),
        # base instructions, as the GNU assembler encodes them
        ("lui a0, 1048575", 0xFFFF_F537),
        ("auipc t0, 1", 0x0000_1297),
        ("jal ra, pc+2048", 0x0010_00EF),
        ("beq a0, a1, pc-4", 0xFEB5_0EE3),
        ("srai a0, a0, 31", 0x41F5_5513),
        ("fence rw, w", 0x0310_000F),
        ("csrrw t0, mscratch, t1", 0x3403_12F3),
        ("csrrsi zero, mstatus, 8", 0x3004_6073),
        ("c.addi16sp -64", 0x7139),
        ("c.lwsp ra, 12(sp)", 0x40B2),
        ("c.beqz a0, pc+6", 0xC119),
        ("c.lui a0, -1", 0x757D),
    ],
)
def test_words(text: str, word: int):
    assert f"{encode_line(text):08x}" == f"{word:08x}"
    assert disassemble(word) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("ADDI A0, A1, 1", "addi a0, a1, 1"),
        ("addi\tfp , x11,0b11 # comment", "addi s0, a1, 3"),
        ("addi a0, a1, 1 // comment", "addi a0, a1, 1"),
        ("addi a0, a1, 3 - 1", "addi a0, a1, 2"),
        ("beq a0, a1, 8", "beq a0, a1, pc+8"),
        ("beq a0, a1, . + 8", "beq a0, a1, pc+8"),
        ("jalr a0, a1", "jalr a0, 0(a1)"),
        ("jalr a0, a1, 4", "jalr a0, 4(a1)"),
        ("pv.dotsp.n.sc a0, a1, a2", "pv.dotsp.sc.n a0, a1, a2"),
        ("PV.ADD.B.SCI a0, a1, 1", "pv.add.sci.b a0, a1, 1"),
        ("pv.shufflei0.b.sci a0, a1, 1", "pv.shufflei0.sci.b a0, a1, 1"),
        ("p.clip a0, a1, 5", "p.clipi a0, a1, 5"),
        ("p.extract a0, a1, 7, 8", "p.extracti a0, a1, 7, 8"),
        ("p.addN a0, a1, a2, 3", "p.addNi a0, a1, a2, 3"),
        ("p.clipr a0, a1, a2", "p.clip a0, a1, a2"),
        ("p.extractr a0, a1, a2", "p.extract a0, a1, a2"),
        ("p.bsetr a0, a1, a2", "p.bset a0, a1, a2"),
        ("p.addNr a0, a1, a2", "p.addN a0, a1, a2"),
        ("p.mulsRN a0, a1, a2, 3", "p.mulsNR a0, a1, a2, 3"),
        ("p.machhuRN a0, a1, a2, 3", "p.machhuNR a0, a1, a2, 3"),
        ("p.muls a0, a1, a2", "p.mulsN a0, a1, a2, 0"),
        ("pv.pack a0, a1, a2", "pv.pack.h a0, a1, a2"),
        ("lp.counti x1, 7", "lp.counti 1, 7"),
        ("lp.count l1, a0", "lp.count 1, a0"),
        ("lp.count 0, 7", "lp.counti 0, 7"),
        ("pv.mlsdotsup.n a0, a1, 14", "pv.mlsdotsup.n a0, (a1!), 14"),
        ("pv.nnsdotusp.n a0, (a1!), 14", "pv.mlsdotsup.n a0, (a1!), 14"),
        ("pv.cusdotsp.h.3 a0, a1, a2", "pv.cusdotsp.h.3 a0, (a1!), a2"),
        ("p.lw a0, (a1!)", "p.lw a0, 0(a1!)"),
        ("c.addi4spn a0, sp, 16", "c.addi4spn a0, 16"),
        ("c.addi16sp sp, 32", "c.addi16sp 32"),
        ("csrrs a0, 0xf14, x0", "csrrs a0, mhartid, x0"),
        ("lw a0, %lo(0x12345fff)(a1)", "lw a0, -1(a1)"),
        ("lui a0, %hi(0x12345fff)", "lui a0, 0x12346"),
        # pseudo-instructions
        ("nop", "addi x0, x0, 0"),
        ("mv a0, a1", "addi a0, a1, 0"),
        ("not a0, a1", "xori a0, a1, -1"),
        ("neg a0, a1", "sub a0, x0, a1"),
        ("seqz a0, a1", "sltiu a0, a1, 1"),
        ("snez a0, a1", "sltu a0, x0, a1"),
        ("sgtz a0, a1", "slt a0, x0, a1"),
        ("sgt a0, a1, a2", "slt a0, a2, a1"),
        ("beqz a0, 8", "beq a0, x0, 8"),
        ("bnez a0, 8", "bne a0, x0, 8"),
        ("blez a0, 8", "bge x0, a0, 8"),
        ("bgtz a0, 8", "blt x0, a0, 8"),
        ("bgt a0, a1, 8", "blt a1, a0, 8"),
        ("ble a0, a1, 8", "bge a1, a0, 8"),
        ("bgtu a0, a1, 8", "bltu a1, a0, 8"),
        ("j 8", "jal x0, 8"),
        ("jal 8", "jal x1, 8"),
        ("jr a0", "jalr x0, 0(a0)"),
        ("jalr a0", "jalr x1, 0(a0)"),
        ("ret", "jalr x0, 0(x1)"),
        ("csrr a0, mepc", "csrrs a0, mepc, x0"),
        ("csrw mepc, a0", "csrrw x0, mepc, a0"),
        ("csrc mie, a0", "csrrc x0, mie, a0"),
        ("csrwi mie, 3", "csrrwi x0, mie, 3"),
        ("rdcycle a0", "csrrs a0, 0xc00, x0"),
        ("fence", "fence 15, 15"),
        ("li a0, -2048", "addi a0, x0, -2048"),
        ("li a0, 0xffffffff", "addi a0, x0, -1"),
        ("li a0, 0x12345000", "lui a0, 0x12345"),
        ("li a0, 2048", "lui a0, 1; addi a0, a0, -2048"),
        ("li a0, 0x7fffffff", "lui a0, 0x80000; addi a0, a0, -1"),
        ("li a0, -0x80000000", "lui a0, 0x80000"),
        ("li a0, 0xdeadbeef", "lui a0, 0xdeadc; addi a0, a0, -273"),
        ("la a0, there; .equ there, 0x10000ffc", "auipc a0, 0x10001; addi a0, a0, -4"),
        # local labels look strictly ahead and back
        ("1: j 1b; 1: j 1f; j 1b; 1: nop", "j 0; j 8; j -4; nop"),
    ],
)
def test_other_spellings(text: str, same: str):
    assert assemble(text).words == assemble(same).words


PROGRAM = """
    .equ COUNT, 3
start:  li   t0, COUNT; c.nop       # two statements
loop:   addi t0, t0, -1             // counts down
1:      bnez t0, loop
        lp.setup 0, a1, last
        p.lw a2, 4(a3!)
last:   pv.sdotsp.b a0, a2, a2
        beqz a0, 1f
        j    1b
1:      call far
        .word 0x12345678, far
        .half -1
far:    ret
"""


def test_program():
    program = assemble(PROGRAM, base=0x1C00_0000)
    offsets = [0, 4, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 52]
    assert [pc - 0x1C00_0000 for pc in program.pcs] == offsets
    assert program.sizes == [4, 2, *[4] * 11, 2, 4]
    assert program.labels == {
        "COUNT": 3,
        "start": 0x1C00_0000,
        "loop": 0x1C00_0006,
        "last": 0x1C00_0016,
        "far": 0x1C00_0034,
    }
    assert program.words == [
        encode_line("addi t0, x0, 3"),
        0x0001,
        encode_line("addi t0, t0, -1"),
        encode_line("bne t0, x0, -4"),
        encode_line("lp.setup 0, a1, 8"),
        encode_line("p.lw a2, 4(a3!)"),
        encode_line("pv.sdotsp.b a0, a2, a2"),
        encode_line("beq a0, x0, 8"),
        encode_line("jal x0, -20"),
        encode_line("auipc x1, 0"),
        encode_line("jalr x1, 18(x1)"),
        0x1234_5678,
        0x1C00_0034,
        0xFFFF,
        0x0000_8067,
    ]
    assert program.lines[:3] == [3, 3, 4]
    assert program.to_bytes()[:8] == bytes.fromhex("9302 3000 0100 9382")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo a0", "mnemonic must be an instruction or directive, not foo"),
        ("add a0, a1", "operands of add must be rd,rs1,rs2 or rd,rs1,imm12, not a0, a1"),
        ("p.lw a0, 4(a1)", "operands of p.lw must be rd,imm12(rs1!) or rd,rs2(rs1!) or rd,rs2(rs1), not a0, 4(a1)"),
        ("lw a0, 4096(a1)", "imm12 must be -2048..2047, not 4096"),
        ("beq a0, a1, pc+1", "boff13 must be -4096..4094 and a multiple of 2, not 1"),
        ("pv.mlsdotup.h a0, (a1!), 32", "nnimm5 must be 0..31 with at most one of the update bits 8 and 16, not 32"),
        ("pv.rqu.b a0, a1, a2, 4", "lane must be 0..3, not 4"),
        ("pv.mlsduoup.b a1, 0, 0", "rd must be one of x0, x2, ..., x30, not x11"),
        ("pv.mlsduoup.b a0, (a1!), 0, 0, 7", "t must be one of 0, 1, 2, 3, 4, 5, 8, 9, not 7"),
        ("j nowhere", "symbol must be a label or constant of the program, not nowhere"),
        ("j 1f", "local label must be defined, not 1f"),
        ("addi a0, a1, 1 2", "expression must be made of numbers, symbols and operators, not 1 2"),
        ("li a0, 0x100000000", "constant of li must be a 32-bit value, not 4294967296"),
        ("csrr a0, nope", "csr must be a known name or an address, not nope"),
        (".half 65536", ".half must be a 16-bit value, not 65536"),
        ("a0: nop", "label must be a name that is no register, not a0"),
        (".word", "operands of .word must be values, not none"),
        ("b: b: nop", "label must be defined once, not again as b"),
        ("lui a0, %mid(4)", "operand part must be %hi, %lo, %pcrel_hi or %pcrel_lo, not %mid"),
    ],
)
def test_messages(text: str, message: str):
    with pytest.raises(EncodingError) as caught:
        assemble(f"nop\n1: nop\n{text}")
    assert str(caught.value) == f"line 3: {message}"
