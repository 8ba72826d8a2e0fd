import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.programs import program_of

from xpulpnn_sim.reference.bare.program import elf_bytes as written
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sw.assembly.asm import assemble

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB = 1, 2, 3
SHN_ABS = 0xFFF1


def booted(source: str = "", at: int = 0x80, **settings: object) -> Iss:
    iss = Iss(at, **settings)
    iss.memory.write_bytes(at, assemble(source, at).to_bytes())
    return iss


@pytest.fixture
def elf_file(tmp_path: Path) -> Callable[..., Path]:
    def build(source: str, vectors: str = "") -> Path:
        path = tmp_path / "program.elf"
        path.write_bytes(written(program_of(source, vectors)))
        return path

    return build


def _section(name: int, kind: int, flags: int, address: int, offset: int, size: int, link: int, entry: int) -> bytes:
    return struct.pack("<10I", name, kind, flags, address, offset, size, link, 0, 1, entry)


@pytest.fixture
def elf_bytes() -> Callable[..., bytes]:
    """An ELF file made by hand: header, program headers, content, symbols, section headers, in this order.

    ``segments`` are (address, data, memory size[, load address]); ``symbols`` map a name to (value, size, info) and
    belong to the section of the first segment unless the value lies outside it. ``header`` overrides fields.
    """

    def build(
        segments: Sequence[tuple[int, bytes, int] | tuple[int, bytes, int, int]],
        symbols: Mapping[str, tuple[int, int, int]],
        entry: int,
        **header: int,
    ) -> bytes:
        offset = 52 + 32 * len(segments)
        program_headers, content = b"", b""
        for address, data, size, *load in segments:
            place = load[0] if load else address
            program_headers += struct.pack("<8I", 1, offset + len(content), address, place, len(data), size, 5, 4)
            content += data
        code, code_size = (segments[0][0], len(segments[0][1])) if segments else (0, 0)
        names, table = b"\0", bytes(16)
        for name, (value, size, info) in symbols.items():
            section = 1 if code <= value < code + code_size else SHN_ABS
            table += struct.pack("<IIIBBH", len(names), value, size, info, 0, section)
            names += name.encode() + b"\0"
        at = offset + len(content)
        sections = [
            bytes(40),
            _section(0, SHT_PROGBITS, 6, code, offset, code_size, 0, 0),
            _section(0, SHT_SYMTAB, 0, 0, at, len(table), 3, 16),
            _section(0, SHT_STRTAB, 0, 0, at + len(table), len(names), 0, 0),
        ]
        fields = {
            "klass": 1,
            "data": 1,
            "type": 2,
            "machine": 243,
            "phoff": 52,
            "shoff": at + len(table) + len(names),
            "phnum": len(segments),
            "shnum": len(sections),
        } | header
        head = b"\x7fELF" + bytes([fields["klass"], fields["data"], 1]) + bytes(9)
        head += struct.pack("<HHIIII", fields["type"], fields["machine"], 1, entry, fields["phoff"], fields["shoff"])
        head += struct.pack("<IHHHHHH", 0, 52, 32, fields["phnum"], 40, fields["shnum"], 3)
        return head + program_headers + content + table + names + b"".join(sections)

    return build
