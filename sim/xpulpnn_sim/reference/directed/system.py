"""Directed programs of CSRs and counters, traps, interrupts, wfi, fence.i and self-modifying code."""

from xpulpnn.isa.csr import CSR_BY_NAME, CSRS, CsrAccess, CsrGroup
from xpulpnn.isa.machine import VECTORS
from xpulpnn_sim.reference.bare.layout import FAILING, FAR, SECOND_TABLE, UNFETCHED
from xpulpnn_sim.reference.bare.program import Handlers
from xpulpnn_sim.reference.directed.case import HANDLERS, directed, programs

_NUMBER_BITS = 12
_EXISTING = {csr.address for csr in CSRS}
_NUMBERS = sorted(_EXISTING | {number ^ 1 << place for number in _EXISTING for place in range(_NUMBER_BITS)})
"""Addresses of all CSRs, and all addresses that differ from one of them in one bit."""

_SKIPS_PAIRS = """
exception:
    csrrs t6, mepc, zero; sub t6, t6, s2; ori t6, t6, 7; add t6, t6, s2; addi t6, t6, 1
    csrrw zero, mepc, t6; mret
interrupt:
"""
"""An exception handler that continues after the pair of instructions in which one has trapped; s2 holds the address of
the first pair."""

_READ_ONLY = "mhartid"
_BITS = [1 << place for place in range(5)]
_WRITES = [f"{name} zero, {_READ_ONLY}, x{field}" for name in ("csrrs", "csrrc") for field in _BITS]
_WRITES += [f"{name} zero, {_READ_ONLY}, {field}" for name in ("csrrsi", "csrrci") for field in _BITS]
_WRITES += [f"csrrw a0, {_READ_ONLY}, zero", f"csrrwi a0, {_READ_ONLY}, 0"]

_PAIRS = [f"csrrs a0, {number}, zero; csrrs zero, {number}, a2" for number in _NUMBERS]
_PAIRS += [f"{write}; addi a3, a3, 1" for write in _WRITES]

_ACCESSES = directed(
    "CSRs: reads and writes of numbers that exist, and of those one bit away",
    # no write of a register that is only read passes; the others put back what has been read
    f"""
    li a1, 0x5a5aa5a5; li a2, 0; li a3, 0; csrrw zero, mscratch, a1
    la s2, 1f
    1:
    {"; ".join(_PAIRS)}
    csrrs a4, mscratch, zero; csrrs a5, mcause, zero => a3 0, a4 0x5a5aa5a5, a5 2
    """,
    handlers=Handlers(HANDLERS.slots, exception=_SKIPS_PAIRS),
)

_EVERYWHERE = (CsrGroup.BASE, CsrGroup.HWLOOP)
# events and counters that do not exist are always 0
_KEPT_BY_WRITES = [csr.name for csr in CSRS if csr.group in _EVERYWHERE and not csr.name.startswith("mhpm")]
_WRITTEN = [csr.name for csr in CSRS if csr.access is not CsrAccess.RO and csr.group in _EVERYWHERE]


def _writes(name: str) -> str:
    """Emit writes of ones, zeros and a new value to a CSR, then a call of the code that reads all CSRs."""
    reads = f"csrrs a0, {name}, zero; csrrs a0, {name}, zero"
    return f"csrrw zero, {name}, s4; {reads}; csrrw zero, {name}, zero; csrrw a0, {name}, a1; jal ra, 2f"


_BESIDE = ("add", "xor", "mul", "mulh", "div", "divu", "rem", "remu")

_NUMBERS_AND_BITS = f"""
== CSRs: all bits of each of them, and that no other changes [xpulpv2]
    # all that is read is compared where it retires
    csrrs s2, mtvec, zero; li a1, 0x2b7e1517; li a2, 1664525; li s3, 3; li s4, -1
    1:
    {"; ".join(map(_writes, _WRITTEN))}
    addi s3, s3, -1; bne s3, zero, 1b
    csrrw zero, mtvec, s2; csrrwi zero, mstatus, 0
    csrrwi zero, lpcount0, 0; csrrwi zero, lpcount1, 0
    jal zero, 3f
    2:
    {"; ".join(f"csrrs a0, {name}, zero" for name in _KEPT_BY_WRITES)}
    mul a1, a1, a2; addi a1, a1, 1013; jalr zero, 0(ra)
    3: => s3 0
== CSRs: second operands that are the number of one, whose value must not show
    # results are compared where they retire
    li a1, 0x2b7e1517; li a2, 1664525; li s3, 16
    1:
    csrrw zero, mscratch, a1
    srli a3, a1, 12; slli a3, a3, 12; addi a3, a3, {CSR_BY_NAME["mscratch"].address}
    mul a1, a1, a2; addi a1, a1, 1013
    {"; ".join(f"{name} a0, a1, a3" for name in _BESIDE)}
    addi s3, s3, -1; bne s3, zero, 1b
    => s3 0
"""

