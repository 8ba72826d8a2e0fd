"""Directed programs of CSRs, traps, interrupts, wfi, fence.i and self-modifying code."""

from xpulpnn.isa.machine import VECTORS
from xpulpnn_sim.verification.directed.case import directed, programs
from xpulpnn_sim.verification.random.layout import SECOND_TABLE, UNFETCHED
from xpulpnn_sim.verification.random.program import Handlers

_BUS_ERROR, _BUS_ERROR_SIZE = UNFETCHED
_BEHIND_IT = _BUS_ERROR + _BUS_ERROR_SIZE


_KEPT = (("a1", "a2"), ("a3", "a4"), ("a5", "a6"), ("a7", "s3"))


def _runs_into(skipped: int) -> str:
    """Lines that go to one of four words before those that cannot be fetched, and keep mscratch and mcause."""
    address, cause = _KEPT[skipped]
    return f"""
    csrrwi zero, mscratch, 0; csrrwi zero, mcause, 0; li a0, -1
    addi t1, s2, {4 * skipped}; jalr t1, 0(t1)
    csrrs {address}, mscratch, zero; csrrs {cause}, mcause, zero => {address} {_BUS_ERROR}, {cause} 1
    """


_LONG_LOOP = """li a0, 0; li a1, 0; li a2, 400
    1: addi a0, a0, 3; c.addi a1, 1; addi a2, a2, -1
    mul a3, a0, a1; divu a4, a3, a1
    c.bnez a2, 1b => a0 1200, a1 400, a3 480000, a4 1200"""

_INTERRUPTS = directed(
    "interrupts: anywhere in a loop of branches, multiplications and divisions",
    _LONG_LOOP,
    interrupts=True,
    handlers=Handlers(("j interrupt", *("mret",) * 4, *("j quick",) * (VECTORS - 6)), nests=True),
)

_LOOP_INTERRUPTS = directed(
    "interrupts: in nested hardware loops, with handlers that use the loops themselves",
    f"""
    li a0, 0; li a1, 0; li t1, 30
    lp.setup 1, t1, 2f
    addi a0, a0, 1 => a0 30
    lp.setupi 0, 9, 1f
    1: c.addi a1, 1
    lp.setupi 0, 5, 2f
    c.addi a1, 1
    2: addi a1, a1, 1 => a1 {30 * (9 + 10)}
    """,
    "xpulpv2",
    interrupts=True,
    handlers=Handlers(("j interrupt",) * (VECTORS - 1), nests=True, loops=True),
)


