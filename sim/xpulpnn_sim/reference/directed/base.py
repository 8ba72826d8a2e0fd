"""Directed programs of the base instruction set, compressed instructions, memory access, bits and operands."""

from collections.abc import Iterable
from random import Random

from xpulpnn.config import PRESETS
from xpulpnn.isa.insn import HALF_PRODUCT_OPS
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.reference.bare.draw import Draw, Group, group_of
from xpulpnn_sim.reference.bare.layout import FRAME, SIGNATURE, WINDOW
from xpulpnn_sim.reference.bare.program import CONSTANTS
from xpulpnn_sim.reference.directed.case import directed, programs, words_at
from xpulpnn_sw.assembly.disasm import ABI_NAMES


def _counts(register: str) -> str:
    """Emit p.ff1, p.fl1 and p.cnt of a register and add their results to a5; then emit p.clb."""
    added = "; ".join(f"p.{name} a2, {register}; add a5, a5, a2" for name in ("ff1", "fl1", "cnt"))
    return f"{added}; p.clb a2, {register}"


_LIMITED = ("a0, a1", "a1, a0", "a3, s3", "s3, a4")
_LIMITED_UNSIGNED = ("a0, a4", "a4, a0", "zero, s3", "a0, s3", "a0, a3", "a3, s3", "s2, a3")
_FIELD_OPS = ("extract", "extractu", "insert", "bclr", "bset")


def _fields(register: str) -> str:
    return "; ".join(f"p.{name}r a2, {register}, {field}" for name in _FIELD_OPS for field in ("a3", "a4", "a0"))


_WORD = 0x27D8_B14E
_LIMITS = ("clip", "clipu")

_BY_REGISTER = (f"p.{name}r a2, {value}, a0" for name in _LIMITS for value in ("a3", "a4"))
_BY_NUMBER = (f"p.{name} a2, {value}, {places}" for places in range(XLEN) for name in _LIMITS for value in ("a0", "a1"))
_REGISTERS = [ABI_NAMES[number] for number in range(1, XLEN)]


def _retention(name: str, first: int) -> str:
    """Emit lines that write a constant, its complement and a loaded word to a register and read it after each."""
    low = f"{WORD_BYTES * first}(zero)"
    values = (f"li {name}, {_WORD}", f"xori {name}, {name}, -1", f"sw {name}, {low}", f"lw {name}, {low}")
    return "; ".join(f"{value}; addi {name}, {name}, 0" for value in values)


_RETENTION = directed(
    "bits: every register, after reset and afterwards",
    # the word goes through all 31 registers
    f"""
    {"; ".join(_retention(name, number) for number, name in enumerate(_REGISTERS))}
    {"; ".join(f"lw {name}, 0(zero); xori {name}, {name}, -1; sw {name}, 0(zero)" for name in _REGISTERS)}
    li s11, 0x{SIGNATURE:x}; lw a0, 0(zero) => a0 {_WORD}, zero 0
    """,
    first=[f"addi {name}, {name}, 0" for name in _REGISTERS],
)

_BITS = f"""
== bits: counts and limits of one bit, all others, and runs to either end [xpulpv2]
    li a0, 1; li a5, 0; li s2, 0x80000000
    1: xori a1, a0, -1; sub a3, zero, a0; addi a4, a0, -1
    {_counts("a0")}
    {_counts("a1")}
    {_counts("a3")}
    {_counts("a4")}
    or s3, a0, s2
    {"; ".join(f"p.clipr a2, {operands}" for operands in _LIMITED)}
    {"; ".join(f"p.clipur a2, {operands}" for operands in _LIMITED_UNSIGNED)}
    add a0, a0, a0; bne a0, zero, 1b
    => a5
== bits: fields of all lengths from every place on [xpulpv2]
    li a0, 0; li a1, 0xa5c3960f; xori a5, a1, -1; li a6, 0
    1: li a3, 31; sub a3, a3, a0; slli a3, a3, 5; or a3, a3, a0
    slli a4, a0, 5
    {_fields("a1")}
    {_fields("a5")}
    addi a6, a6, 1 => a6 {XLEN}
    addi a0, a0, 1; addi a2, a0, -32; bne a2, zero, 1b
== bits: limits of all lengths [xpulpv2]
    # each is compared where it retires; the last one is that of the lowest number to 31 bits without sign
    li a0, 0x7fffffff; li a1, 0x80000000; li a3, 0x{_WORD:x}; xori a4, a3, -1
    {"; ".join(_BY_REGISTER)}
    {"; ".join(_BY_NUMBER)}
    => a2 0
"""

