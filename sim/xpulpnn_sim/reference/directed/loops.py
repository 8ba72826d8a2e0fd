"""Directed programs of the hardware loops: lengths, counts, nesting, shared ends, last instructions."""

from itertools import product

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.reference.bare.layout import FAILING, WINDOW
from xpulpnn_sim.reference.directed.case import programs

_COUNTS = (0, 1, 2, 3, 300)
_BODIES = (1, 2, 3, 8)
_STEPS = ("addi a0, a0, 1", "c.addi a0, 1")

_SETUPS = {
    "setupi": "lp.setupi {number}, {count}, {end}",
    "setup": "li t1, {count}; lp.setup {number}, t1, {end}",
    "separate": "li t1, {count}; lp.starti {number}, {start}; lp.endi {number}, {end}; lp.count {number}, t1",
    "csr": """la t1, {start}; csrrw zero, lpstart{number}, t1; la t1, {end}; csrrw zero, lpend{number}, t1
    li t1, {count}; csrrw zero, lpcount{number}, t1""",
}
"""Instructions that set up a hardware loop, by name."""


def _lengths(way: str, number: int) -> str:
    """Return a program of loops of every body length and count, with 16-bit and with 32-bit instructions."""
    lines = [f"\n== hardware loops: {way}, loop {number} [xpulpv2]"]
    for serial, (body, count, step) in enumerate(product(_BODIES, _COUNTS, _STEPS), 1):
        start, end = f"s{serial}x", f"e{serial}x"
        lines += ["c.li a0, 0", _SETUPS[way].format(number=number, count=count, start=start, end=end), f"{start}:"]
        lines += [step] * (body - 1) + [f"{end}: {step}"]
        result = (body * max(1, count) << 4) + min(count, 1)
        lines.append(f"csrrs a1, lpcount{number}, zero; c.slli a0, 4; c.add a0, a1 => a0! {result}")
    return "\n".join(lines)


def _changed_before_end(number: int) -> str:
    """Emit loops whose count, start or end is changed by the instruction right before their last one."""
    return f"""
    lp.setupi {number}, 9, 1f
    c.addi a0, 1; lp.counti {number}, 1
    1: c.addi a0, 1
    c.addi a1, 1; c.addi a1, 2; c.addi a1, 4
    lp.setupi {number}, 9, 2f
    c.addi a0, 1; lp.counti {number}, 0
    2: addi a0, a0, 1
    c.addi a1, 1; c.addi a1, 2; c.addi a1, 4
    lp.setupi {number}, 9, 3f
    c.addi a0, 1; lp.endi {number}, 4f
    3: c.addi a0, 1
    lp.counti {number}, 0; c.addi a1, 1; c.addi a1, 2
    4: c.addi a1, 4
    lp.setupi {number}, 9, 5f
    c.addi a0, 1; csrrwi zero, lpcount{number}, 1
    5: c.addi a0, 1
    la t1, 7f; lp.starti {number}, 6f; lp.endi {number}, 8f; lp.counti {number}, 3
    6: c.addi a0, 1; csrrw zero, lpend{number}, t1
    7: c.addi a0, 1
    8: lp.counti {number}, 0
    la t1, 10f; lp.setupi {number}, 2, 9f
    csrrw zero, lpstart{number}, t1
    9: c.addi a0, 1
    c.addi a0, 16
    10: c.addi a0, 1
    """


def _bits(number: int) -> str:
    """Return a program that sets each bit of a loop count, and ends one bit away from an executed address."""
    # a loop leaves its body with a count of 0. An access that fails at the end gives its pass back
    # the end is met with each count, and an address next to it; all counts but 1 go back, and an end keeps no bit 0
    return f"""
== hardware loops: each bit of counts and ends, loop {number} [xpulpv2]
        la s2, 2f; la s3, 4f; csrrw zero, lpstart{number}, s3
        li a0, 1; li a5, 0; li a6, 0; li a7, 0
        1: li s4, 0x{FAILING[0]:x}
        csrrw zero, lpend{number}, s2; lp.count {number}, a0; li a4, 3
        jal ra, 2f
        li a4, 0; xor a1, s2, a0; csrrw zero, lpend{number}, a1; lp.counti {number}, 2
        jal ra, 2f
        lp.counti {number}, 0
        la a1, 5f; csrrw zero, lpend{number}, a1; lp.count {number}, a0
        5: lw a2, 0(s4)
        csrrs a2, lpcount{number}, zero; xor a2, a2, a0; or a7, a7, a2 => a7 0
        lp.counti {number}, 0
        add a0, a0, a0; bne a0, zero, 1b
        jal zero, 6f
        2: addi a5, a5, 1; jalr zero, 0(ra)
        4: csrrs a2, lpcount{number}, zero; lp.counti {number}, 0
        addi a3, a0, -1; xor a2, a2, a3; or a6, a6, a2 => a6 1
        add a5, a5, a4; jalr zero, 0(ra) => a5 {2 * XLEN + 3 * (XLEN - 1)}
        6:"""


