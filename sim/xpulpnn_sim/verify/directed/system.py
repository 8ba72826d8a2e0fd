"""Directed programs of CSRs, traps, interrupts, wfi, fence.i and self-modifying code."""

from xpulpnn.isa.machine import VECTORS
from xpulpnn_sim.verify.directed.case import Directed, stored
from xpulpnn_sim.verify.handlers import Handlers
from xpulpnn_sim.verify.layout import SECOND_TABLE, UNFETCHED

_CSRS = Directed(
    "CSRs: write, set, clear, fields, reads without a write",
    f"""
    li a0, 0x12345678
    csrrw zero, mscratch, a0
    csrrsi a1, mscratch, 7
    csrrc a2, mscratch, a0
    csrrs a3, mscratch, zero
    li a0, -1
    csrrw zero, mepc, a0
    csrrs a4, mepc, zero
    csrrw zero, mcause, a0
    csrrs a5, mcause, zero
    csrrw zero, mie, a0
    csrrw a6, mie, zero
    csrrci a7, mstatus, 8
    csrrs s2, misa, zero
    csrrw zero, mtval, a0
    csrrs s3, mtval, zero
    csrrw zero, mhpmcounter3, a0
    csrrs s10, mhpmcounter3, zero
    csrrw s1, mhpmcounter31h, a0
    csrrw zero, mhpmevent31, a0
    csrrs t3, mhpmevent31, a0
    csrrw t4, mstatush, a0
    csrrs t6, mconfigptr, zero
    or s10, s10, s1
    or s10, s10, t3
    or s10, s10, t4
    or s10, s10, t6
    csrrs s4, mhartid, zero
    csrrwi s5, minstret, 0
    csrrs s6, minstret, zero
    csrrs s7, instret, zero
    csrrwi zero, mcountinhibit, 4
    csrrs s8, minstret, zero
    csrrs s9, minstret, zero
    sub s9, s9, s8
    {stored("a1 a2 a3 a4 a5 a6 a7 s3 s6 s7 s9 s10")}
    """,
    # minstret: the write wins over its own retirement, so the next two reads give 0 and 1
    (0x12345678, 0x1234567F, 0x7, 0xFFFFFFFE, 0x8000001F, 0xFFFF0888, 0x1800, 0, 0, 1, 0, 0),
)

_BUS_ERROR, _BUS_ERROR_SIZE = UNFETCHED

_UNFETCHED = Directed(
    "traps: instructions that cannot be fetched",
    f"""
    li t1, 0x{_BUS_ERROR:x}
    csrrwi zero, mcause, 0
    jalr t1, 0(t1)
    csrrs a0, mcause, zero
    csrrs a1, mscratch, zero
    li s2, 0x{_BUS_ERROR - 4:x}
    li s3, 0x00130001
    sw s3, 0(s2)
    fence.i
    csrrwi zero, mscratch, 0
    addi t1, s2, 0
    jalr t1, 0(t1)
    csrrs a2, mscratch, zero
    csrrwi zero, mcause, 0
    addi t1, s2, 2
    jalr t1, 0(t1)
    csrrs a3, mscratch, zero
    csrrs a4, mcause, zero
    li s3, 0x00010001
    sw s3, 0(s2)
    fence.i
    addi t1, s2, 2
    jalr t1, 0(t1)
    csrrs a5, mscratch, zero
    li s4, 0x{_BUS_ERROR + _BUS_ERROR_SIZE:x}
    li s3, 0x00008302
    sw s3, 0(s4)
    fence.i
    csrrwi zero, mscratch, 0
    la t1, 1f
    jalr t1, 0(s4)
    1: csrrs a6, mscratch, zero
    li t1, 0x{_BUS_ERROR + _BUS_ERROR_SIZE - 2:x}
    jalr t1, 0(t1)
    csrrs a7, mscratch, zero
    {stored("a0 a1 a2 a3 a4 a5 a6 a7")}
    """,
    # c.nop and half an instruction; two c.nop; c.jr t1 behind the end, which comes back without a trap
    (
        *(1, _BUS_ERROR, _BUS_ERROR - 2, _BUS_ERROR - 2, 1, _BUS_ERROR),
        *(0, _BUS_ERROR + _BUS_ERROR_SIZE - 2),
    ),
)