_PINS = {"rd": 12, "rs1": 10, "rs2": 11}  # registers of operands: a2, a0 and a1
_NEXT = "mul s4, s4, s5; addi s4, s4, 1013; srli a2, s4, 15"  # lines that make a word in s4, and its upper half in a2
_ROUNDS = 24


def _rows(preset: str, *groups: Group) -> Iterable[str]:
    """Yield an instruction of every row of the instruction table that is in one of these groups."""
    draw, config = Draw(Random(1), PRESETS[preset]), PRESETS[preset]
    for insn in enabled(config.extensions, config.widths):
        if group_of(insn) in groups:
            yield draw.text(insn, draw.values(insn, pins=_PINS)).partition("#")[0]


def _repeated(head: str, rows: Iterable[str]) -> str:
    """Return a program that executes the instructions several times, each time with new words in a0 and a1."""
    return f"""
== operands: {head}
    li s4, 0x2b7e1517; li s5, 1664525; li s3, {_ROUNDS}
    1: {_NEXT}; xor a0, s4, a2
    {_NEXT}; xor a1, s4, a2
    {"; ".join(rows)}
    addi s3, s3, -1; beq s3, zero, 2f; jal zero, 1b
    2: => s3 0"""


def _shifted(places: int) -> str:
    """Emit every multiplication with a shifted product, each with a shift by ``places``."""
    products = "; ".join(f"p.{name} a2, a0, a1, {places}" for name in sorted(HALF_PRODUCT_OPS, reverse=True))
    return f"p.ror a0, a0, a1; {products}; add a1, a1, a2"


_PARTED = 100


def _divided(name: str) -> str:
    return "; ".join(f"{name} a3, {dividend}, {divisor}" for dividend in ("s4", "a2") for divisor in ("a1", "s3"))


_OPERANDS = f"""
{_repeated("integer, multiplication and division", _rows("ri5cy", Group.INTEGER, Group.MULDIV))}
{_repeated("scalar DSP [xpulpv2]", _rows("ri5cy", Group.SCALAR))}
{_repeated("packed [xpulpv2]", _rows("ri5cy", Group.SIMD))}
{_repeated("packed, narrow [xpulpnn]", _rows("xpulpnn", Group.NARROW))}
== operands: products shifted by every number of places [xpulpv2]
    li a0, 0x9e3779b9; li a1, 0x85ebca6b
    {"; ".join(map(_shifted, range(XLEN)))}
    => zero 0
== operands: divisors whose highest bit is in every place
    # a divisor in a1 whose highest bit is that of a0, and its complement in s3
    li a0, 1; li s4, 0x2b7e1517; li s5, 1664525
    1: {_NEXT}
    addi t1, a0, -1; and a1, s4, t1; or a1, a1, a0; xori s3, a1, -1
    {"; ".join(map(_divided, ("div", "divu", "rem", "remu")))}
    add a0, a0, a0; bne a0, zero, 1b
    => a0 0
"""

_SLOT = 3 * WORD_BYTES
_SP = ABI_NAMES[2]


def _all_forms(name: str) -> str:
    """Emit every compressed instruction that can use any register, with the register ``name``, then restore it."""
    if name == _SP:
        return f"c.swsp {name}, {_SLOT}({_SP}); c.lwsp {name}, {_SLOT}({_SP})"
    return f"""
    c.swsp {name}, {_SLOT}({_SP})
    c.lui {name}, 31; c.addi {name}, -7; c.slli {name}, 3; c.add {name}, {name}
    c.mv {name}, {_SP}; c.li {name}, 9; c.add {name}, {_SP}
    c.lwsp {name}, {_SLOT}({_SP})
    """


def _jumps(name: str) -> str:
    return f"""
    c.swsp {name}, {_SLOT}({_SP})
    la {name}, 1f; c.jr {name}; c.addi s1, 1
    1:
    la {name}, 2f; c.jalr {name}; c.addi s1, 2
    2: c.lwsp {name}, {_SLOT}({_SP})
    """


_NAMES = [ABI_NAMES[number] for number in range(1, XLEN)]
_EVERY_FORM = "\n".join(map(_all_forms, _NAMES))
_EVERY_JUMP = "".join(_jumps(name) for name in _NAMES if name != _SP)

