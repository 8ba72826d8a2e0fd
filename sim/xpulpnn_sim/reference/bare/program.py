"""Bare programs: trees of blocks, vector tables and trap handlers, and the executables that simulators load."""

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from xpulpnn.isa.machine import DATA_BASE, ENTRY, TEXT_BASE, VECTORS, WORD_BYTES
from xpulpnn_sim.reference.bare import layout
from xpulpnn_sim.reference.bare.draw import ARITHMETIC, Draw, written_fields
from xpulpnn_sim.reference.programs.elf import Executable, Segment, functions_of
from xpulpnn_sw.assembly.asm import Assembled, assemble
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
_SEGMENT, _SECTION, _SYMBOL = struct.Struct("<8I"), struct.Struct("<10I"), struct.Struct("<IIIBBH")
_IDENTITY = b"\x7fELF\x01\x01\x01"  # 32 bit, little-endian, version 1
_EXECUTABLE, _RISCV, _VERSION, _RVC = 2, 243, 1, 1
_LOAD, _ALL = 1, 7  # a segment of the memory, to be accessed in every way
_PROGRAM_BITS, _SYMBOL_TABLE, _STRING_TABLE, _CODE = 1, 2, 3, 6
_NAMES = b"\0.text\0.symtab\0.strtab\0"
_TEXT, _SYMTAB, _STRTAB = (_NAMES.index(name) for name in (b".text", b".symtab", b".strtab"))
_GLOBAL_CODE, _GLOBAL_ABSOLUTE, _ABSOLUTE = 0x12, 0x10, 0xFFF1


def elf_bytes(executable: Executable) -> bytes:
    functions = {function.name: function.size for function in executable.functions}
    first = _HEADER.size + _SEGMENT.size * len(executable.segments)
    content, segments, text = b"", b"", (0, 0, 0)
    for part in executable.segments:
        at = first + len(content)
        segments += _SEGMENT.pack(_LOAD, at, part.address, part.address, part.size, part.size, _ALL, 1)
        content += part.data.ljust(part.size, b"\0")
        if part.address == TEXT_BASE:
            text = part.address, at, part.size
    names, symbols = _NAMES, bytes(_SYMBOL.size)
    for name, address in executable.symbols.items():
        kind, section = (
            _GLOBAL_CODE if name in functions else _GLOBAL_ABSOLUTE,
            1 if address >= TEXT_BASE else _ABSOLUTE,
        )
        symbols += _SYMBOL.pack(len(names), address, functions.get(name, 0), kind, 0, section)
        names += name.encode() + b"\0"
    at = first + len(content)
    sections = [
        bytes(_SECTION.size),
        _SECTION.pack(_TEXT, _PROGRAM_BITS, _CODE, *text, 0, 0, 1, 0),
        _SECTION.pack(_SYMTAB, _SYMBOL_TABLE, 0, 0, at, len(symbols), 3, 1, 1, _SYMBOL.size),
        _SECTION.pack(_STRTAB, _STRING_TABLE, 0, 0, at + len(symbols), len(names), 0, 0, 1, 0),
    ]
    what = _IDENTITY, _EXECUTABLE, _RISCV, _VERSION, executable.entry
    tables = _HEADER.size, at + len(symbols + names), _RVC, _HEADER.size, _SEGMENT.size, len(executable.segments)
    header = _HEADER.pack(*what, *tables, _SECTION.size, len(sections), len(sections) - 1)
    return b"".join([header, segments, content, symbols, names, *sections])


_LEVEL = 64  # bytes of the save area that one interrupt uses
_TABLE_WORDS = (layout.SECOND_TABLE - ENTRY) // WORD_BYTES
_LOOP_CSRS = ("lpstart0", "lpend0", "lpcount0", "lpstart1", "lpend1", "lpcount1")
_LOOP = "addi t6, zero, 3; lp.setup 0, t6, work; addi s0, s0, 1; work: add s1, s1, s0"
_NEST = f"""
    addi t5, t5, {_LEVEL}; li t6, 0x{layout.SAVE_LIMIT:x}; bgeu t5, t6, full
    csrrsi zero, mstatus, 8; addi s0, s0, 1; add s1, s1, s0; ecall
    full: csrrci zero, mstatus, 8; addi t5, t5, -{_LEVEL}"""
"""Part of the longer interrupt handler that enables interrupts, unless the save area is full, and raises an
exception."""
_WORK = (8, 9)  # registers that the longer handler saves and uses

