"""Directed programs of pv.rqld and pv.rq*: dependences, faults, interrupts, branches, illegal words."""

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.verify.directed.case import HANDLERS, Directed, stored, words_at
from xpulpnn_sim.verify.directed.requantised_values import NEEDS, PARAMETERS, VALUES, Case, code_of
from xpulpnn_sim.verify.layout import FAILING, WINDOW

_LOAD_FAULT = 5


def _producers() -> Directed:
    """Operands made right before by every kind of instruction."""
    text = f"""
    {PARAMETERS}
    li a2, 33
    li a3, 7
    sw a2, 16(tp)
    sw a1, 20(tp)
    sw zero, 24(tp)
    addi t1, tp, 16
    li s2, 0
    lw a4, 16(tp)
    pv.rqu.b s2, a4, a1, 0
    p.lw a5, 4(t1!)
    pv.rqu.b s2, a5, a1, 1
    lw a6, 20(tp)
    pv.rqu.b s2, a2, a6, 2
    li s3, -1
    lw s3, 24(tp)
    pv.rqu.b s3, a2, a1, 3
    li a7, 0
    li s4, 0x01010101
    pv.sdotup.b a7, s4, s4
    pv.rqs.b s2, a7, a1, 3
    divu s5, a2, a1
    pv.rqu.b s3, s5, a1, 0
    mulh s6, a2, a2
    pv.rqs.n s3, s6, a1, 2
    mul s7, a3, a3
    pv.rqu.b s3, s7, a1, 2
    csrrw zero, mscratch, a2
    csrrs s8, mscratch, zero
    pv.rqs.n s3, s8, a1, 3
    {stored("s2 s3")}
    """
    first = code_of(33) | code_of(33) << 8 | code_of(33) << 16 | code_of(4, signed=True) % 256 << 24
    second = (
        code_of(33) << 24
        | code_of(49) << 16
        | code_of(33, 4, True) % 16 << 12
        | code_of(0, 4, True) % 16 << 8
        | code_of(33)
    )
    return Directed("pv.rq: operands made right before", text, (first, second), NEEDS)


def _readers() -> Directed:
    """The result used right behind by every kind of instruction."""
    code = code_of(33)
    text = f"""
    {PARAMETERS}
    li a2, 33
    {_rq("s2")}
    addi a3, s2, 1
    {_rq("s2")}
    sw s2, 0(s11)
    addi a4, tp, 0
    sw a2, {code}(a4)
    {_rq("s3")}
    add s3, s3, tp
    lw s3, 0(s3)
    {_rq("s4")}
    {_rq("s4", "pv.rqs.b", "s4", "a1", 1)}
    {_rq("s5")}
    {_rq("s5", "pv.rqs.b", "a2", "s5", 1)}
    li s6, {code}
    li s7, 1
    {_rq("s8")}
    beq s8, s6, 1f
    li s7, 2
    1: la s9, 2f
    andi s10, s9, 255
    xori s9, s9, 4
    li a5, {WORD_BYTES * 20}
    pv.rqld 0, (a5!)
    pv.rqld 1, (a5!)
    pv.rqu.b s9, s10, zero, 0
    jalr ra, 0(s9)
    li s7, 3
    2: addi s7, s7, 16
    {stored("a3 s3 s4 s5 s7", 1)}
    """
    # kappa = 1 and lambda = 0 in the page at address 0: the low byte of a jump's address comes from a sum
    text = f"{words_at(WORD_BYTES * 20, (1, 0))}\n{text}"
    chained = code | code_of(code, signed=True) % 256 << 8
    shifted = code | code_of(33, signed=True, shift=code) % 256 << 8
    return Directed("pv.rq: results used right behind", text, (code, code + 1, 33, chained, shifted, 17), NEEDS)


def _rq(rd: str, mnemonic: str = "pv.rqu.b", rs1: str = "a2", rs2: str = "a1", lane: int = 0) -> str:
    """An instruction of one line; the register is 0 before if it is no operand and the lane is 0."""
    first = f"li {rd}, 0\n" if rd not in (rs1, rs2) and not lane else ""
    return f"{first}{mnemonic} {rd}, {rs1}, {rs2}, {lane}"


