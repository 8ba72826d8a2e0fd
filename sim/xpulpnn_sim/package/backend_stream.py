"""The instruction stream that the testbench of the back end feeds, with what each instruction must cause."""

import random
from dataclasses import dataclass, field
from enum import IntEnum

from xpulpnn.config import CoreConfig
from xpulpnn.core.control import CsrOp, HwLoopOp, System
from xpulpnn.isa.csr import csr_address
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, ExceptionCause
from xpulpnn_sim.package import arithmetic
from xpulpnn_sim.package.checks import CORNERS, Checks
from xpulpnn_sim.package.memory_map import MEMORY_BASE, places
from xpulpnn_sim.package.reference import low, result
from xpulpnn_sim.package.requantisation import requantisations
from xpulpnn_sw.asm import assemble
from xpulpnn_sw.disasm import disassemble

CSR_PATTERN = 0xC5A0_0000
"""What the testbench answers to a CSR access, the number of the CSR in its low bits."""

_SEED = 21
_COMPRESSED_BYTES = 2
_FAR = 0x40


class Event(IntEnum):
    """What an instruction causes at the ports of the back end."""

    NONE = 0
    JUMP = 1
    BRANCH = 2
    TRAP = 3
    SYSTEM = 4
    HWLOOP = 5
    CSR = 6


WORD_BITS, CSR_ADDR_BITS, CSR_OP_BITS, HWLOOP_OP_BITS = 32, 12, 2, 3
VALUE_BITS = HWLOOP_OP_BITS + 1 + 3 * WORD_BITS
"""Widest value of an event: operation, loop, start, end and count of a hardware-loop set-up."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An instruction of the stream."""

    word: int  # the instruction, expanded, and its address
    pc: int  # the instruction, expanded, and its address
    compressed: bool = False  # whether it counts as compressed
    event: Event = Event.NONE  # what it must cause
    value: int = 0  # what the ports must say then, and which bits count
    mask: int = 0  # what the ports must say then, and which bits count
    failed: bool = False  # whether it could not be fetched

    @property
    def row(self) -> int:
        """The entry as a number, from bit 0 up: word, pc, compressed, event, value, mask, failed."""
        row, lsb = 0, 0
        for part, width in (
            (self.word, WORD_BITS),
            (self.pc, WORD_BITS),
            (int(self.compressed), 1),
            (int(self.event), 3),
            (self.value, VALUE_BITS),
            (self.mask, VALUE_BITS),
            (int(self.failed), 1),
        ):
            row |= part << lsb
            lsb += width
        return row


ROW_BITS = 2 * WORD_BITS + 4 + 2 * VALUE_BITS + 1


@dataclass(slots=True)
class Stream:
    """The stream under construction; addresses go on one after the other unless an instruction jumps."""

    checks: Checks  # results expected in memory
    pc: int = MEMORY_BASE
    entries: list[Entry] = field(default_factory=list[Entry])
    texts: list[str] = field(default_factory=list[str])

    def code(self, text: str) -> None:
        """Instructions without events."""
        head = "".join(f"    .equ {name}, {place}\n" for name, place in places().items())
        program = assemble(head + text, self.pc)
        for word, pc in zip(program.words, program.pcs, strict=True):
            self._add(Entry(word, pc))

    def flush(self) -> None:
        """What has been written to the checks so far, as instructions."""
        self.code("\n".join(self.checks.lines))
        self.checks.lines.clear()

    def expect(self, register: str, expected: int, text: str) -> None:
        """Store a register, which must hold ``expected``."""
        self.checks.expect(register, expected, text)
        self.flush()

    def event(self, text: str, event: Event, value: int, *, mask: int = -1, target: int | None = None) -> None:
        """An instruction with an event; the next one comes from ``target`` if there is one."""
        self._event(text, event, value, mask, target, compressed=False)

    def compressed_event(self, text: str, event: Event, value: int, *, target: int) -> None:
        """The same for an instruction that takes two bytes of the program."""
        self._event(text, event, value, -1, target, compressed=True)

    def failed_fetch(self, text: str) -> None:
        """An instruction that could not be fetched: it traps and does nothing else."""
        (word,) = assemble(text, self.pc).words
        cause = ExceptionCause.INSTRUCTION_ACCESS_FAULT.value
        self._add(Entry(word, self.pc, False, Event.TRAP, cause, (1 << VALUE_BITS) - 1, failed=True))

    def _event(self, text: str, event: Event, value: int, mask: int, target: int | None, *, compressed: bool) -> None:
        (word,) = assemble(text, self.pc).words
        self._add(Entry(word, self.pc, compressed, event, value, low(mask, VALUE_BITS)))
        if target is not None:
            self.pc = target

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        event = f"  {entry.event.name.lower()} {entry.value:x}" if entry.event else ""
        known = entry.word != WORD_MASK
        text = disassemble(entry.word, entry.pc, self.checks.insns) if known else "(no instruction)"
        self.texts.append(f"{entry.pc:08x}  {entry.word:08x}  {text}{event}")
        self.pc = entry.pc + (_COMPRESSED_BYTES if entry.compressed else WORD_BYTES)