_NOPS = "c.nop; "


def _write_counters(start: str) -> str:
    """Emit ``start`` and writes of a1 to counters; a wrong carry into the upper half of mcycle sets bits in a5."""
    # it counts if the lower one goes through 0; whether it has, is not known if that happens between the reads
    return f"""{start}
    csrrw zero, minstreth, a6; csrrw zero, minstret, a1
    csrrwi zero, mcycle, 0; csrrw zero, mcycleh, a6; csrrw zero, mcycle, a1
    {_NOPS * 6}
    csrrs a2, mcycle, zero; csrrs a3, mcycleh, zero; csrrs a4, mcycle, zero
    csrrs s2, minstret, zero; csrrs s2, minstreth, zero
    sltu a1, a2, a1; sub a3, a3, a6; xor a3, a3, a1
    sltu a4, a4, a2; addi a4, a4, -1
    and a3, a3, a4; or a5, a5, a3"""


_COUNTERS = f"""
== counters: instructions, carried through every bit
    li a0, 1; li a5, 0; li a6, 0
    1: addi a1, a0, -1; li a2, -1
    csrrw zero, minstreth, a1; csrrw zero, minstret, a1
    csrrs a3, minstret, zero; csrrs a4, minstret, zero
    xor a3, a3, a1; or a5, a5, a3
    xor a4, a4, a0; or a5, a5, a4
    csrrs a4, minstreth, zero; xor a4, a4, a1; or a5, a5, a4 => a5 0
    csrrw zero, minstret, a2
    csrrs a3, minstreth, zero; csrrs a4, minstreth, zero
    xor a3, a3, a1; or a6, a6, a3
    xor a4, a4, a0; or a6, a6, a4 => a6 0
    add a0, a0, a0; bne a0, zero, 1b
== counters: an upper half written while the lower one is about to carry
    li a1, -1; csrrw zero, minstret, a1; csrrwi zero, minstreth, 7
    {_NOPS * 4}
    csrrs a4, minstreth, zero => a4 8
    csrrwi zero, mcountinhibit, 1; csrrw zero, mcycle, a1; csrrwi zero, mcycleh, 7
    csrrwi zero, mcountinhibit, 0
    {_NOPS * 4}
    csrrs a5, mcycleh, zero => a5 8
== counters: instructions behind an access that fails are not counted
    # the handler reads what has been counted, and all reads are compared with the simulator's
    li a0, 0x{FAILING[0]:x}; li s2, 0x{FAILING[0] - 64:x}; li a1, -9; li a5, 0
    1: csrrwi zero, minstreth, 9
    csrrw zero, minstret, a1; lw a2, 0(a0); c.nop; csrrs a3, minstret, zero
    csrrw zero, minstret, a1; sw a1, 0(a0); lw a3, 0(s2); csrrs a4, minstreth, zero
    csrrw zero, minstret, a1; lw a2, 2(a0); c.nop; c.nop
    csrrs a3, minstret, zero; csrrs a4, minstreth, zero
    addi a5, a5, 1 => a5 18
    addi a1, a1, 1; li a2, 9; bne a1, a2, 1b
== counters: cycles, carried through every bit, and stopped
    li a0, 2; li a5, 0; li a6, 0
    1: addi a1, a0, -2
    csrrw zero, mcycleh, a1; csrrw zero, mcycle, a1
    csrrs a2, mcycle, zero
    {_NOPS * 32}
    csrrs a3, mcycle, zero; csrrs a4, mcycleh, zero
    sub a2, a2, a1; srli a2, a2, 7; or a5, a5, a2
    sub a3, a3, a1; sltiu a2, a3, 33; or a5, a5, a2; srli a3, a3, 10; or a5, a5, a3
    xor a4, a4, a1; or a5, a5, a4 => a5 0
    addi a1, a0, -1; csrrw zero, mcycleh, a1
    li a2, -3; csrrw zero, mcycle, a2
    {_NOPS * 4}
    csrrs a4, mcycleh, zero; xor a4, a4, a0; or a6, a6, a4 => a6 0
    add a0, a0, a0; bne a0, zero, 1b
    csrrwi zero, mcountinhibit, 1
    csrrs a2, mcycle, zero; c.nop; csrrs a3, mcycle, zero; csrrs a4, cycle, zero
    sub a2, a3, a2 => a2 0
    sub a3, a4, a3 => a3 0
    csrrwi zero, mcountinhibit, 0
== counters: cycles, which stop while the core sleeps [interrupts]
    # 12 interrupts with their handlers take no longer than the square of the time of 64 instructions, as on a slow
    # memory others come meanwhile; the core sleeps for 500 cycles on average, or 2500 on a slow memory
    li a5, 0; li a0, 12
    1: csrrs a1, mcycle, zero; wfi; csrrs a2, mcycle, zero
    sub a2, a2, a1; add a5, a5, a2
    addi a0, a0, -1; bne a0, zero, 1b
    csrrci zero, mstatus, 8; csrrs a1, mcycle, zero
    {"addi zero, zero, 0; " * 64}
    csrrs a2, mcycle, zero; sub a2, a2, a1; mul a2, a2, a2
    sltu a5, a2, a5 => a5 0
== counters: values one bit away from one that carries
    li a0, 1; li a5, 0; li a6, 9
    1: {_write_counters("xori a1, a0, -1")}
    {_write_counters("xori a1, a0, -2")}
    xori a1, a0, -2
    {_write_counters("addi a1, a1, -2")}
    add a0, a0, a0; bne a0, zero, 1b
    => a5 0
== counters: an access is taken back from any power of two, seen by the first instruction of the handler
    li a0, 0x{FAILING[0]:x}; li a1, 1; li a3, 0x{FAR[0]:x}; li s6, 0
    csrrs s2, mtvec, zero; la a4, 1f; la a5, 2f; addi a6, a3, 0
    3: lw a2, 0(a4); sw a2, 0(a6); addi a4, a4, 4; addi a6, a6, 4
    bltu a4, a5, 3b
    fence.i; csrrw zero, mtvec, a3
    5: addi a2, a1, -1; csrrwi zero, minstreth, 9; csrrw zero, minstret, a2
    lw a2, 0(a0)
    or s6, s6, s5; beq a1, zero, 4f; add a1, a1, a1; jal zero, 5b
    4: csrrw zero, mtvec, s2
    jal zero, 2f
    1: csrrs s5, minstreth, zero => s5 9, s6 9
    csrrs t6, mepc, zero; addi t6, t6, 4; csrrw zero, mepc, t6
    mret
    2: addi a0, zero, 0
"""

