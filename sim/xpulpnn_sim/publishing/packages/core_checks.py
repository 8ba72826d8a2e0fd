"""Checks of the program for the core: every instruction, control flow, CSRs and traps, without what they must give."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import PERFORMANCE_EVENTS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BYTES, IRQ_PRIORITY, TEXT_BASE, WORD_BYTES, WORD_MASK, ExceptionCause
from xpulpnn.isa.table import enabled
from xpulpnn_sw.assembly.disasm import render

MEMORY_BASE = TEXT_BASE
MEMORY_WORDS = 1 << 15
OPERANDS_AT, SCRATCH_AT, RESULTS_AT, EXPECTED_AT = 0x1_0000, 0x1_0800, 0x1_1000, 0x1_8000
"""Places in memory, in bytes from its start; the code comes first."""

NOWHERE = 0x4000_0000  # an address outside the memory and the device

DEVICE_BASE = 0x8000_0000  # registers of the testbench: end of the program, interrupt lines now, interrupt lines later

PLACES: Mapping[str, int] = {
    "memory": MEMORY_BASE,
    "operands": MEMORY_BASE + OPERANDS_AT,
    "scratch": MEMORY_BASE + SCRATCH_AT,
    "results": MEMORY_BASE + RESULTS_AT,
    "expected": MEMORY_BASE + EXPECTED_AT,
    "stack": MEMORY_BASE + MEMORY_WORDS * WORD_BYTES,
    "nowhere": NOWHERE,
    "device": DEVICE_BASE,
    "lines": DEVICE_BASE + WORD_BYTES,
    "lines_later": DEVICE_BASE + 2 * WORD_BYTES,
}
"""Addresses that programs know by name."""

OPERANDS = 0x400  # bytes of operands that the program may read; copied from nowhere, random

SCRATCH = 0x80  # bytes that the program may write

CORNERS = (0, 1, WORD_MASK, 0x8000_0000, 0x7FFF_FFFF, 0x8000_8000, 0x7F80_FF01)  # operands that carry, borrow or wrap


@dataclass(slots=True)
class CoreChecks:
    """The program under construction."""

    config: CoreConfig  # instructions and CSRs that it may use
    random: random.Random
    operands: bytes = b""  # contents of the memory at the label `operands`
    lines: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])  # what each word is that it stores, for the listing
    insns: tuple[Insn, ...] = ()

    def __post_init__(self) -> None:
        self.operands = self.random.randbytes(OPERANDS)
        self.insns = tuple(enabled(self.config.extensions, self.config.widths))

    def word(self) -> int:
        """An operand: a corner or a random word."""
        return self.random.choice(CORNERS) if self.random.random() < 1 / 4 else self.random.getrandbits(32)

    def code(self, text: str) -> None:
        """Lines of assembly. ``REGISTER => TEXT`` stores a register, which the text describes; without a register other
        code, such as a trap handler, stores the word."""
        for line in text.strip("\n").splitlines():
            register, arrow, described = line.strip().partition("=> ")
            if not arrow:
                self.lines.append(line.rstrip())
                continue
            self.results.append(described)
            if register:
                self.lines.append(f"    sw {register.rstrip()}, 0(gp); addi gp, gp, {WORD_BYTES}")


_NOT_COMPUTED = frozenset(
    {"auipc", "fence", "fence.i", "mret", "dret", "wfi", "ecall", "ebreak", "csrrw", "csrrs", "csrrc"}
)
_REGISTERS = {"rd": 12, "rs1": 10, "rs2": 11, "rs3": 12}  # a0, a1 and a2

_SEARCHES = 6  # executions of each pv.qnt

_BOTH_RELOADS = 0b11
_RELOAD_LSB = 3


def computes(insn: Insn) -> bool:
    """Return whether the instruction does nothing but compute a register from registers."""
    elsewhere = insn.is_load or insn.is_store or insn.is_branch or insn.is_jump or insn.uses_nnrf
    return not elsewhere and insn.op not in _NOT_COMPUTED and not insn.op.startswith(("lp.", "pv.qnt"))


def _rows(checks: CoreChecks) -> Iterator[Insn]:
    return (insn for insn in checks.insns if insn.size == WORD_BYTES and not insn.alias)


def _fields(checks: CoreChecks, insn: Insn) -> dict[str, int]:
    """Values of the operands, random where they are no registers."""
    return {
        token.field.name: _REGISTERS[token.field.name]
        if token.field.name in _REGISTERS
        else checks.random.choice(token.field.values)
        if token.field.only
        else checks.random.randrange(token.field.low, token.field.high + 1, token.field.step)
        for token in insn.tokens
    }


def computations(checks: CoreChecks) -> None:
    """One check of every row that computes."""
    for insn in filter(computes, _rows(checks)):
        text = render(insn, insn.encode(**_fields(checks, insn)))
        a, b, d = checks.word(), checks.word(), checks.word()
        checks.code(f"""
    li a0, {a}; li a1, {b}; li a2, {d}
    {text}
    a2 => {text} with a0 {a:08x}, a1 {b:08x}, a2 {d:08x}""")


def _addressing(checks: CoreChecks, insn: Insn, values: dict[str, int], room: int) -> tuple[int, int, int]:
    """Base and offset such that the access lies within ``room`` bytes, and the byte accessed."""
    size = {"b": 1, "h": HALF_BYTES, "w": WORD_BYTES}[insn.op.removesuffix("u")[-1]]
    place = checks.random.randrange(room - size + 1)
    token = next((name for name in ("imm12", "stimm12") if name in values), None)
    offset = checks.random.randrange(-64, 64) if token is None else values[token]
    return (place if insn.writes_base else place - offset), offset, place


def loads(checks: CoreChecks) -> None:
    """Every load from a random address, aligned or not."""
    for insn in (insn for insn in _rows(checks) if insn.is_load):
        values = _fields(checks, insn)
        base, offset, place = _addressing(checks, insn, values, OPERANDS)
        text = render(insn, insn.encode(**values))
        checks.code(f"    li a0, operands{base:+d}; li a1, {offset}\n    {text}\n    a2 => {text} of byte {place}")
        if insn.writes_base:
            checks.code(f"    a0 => base of {text}")


def stores(checks: CoreChecks) -> None:
    """Every store to a random address, aligned or not; then the memory written."""
    for insn in (insn for insn in _rows(checks) if insn.is_store):
        values = _fields(checks, insn)
        base, offset, _ = _addressing(checks, insn, values, SCRATCH)
        text = render(insn, insn.encode(**values))
        word = checks.random.getrandbits(32)
        checks.code(f"    li a0, scratch{base:+d}; li a1, {word}; li a2, {offset}\n    {text}")
        if insn.writes_base:
            checks.code(f"    a0 => base of {text}")
    checks.code("    li a0, scratch")
    for place in range(0, SCRATCH, WORD_BYTES):
        checks.code(f"    lw a1, {place}(a0)\n    a1 => scratch + {place}")


def mac_loads(checks: CoreChecks) -> None:
    """Product of the old entries, reload and pointer of every Mac&Load, with all kinds of selectors and reloads."""
    rows = [insn for insn in _rows(checks) if insn.is_mac_load]
    if not rows:
        return
    checks.code("    li a0, operands")
    place = 0
    for insn in (row for row in rows for _ in range(2)):
        values = _fields(checks, insn)
        b, d = checks.word(), checks.word()
        if values.get("nnimm5", 0) >> _RELOAD_LSB == _BOTH_RELOADS and not insn.reloads_other:
            values["nnimm5"] ^= 1 << _RELOAD_LSB
        text = render(insn, insn.encode(**values))
        if insn.is_pair:
            checks.code(f"    li a2, {d}; li a3, {b}\n    {text}\n    a2 => {text}\n    a3 => second sum of {text}")
        else:
            checks.code(f"    li a1, {b}; li a2, {d}\n    {text}\n    a2 => {text}")
        loads = insn.writes_base and values.get("nnimm5", WORD_MASK) >> _RELOAD_LSB
        place += WORD_BYTES if loads else 0
        if place > OPERANDS - WORD_BYTES:
            checks.code("    a0 => pointer of Mac&Load\n    li a0, operands")
            place = 0


def quantisation(checks: CoreChecks) -> None:
    """pv.qnt of random pixels, with whatever lies in memory as thresholds."""
    for insn in (row for row in _rows(checks) if row.op == "pv.qnt" for _ in range(_SEARCHES)):
        assert insn.fmt is not None
        pixels, table = checks.word(), HALF_BYTES << insn.fmt.width
        start = checks.random.randrange(0, OPERANDS - 2 * table + 1, 2 * table)
        text = render(insn, insn.encode(rd=12, rs1=10, rs2=11))
        checks.code(f"    li a0, {pixels}; li a1, operands{start + table // 2 - HALF_BYTES:+d}\n    {text}")
        checks.code(f"    a2 => {text} of thresholds at {start}")


_BRANCH_WORDS = (*CORNERS[:5], 7)


def branches(checks: CoreChecks) -> None:
    """Every branch, taken (a2 is 1) and not (2), backwards too."""
    for insn in (insn for insn in checks.insns if insn.is_branch and insn.size == WORD_BYTES):
        immediate = "simm5" in insn.operands
        for a in _BRANCH_WORDS:
            for b in (-3, 7) if immediate else (a, checks.word()):
                operand = b & WORD_MASK
                checks.code(f"""
    li a0, {a}; li a1, {operand}; li a2, 1
    {insn.mnemonic} a0, {b if immediate else "a1"}, 1f
    li a2, 2