def backend_stream(config: CoreConfig, *, fetch_errors: bool = False) -> Stream:
    """The stream for a configuration: every instruction it has, and every event."""
    checks = Checks(config, random.Random(_SEED))
    stream = Stream(checks)
    stream.code("    li gp, results")
    arithmetic.computations(checks)
    arithmetic.loads(checks)
    arithmetic.stores(checks)
    arithmetic.mac_loads(checks)
    arithmetic.quantisation(checks)
    requantisations(checks)
    stream.flush()
    _branches(stream)
    _jumps(stream)
    _registers(stream)
    _system(stream)
    if config.xpulpv2:
        _hardware_loops(stream)
    if fetch_errors:
        stream.failed_fetch("addi a2, a2, 1")
    # what came before is complete when this is
    stream.code("    lw a0, 0(gp); add a0, a0, a0")
    return stream


def _branches(stream: Stream) -> None:
    for insn in (insn for insn in stream.checks.insns if insn.is_branch and insn.size == WORD_BYTES):
        immediate = "simm5" in insn.operands
        for a in CORNERS[:5]:
            for b in (-3, 7) if immediate else (a, stream.checks.word()):
                stream.code(f"    li a0, {a}; li a1, {low(b)}")
                text = f"{insn.mnemonic} a0, {b if immediate else 'a1'}, pc+{_FAR}"
                if result(insn, {"simm5": b} if immediate else {}, a, low(b), 0):
                    stream.event(text, Event.BRANCH, stream.pc + _FAR, target=stream.pc + _FAR)
                else:
                    stream.code(f"    {text}")


def _jumps(stream: Stream) -> None:
    link, target = stream.pc + WORD_BYTES, stream.pc - _FAR
    stream.event(f"jal a2, pc-{_FAR}", Event.JUMP, target, target=target)
    stream.expect("a2", link, "link of jal")
    stream.code("    li a0, 0x1c002001")
    link = stream.pc + WORD_BYTES
    stream.event("jalr a2, 6(a0)", Event.JUMP, 0x1C00_2006, target=0x1C00_2006)
    stream.expect("a2", link, "link of jalr")
    link, target = stream.pc + _COMPRESSED_BYTES, stream.pc + _FAR
    stream.compressed_event(f"jal a2, pc+{_FAR}", Event.JUMP, target, target=target)
    stream.expect("a2", link, "link of a compressed jump")
    stream.code("    auipc a2, 3")
    stream.expect("a2", low(stream.pc - WORD_BYTES + (3 << 12)), "auipc")


def _registers(stream: Stream) -> None:
    address = csr_address("mscratch")
    answer = CSR_PATTERN | address
    stream.code("    li a0, 0x12345678")
    for op, write, second, data in (
        (CsrOp.WRITE, 1, "a0", 0x1234_5678),
        (CsrOp.SET, 1, "a0", 0x1234_5678),
        (CsrOp.CLEAR, 1, "a0", 0x1234_5678),
        (CsrOp.SET, 0, "x0", 0),
        (CsrOp.WRITE, 1, "21", 21),
        (CsrOp.CLEAR, 1, "9", 9),
    ):
        letter = {CsrOp.WRITE: "w", CsrOp.SET: "s", CsrOp.CLEAR: "c"}[op]
        name = f"csrr{letter}{'i' if second.isdecimal() else ''}"
        value = ((address << CSR_OP_BITS | op.value) << 1 | write) << WORD_BITS | data
        stream.event(f"{name} a2, mscratch, {second}", Event.CSR, value)
        stream.expect("a2", answer, f"old value given to {name}")


def _system(stream: Stream) -> None:
    for text, kind in (("fence rw, rw", System.FENCE), ("fence.i", System.FENCE_I), ("wfi", System.WFI)):
        stream.event(text, Event.SYSTEM, kind.value)
    stream.event("mret", Event.SYSTEM, System.MRET.value)
    for text, cause in (
        ("ecall", ExceptionCause.ENVIRONMENT_CALL),
        ("ebreak", ExceptionCause.BREAKPOINT),
        (f".word {WORD_MASK}", ExceptionCause.ILLEGAL_INSTRUCTION),
        ("csrrw a0, mhartid, a0", ExceptionCause.ILLEGAL_INSTRUCTION),
    ):
        stream.event(text, Event.TRAP, cause)


def _hardware_loops(stream: Stream) -> None:
    stream.code("    li a0, 77")
    for text, op, loop, fields in (
        ("lp.starti 1, pc+16", HwLoopOp.STARTI, 1, {"start": 16}),
        ("lp.endi 0, pc+24", HwLoopOp.ENDI, 0, {"end": 24}),
        ("lp.count 1, a0", HwLoopOp.COUNT, 1, {"count": 77}),
        ("lp.counti 0, 300", HwLoopOp.COUNTI, 0, {"count": 300}),
        ("lp.setup 0, a0, pc+32", HwLoopOp.SETUP, 0, {"start": 4, "end": 32, "count": 77}),
        ("lp.setupi 1, 12, pc+20", HwLoopOp.SETUPI, 1, {"start": 4, "end": 20, "count": 12}),
    ):
        value, mask = op.value << 1 | loop, (1 << HWLOOP_OP_BITS + 1) - 1
        for name in ("start", "end", "count"):
            part = fields.get(name)
            word = 0 if part is None else part if name == "count" else low(stream.pc + part)
            value, mask = value << WORD_BITS | word, mask << WORD_BITS | (0 if part is None else WORD_MASK)
        stream.event(text, Event.HWLOOP, value, mask=mask)