_RESERVED_WORDS = {
    "c.addi4spn, c.lui and c.addi16sp of 0": (0x0000, 0x0004, 0x6081, 0x6781, 0x6101),
    "c.lwsp and c.jr of x0": (0x4002, 0x5002, 0x8002),
    "shifts by 32 and more": (0x1082, 0x1FFE, 0x9001, 0x9401),
    "subtractions and additions of half a double word, and what is behind": (0x9C01, 0x9C21, 0x9C41, 0x9C61),
    "floating point": (0x2000, 0x6000, 0xA000, 0xE000, 0x2002, 0x6002, 0xA002, 0xE002),
    "the fifth group of quadrant 0": (0x8000, 0x9C7C),
}
"""16-bit words that are illegal in RV32IMC, grouped by the reason why they are."""

_WORDS = [word for words in _RESERVED_WORDS.values() for word in words]
_TRAPS = (f".half 0x{word:x}; csrrs a1, mcause, zero; add a0, a0, a1; csrrwi zero, mcause, 0\n" for word in _WORDS)

_COMPRESSED = f"""
== compressed: every register in every form
    c.li s1, 0
    {_EVERY_FORM}
    {_EVERY_JUMP}
    {"; ".join(f"li {ABI_NAMES[register]}, 0x{value:x}" for register, value in CONSTANTS)}
    li s11, 0x{SIGNATURE:x}
    li a0, -0x{FRAME:x}; add a0, a0, {_SP} => a0 0, s1 0
== compressed: reserved words
    li a0, 0
    {"".join(_TRAPS)}
    => a0 {2 * len(_WORDS)}
"""

