"""Checks of branches, jumps, hardware loops, compressed code, CSRs, exceptions and interrupts."""

from xpulpnn.isa.csr import CSR_BY_NAME, MCAUSE_INTERRUPT, MISA_X, MSTATUS_MPIE, MTVEC_VECTORED, PERFORMANCE_EVENTS
from xpulpnn.isa.machine import IRQ_PRIORITY, ExceptionCause
from xpulpnn_sim.publishing.packages.arithmetic import CORNERS, ArithmeticChecks
from xpulpnn_sim.reference.statements.compiled import result

DRIVEN_HART_ID = 0x25  # what the testbench drives on `hart_id`

_BRANCH_WORDS = (*CORNERS[:5], 7)


def branches(checks: ArithmeticChecks) -> None:
    """Every branch, taken and not, backwards too."""
    checks.title("branches: a2 is 1 where taken, 2 where not")
    for insn in (insn for insn in checks.insns if insn.is_branch and insn.size == 4):
        immediate = "simm5" in insn.operands
        for a in _BRANCH_WORDS:
            for b in (-3, 7) if immediate else (a, checks.word()):
                operand = b & 0xFFFF_FFFF
                value = result(insn, {"simm5": b} if immediate else {}, a, operand, 0)
                second = str(b) if immediate else "a1"
                # p.beqimm and p.bneimm compare with a sign-extended constant
                checks.code(f"    li a0, {a}; li a1, {operand}; li a2, 1\n    {insn.mnemonic} a0, {second}, 1f")
                checks.code("    li a2, 2\n1:")
                checks.expect("a2", 1 if value else 2, f"{insn.mnemonic} {a:08x}, {operand:08x}")
    checks.code("    li a0, 5; li a2, 0\n1:  addi a2, a2, 3; addi a0, a0, -1\n    bne a0, x0, 1b")
    checks.expect("a2", 15, "loop of five rounds")


def jumps(checks: ArithmeticChecks) -> None:
    """Calls, returns and targets in the middle of a word."""
    checks.title("jumps")
    checks.code("    li a2, 0\n    jal ra, called")
    checks.code("returned:\n    j passed\ncalled:\n    addi a2, a2, 9\n    addi a3, ra, 0\n    jalr x0, 0(ra)\npassed:")
    checks.expect("a2", 9, "the function called")
    checks.expect("a3", lambda labels: labels["returned"], "link of jal")
    checks.code("here:\n    auipc a0, 1")
    checks.expect("a0", lambda labels: labels["here"] + 0x1000, "auipc")


def compressed(checks: ArithmeticChecks) -> None:
    """Compressed instructions, and 32-bit ones across a word boundary."""
    checks.title("compressed instructions")
    checks.code("""
    c.li a0, 21
    addi a1, a0, 100
    c.addi a0, -5
    c.slli a0, 4
    c.mv a2, a0
    c.add a2, a1
    c.li a3, -1
    c.srli a3, 28
    c.and a3, a0
    c.beqz a3, 1f
    c.li a0, 0
1:  c.xor a0, a1
    c.sub a2, a1
    c.j 2f
    c.li a2, 0
2:  c.addi16sp 16
    c.addi16sp -16
    addi a4, a2, 1
    """)
    checks.expect("a0", 256 ^ 121, "c.li, c.addi, c.slli, c.xor")
    checks.expect("a2", 256, "c.mv, c.add, c.sub")
    checks.expect("a4", 257, "32-bit instruction after compressed ones")
    # the instructions that follow are aligned again
    statements = [part for line in checks.lines for part in line.split("#")[0].split(";")]
    count = sum(part.split(":")[-1].strip().startswith("c.") for part in statements)
    checks.code("    c.nop" if count % 2 else "")


def hardware_loops(checks: ArithmeticChecks) -> None:
    """Both loops, nested, of one instruction, set up in parts, and their registers."""
    checks.title("hardware loops")
    checks.code("""
    li a0, 0; li a1, 7
    lp.setup 0, a1, 1f
1:  addi a0, a0, 1
    li a2, 0; li a3, 3
    lp.setup 1, a3, 3f
    lp.setupi 0, 5, 2f
    addi a2, a2, 1
2:  addi a2, a2, 10
    addi a2, a2, 100
3:  addi a2, a2, 1000
    li a4, 0
    lp.starti 1, 4f
    lp.endi 1, 5f
    lp.counti 1, 6
4:  addi a4, a4, 1
    addi a5, a4, 0
5:  addi a4, a4, 1
    csrr a6, lpcount1
    """)
    checks.expect("a0", 7, "loop of one instruction")
    checks.expect("a2", 3 * (5 * 11 + 1100), "nested loops")
    checks.expect("a4", 12, "loop set up in parts")
    checks.expect("a6", 1, "lpcount1 after the loop")
    checks.expect("a5", 11, "last round")


