"""Bytes of stack that a linked program takes: frames along the calls that its instructions name.

Functions adjust the stack pointer by constants. Calls of functions whose addresses are computed are not followed, but
for work given to ``xp_fork``, nor are recursion and what ends a program: the path that is shown needs that much.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from elftools.elf.elffile import ELFFile

from xpulpnn.errors import InputError
from xpulpnn.isa.machine import HALF_BYTES, LENGTH_MASK, WORD_BYTES
from xpulpnn_sw.toolchain.build_options import Options

_SP, _RA = 2, 1
# functions that a program does not go on behind, and what says why
_ENDS = ("abort", "exit", "overflowed", "__assert_func", "fprintf")
_FORK, _MAIN, _WORKER = "xp_fork", "main", "xp_worker"
_OP_IMM, _LUI, _AUIPC, _OP, _JALR, _JAL, _LOAD = 0x13, 0x37, 0x17, 0x33, 0x67, 0x6F, 0x03
_SIGNS = {0: 1, 0x20: -1}  # of what add and sub add, by funct7
_JUMPS = {0b001: _RA, 0b101: 0}  # of compressed instructions of the second quarter: c.jal and c.j


@dataclass(eq=False)
class _Function:
    """A function of the program."""

    name: str
    frame: int = 0  # bytes that it takes itself
    calls: set[int] = field(default_factory=set[int])  # addresses of what it calls, and of what it ends in
    named: set[int] = field(default_factory=set[int])  # addresses that its constants are


@dataclass(frozen=True, slots=True)
class StackPath:
    """The deepest chain of calls."""

    size: int
    names: tuple[str, ...]  # functions from the outermost on, with the bytes of their frames

    def __str__(self) -> str:
        return " > ".join(self.names)


def stack_paths(content: bytes) -> tuple[StackPath, StackPath]:
    """The deepest chains from ``main`` on and of work that it forks; empty ones if there is nothing of the kind."""
    functions = _functions(content)
    names = {function.name: address for address, function in functions.items()}
    for name in _ENDS:
        functions.pop(names.get(name, -1), None)
    fork, known = names.get(_FORK), dict[int, StackPath]()
    work: set[int] = set()
    if fork is not None:
        callers = [function for function in functions.values() if fork in function.calls]
        work = {address for caller in callers for address in caller.named if address in functions} - {fork}
        functions[fork].calls |= work
    nothing = StackPath(0, ())
    main = _deepest(functions, names[_MAIN], known, set()) if _MAIN in names else nothing
    forked = max(
        (_deepest(functions, address, known, set()) for address in work), key=lambda path: path.size, default=nothing
    )
    if _WORKER in names and forked.names:
        own = functions[names[_WORKER]]
        forked = StackPath(own.frame + forked.size, (_shown(own), *forked.names))
    return main, forked


def check_stacks(content: bytes, options: Options) -> None:
    """Raise :class:`InputError` for a program whose calls need larger stacks than it is linked with."""
    layout = options.cluster
    sizes = (
        [("stack", options.stack)] if layout is None else [("stack", layout.stack), ("core stack", layout.core_stack)]
    )
    for (name, size), path in zip(sizes, stack_paths(content), strict=False):
        if path.size > size:
            raise InputError(f"{name} must be at least {path.size} bytes, not {size}, for {path}")


def _shown(function: _Function) -> str:
    return f"{function.name} ({function.frame})"


def _deepest(functions: dict[int, _Function], start: int, known: dict[int, StackPath], above: set[int]) -> StackPath:
    if start not in known:
        function, behind = functions[start], StackPath(0, ())
        for address in sorted(function.calls & functions.keys() - above - {start}):
            behind = max(behind, _deepest(functions, address, known, above | {start}), key=lambda path: path.size)
        known[start] = StackPath(function.frame + behind.size, (_shown(function), *behind.names))
    return known[start]


def _functions(content: bytes) -> dict[int, _Function]:
    file = ELFFile(BytesIO(content))
    table: Any = file.get_section_by_name(".symtab")
    functions: dict[int, _Function] = {}
    for symbol in table.iter_symbols() if table is not None else ():
        if symbol["st_info"]["type"] == "STT_FUNC":
            functions.setdefault(symbol["st_value"], _Function(symbol.name))
    starts = sorted(functions)
    for section in file.iter_sections():
        base, data = section["sh_addr"], section.data() if section["sh_type"] == "SHT_PROGBITS" else b""
        first, last = bisect_right(starts, base - 1), bisect_right(starts, base + len(data) - 1)
        for start, end in zip(starts[first:last], [*starts[first + 1 : last], base + len(data)], strict=False):
            _read(functions[start], start, data[start - base : end - base])
    return functions


def _read(function: _Function, start: int, code: bytes) -> None:
    """Take the frame, the calls and the constants from the instructions of a function."""
    constants: dict[int, int] = {}
    for at, word in _words(start, code):
        if word & LENGTH_MASK != LENGTH_MASK:
            _read_compressed(function, at, word, constants)
            continue
        opcode, rd, rs1, immediate = word & 0x7F, word >> 7 & 31, word >> 15 & 31, _signed(word >> 20, 12)
        if opcode in (_LUI, _AUIPC):
            constants[rd] = _signed((word & 0xFFFFF000) + (at if opcode == _AUIPC else 0), 32)
        elif opcode == _OP_IMM and word >> 12 & 7 == 0:
            if rd == rs1 == _SP:
                function.frame += max(-immediate, 0)
                continue
            base = 0 if rs1 == 0 else constants.get(rs1)
            constants.pop(rd, None)
            if base is not None:
                constants[rd] = base + immediate
                function.named.add(constants[rd])
        elif opcode == _OP and rd == rs1 == _SP and word >> 25 in _SIGNS:
            function.frame += max(-constants.get(word >> 20 & 31, 0) * _SIGNS[word >> 25], 0)
        elif opcode == _JAL:
            offset = word >> 31 << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3FF) << 1
            function.calls.add(at + _signed(offset, 21))
        elif opcode == _JALR and rs1 in constants:
            function.calls.add(constants[rs1] + immediate)
        elif opcode == _LOAD:
            constants.pop(rd, None)


def _read_compressed(function: _Function, at: int, word: int, constants: dict[int, int]) -> None:
    quarter, funct3, rd = word & 3, word >> 13, word >> 7 & 31
    immediate = _signed(word >> 7 & 32 | word >> 2 & 31, 6)
    if quarter != 1:
        if funct3 == 0b010:
            constants.pop(rd if quarter == 2 else 8 + (word >> 2 & 7), None)
        elif quarter == 2 and funct3 == 0b100 and rd == _SP and word >> 12 & 1:
            function.frame += max(-constants.get(word >> 2 & 31, 0), 0)
    elif funct3 in _JUMPS:
        function.calls.add(at + _signed(_jump(word), 12))
    elif funct3 == 0b000 and rd == _SP:
        function.frame += max(-immediate, 0)
    elif funct3 == 0b011 and rd == _SP:
        bits = (word >> 3 & 3) << 3 | (word >> 5 & 1) << 2 | (word >> 2 & 1) << 1 | word >> 6 & 1
        function.frame += max(-(_signed((word >> 12 & 1) << 5 | bits, 6) << 4), 0)
    elif funct3 == 0b000 and rd in constants:
        constants[rd] += immediate
        function.named.add(constants[rd])
    elif funct3 == 0b010:
        constants[rd] = immediate
    elif funct3 == 0b011:
        constants[rd] = immediate << 12


def _jump(word: int) -> int:
    """The offset of c.j and c.jal: its bits 11, 4, 9:8, 10, 6, 7, 3:1, 5 from bit 12 down."""
    places = (11, 4, 9, 8, 10, 6, 7, 3, 2, 1, 5)
    return sum((word >> 12 - number & 1) << place for number, place in enumerate(places))


def _words(start: int, code: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + HALF_BYTES <= len(code):
        is_short = code[at] & LENGTH_MASK != LENGTH_MASK
        size = HALF_BYTES if is_short else WORD_BYTES
        yield start + at, int.from_bytes(code[at : at + size], "little")
        at += size


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