_BASE = f"""
== integer: compare, shift, upper immediates
    # the shift amount of sll is 27: the low five bits of -5
    li a0, -5; li a1, 3
    slt a2, a0, a1 => a2 1
    sltu a3, a0, a1 => a3 0
    sra a4, a0, a1 => a4 -1
    srl a5, a0, a1 => a5 0x1fffffff
    sll a6, a1, a0 => a6 {3 << 27}
    lui a7, 0xfffff => a7 0xfffff000
    auipc s2, 0; auipc s3, 0; sub s3, s3, s2 => s3 4
    sltiu s4, a1, -1 => s4 1
    xori s5, a0, -1 => s5 4
== multiply and divide: signs, zero, overflow
    li a0, 0x80000000; li a1, -1; li a2, 7
    mul a3, a0, a1 => a3 0x80000000
    mulh a4, a0, a1 => a4 0
    mulhu a5, a0, a1 => a5 0x7fffffff
    mulhsu a6, a1, a0 => a6 -1
    div a7, a0, a1 => a7 0x80000000
    rem s2, a0, a1 => s2 0
    div s3, a1, zero => s3 -1
    rem s4, a2, zero => s4 7
    divu s5, a1, a2 => s5 {WORD_MASK // 7}
    li s6, -7; li s7, 2
    div s8, s6, s7 => s8 -3
    rem s9, s6, s7 => s9 -1
== multiply and divide: one behind another, which a slow fetch parts by any number of cycles
    li a0, 0x7b3a5c11; li a1, 0x6c0fd2e7; li s2, 0x2e1c56f5; li s3, 0x5ad390b3; li s4, {_PARTED}; li s5, 0; li s6, 0
    # division is fast by long divisors
    li s7, 0x80000000; li s8, 0x40000000
    1: jal zero, 2f
    2: mulh a2, a0, a1; mulh a3, s2, s3; add s5, s5, a3
    jal zero, 3f
    3: {"div a2, s8, s8; div a3, s7, s8; " * 3}add s6, s6, a3
    addi s4, s4, -1; bne s4, zero, 1b
    => s5 {_PARTED * (0x2E1C56F5 * 0x5AD390B3 >> 32)}, s6 {_PARTED * -2}
== compressed: arithmetic, stack, 32-bit instructions off a word boundary, HINTs
    # the HINTs are c.nop with an immediate and c.li x0
    c.li a0, -3; c.slli a0, 4; c.lui a1, 31
    c.mv a2, a0; c.add a2, a1 => a2 {0x1F000 - 48}
    li a3, 0xff; c.srai a0, 2
    c.andi a3, 0x15; c.nop => a3 0x15
    xor a4, a0, a3; c.sub a4, a0 => a4 {(-12 ^ 0x15) + 12}
    mv s2, sp; c.addi16sp -32
    c.swsp a2, 12(sp); c.addi4spn a5, 12; c.lw s1, 0(a5) => s1 {0x1F000 - 48}
    c.addi16sp 32; sub s2, s2, sp => s2 0
    .half 0x0101; .half 0x4001
    c.li a0, 21; c.addi a0, -1 => a0 20
== branches and jumps: all conditions, misaligned targets, links
    li s2, 0; li a0, -1; li a1, 1
    blt a0, a1, 1f; addi s2, s2, 1
    1: bltu a0, a1, 2f; addi s2, s2, 2
    2: bge a1, a1, 3f; addi s2, s2, 4
    3: bgeu a1, a0, 4f; c.addi s2, 8
    4: bne a0, a0, 5f; addi s2, s2, 16
    5: beq a0, a0, 6f; c.nop
    6: auipc a2, 0
    jal a3, 7f; addi s2, s2, 32
    7: sub a3, a3, a2 => a3 8
    la a4, 8f; addi a4, a4, 5
    jalr a4, -4(a4); addi s2, s2, 64
    8: auipc a5, 0; sub a4, a5, a4 => a4 4
    c.li a0, 3
    9: c.addi a0, -1; addi s2, s2, 256; c.bnez a0, 9b => s2 {2 + 8 + 16 + 3 * 256}
== memory: every alignment of every size
    {words_at(WINDOW, (0x83828180, 0x87868584, 0))}
    li t1, 0x{WINDOW:x}
    lw a0, 1(t1) => a0 0x84838281
    lw a1, 2(t1) => a1 0x85848382
    lw a2, 3(t1) => a2 0x86858483
    lh a3, 3(t1) => a3 0xffff8483
    lhu a4, 1(t1) => a4 0x8281
    lb a5, 2(t1) => a5 0xffffff82
    lbu a6, 3(t1) => a6 0x83
    li t2, 0x11223344
    sw t2, 3(t1); sh t2, 7(t1); sb t2, 1(t1)
    lw a7, 0(t1) => a7 0x44824480
    lw s2, 4(t1) => s2 0x44112233
    lw s3, 8(t1) => s3 0x33
    lw zero, 1(t1) => zero 0
== post-increment: old base, rd = rs1, x0 as base, offset registers [xpulpv2]
    {words_at(WINDOW, (0x11111111, 0x22222222, 0x33333333, 0x44444444))}
    {words_at(0, (0x55AA55AA,))}
    li t1, 0x{WINDOW:x}
    p.lw a0, 4(t1!) => a0 0x11111111
    p.lw a1, 4(t1!) => a1 0x22222222
    li a2, -8
    p.lw a3, a2(t1!); add a3, a3, t1 => a3 {0x33333333 + WINDOW}
    p.lw t1, 4(t1!); mv a4, t1 => a4 0x11111111
    p.lw a5, 4(zero!); mv a6, zero => a5 0x55aa55aa, a6 0
    li t1, 0x{WINDOW:x}
    p.sw t1, 4(t1!); lw a7, -4(t1) => a7 {WINDOW}
    li t2, 0x{WINDOW:x}
    p.sw a0, t2(t2!); lw s2, 0x0(t1) => t2 {2 * WINDOW}, s2 0x22222222
    li s3, 8; li t1, 0x{WINDOW:x}
    p.lw s4, s3(t1) => s4 0x33333333
    p.sh a0, s3(t1); p.lhu s5, s3(t1) => s5 0x1111
    p.lw zero, 4(t1!) => t1 {WINDOW + 4}
== scalar DSP: clip, bit fields, rounding, multiply-accumulate [xpulpv2]
    # bits 27:20 of 0x0ff00f0f are 0xff
    li a0, -300
    p.clip a1, a0, 8 => a1 -128
    p.clipu a2, a0, 8 => a2 0
    li a0, 0x0ff00f0f
    p.cnt a3, a0 => a3 16
    p.ff1 a4, a0 => a4 0
    p.fl1 a5, a0 => a5 27
    p.clb a6, a0 => a6 3
    p.extract a7, a0, 7, 20 => a7 -1
    p.extractu s2, a0, 11, 16 => s2 0xff0
    li s3, -1; p.insert s3, a0, 3, 4 => s3 -1
    li s4, 7; li s5, -9
    p.addRNi s6, s4, s5, 1 => s6 {(7 - 9 + 1) >> 1}
    p.subNi s7, s4, s5, 2 => s7 {16 >> 2}
    li s8, 100; p.mac s8, s4, s5; p.msu s8, s4, s4 => s8 {100 - 63 - 49}
    p.ff1 s9, zero => s9 32
"""

PROGRAMS = (*programs(_BASE + _COMPRESSED + _BITS + _OPERANDS), _RETENTION)