1:
    a2 => {insn.mnemonic} {a:08x}, {operand:08x}""")
    checks.code("""
    li a0, 5; li a2, 0
1:  addi a2, a2, 3; addi a0, a0, -1
    bne a0, x0, 1b
    a2 => loop of five rounds""")


JUMPS = """
    li a2, 0
    jal ra, called
returned:
    j passed
called:
    addi a2, a2, 9
    addi a3, ra, 0
    jalr x0, 0(ra)
passed:
    a2 => the function called
    a3 => link of jal
here:
    auipc a0, 1
    a0 => auipc
    # compressed instructions, an even number of them, and 32-bit ones across a word boundary
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
    a0 => c.li, c.addi, c.slli, c.xor
    a2 => c.mv, c.add, c.sub
    a4 => 32-bit instruction after compressed ones
"""
"""Calls, returns, targets in the middle of a word, compressed instructions."""

HARDWARE_LOOPS = """
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
    a0 => loop of one instruction
    a2 => nested loops
    a4 => loop set up in parts
    a6 => lpcount1 after the loop
    a5 => last round
"""
"""Both loops, nested, of one instruction, set up in parts, and their registers."""

CSR_ACCESSES = """
    csrr a0, mhartid
    a0 => mhartid follows hart_id
    csrr a0, misa
    a0 => misa
    li a0, 0x5A5AF00D; csrrw a1, mscratch, a0; csrrs a1, mscratch, x0
    a1 => mscratch
    csrrci x0, mscratch, 13; csrrsi a1, mscratch, 2; csrrw a1, mscratch, x0
    a1 => csrrci and csrrsi
    li a0, -1; csrrw x0, mepc, a0; csrr a1, mepc
    a1 => mepc has no bit 0
    csrr a0, minstret; addi x0, x0, 0; addi x0, x0, 0; addi x0, x0, 0; csrr a1, minstret; sub a1, a1, a0
    a1 => instructions retired
    csrr a0, mcycle; addi x0, x0, 0; addi x0, x0, 0; csrr a1, mcycle; sub a1, a1, a0; sltiu a1, a1, 3
    a1 => mcycle counts at least a cycle per instruction