_UNFETCHED_LATER = Directed(
    "traps: instructions that cannot be fetched, which is known while older ones are still executed",
    "\n".join(
        [
            f"li s2, 0x{_BUS_ERROR - 16:x}",
            "li s4, 0x02254533",  # div a0, a0, sp
            "li s3, 0x00150513",  # addi a0, a0, 1
            *(f"sw s{3 + (word == 0)}, {4 * word}(s2)" for word in range(4)),
            "fence.i",
            *(
                f"csrrwi zero, mscratch, 0\n csrrwi zero, mcause, 0\n li a0, -1\n addi t1, s2, {4 * skipped}\n"
                f" jalr t1, 0(t1)\n csrrs a1, mscratch, zero\n csrrs a2, mcause, zero\n {stored('a1 a2', 2 * skipped)}"
                for skipped in range(4)
            ),
        ]
    ),
    (_BUS_ERROR, 1) * 4,
)

_LOOP_CSRS = Directed(
    "CSRs: hardware loops",
    f"""
    li a0, -1
    csrrw zero, lpstart0, a0
    csrrs a1, lpstart0, zero
    csrrw zero, lpcount1, a0
    csrrs a2, lpcount1, zero
    csrrwi zero, lpcount1, 0
    la a3, 1f
    lp.setupi 1, 77, 1f
    csrrs a4, lpend1, zero
    sub a4, a4, a3
    csrrs a5, lpcount1, zero
    csrrwi zero, lpcount1, 0
    1: csrrs a6, lpcount1, zero
    {stored("a1 a2 a4 a5 a6")}
    """,
    (0xFFFFFFFE, 0xFFFFFFFF, 0, 77, 0),
    ("xpulpv2",),
)

_TRAPS = Directed(
    "traps: cause and address, no other effect",
    f"""
    la s2, 1f
    1: ecall
    csrrs a0, mcause, zero
    csrrs a1, mepc, zero
    sub a1, a1, s2
    c.ebreak
    csrrs a2, mcause, zero
    csrrs a3, mepc, zero
    sub a3, a3, s2
    ebreak
    csrrs a4, mcause, zero
    li a5, 5
    .word 0xffffffff
    csrrs a6, mcause, zero
    csrrw a5, 0x123, a5
    csrrw a5, mhartid, a5
    csrrs a7, mcause, zero
    .half 0
    .half 0x8002
    csrrs s3, mepc, zero
    sub s3, s3, s2
    csrrs s4, mstatus, zero
    {stored("a0 a1 a2 a3 a4 a5 a6 a7 s3 s4")}
    """,
    # distances from the ecall, behind the instruction that trapped: the handler has moved mepc
    (11, 4, 3, 18, 3, 5, 2, 2, 66, 0x1880),
)

_MISALIGNED_CODE = Directed(
    "fetch: 32-bit instructions across words, straight and as targets",
    f"""
    c.li a0, 0
    c.li a1, 3
    1: addi a0, a0, 1
    c.nop
    addi a0, a0, 2
    c.addi a1, -1
    bne a1, zero, 1b
    jal zero, 2f
    c.nop
    2: addi a0, a0, 4
    c.j 3f
    addi a0, a0, 8
    3: addi a0, a0, 16
    {stored("a0")}
    """,
    (3 * 3 + 4 + 16,),
)

