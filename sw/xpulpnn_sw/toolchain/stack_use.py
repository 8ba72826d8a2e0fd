"""Stack usage of a linked program: the sum of frames along the deepest path of calls.

Frames are constant adjustments of the stack pointer. Calls through pointers are not followed, except those of functions
given to ``xp_fork``; nor are recursive calls, and calls of functions that end the program. The result is thus a lower
bound.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from typing import Any

from elftools.elf.elffile import ELFFile

from xpulpnn.errors import require
from xpulpnn.isa.compressed import compressed_insn, expand_compressed
from xpulpnn.isa.machine import HALF_BYTES, WORD_MASK, XLEN, instruction_size
from xpulpnn.isa.table import ALL_WORDS
from xpulpnn_sw.assembly.looppass.operation import SP
from xpulpnn_sw.toolchain.build_options import Options

_ENDS = ("abort", "exit", "overflowed", "__assert_func", "fprintf")  # functions that end a program, and messages
_FORK, _MAIN, _WORKER = "xp_fork", "main", "xp_worker"
_SUMS = {"addi": 1, "add": 1, "sub": -1}  # signs of the second operand
_UPPER_SHIFT = 12  # of the immediate of lui and auipc
_SIGN = 1 << XLEN - 1


@dataclass(eq=False)
class _Function:
    name: str
    frame: int = 0  # bytes
    calls: set[int] = field(default_factory=set[int])  # targets of calls and jumps
    named: set[int] = field(default_factory=set[int])  # its constants, which may be addresses


@dataclass(frozen=True, slots=True)
class StackPath:
    size: int  # bytes
    names: tuple[str, ...]  # functions with the sizes of their frames, the outermost first

    def __str__(self) -> str:
        return " > ".join(self.names)


def stack_paths(content: bytes) -> tuple[StackPath, StackPath]:
    """Return the deepest path of calls from ``main``, and from functions given to ``xp_fork``; empty if none."""
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
    paths = (_deepest(functions, address, known, set()) for address in work)
    forked = max(paths, key=lambda path: path.size, default=nothing)
    if _WORKER in names and forked.names:
        own = functions[names[_WORKER]]
        forked = StackPath(own.frame + forked.size, (_shown(own), *forked.names))
    return main, forked


def check_stacks(content: bytes, options: Options) -> None:
    """Raise :class:`InputError` if the deepest paths of calls need larger stacks than the program has."""
    layout = options.cluster
    sizes = {"stack": options.stack} if layout is None else {"stack": layout.stack, "core stack": layout.core_stack}
    for (name, size), path in zip(sizes.items(), stack_paths(content), strict=False):
        require(path.size <= size, f"{name} must be at least {path.size} bytes, not {size}, for {path}")


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
    constants = {0: 0}
    for address, name, values in _instructions(start, code):
        rd, rs1, result = values.get("rd", 0), values.get("rs1", 0), None
        base = constants.get(rs1)
        if name in ("lui", "auipc"):
            result = (values["uimm20"] << _UPPER_SHIFT) + (address if name == "auipc" else 0)
        elif name in _SUMS:
            addend = values["imm12"] if name == "addi" else constants.get(values["rs2"], 0) * _SUMS[name]
            if rd == rs1 == SP:
                function.frame += max(-addend, 0)
            elif base is not None and (name == "addi" or values["rs2"] in constants):
                result = base + addend
                function.named.add(result & WORD_MASK)
        elif name == "jal":
            function.calls.add(address + values["joff21"])
        elif name == "jalr" and base is not None:
            function.calls.add(base + values["imm12"] & WORD_MASK)
        if rd:
            constants.pop(rd, None)
        if rd and result is not None:
            constants[rd] = (result + _SIGN & WORD_MASK) - _SIGN


def _instructions(start: int, code: bytes) -> Iterator[tuple[int, str, dict[str, int]]]:
    at = 0
    while at + HALF_BYTES <= len(code):
        size = instruction_size(code[at])
        decoded = _decoded(int.from_bytes(code[at : at + size], "little"))
        if decoded is not None:
            yield start + at, *decoded
        at += size


@cache
def _decoded(word: int) -> tuple[str, dict[str, int]] | None:
    if instruction_size(word) == HALF_BYTES:
        if compressed_insn(word) is None:
            return None
        word = expand_compressed(word)
    insn = ALL_WORDS.decode(word)
    return None if insn is None else (insn.mnemonic, insn.decode(word))
