"""The frame of the program for the core, and checks of every instruction that computes or accesses memory."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BYTES, NNRF_ENTRIES, REGISTERS, TEXT_BASE, WORD_BYTES, WORD_MASK
from xpulpnn.isa.table import enabled
from xpulpnn_sim.reference.statements.compiled import Hart, result
from xpulpnn_sw.assembly.disasm import render

MEMORY_BASE = TEXT_BASE
MEMORY_WORDS = 1 << 15
OPERANDS_AT, SCRATCH_AT, RESULTS_AT, EXPECTED_AT = 0x1_0000, 0x1_0800, 0x1_1000, 0x1_8000
"""Places in memory, in bytes from its start; the code comes first."""

NOWHERE = 0x4000_0000  # an address outside the memory and the device

DEVICE_BASE = 0x8000_0000  # registers of the testbench: end of the program, interrupt lines now, interrupt lines later


def check_places() -> Mapping[str, int]:
    """Addresses that programs know by name."""
    return {
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


_RESULT = "gp"  # register that walks through the results

OPERANDS = 0x400  # bytes of operands that the program may read; copied from nowhere, random

SCRATCH = 0x80  # bytes that the program may write

CORNERS = (0, 1, WORD_MASK, 0x8000_0000, 0x7FFF_FFFF, 0x8000_8000, 0x7F80_FF01)  # operands that carry, borrow or wrap

Expected = int | Callable[[dict[str, int]], int]  # a word, or how it follows from the labels of the program


@dataclass(frozen=True, slots=True)
class _Check:
    """A result of the program."""

    expected: Expected  # what the program must store
    text: str  # what it is, for the listing of the expected words


@dataclass(slots=True)
class ArithmeticChecks:
    """The program under construction."""

    config: CoreConfig  # instructions and CSRs that it may use
    random: random.Random
    operands: bytes = b""  # contents of the memory at the label `operands`
    lines: list[str] = field(default_factory=list[str])
    results: list[_Check] = field(default_factory=list[_Check])
    insns: tuple[Insn, ...] = ()

    def __post_init__(self) -> None:
        self.operands = self.random.randbytes(OPERANDS)
        self.insns = tuple(enabled(self.config.extensions, self.config.widths))

    def word(self) -> int:
        """An operand: a corner or a random word."""
        return self.random.choice(CORNERS) if self.random.random() < 1 / 4 else self.random.getrandbits(32)

    def title(self, text: str) -> None:
        """A comment line."""
        self.lines.append(f"    # {text}")

    def code(self, text: str) -> None:
        """Lines of assembly."""
        self.lines += [line.rstrip() for line in text.strip("\n").splitlines()]

    def expect(self, register: str, expected: Expected, text: str) -> None:
        """Store ``register``; it must hold ``expected``."""
        self.lines.append(f"    sw {register}, 0({_RESULT}); addi {_RESULT}, {_RESULT}, {WORD_BYTES}")
        self.stored(expected, text)

    def stored(self, expected: Expected, text: str) -> None:
        """A result that other code, such as a trap handler, stores next."""
        self.results.append(_Check(expected if callable(expected) else expected & WORD_MASK, text))


_NOT_COMPUTED = frozenset({"auipc", "fence", "fence.i", "mret", "wfi", "ecall", "ebreak", "csrrw", "csrrs", "csrrc"})
_A, _B, _D = 10, 11, 12  # registers a0, a1 and a2: rs1, rs2 and rd of the instructions checked

_SEARCHES = 6  # executions of each pv.qnt

_BOTH_RELOADS = 0b11
_RELOAD_LSB = 3


def computes(insn: Insn) -> bool:
    """Return whether the instruction does nothing but compute a register from registers."""
    elsewhere = insn.is_load or insn.is_store or insn.is_branch or insn.is_jump or insn.uses_nnrf
    return not elsewhere and insn.op not in _NOT_COMPUTED and not insn.op.startswith(("lp.", "pv.qnt"))


def _rows(checks: ArithmeticChecks) -> Iterator[Insn]:
    return (insn for insn in checks.insns if insn.size == WORD_BYTES and not insn.alias)


def _immediates(checks: ArithmeticChecks, insn: Insn) -> dict[str, int]:
    """Random values of the operands that are no registers."""
    registers = {"rd": _D, "rs1": _A, "rs2": _B, "rs3": _D}
    return {
        token.field.name: registers[token.field.name]
        if token.field.name in registers
        else checks.random.randrange(token.field.low, token.field.high + 1, token.field.step)
        for token in insn.tokens
    }


def computations(checks: ArithmeticChecks) -> None:
    """One check of every row that computes."""
    checks.title("every instruction that computes")
    for insn in filter(computes, _rows(checks)):
        values = _immediates(checks, insn)
        a, b, d = checks.word(), checks.word(), checks.word()
        text = render(insn, insn.encode(**values))
        checks.code(f"    li a0, {a}; li a1, {b}; li a2, {d}\n    {text}")
        checks.expect("a2", result(insn, values, a, b, d), f"{text} with a0 {a:08x}, a1 {b:08x}, a2 {d:08x}")


def hart(checks: ArithmeticChecks, nn: list[int] | None = None) -> Hart:
    """Return a hart that reads the operands of the program."""
    first = check_places()["operands"]
    return Hart(regs=[0] * REGISTERS, nn=nn or [], read=lambda address: checks.operands[address - first])


def _size(insn: Insn) -> int:
    return {"b": 1, "h": HALF_BYTES, "w": WORD_BYTES}[insn.op.removesuffix("u")[-1]]


def _addressing(checks: ArithmeticChecks, insn: Insn, values: dict[str, int], room: int) -> tuple[int, int, int]:
    """Base and offset such that the access lies within ``room`` bytes, and the byte accessed."""
    place = checks.random.randrange(room - _size(insn) + 1)
    token = next((name for name in ("imm12", "stimm12") if name in values), None)
    offset = checks.random.randrange(-64, 64) if token is None else values[token]
    return (place if insn.writes_base else place - offset), offset, place


def loads(checks: ArithmeticChecks) -> None:
    """Every load from a random address, aligned or not."""
    checks.title("loads")
    for insn in (insn for insn in _rows(checks) if insn.is_load):
        values = _immediates(checks, insn)
        base, offset, place = _addressing(checks, insn, values, len(checks.operands))
        machine, word = hart(checks), insn.encode(**values)
        machine.regs[_A], machine.regs[_B] = check_places()["operands"] + base, offset
        machine.execute(insn, word)
        text = render(insn, word)
        checks.code(f"    li a0, operands{base:+d}; li a1, {offset}\n    {text}")
        checks.expect("a2", machine.regs[_D], f"{text} of byte {place}")
        if insn.writes_base:
            checks.expect("a0", machine.regs[_A], f"base of {text}")


def stores(checks: ArithmeticChecks) -> None:
    """Every store to a random address, aligned or not; then the memory written."""
    checks.title("stores")
    machine, scratch = hart(checks), check_places()["scratch"]
    for insn in (insn for insn in _rows(checks) if insn.is_store):
        values = _immediates(checks, insn)
        base, offset, _ = _addressing(checks, insn, values, SCRATCH)
        word = checks.random.getrandbits(32)
        machine.regs[_A], machine.regs[_B], machine.regs[_D] = scratch + base, word, offset
        machine.execute(insn, insn.encode(**values))
        text = render(insn, insn.encode(**values))
        checks.code(f"    li a0, scratch{base:+d}; li a1, {word}; li a2, {offset}\n    {text}")
        if insn.writes_base:
            checks.expect("a0", machine.regs[_A], f"base of {text}")
    checks.code("    li a0, scratch")
    memory = bytes(machine.stored.get(scratch + place, 0) for place in range(SCRATCH))
    for place in range(0, SCRATCH, WORD_BYTES):
        checks.code(f"    lw a1, {place}(a0)")
        checks.expect("a1", int.from_bytes(memory[place : place + WORD_BYTES], "little"), f"scratch + {place}")


def mac_loads(checks: ArithmeticChecks) -> None:
    """Every Mac&Load, with every selector of the NN-RF and every kind of reload among them."""
    rows = [insn for insn in _rows(checks) if insn.is_mac_load]
    if not rows:
        return
    checks.title("Mac&Load: product of the old entries, reload, incremented pointer")
    machine, first = hart(checks, [0] * NNRF_ENTRIES), check_places()["operands"]
    machine.regs[_A] = first
    checks.code("    li a0, operands")
    for insn in (row for row in rows for _ in range(2)):
        values = _immediates(checks, insn)
        b, d = checks.word(), checks.word()
        if values.get("nnimm5", 0) >> _RELOAD_LSB == _BOTH_RELOADS and not insn.reloads_other:
            values["nnimm5"] ^= 1 << _RELOAD_LSB
        machine.regs[_B], machine.regs[_D] = b, d
        machine.execute(insn, insn.encode(**values))
        text = render(insn, insn.encode(**values))
        checks.code(f"    li a1, {b}; li a2, {d}\n    {text}")
        checks.expect("a2", machine.regs[_D], text)
        if machine.regs[_A] > first + len(checks.operands) - WORD_BYTES:
            checks.expect("a0", machine.regs[_A], "pointer of Mac&Load")
            checks.code("    li a0, operands")
            machine.regs[_A] = first


def quantisation(checks: ArithmeticChecks) -> None:
    """pv.qnt of random pixels, with whatever lies in memory as thresholds."""
    rows = [insn for insn in _rows(checks) if insn.op == "pv.qnt"]
    if not rows:
        return
    checks.title("threshold quantisation: a binary search for each of two pixels")
    for insn in (row for row in rows for _ in range(_SEARCHES)):
        assert insn.fmt is not None
        pixels, table = checks.word(), HALF_BYTES << insn.fmt.width
        start = checks.random.randrange(0, len(checks.operands) - 2 * table + 1, 2 * table)
        middle = start + table // 2 - HALF_BYTES
        machine, word = hart(checks), insn.encode(rd=_D, rs1=_A, rs2=_B)
        machine.regs[_A], machine.regs[_B] = pixels, check_places()["operands"] + middle
        machine.execute(insn, word)
        text = render(insn, word)
        checks.code(f"    li a0, {pixels}; li a1, operands{middle:+d}\n    {text}")
        checks.expect("a2", machine.regs[_D], f"{text} of thresholds at {start}")