def csr_accesses(checks: ArithmeticChecks) -> None:
    """CSRs: reset values, writable bits, counters."""
    config = checks.config
    checks.title("control and status registers")
    checks.code("    csrr a0, mhartid")
    checks.expect("a0", DRIVEN_HART_ID, "mhartid follows hart_id")
    checks.code("    csrr a0, misa")
    checks.expect("a0", CSR_BY_NAME["misa"].reset & ~(0 if config.xpulpv2 else MISA_X), "misa")
    checks.code("    li a0, 0x5A5AF00D; csrrw a1, mscratch, a0; csrrs a1, mscratch, x0")
    checks.expect("a1", 0x5A5A_F00D, "mscratch")
    checks.code("    csrrci x0, mscratch, 13; csrrsi a1, mscratch, 2; csrrw a1, mscratch, x0")
    checks.expect("a1", 0x5A5A_F002, "csrrci and csrrsi")
    checks.code("    li a0, -1; csrrw x0, mepc, a0; csrr a1, mepc")
    checks.expect("a1", 0xFFFF_FFFE, "mepc has no bit 0")
    checks.code(
        "    csrr a0, minstret; addi x0, x0, 0; addi x0, x0, 0; addi x0, x0, 0; csrr a1, minstret; sub a1, a1, a0"
    )
    checks.expect("a1", 4, "instructions retired")
    checks.code("    csrr a0, mcycle; addi x0, x0, 0; addi x0, x0, 0; csrr a1, mcycle; sub a1, a1, a0; sltiu a1, a1, 3")
    checks.expect("a1", 0, "mcycle counts at least a cycle per instruction")
    if config.performance_counters:
        loads = PERFORMANCE_EVENTS.index("loads")
        checks.code(f"    li a0, {1 << loads}; csrrw x0, pcer, a0; csrrw x0, pccr{loads}, x0; li a0, operands")
        checks.code(f"    lw a1, 0(a0); lw a2, 4(a0); lw a3, 8(a0); csrr a1, pccr{loads}; csrrw x0, pcer, x0")
        checks.expect("a1", 3, "loads counted")


def after_reset(checks: ArithmeticChecks) -> None:
    """Check the state after reset, before anything is written."""
    checks.title("after reset")
    checks.code("    csrr t5, mtvec")
    checks.expect("t5", lambda labels: labels["memory"] | MTVEC_VECTORED, "mtvec follows boot_addr")
    checks.code("    csrr t5, mstatus")
    checks.expect("t5", CSR_BY_NAME["mstatus"].reset, "mstatus")
    checks.code("    csrr t5, mie")
    checks.expect("t5", 0, "mie")


def exceptions(checks: ArithmeticChecks) -> None:
    """Every exception; the handler stores mcause and mepc and goes on behind the instruction."""
    checks.title("exceptions")
    events = (
        ("ecall", "ecall", ExceptionCause.ENVIRONMENT_CALL),
        ("ebreak", "ebreak", ExceptionCause.BREAKPOINT),
        ("a word that is no instruction", ".word 0xffffffff", ExceptionCause.ILLEGAL_INSTRUCTION),
        ("absent CSR", "csrr a0, 0x5C0", ExceptionCause.ILLEGAL_INSTRUCTION),
        ("read-only CSR", "csrrw x0, mhartid, x0", ExceptionCause.ILLEGAL_INSTRUCTION),
    )
    for number, (name, text, cause) in enumerate(events):
        checks.code(f"fault{number}:\n    {text}")
        checks.stored(cause, f"mcause of {name}")
        checks.stored(lambda labels, number=number: labels[f"fault{number}"], f"mepc of {name}")
    checks.code("    csrr a0, mstatus")
    checks.expect("a0", CSR_BY_NAME["mstatus"].reset | MSTATUS_MPIE, "mstatus after mret")


def interrupts(checks: ArithmeticChecks) -> int:
    """Every interrupt line, then two at once, then wfi; returns the number of interrupts taken."""
    checks.title("interrupts: the handler stores mcause, sets s11 and withdraws the lines")
    checks.code("    li a0, -1; csrrw x0, mie, a0; csrrsi x0, mstatus, 8; li a0, lines")
    sets = [1 << line for line in IRQ_PRIORITY] + [1 << IRQ_PRIORITY[0] | 1 << IRQ_PRIORITY[-1]]
    for lines in sets:
        first = next(line for line in IRQ_PRIORITY if lines >> line & 1)
        checks.code(f"    li s11, 0; li a1, {lines}; sw a1, 0(a0)\n1:  beq s11, x0, 1b")
        checks.stored(MCAUSE_INTERRUPT | first, f"mcause of lines {lines:08x}")
    checks.code(f"    li s11, 0; li a1, {1 << IRQ_PRIORITY[0]}; li a2, lines_later; sw a1, 0(a2)")
    checks.code("    wfi\n1:  beq s11, x0, 1b")
    checks.stored(MCAUSE_INTERRUPT | IRQ_PRIORITY[0], "mcause after wfi")
    checks.code("    csrrci x0, mstatus, 8; csrr a1, mip")
    checks.expect("a1", 0, "mip without lines")
    return len(sets) + 1


TRAP_HANDLERS = """
exception:
    csrr t5, mcause; sw t5, 0(gp)
    csrr t5, mepc; sw t5, 4(gp)
    addi gp, gp, 8
    csrr t6, mcause; addi t6, t6, -{fault}; beq t6, x0, 1f
    addi t5, t5, 4; csrrw x0, mepc, t5
    mret
1:  csrrw x0, mepc, ra
    mret
interrupt:
    csrr t5, mcause; sw t5, 0(gp)
    addi gp, gp, 4
    li s11, 1
    li t6, lines; sw x0, 0(t6)
    # the lines are low once the device has answered
    lw t5, 0(t6); and t5, t5, t5
    mret
""".replace("{fault}", str(ExceptionCause.INSTRUCTION_ACCESS_FAULT.value))
"""Handlers of the program; they keep t5, t6, s11 and gp for themselves."""
