"""Reasons why a program's run ends, and the program's output channel, for designs and simulator alike.

A program communicates through the word at its symbol ``tohost`` (the host-target interface of the RISC-V tests). The
word is one of:

* 1 for success, or another odd value for a failure with code ``value >> 1``;
* the 8-byte aligned address of a block of four 64-bit little-endian words {64, fd, buffer, length}: print the bytes;
* any other even value but 0 for a failure with code ``value >> 1``.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.errors import XpulpnnError
from xpulpnn.isa.cluster import BARRIER_BYTES, BLOCK_BYTES, DMA, PRIVATE_DMA, PRIVATE_EVENT_UNIT, Dma, EventRegister
from xpulpnn.isa.compressed import expand_compressed
from xpulpnn.isa.csr import CSR_BY_ADDRESS
from xpulpnn.isa.formats import STOCK_EXTENSIONS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import ADDRESS_SPACE, HALF_BYTES, LENGTH_MASK, WORD_BYTES, ExceptionCause
from xpulpnn_sim.reference.programs.trace import EXCEPTIONS, decode, digits_of
from xpulpnn_sw.assembly.disasm import render
from xpulpnn_sw.toolchain.build_options import presets_with

_TRIGGER_BYTES = EventRegister.SW_TRIGGER_WAIT - EventRegister.SW_TRIGGER


def waits_for(address: int) -> str:
    """Return text such as ``waits for barrier 0``, by the address of a waiting load."""
    if address in (PRIVATE_DMA + Dma.COMMAND, DMA + Dma.COMMAND):
        return "waits for an identifier of the DMA engine"
    offset = address - PRIVATE_EVENT_UNIT
    if EventRegister.BARRIER <= offset < BLOCK_BYTES:
        return f"waits for barrier {(offset - EventRegister.BARRIER) // BARRIER_BYTES}"
    if EventRegister.SW_TRIGGER <= offset < EventRegister.BARRIER:
        number = (offset - EventRegister.SW_TRIGGER) % _TRIGGER_BYTES // WORD_BYTES
        return f"waits for an event, having raised software event {number}"
    if EventRegister.MUTEX <= offset < EventRegister.SW_TRIGGER:
        return f"waits for mutex {(offset - EventRegister.MUTEX) // WORD_BYTES}"
    if offset == EventRegister.DISPATCH_FIFO:
        return "waits for a dispatched task"
    if offset in (EventRegister.WAIT, EventRegister.WAIT_CLEAR):
        return "waits for an event"
    return f"waits for an answer from 0x{address:08x}"


SYS_WRITE = 64
CALL = struct.Struct("<4Q")  # System call, file descriptor, buffer address, length

CALL_ALIGNMENT = 8
STDOUT, STDERR = 1, 2
TOHOST_PASS = 1
RUNTIME_CODES, ABORT_CODE = 0x1000, 0x3000  # least code of a failure that the runtime reports, and that of abort
FROMHOST_DONE = 1  # word that the host writes to `fromhost` when it has served a call

MOST_TRAPS = 16  # traps in a row after which a handler that traps in the code with which it begins does so for ever
MOST_STEPS = 16  # instructions of this code, the one before it included

NameOf = Callable[[int], str]  # symbol and offset of an address, empty if there is none


class Reason(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    MAX_CYCLES = "max-cycles"
    STUCK = "stuck"
    TRAP_LOOP = "trap-loop"
    ENDLESS_LOOP = "endless-loop"
    BAD_ACCESS = "bad-access"
    BAD_FETCH = "bad-fetch"
    DEADLOCK = "deadlock"
    DIFFERENCE = "difference"
    DEBUGGER = "debugger"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Exit:
    reason: Reason
    code: int  # code that the program reported for FAIL, else 0
    pc: int  # address of the last instruction, or of the one that could not be fetched
    address: int | None  # data address of a bad access
    text: str  # one line
    previous: int | None = None  # address of the instruction before one that could not be fetched

    @property
    def ok(self) -> bool:
        return self.reason is Reason.PASS


class StoppedError(XpulpnnError):
    """A report of progress that ends the run."""


@dataclass(eq=False, slots=True)
class DifferenceError(Exception):
    """A report of ``count`` differences between a design and its reference. If the first difference is in a retirement,
    the error holds the number and cycle of the retirement, the field that differs, and both values."""

    text: str
    order: int | None = None
    cycle: int = 0
    field: str = ""
    expected: int = 0
    got: int = 0
    count: int = 1

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Output:
    descriptor: int  # STDOUT or STDERR
    data: bytes


def place(pc: int, name_of: NameOf) -> str:
    return f"0x{pc:08x} ({name})" if (name := name_of(pc)) else f"0x{pc:08x}"


def reported(value: int, pc: int, name_of: NameOf) -> Exit:
    if value == TOHOST_PASS:
        return Exit(Reason.PASS, 0, pc, None, "pass")
    code = value >> 1
    detail = f" (0x{code:x}{', abort called' * (code == ABORT_CODE)})" if code >= RUNTIME_CODES else ""
    return Exit(Reason.FAIL, code, pc, None, f"fail: the program reports code {code}{detail} at {place(pc, name_of)}")


def out_of_time(limit: int, unit: str, pc: int, name_of: NameOf) -> Exit:
    return Exit(Reason.MAX_CYCLES, 0, pc, None, f"not finished after {limit} {unit}, at {place(pc, name_of)}")


def interrupted(count: int, unit: str, pc: int, name_of: NameOf) -> Exit:
    return Exit(Reason.INTERRUPTED, 0, pc, None, f"interrupted after {count} {unit}, at {place(pc, name_of)}")


def trap_loop(pc: int, cause: int, entry: int, name_of: NameOf) -> Exit:
    when = "traps at its first instruction" if pc == entry else "traps again and again, as behind a stack overflow"
    text = f"trap loop: the exception handler at {place(pc, name_of)} {when} (mcause {cause})"
    return Exit(Reason.TRAP_LOOP, 0, pc, None, text)


def endless_loop(pc: int, name_of: NameOf) -> Exit:
    return Exit(Reason.ENDLESS_LOOP, 0, pc, None, f"endless loop at {place(pc, name_of)}, no interrupt can end it")


def bad_access(kind: str, address: int, size: int, pc: int, name_of: NameOf) -> Exit:
    below, amount = name_of(address), f"{size} byte{'s' if size > 1 else ''}"
    what = f"stack overflow: {kind} of {amount}" if below else f"{kind} of {amount} outside memory"
    where = f"address {place(address, name_of)}, instruction at {place(pc, name_of)}"
    return Exit(Reason.BAD_ACCESS, 0, pc, address, f"{what}: {where}")


def bad_transfer(address: int, pc: int, *, writes: bool) -> Exit:
    text = f"the DMA engine {'writes' if writes else 'reads'} outside memory: address 0x{address:08x}"
    return Exit(Reason.BAD_ACCESS, 0, pc, address, text)


def bad_fetch(pc: int, previous: int | None, name_of: NameOf) -> Exit:
    came = "" if previous is None else f", coming from {place(previous, name_of)}"
    return Exit(Reason.BAD_FETCH, 0, pc, None, f"execution outside memory: pc 0x{pc:08x}{came}", previous)


def deadlock(waiting: Sequence[tuple[int, int, str]], name_of: NameOf, line_of: NameOf) -> Exit:
    places: dict[tuple[int, str], list[int]] = {}
    for core, pc, what in waiting:
        places.setdefault((pc, what), []).append(core)
    parts: list[str] = []
    for (pc, what), cores in places.items():
        line = line_of(pc)
        who = f"core{'s' if len(cores) > 1 else ''} {', '.join(map(str, cores))}"
        parts.append(f"{who}: {what} at {place(pc, name_of)}{f', {line}' if line else ''}")
    return Exit(Reason.DEADLOCK, 0, waiting[0][1], None, f"deadlock: {'; '.join(parts)}")


def difference(pc: int, name_of: NameOf) -> Exit:
    return Exit(Reason.DIFFERENCE, 0, pc, None, f"difference from the reference at {place(pc, name_of)}")


def host_call(
    value: int, read_memory: Callable[[int, int], bytes], inside: Callable[[int, int], bool]
) -> Output | None:
    """Return the bytes to print for a word written to ``tohost``; None if it is no address of a valid call."""
    if value == 0 or value % CALL_ALIGNMENT or not inside(value, CALL.size):
        return None
    call, descriptor, buffer, length = CALL.unpack(read_memory(value, CALL.size))
    if call != SYS_WRITE or descriptor not in (STDOUT, STDERR) or buffer + length > ADDRESS_SPACE:
        return None
    if length and not inside(buffer, length):
        return None
    return Output(descriptor, read_memory(buffer, length) if length else b"")


@dataclass(frozen=True, slots=True)
class Trapped:
    pc: int  # address of the instruction
    cause: int  # code in mcause
    word: int  # the instruction, of 16 or 32 bits
    before: tuple[int, ...] = ()  # addresses of the instruction before and of the last jump to a register
    address: int = 0  # of the data access

    def previous(self, name_of: NameOf) -> int | None:
        return next(filter(name_of, self.before), None)


def fetched_word(read: Callable[[int, int], bytes], pc: int) -> int:
    """Return the instruction word at ``pc``; 0 outside memory."""
    try:
        low = int.from_bytes(read(pc, HALF_BYTES), "little")
        if low & LENGTH_MASK != LENGTH_MASK:
            return low
        return int.from_bytes(read(pc, WORD_BYTES), "little")
    except XpulpnnError:
        return 0


def describe(trapped: Trapped, config: CoreConfig, core: str, name_of: NameOf) -> str:
    """Describe the exception in one line: cause, address, instruction, and the feature that ``core`` lacks for it."""
    what = EXCEPTIONS.get(trapped.cause, f"cause {trapped.cause}")
    text = f"{what} at {place(trapped.pc, name_of)}"
    if (previous := trapped.previous(name_of)) is not None and not name_of(trapped.pc):
        text += f", coming from {place(previous, name_of)}"
    if trapped.cause == ExceptionCause.INSTRUCTION_ACCESS_FAULT:
        return text
    if trapped.cause in (ExceptionCause.LOAD_ACCESS_FAULT, ExceptionCause.STORE_ACCESS_FAULT):
        text += f", address 0x{trapped.address:08x}"
    text += f": {instruction(trapped.word)}"
    reason = _why_illegal(trapped.word, config, core) if trapped.cause == ExceptionCause.ILLEGAL_INSTRUCTION else ""
    return f"{text}; {reason}" if reason else text


def record(trapped: Trapped, text: str, name_of: NameOf) -> dict[str, Any]:
    return {
        "pc": trapped.pc,
        "symbol": name_of(trapped.pc),
        "cause": trapped.cause,
        "word": trapped.word,
        "instruction": instruction(trapped.word),
        "text": text,
    }


def instruction(word: int) -> str:
    """Return the instruction in assembly, or the word in hexadecimal if no core has it."""
    return f"0x{digits_of(word)}" if (insn := decode(word)) is None else render(insn, word)


def _why_illegal(word: int, config: CoreConfig, core: str) -> str:
    """Return the feature that ``core`` lacks for a word; an empty string if it is illegal for other reasons."""
    insn = decode(word)
    if insn is not None and insn.size == HALF_BYTES:
        word = expand_compressed(word)
        insn = decode(word)
    if insn is None:
        return "no core has such an instruction"
    if insn.extension in STOCK_EXTENSIONS:
        return _csr(insn, word, config)
    absent = [extension.value for extension in insn.needs if extension not in config.extensions]
    if absent:
        missing = " and no ".join(absent)
        having = [name for name in presets_with(absent[0]) if name in presets_with(absent[-1])]
    elif insn.fmt is not None and insn.fmt.width not in config.widths:
        missing = f"elements of {insn.fmt.width} bits"
        having = presets_with(insn.extension.value, insn.fmt.width)
    else:
        return ""
    others = f" (it is in {', '.join(having)})" if having else ""
    return f"{core} has no {missing}{others}"


def _csr(insn: Insn, word: int, config: CoreConfig) -> str:
    fields = insn.decode(word)
    if "csr" not in fields:
        return ""
    csr = CSR_BY_ADDRESS.get(fields["csr"])
    if csr is None:
        return f"no core has a CSR 0x{fields['csr']:03x}"
    if csr.group not in config.csr_groups:
        return f"CSR {csr.name} is there {csr.group.value} only"
    return f"CSR {csr.name} must not be written"
