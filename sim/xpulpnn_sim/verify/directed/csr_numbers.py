"""Directed programs of CSR numbers: which of them exist, what may be done there, and what a write changes."""

from xpulpnn.isa.csr import CSR_BY_NAME, CSRS, CsrAccess, CsrGroup
from xpulpnn_sim.verify.directed.case import HANDLERS, Directed, stored
from xpulpnn_sim.verify.handlers import Handlers

_NUMBER_BITS = 12
_EXISTING = {csr.address for csr in CSRS}
_NUMBERS = sorted(_EXISTING | {number ^ 1 << place for number in _EXISTING for place in range(_NUMBER_BITS)})
"""Every number of a CSR, and every one that differs from such a number in one bit."""

_SKIPS_PAIRS = """
exception:
    csrrs t6, mepc, zero
    sub t6, t6, s2
    ori t6, t6, 7
    add t6, t6, s2
    addi t6, t6, 1
    csrrw zero, mepc, t6
    mret
interrupt:
"""
"""Skips the rest of a pair of instructions, counted from s2 on, of which one has trapped."""

_READ_ONLY = "mhartid"
_FIELDS = [1 << place for place in range(5)]
_WRITES = [f"{name} zero, {_READ_ONLY}, x{field}" for name in ("csrrs", "csrrc") for field in _FIELDS]
_WRITES += [f"{name} zero, {_READ_ONLY}, {field}" for name in ("csrrsi", "csrrci") for field in _FIELDS]
_WRITES += [f"csrrw a0, {_READ_ONLY}, zero", f"csrrwi a0, {_READ_ONLY}, 0"]

_PAIRS = [(f"csrrs a0, {number}, zero", f"csrrs zero, {number}, a2") for number in _NUMBERS]
_PAIRS += [(write, "addi a3, a3, 1") for write in _WRITES]

_ACCESSES = Directed(
    "CSRs: reads and writes of numbers that exist, and of those one bit away",
    "\n".join(
        [
            *("li a1, 0x5a5aa5a5", "li a2, 0", "li a3, 0", "csrrw zero, mscratch, a1", "la s2, 1f", "1:"),
            *(line for pair in _PAIRS for line in pair),
            *("csrrs a4, mscratch, zero", "csrrs a5, mcause, zero", stored("a3 a4 a5")),
        ]
    ),
    # no write of a register that is only read passes; the others put back what has been read
    (0, 0x5A5AA5A5, 2),
    handlers=Handlers(HANDLERS.slots, exception=_SKIPS_PAIRS),
)

_KEEPING = ("mstatus", "mie", "mtvec", "mcountinhibit", "mscratch", "mepc", "mcause", "minstret", "minstreth")
_KEEPING += tuple(csr.name for csr in CSRS if csr.group is CsrGroup.HWLOOP)
_WRITTEN = [csr.name for csr in CSRS if csr.access is not CsrAccess.RO and csr.group is not CsrGroup.PERFORMANCE]


def _writes(name: str) -> list[str]:
    """Lines that write a register, the last time with a value that no other has, and then look at all."""
    reads = (
        f"csrrw zero, {name}, s4",
        *(f"csrrs a0, {name}, zero",) * 2,
        f"csrrw zero, {name}, zero",
        f"csrrw a0, {name}, a1",
    )
    return [*reads, "jal ra, 2f"]


_TARGETS = Directed(
    "CSRs: all bits of each of them, and that no other changes",
    "\n".join(
        [
            *("csrrs s2, mtvec, zero", "li a1, 0x2b7e1517", "li a2, 1664525", "li s3, 2", "li s4, -1", "1:"),
            *(line for name in _WRITTEN for line in _writes(name)),
            *("addi s3, s3, -1", "bne s3, zero, 1b", "csrrw zero, mtvec, s2", "csrrwi zero, mstatus, 0"),
            *("csrrwi zero, lpcount0, 0", "csrrwi zero, lpcount1, 0", "jal zero, 3f", "2:"),
            *(f"csrrs a0, {name}, zero" for name in _KEEPING),
            *("mul a1, a1, a2", "addi a1, a1, 1013", "jalr zero, 0(ra)", "3:", stored("s3")),
        ]
    ),
    # all that is read is compared where it retires
    (0,),
    ("xpulpv2",),
)

_BESIDE = ("add", "xor", "mul", "mulh", "div", "divu", "rem", "remu")
_OPERANDS = Directed(
    "CSRs: second operands that are the number of one, whose value must not show",
    "\n".join(
        [
            *("li a1, 0x2b7e1517", "li a2, 1664525", "li s3, 16", "1:"),
            *("csrrw zero, mscratch, a1", "srli a3, a1, 12", "slli a3, a3, 12"),
            f"addi a3, a3, {CSR_BY_NAME['mscratch'].address}",
            *("mul a1, a1, a2", "addi a1, a1, 1013"),
            *(f"{name} a0, a1, a3" for name in _BESIDE),
            *("addi s3, s3, -1", "bne s3, zero, 1b", stored("s3")),
        ]
    ),
    # results are compared where they retire
    (0,),
)

CSR_NUMBERS = (_ACCESSES, _TARGETS, _OPERANDS)
"""The programs of this module."""
