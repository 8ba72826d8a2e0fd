"""Directed programs of the hardware loops: lengths, counts, nesting, shared ends, last instructions."""

from collections.abc import Iterator

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.verify.directed.case import Directed, stored
from xpulpnn_sim.verify.layout import FAILING, WINDOW

_NEEDS = ("xpulpv2",)
_COUNTS = (0, 1, 2, 3, 300)
_BODIES = (1, 2, 3, 8)


def _setup(number: int, count: int, kind: str) -> str:
    """One of the ways to set up the loop from ``s`` to ``e``."""
    if kind == "setupi":
        return f"lp.setupi {number}, {count}, {{e}}"
    register = f"li t1, {count}\n"
    if kind == "setup":
        return f"{register} lp.setup {number}, t1, {{e}}"
    if kind == "separate":
        return f"{register} lp.starti {number}, {{s}}\n lp.endi {number}, {{e}}\n lp.count {number}, t1"
    return (
        f"la t1, {{s}}\n csrrw zero, lpstart{number}, t1\n la t1, {{e}}\n csrrw zero, lpend{number}, t1\n"
        f"{register} csrrw zero, lpcount{number}, t1"
    )


def _lengths() -> Iterator[Directed]:
    """Every body length with every count, in every way of setting up, and with compressed instructions."""
    for kind in ("setupi", "setup", "separate", "csr"):
        for number in (0, 1):
            lines: list[str] = []
            expected: list[int] = []
            serial = 0
            for body in _BODIES:
                for count in _COUNTS:
                    for step in ("addi a0, a0, 1", "c.addi a0, 1"):
                        serial += 1
                        start, end = f"s{serial}x", f"e{serial}x"
                        last = body - 1
                        lines += ["c.li a0, 0", _setup(number, count, kind).format(s=start, e=end), f"{start}:"]
                        lines += [step] * last + [f"{end}: {step}"]
                        lines += [f"csrrs a1, lpcount{number}, zero", "c.slli a0, 4", "c.add a0, a1"]
                        lines += ["sw a0, 0(s11)", "addi s11, s11, 4"]
                        expected.append((body * max(1, count) << 4) + min(count, 1))
            yield Directed(f"hardware loops: {kind}, loop {number}", "\n".join(lines), tuple(expected), _NEEDS)


_NESTED = Directed(
    "hardware loops: nested, shared end, inner set up again",
    f"""
    li a0, 0
    li a1, 0
    lp.setupi 1, 5, 2f
    addi a0, a0, 1
    lp.setupi 0, 7, 1f
    c.addi a1, 1
    1: addi a1, a1, 1
    2: addi a0, a0, 1
    li a2, 0
    li a3, 0
    li t1, 5
    lp.setup 1, t1, 3f
    c.addi a2, 1
    lp.setupi 0, 7, 3f
    3: c.addi a3, 1
    li a4, 0
    li a5, 0
    lp.setupi 0, 3, 4f
    lp.setupi 1, 4, 4f
    c.addi a4, 1
    4: c.addi a5, 1
    csrrs s2, lpcount0, zero
    csrrs s3, lpcount1, zero
    {stored("a0 a1 a2 a3 a4 a5 s2 s3")}
    """,
    # The last pair: loop 0 starts before the setup of loop 1. At each end loop 0 goes first: after its third pass the
    # end belongs to loop 1, set up for the third time, which then makes three more passes.
    (10, 70, 5, 35, 6, 6, 1, 1),
    _NEEDS,
)

_LAST = Directed(
    "hardware loops: branches, jumps, traps and system instructions at the end",
    f"""
    li a0, 0
    li a1, 3
    lp.setupi 0, 10, 1f
    addi a1, a1, -1
    addi a0, a0, 1
    1: beq a1, zero, 2f
    2: csrrs a2, lpcount0, zero
    li a3, 0
    lp.setupi 0, 10, 3f
    addi a3, a3, 1
    3: jal a4, 4f
    4: csrrs a4, lpcount0, zero
    li a5, 0
    lp.setupi 0, 10, 5f
    addi a5, a5, 1
    5: ecall
    csrrs a6, lpcount0, zero
    li a7, 0
    lp.setupi 0, 10, 6f
    addi a7, a7, 1
    6: lp.counti 0, 1
    csrrs s2, lpcount0, zero
    li s3, 0
    lp.setupi 0, 4, 7f
    addi s3, s3, 1
    7: csrrs s4, lpcount0, zero
    li s5, 0
    lp.setupi 0, 4, 8f
    addi s5, s5, 1
    8: fence.i
    li s6, 0
    la t2, 10f
    lp.setupi 0, 4, 9f
    csrrw zero, mepc, t2
    addi s6, s6, 1
    9: mret
    10: csrrs s7, lpcount0, zero
    li s8, 0
    lp.setupi 0, 4, 11f
    addi s8, s8, 1
    11: jal ra, 12f
    jal zero, 13f
    12: addi s8, s8, 16
    jalr zero, 0(ra)
    13: csrrs s9, lpcount0, zero
    {stored("a0 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9")}
    """,
    # beq: two passes count, the third branches away; counts stay where a transfer of control is the last instruction;
    # the value written by lp.counti counts from the next pass on
    (3, 8, 1, 10, 1, 10, 2, 1, 4, 1, 4, 1, 4, 17, 4),
    _NEEDS,
)