_BUS_ERROR, _BUS_ERROR_SIZE = UNFETCHED
_BEHIND_IT = _BUS_ERROR + _BUS_ERROR_SIZE

_KEPT = (("a1", "a2"), ("a3", "a4"), ("a5", "a6"), ("a7", "s3"))


def _runs_into(skipped: int) -> str:
    """Emit a jump to one of four words before an address that cannot be fetched; save mscratch and mcause."""
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
    "interrupts: anywhere in a loop of branches, multiplications and divisions [interrupts]",
    _LONG_LOOP,
    handlers=Handlers(("j interrupt", *("mret",) * 4, *("j quick",) * (VECTORS - 6)), nests=True),
)

_LOOP_INTERRUPTS = directed(
    "interrupts: in nested hardware loops, with handlers that use the loops themselves [xpulpv2 interrupts]",
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
    handlers=Handlers(("j interrupt",) * (VECTORS - 1), nests=True, loops=True),
)

_SYSTEM = f"""
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
== wfi: each line ends it, and mip shows all that are high [interrupts]
    csrrci zero, mstatus, 8; li a1, -1
    1: csrrs a0, mip, zero; xor a0, a0, a1; csrrw zero, mie, a0
    csrrs a2, mie, zero; beq a2, zero, 2f
    wfi; jal zero, 1b
    2: csrrs a3, mip, zero => a3 0xffff0888
== interrupts: direct mode and another vector table [interrupts]
    li t1, 0x{SECOND_TABLE:x}; csrrw zero, mtvec, t1
    csrrs s2, mtvec, zero => s2 {SECOND_TABLE}
    {_LONG_LOOP}
    ecall; csrrs s3, mtvec, zero => s3 {SECOND_TABLE}
    ori t1, t1, 0xff; csrrw zero, mtvec, t1
    csrrs s4, mtvec, zero => s4 {SECOND_TABLE | 1}
    {_LONG_LOOP.replace("1:", "2:").replace("1b", "2b")}
"""

PROGRAMS = (*programs(_SYSTEM + _NUMBERS_AND_BITS + _COUNTERS), _ACCESSES, _INTERRUPTS, _LOOP_INTERRUPTS)