def _order() -> Directed:
    """The register written by something else right before and right behind: the last write stays."""
    text = f"""
    {PARAMETERS}
    li a2, 33
    li a3, 0x1234
    sw a3, 16(tp)
    pv.rqu.b s2, a2, a1, 0
    li s2, 5
    pv.rqu.b s3, a2, a1, 0
    lw s3, 16(tp)
    lw s4, 16(tp)
    pv.rqu.b s4, a2, a1, 3
    pv.rqu.b s5, a2, a1, 0
    mulh s5, a3, a3
    pv.rqu.b s6, a2, a1, 0
    divu s6, a3, a1
    addi t1, tp, 16
    pv.rqu.b s7, a2, a1, 0
    p.lw s7, 4(t1!)
    pv.rqu.b t1, a2, a1, 0
    addi t1, tp, 16
    p.lw s8, 4(t1!)
    li s9, 33
    pv.rqu.b s9, s9, s9, 1
    pv.rqu.b zero, a2, a1, 0
    addi s10, zero, 0
    la a5, 1f
    pv.rqu.b a4, a2, a1, 1
    jal a4, 1f
    1: sub a4, a4, a5
    {stored("s2 s3 s4 s5 s6 s7 s8 s9 s10 a4")}
    """
    mixed = 33 | Case(8, False, 3, -40, 33, 33).code << 8
    expected = (5, 0x1234, 0x1234 | code_of(33) << 24, 0, 0x1234, 0x1234, 0x1234, mixed, 0, 0)
    return Directed("pv.rq: the last write of a register stays", text, expected, NEEDS)


def _parameters() -> Directed:
    """Parameters used right behind, loaded twice, from x0 and from a misaligned address; the base used at once."""
    text = f"""
    {words_at(WINDOW, (1, 0, 2, 100, 0x0000_0300, 0xFF00_0000))}
    {words_at(WORD_BYTES * 8, (4,))}
    li a0, 10
    li s2, 0
    li s3, 0
    pv.rqld 1, (t1!)
    li t1, 0x{WINDOW:x}
    pv.rqld 0, (t1!)
    pv.rqu.b s2, a0, zero, 0
    pv.rqld 1, (t1!)
    pv.rqld 0, (t1!)
    pv.rqu.b s2, a0, zero, 1
    pv.rqld 1, (t1!)
    pv.rqu.b s2, a0, zero, 2
    sub a2, t1, tp
    li a3, {WORD_BYTES * 8}
    pv.rqld 0, (a3!)
    addi a4, a3, 0
    pv.rqu.b s2, a0, zero, 3
    addi t1, t1, 1
    pv.rqld 0, (t1!)
    pv.rqu.b s3, a0, zero, 0
    sub a5, t1, tp
    addi t1, tp, 4
    pv.rqld 1, (t1!)
    pv.rqs.b s3, a0, zero, 1
    sw zero, 0(zero)
    pv.rqld 0, (zero!)
    pv.rqu.b s3, a0, zero, 2
    {stored("s2 s3 a2 a4 a5")}
    """

    def code(kappa: int, lam: int, signed: bool = False) -> int:
        return Case(8, signed, kappa, lam, 10, 0).code % 256

    first = code(1, 4) | code(2, 0) << 8 | code(2, 100) << 16 | code(4, 100) << 24
    # across the words: 0x00000003
    second = code(3, 100) | code(3, 0, True) << 8 | code(0, 0) << 16
    return Directed("pv.rqld: parameters used right behind", text, (first, second, 16, 36, 21), NEEDS)


def _faults() -> Directed:
    """A pv.rqld that fails leaves its parameter and base; a pv.rq around an access that fails is not lost."""
    fails, _ = FAILING
    text = f"""
    {PARAMETERS}
    li a0, 0x{fails:x}
    li a2, 33
    li s2, 0
    li s3, 0
    csrrw zero, mcause, zero
    pv.rqld 0, (a0!)
    pv.rqu.b s2, a2, a1, 0
    csrrs a3, mcause, zero
    pv.rqld 1, (a0!)
    pv.rqu.b s2, a2, a1, 1
    addi a4, a0, -2
    pv.rqld 1, (a4!)
    pv.rqu.b s2, a2, a1, 2
    pv.rqu.b s2, a2, a1, 3
    lw s2, 0(a0)
    sub a4, a4, a0
    lw s3, 0(a0)
    pv.rqu.b s3, a2, a1, 3
    pv.rqu.b s3, a2, a1, 0
    ecall
    pv.rqu.b s3, a2, a1, 1
    .word 0
    csrrw zero, mscratch, s3
    csrrs a5, mscratch, zero
    sub a0, a0, tp
    {stored("s2 s3 a0 a3 a4 a5")}
    """
    code = code_of(33)
    second = code << 24 | code | code << 8
    expected = (code * 0x0101_0101, second, fails - WINDOW, _LOAD_FAULT, -2, second)
    return Directed("pv.rqld and pv.rq: access faults and traps", text, expected, NEEDS)