def _branch_or_csr_last(number: int) -> str:
    """Emit single, successive and nested loops whose last instruction is a branch or reads the loop count."""
    return f"""
    li a0, 0; lp.setupi {number}, 5, 1f
    1: csrrs a0, lpcount{number}, zero => a0! 1
    lp.starti {number}, 2f; lp.endi {number}, 2f; lp.counti {number}, 4; c.addi a0, 1
    2: csrrs a0, lpcount{number}, zero => a0! 1
    lp.setupi {number}, 3, 3f
    3: bne zero, zero, 4f
    csrrs a0, lpcount{number}, zero => a0! 1
    lp.setupi {number}, 6, 4f
    csrrs a0, lpcount{number}, zero => a0! 1
    4: csrrs a1, lpcount{number}, zero => a1! 1
    li a0, 0; lp.setupi 1, 4, 6f
    lp.setupi 0, 3, 5f
    addi a0, a0, 1 => a0! 12
    5: bne zero, zero, 5b
    6: csrrs a1, lpcount{number}, zero => a1! 1
    """


PROGRAMS = programs(f"""
{"".join(_lengths(way, number) for way in _SETUPS for number in (0, 1))}
{"".join(map(_bits, (0, 1)))}
== hardware loops: nested, shared end, inner set up again [xpulpv2]
    # The last pair: loop 0 starts before the setup of loop 1. At each end loop 0 goes first: after its third pass the
    # end belongs to loop 1, set up for the third time, which then makes three more passes.
    li a0, 0; li a1, 0
    lp.setupi 1, 5, 2f
    addi a0, a0, 1
    lp.setupi 0, 7, 1f
    c.addi a1, 1
    1: addi a1, a1, 1 => a1 70
    2: addi a0, a0, 1 => a0 10
    li a2, 0; li a3, 0; li t1, 5
    lp.setup 1, t1, 3f
    c.addi a2, 1 => a2 5
    lp.setupi 0, 7, 3f
    3: c.addi a3, 1 => a3 35
    li a4, 0; li a5, 0
    lp.setupi 0, 3, 4f
    lp.setupi 1, 4, 4f
    c.addi a4, 1 => a4 6
    4: c.addi a5, 1 => a5 6
    csrrs s2, lpcount0, zero => s2 1
    csrrs s3, lpcount1, zero => s3 1
== hardware loops: branches, jumps, traps and system instructions at the end [xpulpv2]
    # beq: two passes count, the third branches away; counts stay where a transfer of control is the last instruction;
    # the value written by lp.counti counts from the next pass on
    li a0, 0; li a1, 3
    lp.setupi 0, 10, 1f
    addi a1, a1, -1; addi a0, a0, 1 => a0 3
    1: beq a1, zero, 2f
    2: csrrs a2, lpcount0, zero => a2 8
    li a3, 0
    lp.setupi 0, 10, 3f
    addi a3, a3, 1 => a3 1
    3: jal a4, 4f
    4: csrrs a4, lpcount0, zero => a4 10
    li a5, 0
    lp.setupi 0, 10, 5f
    addi a5, a5, 1 => a5 1
    5: ecall
    csrrs a6, lpcount0, zero => a6 10
    li a7, 0
    lp.setupi 0, 10, 6f
    addi a7, a7, 1 => a7 2
    6: lp.counti 0, 1
    csrrs s2, lpcount0, zero => s2 1
    li s3, 0
    lp.setupi 0, 4, 7f
    addi s3, s3, 1 => s3 4
    7: csrrs s4, lpcount0, zero => s4 1
    li s5, 0
    lp.setupi 0, 4, 8f
    addi s5, s5, 1 => s5 4
    8: fence.i
    li s6, 0; la t2, 10f
    lp.setupi 0, 4, 9f
    csrrw zero, mepc, t2; addi s6, s6, 1 => s6 1
    9: mret
    10: csrrs s7, lpcount0, zero => s7 4
    li s8, 0
    lp.setupi 0, 4, 11f
    addi s8, s8, 1
    11: jal ra, 12f
    jal zero, 13f
    12: addi s8, s8, 16; jalr zero, 0(ra) => s8 17
    13: csrrs s9, lpcount0, zero => s9 4
== hardware loops: branches and CSR accesses at the end, either loop [xpulpv2]
    {"".join(map(_branch_or_csr_last, (0, 1)))}
== hardware loops: loads, stores, divisions and compressed instructions at the end [xpulpv2]
    li t1, 0x{WINDOW:x}; li a0, 0
    lp.setupi 0, 6, 1f
    c.addi a0, 3
    1: p.sw a0, 4(t1!)
    li t1, 0x{WINDOW:x}; li a1, 0
    lp.setupi 0, 6, 2f
    add a1, a1, a2
    2: p.lw a2, 4(t1!)
    add a1, a1, a2 => a1 {3 + 6 + 9 + 12 + 15 + 18}
    li a3, 1000000; li a4, 10
    lp.setupi 1, 4, 3f
    3: divu a3, a3, a4 => a3 100
    sub t1, t1, tp => t1 24
== hardware loops: leaving a body keeps the count, entering it again goes on counting [xpulpv2]
    # left in pass 3 with 6 to go, entered again at the last instruction: six more ends, five of them jump back
    li a0, 0; li a1, 0
    lp.setupi 0, 8, 2f
    1: addi a0, a0, 1; p.beqimm a0, 3, 3f
    2: addi a1, a1, 1 => a1 8
    jal zero, 4f
    3: csrrs a2, lpcount0, zero => a2 6
    addi a0, a0, 10; jal zero, 2b => a0 {3 + 10 + 5}
    4: csrrs a3, lpcount0, zero => a3 1
== hardware loops: start, count or end set right before the last instruction, by CSR writes too [xpulpv2]
    li a0, 0; li a1, 0
    {_changed_before_end(0)}
    {_changed_before_end(1)}
    => a0 {2 * (6 + 2 + 6 + 2)}, a1 {2 * 3 * 7}
""")