_SYSTEM_1 = programs(f"""
== CSRs: write, set, clear, fields, reads without a write
    # minstret: the write wins over its own retirement, so the next two reads give 0 and 1
    li a0, 0x12345678; csrrw zero, mscratch, a0
    csrrsi a1, mscratch, 7 => a1 0x12345678
    csrrc a2, mscratch, a0 => a2 0x1234567f
    csrrs a3, mscratch, zero => a3 7
    li a0, -1
    csrrw zero, mepc, a0; csrrs a4, mepc, zero => a4 0xfffffffe
    csrrw zero, mcause, a0; csrrs a5, mcause, zero => a5 0x8000001f
    csrrw zero, mie, a0; csrrw a6, mie, zero => a6 0xffff0888
    csrrci a7, mstatus, 8 => a7 0x1800
    csrrs s2, misa, zero
    csrrw zero, mtval, a0; csrrs s3, mtval, zero => s3 0
    csrrw zero, mhpmcounter3, a0; csrrs s10, mhpmcounter3, zero
    csrrw s1, mhpmcounter31h, a0; or s10, s10, s1
    csrrw zero, mhpmevent31, a0; csrrs t3, mhpmevent31, a0; or s10, s10, t3
    csrrw t4, mstatush, a0; or s10, s10, t4
    csrrs t6, mconfigptr, zero; or s10, s10, t6 => s10 0
    csrrs s4, mhartid, zero
    csrrwi s5, minstret, 0
    csrrs s6, minstret, zero => s6 0
    csrrs s7, instret, zero => s7 1
    csrrwi zero, mcountinhibit, 4
    csrrs s8, minstret, zero; csrrs s9, minstret, zero; sub s9, s9, s8 => s9 0
== CSRs: hardware loops [xpulpv2]
    li a0, -1
    csrrw zero, lpstart0, a0; csrrs a1, lpstart0, zero => a1 0xfffffffe
    csrrw zero, lpcount1, a0; csrrs a2, lpcount1, zero => a2 0xffffffff
    csrrwi zero, lpcount1, 0; la a3, 1f
    lp.setupi 1, 77, 1f
    csrrs a4, lpend1, zero; sub a4, a4, a3 => a4 0
    csrrs a5, lpcount1, zero => a5 77
    csrrwi zero, lpcount1, 0
    1: csrrs a6, lpcount1, zero => a6 0
== traps: instructions that cannot be fetched
    # c.nop and half an instruction; two c.nop; c.jr t1 behind the end, which comes back without a trap
    li t1, 0x{_BUS_ERROR:x}; csrrwi zero, mcause, 0; jalr t1, 0(t1)
    csrrs a0, mcause, zero; csrrs a1, mscratch, zero => a0 1, a1 {_BUS_ERROR}
    li s2, 0x{_BUS_ERROR - 4:x}; li s3, 0x00130001; sw s3, 0(s2); fence.i
    csrrwi zero, mscratch, 0; addi t1, s2, 0; jalr t1, 0(t1)
    csrrs a2, mscratch, zero => a2 {_BUS_ERROR - 2}
    csrrwi zero, mcause, 0; addi t1, s2, 2; jalr t1, 0(t1)
    csrrs a3, mscratch, zero; csrrs a4, mcause, zero => a3 {_BUS_ERROR - 2}, a4 1
    li s3, 0x00010001; sw s3, 0(s2); fence.i; addi t1, s2, 2; jalr t1, 0(t1)
    csrrs a5, mscratch, zero => a5 {_BUS_ERROR}
    li s4, 0x{_BEHIND_IT:x}; li s3, 0x00008302; sw s3, 0(s4); fence.i
    csrrwi zero, mscratch, 0; la t1, 1f; jalr t1, 0(s4)
    1: csrrs a6, mscratch, zero => a6 0
    li t1, 0x{_BEHIND_IT - 2:x}; jalr t1, 0(t1)
    csrrs a7, mscratch, zero => a7 {_BEHIND_IT - 2}
== traps: instructions that cannot be fetched, which is known while older ones are still executed
    # div a0, a0, sp, then three times addi a0, a0, 1
    li s2, 0x{_BUS_ERROR - 16:x}; li s4, 0x02254533; li s3, 0x00150513
    sw s4, 0(s2); sw s3, 4(s2); sw s3, 8(s2); sw s3, 12(s2); fence.i
    {"".join(map(_runs_into, range(4)))}
== traps: cause and address, no other effect
    # distances from the ecall, behind the instruction that trapped: the handler has moved mepc
    la s2, 1f
    1: ecall; csrrs a0, mcause, zero => a0 11
    csrrs a1, mepc, zero; sub a1, a1, s2 => a1 4
    c.ebreak; csrrs a2, mcause, zero => a2 3
    csrrs a3, mepc, zero; sub a3, a3, s2 => a3 18
    ebreak; csrrs a4, mcause, zero => a4 3
    li a5, 5; .word 0xffffffff; csrrs a6, mcause, zero => a6 2
    csrrw a5, 0x123, a5; csrrw a5, mhartid, a5; csrrs a7, mcause, zero => a5 5, a7 2
    .half 0; .half 0x8002
    csrrs s3, mepc, zero; sub s3, s3, s2 => s3 66
    csrrs s4, mstatus, zero => s4 0x1880
== fetch: 32-bit instructions across words, straight and as targets
    c.li a0, 0; c.li a1, 3
    1: addi a0, a0, 1; c.nop; addi a0, a0, 2; c.addi a1, -1
    bne a1, zero, 1b
    jal zero, 2f; c.nop
    2: addi a0, a0, 4; c.j 3f; addi a0, a0, 8
    3: addi a0, a0, 16 => a0 {3 * 3 + 4 + 16}
== fence.i: code written just before it is executed, on and off a word boundary
    # additions of 16, 1 and 16, twice in every pass
    li s2, 3; li a0, 0; li a3, 0x00150513; li a4, 0x01050513
    1: la t1, 2f; sw a4, 0(t1); fence.i
    2: addi a0, a0, 1
    la t1, 3f; sw a4, 0(t1); c.nop; fence.i
    3: addi a0, a0, 1 => a0 {2 * (16 + 1 + 16)}
    xor a3, a3, a4; xor a4, a3, a4; xor a3, a3, a4
    addi s2, s2, -1; bne s2, zero, 1b
== mret: target and interrupt enable
    li a0, 0; la t1, 1f; csrrw zero, mepc, t1; li t2, 128; csrrs zero, mstatus, t2
    mret; addi a0, a0, 1
    1: csrrci a1, mstatus, 8 => a1 0x1888
    csrrc zero, mstatus, t2; la t1, 2f; addi t1, t1, 1; csrrw zero, mepc, t1
    mret; addi a0, a0, 2 => a0 0
    2: csrrs a2, mstatus, zero => a2 0x1880
== wfi: continues behind itself with interrupts off, takes them when on [interrupts]
    csrrci zero, mstatus, 8
    li a0, 1; wfi; addi a0, a0, 1
    csrrsi zero, mstatus, 8
    wfi; addi a0, a0, 1
    wfi; addi a0, a0, 1 => a0 4
""")

_SYSTEM_2 = programs(f"""
== interrupts: direct mode and another vector table [interrupts]
    li t1, 0x{SECOND_TABLE:x}; csrrw zero, mtvec, t1
    csrrs s2, mtvec, zero => s2 {SECOND_TABLE}
    {_LONG_LOOP}
    ecall; csrrs s3, mtvec, zero => s3 {SECOND_TABLE}
    ori t1, t1, 0xff; csrrw zero, mtvec, t1
    csrrs s4, mtvec, zero => s4 {SECOND_TABLE | 1}
    {_LONG_LOOP.replace("1:", "2:").replace("1b", "2b")}
""")

SYSTEM = (
    *_SYSTEM_1,
    _INTERRUPTS,
    _LOOP_INTERRUPTS,
    *_SYSTEM_2,
)