_EXCEPTION = """
exception:
    sw t1, 0(t5); sw t6, 4(t5)
    {watch}
    csrrs t6, mcause, zero; blt t6, zero, direct
    addi t6, t6, -1; beq t6, zero, unfetched
    csrrs t6, mepc, zero; lhu t1, 0(t6)
    andi t1, t1, 3; addi t1, t1, -3; beq t1, zero, wide
    addi t6, t6, -2
wide:
    addi t6, t6, 4
back:
    csrrw zero, mepc, t6; lw t6, 4(t5); lw t1, 0(t5); mret
unfetched:
    addi t6, t1, 0; csrrs t1, mepc, zero; csrrw zero, mscratch, t1; jal zero, back
direct:
    lw t6, 4(t5); lw t1, 0(t5)
interrupt:
"""
"""An exception handler that skips the instruction that trapped. If the instruction could not be fetched, it copies mepc
to mscratch and continues at the address in t1. Interrupts in direct mode arrive here too and are passed to their
handler. ``watch`` stands for reads of CSRs."""
_WATCHED = ("mstatus", "minstret")
_QUICK = "quick: sw t6, 4(t5); csrrs t6, mcause, zero; lw t6, 4(t5); mret"


@dataclass(frozen=True, slots=True)
class Handlers:
    slots: tuple[str, ...] = ("mret",) * (VECTORS - 1)  # interrupt vectors from 1 on: `j LABEL` or `mret`
    filler: tuple[str, ...] = ()  # instructions of the longer interrupt handler
    nests: bool = False  # whether it enables interrupts
    loops: bool = False  # whether it saves the loop registers, runs a hardware loop and restores them
    watches_loops: bool = False  # whether the exception handler reads the loop registers
    exception: str = _EXCEPTION  # exception handler, from the label `exception` to the label `interrupt`

    def text(self, start: str) -> str:
        table = ["jal zero, exception", *(slot.replace("j ", "jal zero, ") for slot in self.slots)]
        lines = [*table, f"_start: jal zero, {start}", *[".word 0"] * (_TABLE_WORDS - 1), *table]
        names = (*_WATCHED, *(_LOOP_CSRS if self.watches_loops else ()))
        watch = "\n".join(f"    csrrs t6, {name}, zero" for name in names)
        exception = self.exception.replace("    {watch}", watch)
        lines += [*exception.strip().splitlines(), *self._interrupt(), _QUICK]
        return "\n".join(lines)

    def _interrupt(self) -> list[str]:
        saved = {"t1": 0, "t6": 4, "s0": 8, "s1": 12}
        lines = [f"sw {name}, {offset}(t5)" for name, offset in saved.items()]
        lines += _with_saved_csrs(_LOOP_CSRS, 28, _LOOP) if self.loops else []
        lines += self.filler
        lines += _with_saved_csrs(("mepc", "mstatus", "mcause"), 16, _NEST) if self.nests else []
        lines += [f"lw {name}, {offset}(t5)" for name, offset in saved.items()]
        return [*lines, "mret"]


def _with_saved_csrs(csrs: Sequence[str], first: int, text: str) -> list[str]:
    slots = {name: f"{first + WORD_BYTES * index}(t5)" for index, name in enumerate(csrs)}
    saving = [line for name, slot in slots.items() for line in (f"csrrs t6, {name}, zero", f"sw t6, {slot}")]
    restoring = [line for name, slot in slots.items() for line in (f"lw t6, {slot}", f"csrrw zero, {name}, t6")]
    return [*saving, *block_of("", text).head, *restoring]


PLAIN = Handlers()  # interrupts return at once


def _filler(draw: Draw) -> str:
    insn = draw.deal(*ARITHMETIC)
    pins = {name: draw.rng.choice(_WORK) for name in written_fields(insn)}
    return draw.text(insn, draw.values(insn, pins=pins))


def random_handlers(draw: Draw) -> Handlers:
    rng = draw.rng
    slots = tuple(rng.choice(("j interrupt", "j interrupt", "j quick", "mret")) for _ in range(VECTORS - 1))
    filler = tuple(_filler(draw) for _ in range(rng.choice((0, 0, 1, 3))))
    return Handlers(slots, filler, draw.chance(0.4), draw.config.xpulpv2 and draw.chance(0.4), draw.config.xpulpv2)


_LONG = ("li ", "la ")  # pseudo-instructions that may expand to two instructions


def is_label(line: str) -> bool:
    return line.endswith(":")


def statement(line: str) -> str:
    """Return a line of assembly without its label."""
    label, colon, rest = line.partition(": ")
    return rest if colon and " " not in label else line


def _bytes(line: str) -> int:
    return 0 if is_label(line) else WORD_BYTES * (1 + statement(line).startswith(_LONG))


@dataclass(frozen=True, slots=True)
class ProgramBlock:
    """Assembly lines around child blocks. When a block is removed, or replaced by its children, the rest still
    assembles, though it behaves differently: jumps go to labels in the head or tail of the same block or of an
    enclosing one."""

    kind: str  # intent of the generator, a comment in the listing
    head: tuple[str, ...] = ()  # lines before the children
    children: tuple["ProgramBlock", ...] = ()
    tail: tuple[str, ...] = ()  # lines after the children

    def lines(self) -> Iterator[str]:
        yield from self.head
        for child in self.children:
            yield from child.lines()
        yield from self.tail


def block_of(kind: str, text: str) -> ProgramBlock:
    return ProgramBlock(kind, tuple(filter(None, map(str.strip, text.replace("\n", ";").split(";")))))