def _in_loops() -> Directed:
    """First, last and only instruction of loops, interrupts at any point."""
    rounds = 60
    text = f"""
    {PARAMETERS}
    {words_at(WINDOW, (3, -40))}
    li a2, 0
    li s2, 0
    li s3, 0
    lp.setupi 0, {rounds}, 1f
    pv.rqu.b s2, a2, a1, 0
    add s3, s3, s2
    addi a2, a2, 1
    li t1, 0x{WINDOW:x}
    pv.rqld 0, (t1!)
    pv.rqu.n s4, a2, a1, 3
    pv.rqs.b s2, a2, a1, 3
    1: pv.rqld 1, (t1!)
    li s5, 0
    lp.setupi 0, 4, 2f
    2: pv.rqu.b s5, a2, a1, 2
    csrrs s6, lpcount0, zero
    lp.setupi 1, 3, 3f
    pv.rqu.n s5, a2, a1, 7
    nop
    3: fence
    wfi
    addi s6, s6, 1
    {stored("s2 s3 s5 s6")}
    """
    total = value = 0
    for number in range(rounds):
        value = value & ~0xFF | code_of(number)
        total += value
        value = value & 0xFF_FFFF | code_of(number + 1, signed=True) % 256 << 24
    fifth = code_of(rounds) << 16 | code_of(rounds, 4) << 28
    expected = (value, total, fifth, 2)
    return Directed("pv.rq: in loops under interrupts", text, expected, NEEDS, interrupts=True, handlers=HANDLERS)


def _mac_load() -> Directed:
    """The sum of a Mac&Load requantised at once, and parameters and entries reloaded next to each other."""
    text = f"""
    {words_at(WINDOW, (0x01010101, 0x02020202, 3, -40, 0x01010101))}
    li a1, 1
    pv.mlsdotup.b zero, (t1!), 8
    pv.mlsdotup.b zero, (t1!), 16
    li a0, 30
    li s2, 0
    pv.rqld 0, (t1!)
    pv.rqld 1, (t1!)
    pv.mlsdotup.b a0, (t1!), 16
    pv.rqu.b s2, a0, a1, 0
    pv.mlsdotup.b a0, (t1!), 0
    pv.rqu.b s2, a0, a1, 1
    addi t1, tp, 8
    pv.rqld 1, (t1!)
    pv.mlsdotup.b s2, (t1!), 0
    pv.rqu.n s2, a0, a1, 7
    {stored("s2 a0")}
    """
    # 8 of four products of 2, then 4 of four products of 1; at last lambda is 3
    low = (code_of(38) | code_of(42) << 8) + 4
    last = Case(4, False, 3, 3, 42, 1).code << 28
    return Directed("pv.rq: Mac&Load around it", text, (low & (1 << 28) - 1 | last, 42), NEEDS)


def _skipped() -> Directed:
    """Both instructions right behind taken branches, jumps and ends of loops: as if they were not there."""
    text = f"""
    {PARAMETERS}
    li a2, 33
    li s2, 0
    li t1, 0x{WINDOW + WORD_BYTES:x}
    beq a2, a2, 1f
    pv.rqu.b s2, a2, a1, 0
    1: bne a2, zero, 2f
    pv.rqld 0, (t1!)
    2: jal zero, 3f
    pv.rqu.b s2, a2, a1, 1
    3: pv.rqu.b s2, a2, a1, 2
    bltu zero, s2, 4f
    pv.rqs.b s2, a2, a1, 3
    pv.rqld 1, (t1!)
    4: lp.setupi 0, 3, 5f
    addi a2, a2, 2
    5: addi a3, a2, 0
    pv.rqu.b s2, a2, a1, 3
    sub t1, t1, tp
    {stored("s2 t1 a3")}
    """
    return Directed("pv.rq: skipped by branches", text, (code_of(33) << 16 | code_of(39) << 24, 4, 39), NEEDS)


def _illegal() -> Directed:
    """Lanes that a format does not have, and every other bit that must be 0: nothing happens but a trap."""
    fields = 11 << 15 | 12 << 20 | 10 << 7 | 0b1110111
    lanes = [(5, lane) for lane in range(4, 16)] + [(6, lane) for lane in range(8, 16)]
    words = [lane << 28 | sign << 27 | fields | funct3 << 12 for funct3, lane in lanes for sign in (0, 1)]
    words += [bits << 25 | fields | funct3 << 12 for funct3 in (5, 6, 7) for bits in (1, 2, 3)]
    load = 4 << 12 | 11 << 15 | 0b1110111
    words += [load | 1 << bit for bit in (*range(7, 12), *range(21, 32))]
    traps = "\n".join(f".word 0x{word:x}\n csrrw a3, mcause, zero\n add s2, s2, a3" for word in words)
    text = f"""
    {PARAMETERS}
    li a0, 77
    li a1, 0x{WINDOW:x}
    li a2, 1
    li s2, 0
    csrrw zero, mcause, zero
    {traps}
    sub a1, a1, tp
    {stored("a0 a1 s2")}
    """
    return Directed("pv.rqld and pv.rq: illegal words", text, (77, 0, 2 * len(words)), NEEDS)


REQUANTISATION = (
    *VALUES,
    _producers(),
    _readers(),
    _order(),
    _parameters(),
    _faults(),
    _in_loops(),
    _mac_load(),
    _skipped(),
    _illegal(),
)
"""The programs of this module."""
