"""Writes a program as an ELF file, for other simulators and for disassemblers."""

import struct
from collections.abc import Iterable

from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sim.reference.programs.elf import Executable

_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
_SEGMENT = struct.Struct("<8I")
_SECTION = struct.Struct("<10I")
_SYMBOL = struct.Struct("<IIIBBH")
_IDENTITY = b"\x7fELF\x01\x01\x01"  # 32 bit, little-endian, version 1
_EXECUTABLE, _RISCV, _VERSION = 2, 243, 1
_RVC = 1  # Flag: compressed instructions
_LOAD, _READ_WRITE, _ALL = 1, 6, 7
_PROGRAM_BITS, _SYMBOL_TABLE, _STRING_TABLE = 1, 2, 3
_ALLOCATED_WRITE, _ALLOCATED_CODE = 3, 7
_GLOBAL_CODE, _GLOBAL_ABSOLUTE = 0x12, 0x10
_ABSOLUTE = 0xFFF1


def _strings(names: Iterable[str]) -> tuple[bytes, dict[str, int]]:
    """A string table and the place of each name in it."""
    data, places = bytearray(b"\0"), dict[str, int]()
    for name in names:
        places.setdefault(name, len(data))
        data += name.encode() + b"\0"
    return bytes(data), places


def _symbols(executable: Executable, code_section: int) -> tuple[bytes, bytes]:
    strings, places = _strings(executable.symbols)
    functions = {function.name: function.size for function in executable.functions}
    table = bytearray(_SYMBOL.size)
    for name, address in executable.symbols.items():
        kind = _GLOBAL_CODE if name in functions else _GLOBAL_ABSOLUTE
        section = code_section if address >= TEXT_BASE else _ABSOLUTE
        table += _SYMBOL.pack(places[name], address, functions.get(name, 0), kind, 0, section)
    return bytes(table), strings


def elf_bytes(executable: Executable) -> bytes:
    """The file: one segment and one section per segment of the program, and all its symbols."""
    parts = executable.segments
    code = next((number for number, part in enumerate(parts, 1) if part.address == TEXT_BASE), 0)
    table, symbol_names = _symbols(executable, code)
    # name, kind, flags, address, content, link, info, bytes of an entry
    sections = [("", 0, 0, 0, b"", 0, 0, 0)]
    for number, part in enumerate(parts, 1):
        name, flags = (".text", _ALLOCATED_CODE) if number == code else (f".data{number - 1}", _ALLOCATED_WRITE)
        sections.append((name, _PROGRAM_BITS, flags, part.address, part.data.ljust(part.size, b"\0"), 0, 0, 0))
    sections.append((".symtab", _SYMBOL_TABLE, 0, 0, table, len(sections) + 1, 1, _SYMBOL.size))
    sections.append((".strtab", _STRING_TABLE, 0, 0, symbol_names, 0, 0, 0))
    names, places = _strings([*(name for name, *_ in sections), ".shstrtab"])
    sections.append((".shstrtab", _STRING_TABLE, 0, 0, names, 0, 0, 0))
    offset = _HEADER.size + _SEGMENT.size * len(parts)
    content, headers, segments = bytearray(), bytearray(), bytearray()
    for name, kind, flags, address, data, link, info, entry in sections:
        at, size = offset + len(content), len(data)
        headers += _SECTION.pack(places.get(name, 0), kind, flags, address, at, size, link, info, 1, entry)
        if flags:
            access = _ALL if flags == _ALLOCATED_CODE else _READ_WRITE
            segments += _SEGMENT.pack(_LOAD, at, address, address, size, size, access, 1)
        content += data
    what = _IDENTITY, _EXECUTABLE, _RISCV, _VERSION, executable.entry
    tables = _HEADER.size, offset + len(content), _RVC, _HEADER.size, _SEGMENT.size, len(parts)
    header = _HEADER.pack(*what, *tables, _SECTION.size, len(sections), len(sections) - 1)
    return bytes(header + segments + content + headers)