_LAST_MEMORY = Directed(
    "hardware loops: loads, stores, divisions and compressed instructions at the end",
    f"""
    li t1, 0x{WINDOW:x}
    li a0, 0
    lp.setupi 0, 6, 1f
    c.addi a0, 3
    1: p.sw a0, 4(t1!)
    li t1, 0x{WINDOW:x}
    li a1, 0
    lp.setupi 0, 6, 2f
    add a1, a1, a2
    2: p.lw a2, 4(t1!)
    add a1, a1, a2
    li a3, 1000000
    li a4, 10
    lp.setupi 1, 4, 3f
    3: divu a3, a3, a4
    sub t1, t1, tp
    {stored("a1 a3 t1")}
    """,
    (3 + 6 + 9 + 12 + 15 + 18, 100, 24),
    _NEEDS,
)

_EXIT = Directed(
    "hardware loops: leaving a body keeps the count, entering it again goes on counting",
    f"""
    li a0, 0
    li a1, 0
    lp.setupi 0, 8, 2f
    1: addi a0, a0, 1
    p.beqimm a0, 3, 3f
    2: addi a1, a1, 1
    jal zero, 4f
    3: csrrs a2, lpcount0, zero
    addi a0, a0, 10
    jal zero, 2b
    4: csrrs a3, lpcount0, zero
    {stored("a0 a1 a2 a3")}
    """,
    # left in pass 3 with 6 to go, entered again at the last instruction: six more ends, five of them jump back
    (3 + 10 + 5, 8, 6, 1),
    _NEEDS,
)


def _given_up(number: int) -> str:
    """Lines of loops that do not go back after all: what decides comes right before their last instruction."""
    return f"""
    lp.setupi {number}, 9, 1f
    c.addi a0, 1
    lp.counti {number}, 1
    1: c.addi a0, 1
    c.addi a1, 1
    c.addi a1, 2
    c.addi a1, 4
    lp.setupi {number}, 9, 2f
    c.addi a0, 1
    lp.counti {number}, 0
    2: addi a0, a0, 1
    c.addi a1, 1
    c.addi a1, 2
    c.addi a1, 4
    lp.setupi {number}, 9, 3f
    c.addi a0, 1
    lp.endi {number}, 4f
    3: c.addi a0, 1
    lp.counti {number}, 0
    c.addi a1, 1
    c.addi a1, 2
    4: c.addi a1, 4
    """


_GIVEN_UP = Directed(
    "hardware loops: count or end set right before the last instruction, which is the last then",
    f"""
    li a0, 0
    li a1, 0
    {_given_up(0)}
    {_given_up(1)}
    {stored("a0 a1")}
    """,
    (2 * 6, 2 * 3 * 7),
    _NEEDS,
)


def _bits(number: int) -> Directed:
    """Each bit of a count, and ends that differ in one bit from an address that is executed.

    A loop leaves its body with a count of 0. An access that fails at the end gives its pass back.
    """
    return Directed(
        f"hardware loops: each bit of counts and ends, loop {number}",
        f"""
        la s2, 2f
        la s3, 4f
        csrrw zero, lpstart{number}, s3
        li a0, 1
        li a5, 0
        li a6, 0
        li a7, 0
        1: li s4, 0x{FAILING[0]:x}
        csrrw zero, lpend{number}, s2
        lp.count {number}, a0
        li a4, 3
        jal ra, 2f
        li a4, 0
        xor a1, s2, a0
        csrrw zero, lpend{number}, a1
        lp.counti {number}, 2
        jal ra, 2f
        lp.counti {number}, 0
        la a1, 5f
        csrrw zero, lpend{number}, a1
        lp.count {number}, a0
        5: lw a2, 0(s4)
        csrrs a2, lpcount{number}, zero
        xor a2, a2, a0
        or a7, a7, a2
        lp.counti {number}, 0
        add a0, a0, a0
        bne a0, zero, 1b
        jal zero, 6f
        2: addi a5, a5, 1
        jalr zero, 0(ra)
        4: csrrs a2, lpcount{number}, zero
        lp.counti {number}, 0
        addi a3, a0, -1
        xor a2, a2, a3
        or a6, a6, a2
        add a5, a5, a4
        jalr zero, 0(ra)
        6: {stored("a5 a6 a7")}
        """,
        # the end is met with each count, and an address next to it; all counts but 1 go back, and an end keeps no bit 0
        (2 * XLEN + 3 * (XLEN - 1), 1, 0),
        _NEEDS,
    )


LOOPS = (*_lengths(), _NESTED, _LAST, _LAST_MEMORY, _EXIT, _GIVEN_UP, *(_bits(number) for number in (0, 1)))
"""The programs of this module."""
