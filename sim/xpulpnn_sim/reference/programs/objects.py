"""Reads RISC-V programs, objects and libraries: code, symbols, relocations, source lines."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.reference.programs.elf import (
    ElfError,
    FunctionSymbol,
    content_of,
    symbol_before,
    symbols_of,
    well_formed,
)
from xpulpnn_sim.reference.programs.foreign import MAGIC, described
from xpulpnn_sw.toolchain.build_options import NOTE_SECTION, CoreNote, read_notes

PROGRAM, OBJECT = "program", "object"

_ARCHIVE = b"!<arch>\n"
_ENTRY_BYTES, _ENTRY_END = 60, b"`\n"
_EXECUTABLE, _ALLOCATED = 0x4, 0x2
_MAPPING = re.compile(r"\$[dx]")
_SPACING = 1 << 24
"""Distance between the artificial base addresses of the sections of an object file, which all start at 0."""

_NAMES_IN_ORDER = {
    1: "32",
    16: "BRANCH JAL CALL CALL_PLT",
    23: "PCREL_HI20 PCREL_LO12_I PCREL_LO12_S HI20 LO12_I LO12_S",
    44: "RVC_BRANCH RVC_JUMP",
}
_RELOCATION_NAMES = dict(item for start, names in _NAMES_IN_ORDER.items() for item in enumerate(names.split(), start))

_SET, _ADD, _SUB = "set", "add", "sub"
_IN_DATA: Mapping[int, tuple[str, int, int]] = {
    number: (operation, size, bits)
    for operation, numbers in ((_SET, (54, 55, 56)), (_ADD, (33, 34, 35)), (_SUB, (37, 38, 39)))
    for number, size, bits in zip(numbers, (1, 2, 4), (8, 16, 32), strict=True)
} | {1: (_SET, 4, 32), 52: (_SUB, 1, 6), 53: (_SET, 1, 6)}
"""Relocations of debug information: operation, number of bytes, mask of the bits that change."""


class SourceLine(NamedTuple):
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class CodeSection:
    name: str
    address: int  # 0 in objects
    data: bytes
    is_code: bool
    symbols: tuple[FunctionSymbol, ...] = ()  # by address
    data_ranges: tuple[tuple[int, int], ...] = ()  # start and end (exclusive) of data in code
    relocations: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])  # by address
    # by first address; the end of what has lines is None
    lines: Mapping[int, SourceLine | None] = field(default_factory=dict[int, SourceLine | None])

    def range_of(self, symbol: FunctionSymbol) -> tuple[int, int]:
        """Return start and end (exclusive) of a symbol; one without a size ends at the next symbol."""
        if symbol.size:
            return symbol.address, symbol.address + symbol.size
        ends = (other.address for other in self.symbols if other.address > symbol.address)
        return symbol.address, min(ends, default=self.address + len(self.data))

    def is_data(self, address: int) -> bool:
        return any(first <= address < last for first, last in self.data_ranges)

    def name_of(self, address: int) -> str:
        """Return an address as ``main+0x12``; empty before the first symbol and outside the section."""
        symbol = symbol_before(self.symbols, address)
        return "" if symbol is None or not self.holds(address) else symbol.name_at(address)

    def holds(self, address: int) -> bool:
        return 0 <= address - self.address < len(self.data)


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """A program, an object, or a member of a library."""

    title: str  # file, or `lib.a(member.o)`
    kind: str  # `program` or `object`
    sections: tuple[CodeSection, ...]  # in the order of the file
    cores: tuple[CoreNote, ...]  # notes on the cores that it was compiled for

    def name_of(self, address: int, section: CodeSection) -> str:
        """Return an address used in ``section`` as symbol and offset; in a program it may be in another."""
        places = (section, *self.sections) if self.kind == PROGRAM else (section,)
        return next((name for place in places if (name := place.name_of(address))), "")


def read_objects(path: Path) -> list[ObjectFile]:
    content = content_of(path)
    if not content.startswith(_ARCHIVE):
        return [_object(str(path), content)]
    return [_object(f"{path}({name})", member) for name, member in _members(path, content) if member.startswith(MAGIC)]


def _members(path: Path, content: bytes) -> Iterator[tuple[str, bytes]]:
    place, long_names = len(_ARCHIVE), b""
    while place < len(content):
        header = content[place : place + _ENTRY_BYTES]
        size = header[48:58].strip()
        if len(header) < _ENTRY_BYTES or header[58:] != _ENTRY_END or not size.isdigit():
            raise ElfError(f"{path} must be a well-formed library, not damaged at byte {place}")
        first = place + _ENTRY_BYTES
        member, name = content[first : first + int(size)], header[:16].decode(errors="replace").rstrip()
        place = first + int(size) + int(size) % 2
        if name == "//":
            long_names = member
        elif name.startswith("/") and name[1:].isdigit():
            yield long_names[int(name[1:]) :].partition(b"\n")[0].decode(errors="replace").rstrip("/"), member
        elif name not in ("/", "/SYM64/"):
            yield name.removesuffix("/"), member


def _object(title: str, content: bytes) -> ObjectFile:
    if not content.startswith(MAGIC):
        raise ElfError(f"{title} must be an ELF file or a library, not {described(title, content)}")
    with well_formed(title):
        elf = ELFFile(BytesIO(content))
        if elf.header["e_machine"] != "EM_RISCV" or elf.elfclass != XLEN:
            raise ElfError(f"{title} must be a 32-bit RISC-V file, not for {elf.header['e_machine']}")
        return _Reader(title, content, elf).read()


class _Reader:
    def __init__(self, title: str, content: bytes, elf: ELFFile) -> None:
        self._title, self._content, self._elf = title, content, elf
        self._sections = list(elf.iter_sections())
        self._is_object = elf.header["e_type"] == "ET_REL"
        self._bases = [
            number * _SPACING if self._is_object else section["sh_addr"]
            for number, section in enumerate(self._sections)
        ]

    def read(self) -> ObjectFile:
        symbols: dict[int, list[FunctionSymbol]] = {}
        marks: dict[int, list[tuple[int, str]]] = {}
        for symbol in symbols_of(self._elf):
            if _MAPPING.match(symbol.name):
                marks.setdefault(symbol.section, []).append((symbol.value, symbol.name[:2]))
            elif not symbol.name.startswith(".L"):
                entry = FunctionSymbol(symbol.value, symbol.size, symbol.name)
                symbols.setdefault(symbol.section, []).append(entry)
        relocations, lines = self._code_relocations(), self._lines()
        sections: list[CodeSection] = []
        for number, section in enumerate(self._sections):
            if not section["sh_flags"] & _ALLOCATED or not section["sh_size"]:
                continue
            start, base, data = section["sh_addr"], self._bases[number], section.data()
            sections.append(
                CodeSection(
                    section.name,
                    start,
                    data,
                    bool(section["sh_flags"] & _EXECUTABLE),
                    tuple(sorted(symbols.get(number, []), key=lambda symbol: (symbol.address, symbol.size == 0))),
                    _data_ranges(sorted(marks.get(number, [])), start + len(data)),
                    relocations.get(number, {}),
                    {at - base + start: line for at, line in lines.items() if base <= at < base + len(data)},
                )
            )
        notes = tuple(note for item in self._sections if item.name == NOTE_SECTION for note in read_notes(item.data()))
        return ObjectFile(self._title, OBJECT if self._is_object else PROGRAM, tuple(sections), notes)

    def _relocations(self) -> Iterator[tuple[int, int, int, str, int, int]]:
        """Yield for each relocation its section, offset, type and symbol name, the section of the symbol, and its value
        with the addend."""
        for section in self._sections:
            if not isinstance(section, RelocationSection) or not self._is_object:
                continue
            table = self._sections[section["sh_link"]]
            assert isinstance(table, SymbolTableSection)
            for entry in section.iter_relocations():
                symbol = table.get_symbol(entry["r_info_sym"])
                where = symbol["st_shndx"] if isinstance(symbol["st_shndx"], int) else 0
                name = symbol.name or (self._sections[where].name if where else "")
                value = symbol["st_value"] + entry["r_addend"]
                yield section["sh_info"], entry["r_offset"], entry["r_info_type"], name, where, value

    def _code_relocations(self) -> dict[int, dict[int, tuple[str, ...]]]:
        relocations: dict[int, dict[int, tuple[str, ...]]] = {}
        for number, offset, kind, name, _where, _value in self._relocations():
            if kind in _RELOCATION_NAMES and self._sections[number]["sh_flags"] & _ALLOCATED:
                places = relocations.setdefault(number, {})
                places[offset] = (*places.get(offset, ()), f"{_RELOCATION_NAMES[kind]} {name}")
        return relocations

    def _relocated(self) -> bytes:
        content = bytearray(self._content)
        for number, offset, kind, _name, where, value in self._relocations():
            section = self._sections[number]
            if kind not in _IN_DATA or not section.name.startswith(".debug_"):
                continue
            operation, size, bits = _IN_DATA[kind]
            at, mask = section["sh_offset"] + offset, (1 << bits) - 1
            if not self._sections[where].name.startswith(".debug_"):
                value += self._bases[where]
            old = int.from_bytes(content[at : at + size], "little")
            new = {_SET: value, _ADD: old + value, _SUB: old - value}[operation]
            content[at : at + size] = (old & ~mask | new & mask).to_bytes(size, "little")
        return bytes(content)

    def _lines(self) -> dict[int, SourceLine | None]:
        elf = ELFFile(BytesIO(self._relocated())) if self._is_object else self._elf
        if not elf.has_dwarf_info():
            return {}
        # compressed sections and relocations of other machines are not supported
        debug: Any = elf.get_dwarf_info(relocate_dwarf_sections=False)
        lines: dict[int, SourceLine | None] = {}
        for unit in debug.iter_CUs():
            program = debug.line_program_for_CU(unit)
            if program is None:
                continue
            folder = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
            path = partial(_path, program.header, folder.value.decode(errors="replace") if folder else "")
            for entry in program.get_entries():
                state = entry.state
                if state is not None and state.end_sequence:
                    lines.setdefault(state.address)
                elif state is not None and state.line:
                    lines[state.address] = SourceLine(path(state.file), state.line)
        return lines


def _path(header: Any, folder: str, number: int) -> str:
    """Return the path of a file in a line program, whose numbers begin at 1 up to DWARF 4."""
    entries, directories = header["file_entry"], [item.decode(errors="replace") for item in header["include_directory"]]
    if header["version"] < _NUMBERED_FROM_ZERO:
        number, directories = number - 1, [folder, *directories]
    if not 0 <= number < len(entries):
        return "?"
    entry = entries[number]
    place = directories[entry.dir_index] if entry.dir_index < len(directories) else ""
    return str(Path(folder, place, entry.name.decode(errors="replace")))


_NUMBERED_FROM_ZERO = 5  # first version of DWARF that numbers files from 0


def _data_ranges(marks: list[tuple[int, str]], end: int) -> tuple[tuple[int, int], ...]:
    return tuple((start, after) for (start, mark), (after, _) in pairwise([*marks, (end, "")]) if mark == "$d")


class SourceLines:
    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _sections(self) -> list[CodeSection]:
        files = read_objects(self._path) if self._path.is_file() else []
        return [section for item in files for section in item.sections if section.is_code]

    def location(self, pc: int) -> str:
        """Return file and line of an address, such as ``main.c:12``; empty without debug information."""
        lines = next((section.lines for section in self._sections if section.holds(pc)), {})
        line = lines.get(max((address for address in lines if address <= pc), default=-1))
        return f"{Path(line.path).name}:{line.line}" if line else ""