_FENCE_I = Directed(
    "fence.i: code written just before it is executed, on and off a word boundary",
    f"""
    li s2, 3
    li a0, 0
    li a3, 0x00150513
    li a4, 0x01050513
    1: la t1, 2f
    sw a4, 0(t1)
    fence.i
    2: addi a0, a0, 1
    la t1, 3f
    sw a4, 0(t1)
    c.nop
    fence.i
    3: addi a0, a0, 1
    xor a3, a3, a4
    xor a4, a3, a4
    xor a3, a3, a4
    addi s2, s2, -1
    bne s2, zero, 1b
    {stored("a0")}
    """,
    # additions of 16, 1 and 16, twice in every pass
    (2 * (16 + 1 + 16),),
)

_MRET = Directed(
    "mret: target and interrupt enable",
    f"""
    li a0, 0
    la t1, 1f
    csrrw zero, mepc, t1
    li t2, 128
    csrrs zero, mstatus, t2
    mret
    addi a0, a0, 1
    1: csrrci a1, mstatus, 8
    csrrc zero, mstatus, t2
    la t1, 2f
    addi t1, t1, 1
    csrrw zero, mepc, t1
    mret
    addi a0, a0, 2
    2: csrrs a2, mstatus, zero
    {stored("a0 a1 a2")}
    """,
    (0, 0x1888, 0x1880),
)

_WFI = Directed(
    "wfi: continues behind itself with interrupts off, takes them when on",
    f"""
    csrrci zero, mstatus, 8
    li a0, 1
    wfi
    addi a0, a0, 1
    csrrsi zero, mstatus, 8
    wfi
    addi a0, a0, 1
    wfi
    addi a0, a0, 1
    {stored("a0")}
    """,
    (4,),
    interrupts=True,
)

_LONG_LOOP = """
    li a0, 0
    li a1, 0
    li a2, 400
    1: addi a0, a0, 3
    c.addi a1, 1
    addi a2, a2, -1
    mul a3, a0, a1
    divu a4, a3, a1
    c.bnez a2, 1b
"""

_INTERRUPTS = Directed(
    "interrupts: anywhere in a loop of branches, multiplications and divisions",
    _LONG_LOOP + stored("a0 a1 a3 a4"),
    (1200, 400, 480000, 1200),
    interrupts=True,
    handlers=Handlers(("j interrupt", *("mret",) * 4, *("j quick",) * (VECTORS - 6)), nests=True),
)

_LOOP_INTERRUPTS = Directed(
    "interrupts: in nested hardware loops, with handlers that use the loops themselves",
    f"""
    li a0, 0
    li a1, 0
    li t1, 30
    lp.setup 1, t1, 2f
    addi a0, a0, 1
    lp.setupi 0, 9, 1f
    1: c.addi a1, 1
    lp.setupi 0, 5, 2f
    c.addi a1, 1
    2: addi a1, a1, 1
    {stored("a0 a1")}
    """,
    (30, 30 * (9 + 10)),
    ("xpulpv2",),
    interrupts=True,
    handlers=Handlers(("j interrupt",) * (VECTORS - 1), nests=True, loops=True),
)

_MOVED_TABLE = Directed(
    "interrupts: direct mode and another vector table",
    f"""
    li t1, 0x{SECOND_TABLE:x}
    csrrw zero, mtvec, t1
    csrrs s2, mtvec, zero
    {_LONG_LOOP}
    ecall
    csrrs s3, mtvec, zero
    ori t1, t1, 0xff
    csrrw zero, mtvec, t1
    csrrs s4, mtvec, zero
    {_LONG_LOOP.replace("1:", "2:").replace("1b", "2b")}
    {stored("a0 a1 a3 a4 s2 s3 s4")}
    """,
    (1200, 400, 480000, 1200, SECOND_TABLE, SECOND_TABLE, SECOND_TABLE | 1),
    interrupts=True,
)

SYSTEM = (
    _CSRS,
    _LOOP_CSRS,
    _UNFETCHED,
    _UNFETCHED_LATER,
    _TRAPS,
    _MISALIGNED_CODE,
    _FENCE_I,
    _MRET,
    _WFI,
    _INTERRUPTS,
    _LOOP_INTERRUPTS,
    _MOVED_TABLE,
)
"""The programs of this module."""
