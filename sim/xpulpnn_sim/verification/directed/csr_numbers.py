"""Directed programs of CSR numbers: which of them exist, what may be done there, and what a write changes."""

from xpulpnn.isa.csr import CSR_BY_NAME, CSRS, CsrAccess, CsrGroup
from xpulpnn_sim.verification.directed.case import HANDLERS, directed
from xpulpnn_sim.verification.random.handlers import Handlers

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


_TARGETS = directed(
    "CSRs: all bits of each of them, and that no other changes",
    # all that is read is compared where it retires
    f"""
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
    """,
    "xpulpv2",
)

_BESIDE = ("add", "xor", "mul", "mulh", "div", "divu", "rem", "remu")
_OPERANDS = directed(
    "CSRs: second operands that are the number of one, whose value must not show",
    # results are compared where they retire
    f"""
    li a1, 0x2b7e1517; li a2, 1664525; li s3, 16
    1:
    csrrw zero, mscratch, a1
    srli a3, a1, 12; slli a3, a3, 12; addi a3, a3, {CSR_BY_NAME["mscratch"].address}
    mul a1, a1, a2; addi a1, a1, 1013
    {"; ".join(f"{name} a0, a1, a3" for name in _BESIDE)}
    addi s3, s3, -1; bne s3, zero, 1b
    => s3 0
    """,
)

CSR_NUMBERS = (_ACCESSES, _TARGETS, _OPERANDS)
