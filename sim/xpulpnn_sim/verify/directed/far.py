"""Directed programs far from where programs lie: code and data at addresses of all kinds of high bits."""

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.verify.directed.case import Directed, stored
from xpulpnn_sim.verify.layout import FAR

_STARTS = tuple(base + offset for base, offset in zip(FAR, (0x554, 0x2A8, 0xA58), strict=True))
"""Where the routine runs."""

_UPPER = 0x12345
_ROUTINE = f"""
    auipc a0, 0
    addi a1, zero, 0
    jal t1, 4f
    addi a1, a1, 64
    4: c.addi a1, 1
    beq a1, zero, 4b
    bne a1, zero, 5f
    addi a1, a1, 128
    5: ecall
    csrrs a2, mepc, zero
    auipc a6, 0x{_UPPER:x}
    lp.setupi 0, 3, 6f
    addi a1, a1, 1
    6: addi a1, a1, 1
    csrrs a3, lpstart0, zero
    csrrs a4, lpend0, zero
    sw a1, 0x2f1(a0)
    lw a5, 0x2f1(a0)
    p.lhu a7, 1(a0!)
    jalr zero, 0(ra)
"""
_DISTANCES = (1, 12, 34, (_UPPER << 12) + 38, 46, 50)
"""What a0, t1, a2, a6, a3 and a4 are behind the start of the routine."""
_COUNT, _FIRST_HALF = 7, 0x0517
"""What the routine has counted, and its first half word."""


def _visit(start: int, first: int) -> str:
    """Lines that copy the routine, run it there and store its results."""
    return f"""
    li s4, 0x{start:x}
    addi a3, s2, 0
    addi a4, s4, 0
    3: lw a5, 0(a3)
    sw a5, 0(a4)
    addi a3, a3, 4
    addi a4, a4, 4
    bltu a3, s3, 3b
    fence.i
    jalr ra, 0(s4)
    {stored("a0 t1 a2 a6 a3 a4 a5 a7", first)}
    """


_FAR_CODE = Directed(
    "far away: code, its traps and hardware loops, loads and stores",
    f"""
    la s2, 1f
    la s3, 2f
    {"".join(_visit(start, 8 * place) for place, start in enumerate(_STARTS))}
    jal zero, 2f
    1: {_ROUTINE.strip()}
    2: addi a0, zero, 0
    """,
    tuple(
        word
        for start in _STARTS
        for word in (*((start + distance) & WORD_MASK for distance in _DISTANCES), _COUNT, _FIRST_HALF)
    ),
    ("xpulpv2",),
    interrupts=True,
)

FAR_AWAY = (_FAR_CODE,)
"""The programs of this module."""
