"""Directed programs of the base instruction set, memory access and x0."""

from xpulpnn_sim.verify.directed.case import Directed, stored, words_at
from xpulpnn_sim.verify.layout import WINDOW

_INTEGER = Directed(
    "integer: compare, shift, upper immediates",
    f"""
    li a0, -5
    li a1, 3
    slt a2, a0, a1
    sltu a3, a0, a1
    sra a4, a0, a1
    srl a5, a0, a1
    sll a6, a1, a0
    lui a7, 0xfffff
    auipc s2, 0
    auipc s3, 0
    sub s3, s3, s2
    sltiu s4, a1, -1
    xori s5, a0, -1
    {stored("a2 a3 a4 a5 a6 a7 s3 s4 s5")}
    """,
    # the shift amount of sll is 27: the low five bits of -5
    (1, 0, -1, 0x1FFF_FFFF, 3 << 27, 0xFFFF_F000, 4, 1, 4),
)

_MULDIV = Directed(
    "multiply and divide: signs, zero, overflow",
    f"""
    li a0, 0x80000000
    li a1, -1
    li a2, 7
    mul a3, a0, a1
    mulh a4, a0, a1
    mulhu a5, a0, a1
    mulhsu a6, a1, a0
    div a7, a0, a1
    rem s2, a0, a1
    div s3, a1, zero
    rem s4, a2, zero
    divu s5, a1, a2
    li s6, -7
    li s7, 2
    div s8, s6, s7
    rem s9, s6, s7
    {stored("a3 a4 a5 a6 a7 s2 s3 s4 s5 s8 s9")}
    """,
    (0x8000_0000, 0, 0x7FFF_FFFF, -1, 0x8000_0000, 0, -1, 7, 0xFFFF_FFFF // 7, -3, -1),
)

_COMPRESSED = Directed(
    "compressed: arithmetic, stack, 32-bit instructions off a word boundary, HINTs",
    f"""
    c.li a0, -3
    c.slli a0, 4
    c.lui a1, 31
    c.mv a2, a0
    c.add a2, a1
    li a3, 0xff
    c.srai a0, 2
    c.andi a3, 0x15
    c.nop
    xor a4, a0, a3
    c.sub a4, a0
    mv s2, sp
    c.addi16sp -32
    c.swsp a2, 12(sp)
    c.addi4spn a5, 12
    c.lw s1, 0(a5)
    c.addi16sp 32
    sub s2, s2, sp
    .half 0x0101
    .half 0x4001
    c.li a0, 21
    c.addi a0, -1
    {stored("a2 a3 a4 s1 s2 a0")}
    """,
    # -48 + 0x1f000; the HINTs are c.nop with an immediate and c.li x0
    (0x1F000 - 48, 0x15, (-12 ^ 0x15) + 12, 0x1F000 - 48, 0, 20),
)

_BRANCHES = Directed(
    "branches and jumps: all conditions, misaligned targets, links",
    f"""
    li s2, 0
    li a0, -1
    li a1, 1
    blt a0, a1, 1f
    addi s2, s2, 1
    1: bltu a0, a1, 2f
    addi s2, s2, 2
    2: bge a1, a1, 3f
    addi s2, s2, 4
    3: bgeu a1, a0, 4f
    c.addi s2, 8
    4: bne a0, a0, 5f
    addi s2, s2, 16
    5: beq a0, a0, 6f
    c.nop
    6: auipc a2, 0
    jal a3, 7f
    addi s2, s2, 32
    7: sub a3, a3, a2
    la a4, 8f
    addi a4, a4, 5
    jalr a4, -4(a4)
    addi s2, s2, 64
    8: auipc a5, 0
    sub a4, a5, a4
    c.li a0, 3
    9: c.addi a0, -1
    addi s2, s2, 256
    c.bnez a0, 9b
    {stored("s2 a3 a4")}
    """,
    (2 + 8 + 16 + 3 * 256, 8, 4),
)

_MEMORY = Directed(
    "memory: every alignment of every size",
    f"""
    {words_at(WINDOW, (0x83828180, 0x87868584, 0))}
    li t1, 0x{WINDOW:x}
    lw a0, 1(t1)
    lw a1, 2(t1)
    lw a2, 3(t1)
    lh a3, 3(t1)
    lhu a4, 1(t1)
    lb a5, 2(t1)
    lbu a6, 3(t1)
    li t2, 0x11223344
    sw t2, 3(t1)
    sh t2, 7(t1)
    sb t2, 1(t1)
    lw a7, 0(t1)
    lw s2, 4(t1)
    lw s3, 8(t1)
    lw zero, 1(t1)
    {stored("a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 zero")}
    """,
    (
        0x84838281,
        0x85848382,
        0x86858483,
        0xFFFF8483,
        0x8281,
        0xFFFFFF82,
        0x83,
        0x44824480,
        0x44112233,
        0x00000033,
        0,
    ),
)

_POST_INCREMENT = Directed(
    "post-increment: old base, rd = rs1, x0 as base, offset registers",
    f"""
    {words_at(WINDOW, (0x11111111, 0x22222222, 0x33333333, 0x44444444))}
    {words_at(0, (0x55AA55AA,))}
    li t1, 0x{WINDOW:x}
    p.lw a0, 4(t1!)
    p.lw a1, 4(t1!)
    li a2, -8
    p.lw a3, a2(t1!)
    add a3, a3, t1
    p.lw t1, 4(t1!)
    mv a4, t1
    p.lw a5, 4(zero!)
    mv a6, zero
    li t1, 0x{WINDOW:x}
    p.sw t1, 4(t1!)
    lw a7, -4(t1)
    li t2, 0x{WINDOW:x}
    p.sw a0, t2(t2!)
    lw s2, 0x0(t1)
    li s3, 8
    li t1, 0x{WINDOW:x}
    p.lw s4, s3(t1)
    p.sh a0, s3(t1)
    p.lhu s5, s3(t1)
    p.lw zero, 4(t1!)
    {stored("a0 a1 a3 a4 a5 a6 a7 t2 s2 s4 s5 t1")}
    """,
    (
        0x11111111,
        0x22222222,
        0x33333333 + WINDOW,
        0x11111111,
        0x55AA55AA,
        0,
        WINDOW,
        2 * WINDOW,
        0x22222222,
        0x33333333,
        0x1111,
        WINDOW + 4,
    ),
    needs=("xpulpv2",),
)

_SCALAR = Directed(
    "scalar DSP: clip, bit fields, rounding, multiply-accumulate",
    f"""
    li a0, -300
    p.clip a1, a0, 8
    p.clipu a2, a0, 8
    li a0, 0x0ff00f0f
    p.cnt a3, a0
    p.ff1 a4, a0
    p.fl1 a5, a0
    p.clb a6, a0
    p.extract a7, a0, 7, 20
    p.extractu s2, a0, 11, 16
    li s3, -1
    p.insert s3, a0, 3, 4
    li s4, 7
    li s5, -9
    p.addRNi s6, s4, s5, 1
    p.subNi s7, s4, s5, 2
    li s8, 100
    p.mac s8, s4, s5
    p.msu s8, s4, s4
    p.ff1 s9, zero
    {stored("a1 a2 a3 a4 a5 a6 a7 s2 s3 s6 s7 s8 s9")}
    """,
    # extract: bits 27:20 are 0xff; (7 - 9 + 1) >> 1; 16 >> 2; 100 - 63 - 49
    (-128, 0, 16, 0, 27, 3, -1, 0xFF0, 0xFFFFFFFF, -1, 4, -12, 32),
    needs=("xpulpv2",),
)

BASE = (_INTEGER, _MULDIV, _COMPRESSED, _BRANCHES, _MEMORY, _POST_INCREMENT, _SCALAR)
"""The programs of this module."""