def single_lines(kind: str, lines: Iterable[str]) -> tuple[ProgramBlock, ...]:
    """Return a block for each line, so that every line can be removed on its own."""
    return tuple(ProgramBlock(kind, (line,)) for line in lines)


def indented(lines: Iterable[str]) -> list[str]:
    return [f"{'' if is_label(line) else '    '}{line.strip()}" for line in lines]


def total_bytes(blocks: tuple[ProgramBlock, ...]) -> int:
    """Return an upper bound of the number of bytes into which blocks are assembled."""
    return sum(_bytes(line) for block in blocks for line in block.lines())


def count_statements(blocks: Iterable[ProgramBlock]) -> int:
    return sum(not is_label(line) for block in blocks for line in block.lines())


CONSTANTS = (
    (layout.SAVE, layout.SAVE_AREA),
    (layout.SP, layout.FRAME),
    (layout.MASK, layout.WINDOW_MASK),
    (layout.BASE, layout.WINDOW),
)
_PADDING = 64  # bytes after the code for prefetches
_NAMED = ("_start", "exception", "interrupt", "quick", "main", "finish")


def random_executable(
    name: str, code: Assembled, *, tohost: int, functions: Iterable[str], data: Sequence[Segment], text: int = TEXT_BASE
) -> Executable:
    image = code.to_bytes()
    symbols = {**code.labels, "tohost": tohost}
    segments = [Segment(text, image, len(image) + _PADDING), *data]
    return Executable(
        path=Path(name),
        entry=ENTRY if text == TEXT_BASE else text,
        segments=tuple(sorted(segments, key=lambda segment: segment.address)),
        symbols=symbols,
        functions=functions_of({name: symbols[name] for name in functions}, text + len(image)),
        tohost=tohost,
    )


def names_of(functions: Iterable[ProgramBlock]) -> set[str]:
    return {line[:-1] for block in functions for line in block.head[:1] if is_label(line)}


RETURN = f"jalr zero, 0({ABI_NAMES[layout.RA]})"  # the last line of a function


class BareProgram(ABC):
    """A program in assembly that runs without a runtime."""

    __slots__ = ()

    @abstractmethod
    def text(self) -> str:
        """The whole program in assembly for :data:`TEXT_BASE`."""

    @abstractmethod
    def executable(self) -> Executable:
        """Return the program as an executable."""

    def listing(self, heading: Sequence[str] = ()) -> str:
        return "\n".join([*(f"# {line}" for line in heading), *indented(self.text().splitlines())]) + "\n"

    def assembled(self) -> Assembled:
        """Assemble the program; raises :class:`xpulpnn.errors.EncodingError` if a shrunk program lacks a label."""
        return assemble(self.text(), TEXT_BASE)


@dataclass(frozen=True, slots=True)
class RandomProgram(BareProgram):
    main: tuple[ProgramBlock, ...]
    functions: tuple[ProgramBlock, ...] = ()  # functions that it may call
    handlers: Handlers = PLAIN
    data_seed: int | None = None  # seed of the initial data; None: zeros
    name: str = "program"
    first: tuple[str, ...] = ()  # lines before any register is written

    @property
    def statements(self) -> int:
        """Number of lines of the program without tables, handlers and prologue."""
        return count_statements((*self.main, *self.functions))

    def text(self) -> str:
        lines = [self.handlers.text("start"), "start:", *self.first]
        lines += [f"li {ABI_NAMES[register]}, 0x{value:x}" for register, value in CONSTANTS]
        lines.append("main:")
        lines += [line for block in self.main for line in block.lines()]
        lines += ["finish:", f"li t1, 0x{layout.TOHOST:x}", "addi t0, zero, 1", "sw t0, 0(t1)", "stop: jal zero, stop"]
        lines += [line for block in self.functions for line in block.lines()]
        return "\n".join(lines) + "\n"

    def executable(self) -> Executable:
        code = self.assembled()
        low, data = _initial_data(self.data_seed)
        return random_executable(
            self.name,
            code,
            tohost=layout.TOHOST,
            functions={name for name in _NAMED if name in code.labels} | names_of(self.functions),
            data=(
                Segment(layout.LOW_BASE, low, layout.LOW_SIZE),
                Segment(DATA_BASE, data, layout.DATA_SIZE),
                *(Segment(base, b"", layout.FAR_SIZE) for base in layout.FAR),
            ),
        )


@cache
def _initial_data(seed: int | None) -> tuple[bytes, bytes]:
    """Initial contents of the two data segments, with zeros at tohost."""
    if seed is None:
        return bytes(layout.LOW_SIZE), bytes(layout.DATA_SIZE)
    rng = Random(seed)
    data = bytearray(rng.randbytes(layout.DATA_SIZE))
    data[layout.TOHOST - DATA_BASE : layout.TOHOST - DATA_BASE + 8] = bytes(8)
    return rng.randbytes(layout.LOW_SIZE), bytes(data)
