"""Directed programs of CSR numbers and of the counters: which exist, carries through every bit, counts taken back."""

from xpulpnn.isa.csr import CSR_BY_NAME, CSRS, CsrAccess, CsrGroup
from xpulpnn_sim.verification.directed.case import HANDLERS, directed, programs
from xpulpnn_sim.verification.random.layout import FAILING, FAR
from xpulpnn_sim.verification.random.program import Handlers

_NUMBER_BITS = 12
_EXISTING = {csr.address for csr in CSRS}
_NUMBERS = sorted(_EXISTING | {number ^ 1 << place for number in _EXISTING for place in range(_NUMBER_BITS)})
"""Every number of a CSR, and every one that differs from such a number in one bit."""

_SKIPS_PAIRS = """
exception:
    csrrs t6, mepc, zero; sub t6, t6, s2; ori t6, t6, 7; add t6, t6, s2; addi t6, t6, 1
    csrrw zero, mepc, t6; mret
interrupt:
"""
"""Skips the rest of a pair of instructions, counted from s2 on, of which one has trapped."""

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

_KEEPING = ("mstatus", "mie", "mtvec", "mcountinhibit", "mscratch", "mepc", "mcause", "minstret", "minstreth")
_KEEPING += tuple(csr.name for csr in CSRS if csr.group is CsrGroup.HWLOOP)
_WRITTEN = [csr.name for csr in CSRS if csr.access is not CsrAccess.RO and csr.group is not CsrGroup.PERFORMANCE]


def _writes(name: str) -> str:
    """Lines that write a register, the last time with a value that no other has, and then look at all."""
    reads = f"csrrs a0, {name}, zero; csrrs a0, {name}, zero"
    return f"csrrw zero, {name}, s4; {reads}; csrrw zero, {name}, zero; csrrw a0, {name}, a1; jal ra, 2f"


_BESIDE = ("add", "xor", "mul", "mulh", "div", "divu", "rem", "remu")

_CSR_NUMBERS = programs(f"""
== CSRs: all bits of each of them, and that no other changes [xpulpv2]
    # all that is read is compared where it retires
    csrrs s2, mtvec, zero; li a1, 0x2b7e1517; li a2, 1664525; li s3, 2; li s4, -1
    1:
    {"; ".join(map(_writes, _WRITTEN))}
    addi s3, s3, -1; bne s3, zero, 1b
    csrrw zero, mtvec, s2; csrrwi zero, mstatus, 0
    csrrwi zero, lpcount0, 0; csrrwi zero, lpcount1, 0
    jal zero, 3f
    2:
    {"; ".join(f"csrrs a0, {name}, zero" for name in _KEEPING)}
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
""")

CSR_NUMBERS = (
    _ACCESSES,
    *_CSR_NUMBERS,
)


_NOPS = "c.nop; "


def _from(start: str) -> str:
    """Lines that let both counters run from a1 on, and note in a5 where the upper half of the cycles is wrong.

    It counts if the lower one goes through 0; whether it has, is not known if that happens between the reads.
    """
    return f"""{start}
    csrrw zero, minstreth, a6; csrrw zero, minstret, a1
    csrrwi zero, mcycle, 0; csrrw zero, mcycleh, a6; csrrw zero, mcycle, a1
    {_NOPS * 6}
    csrrs a2, mcycle, zero; csrrs a3, mcycleh, zero; csrrs a4, mcycle, zero
    csrrs s2, minstret, zero; csrrs s2, minstreth, zero
    sltu a1, a2, a1; sub a3, a3, a6; xor a3, a3, a1
    sltu a4, a4, a2; addi a4, a4, -1
    and a3, a3, a4; or a5, a5, a3"""


COUNTERS = programs(f"""
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
    # an interrupt and its handler take 200 cycles at most, the core sleeps for 500 on average, or 2500 on a slow memory
    li a5, 0; li a0, 12
    1: csrrs a1, mcycle, zero; wfi; csrrs a2, mcycle, zero
    sub a2, a2, a1; add a5, a5, a2
    addi a0, a0, -1; bne a0, zero, 1b
    srli a5, a5, 12 => a5 0
== counters: values one bit away from one that carries
    li a0, 1; li a5, 0; li a6, 9
    1: {_from("xori a1, a0, -1")}
    {_from("xori a1, a0, -2")}
    xori a1, a0, -2
    {_from("addi a1, a1, -2")}
    add a0, a0, a0; bne a0, zero, 1b
    => a5 0
== counters: a carry that is taken back, seen by the first instruction of the handler
    li a0, 0x{FAILING[0]:x}; li a1, -1; li a3, 0x{FAR[0]:x}
    csrrs s2, mtvec, zero; la a4, 1f; la a5, 2f; addi a6, a3, 0
    3: lw a2, 0(a4); sw a2, 0(a6); addi a4, a4, 4; addi a6, a6, 4
    bltu a4, a5, 3b
    fence.i; csrrw zero, mtvec, a3
    csrrwi zero, minstreth, 9; csrrw zero, minstret, a1
    lw a2, 0(a0)
    csrrw zero, mtvec, s2
    jal zero, 2f
    1: csrrs s5, minstreth, zero => s5 9
    csrrs t6, mepc, zero; addi t6, t6, 4; csrrw zero, mepc, t6
    mret
    2: addi a0, zero, 0
""")