"""
"""Reset values, writable bits, counters."""

_LOADS = PERFORMANCE_EVENTS.index("loads")
COUNTED_LOADS = f"""
    li a0, {1 << _LOADS}; csrrw x0, pcer, a0; csrrw x0, pccr{_LOADS}, x0; li a0, operands
    lw a1, 0(a0); lw a2, 4(a0); lw a3, 8(a0); csrr a1, pccr{_LOADS}; csrrw x0, pcer, x0
    a1 => loads counted
"""

AFTER_RESET = """
    csrr t5, mtvec
    t5 => mtvec follows boot_addr
    csrr t5, mstatus
    t5 => mstatus
    csrr t5, mie
    t5 => mie
"""
"""The state before anything is written."""


def exceptions(checks: CoreChecks) -> None:
    """Every exception; the handler stores mcause and mepc and goes on behind the instruction."""
    events = {
        "ecall": "ecall",
        "ebreak": "ebreak",
        "a word that is no instruction": ".word 0xffffffff",
        "absent CSR": "csrr a0, 0x5C0",
        "read-only CSR": "csrrw x0, mhartid, x0",
    }
    for number, (name, text) in enumerate(events.items()):
        checks.code(f"fault{number}:\n    {text}\n    => mcause of {name}\n    => mepc of {name}")
    checks.code("    csrr a0, mstatus\n    a0 => mstatus after mret")


INTERRUPTS = len(IRQ_PRIORITY) + 2  # taken by the program


def interrupts(checks: CoreChecks) -> None:
    """Every interrupt line, then two at once, then wfi; the handler stores mcause, sets s11 and withdraws the lines."""
    checks.code("""
    li a0, -1; csrrw x0, mie, a0; csrrsi x0, mstatus, 8; li a0, lines""")
    for lines in (*(1 << line for line in IRQ_PRIORITY), 1 << IRQ_PRIORITY[0] | 1 << IRQ_PRIORITY[-1]):
        checks.code(f"    li s11, 0; li a1, {lines}; sw a1, 0(a0)\n1:  beq s11, x0, 1b")
        checks.code(f"    => mcause of lines {lines:08x}")
    checks.code(f"""
    li s11, 0; li a1, {1 << IRQ_PRIORITY[0]}; li a2, lines_later; sw a1, 0(a2)
    wfi
1:  beq s11, x0, 1b
    => mcause after wfi
    csrrci x0, mstatus, 8; csrr a1, mip
    a1 => mip without lines""")


TRAP_HANDLERS = f"""
exception:
    csrr t5, mcause; sw t5, 0(gp)
    csrr t5, mepc; sw t5, 4(gp)
    addi gp, gp, 8
    csrr t6, mcause; addi t6, t6, -{ExceptionCause.INSTRUCTION_ACCESS_FAULT.value}; beq t6, x0, 1f
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
"""
"""Handlers of the program; they keep t5, t6, s11 and gp for themselves."""
