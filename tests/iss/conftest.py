import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from xpulpnn.isa.table import find
from xpulpnn_sim.elf import Executable, Segment, functions_of
from xpulpnn_sim.iss.core import Iss
from xpulpnn_sw.asm import assemble

CODE, DATA, TOHOST, FROMHOST = 0x1C00_0000, 0x1000_0000, 0x1000_0800, 0x1000_0808
DATA_BYTES = 0x1000
ENTRY = CODE + 0x80

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB = 1, 2, 3
SHN_ABS = 0xFFF1
GLOBAL_FUNCTION, GLOBAL_LABEL, LOCAL_LABEL = 0x12, 0x10, 0x00


def _asm(mnemonic: str, form: str | None = None, /, **operands: int) -> int:
    return find(mnemonic, form).encode(**operands)


@pytest.fixture
def asm() -> Callable[..., int]:
    """One 32-bit instruction word from mnemonic, operand form where ambiguous, and field values."""
    return _asm


@pytest.fixture
def machine() -> Callable[..., Iss]:
    """A hart with a program at its boot address."""

    def build(*words: int, boot_address: int = 0x80, **settings: object) -> Iss:
        iss = Iss(boot_address, **settings)
        iss.load(boot_address, list(words))
        return iss

    return build


def _text(source: str) -> str:
    constants = f".equ tohost, {TOHOST}\n.equ fromhost, {FROMHOST}\n.equ data, {DATA}\n"
    return constants + source


@pytest.fixture
def program() -> Callable[..., Executable]:
    """A program from assembly text at ENTRY (label names become functions), the vector table before it."""

    def build(source: str, vectors: str = "", data: bytes = b"", data_bytes: int = DATA_BYTES) -> Executable:
        assembled = assemble(_text(source), ENTRY)
        code = assemble(_text(vectors), CODE).to_bytes().ljust(ENTRY - CODE, b"\0") + assembled.to_bytes()
        segments = (Segment(DATA, data, data_bytes), Segment(CODE, code, len(code)))
        labels = {name: value for name, value in assembled.labels.items() if value >= ENTRY}
        functions = functions_of(labels, CODE + len(code))
        symbols = labels | {"tohost": TOHOST, "fromhost": FROMHOST}
        return Executable(Path("program.elf"), ENTRY, segments, TOHOST, FROMHOST, symbols, functions)

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


@pytest.fixture
def elf_file(tmp_path: Path, elf_bytes: Callable[..., bytes]) -> Callable[..., Path]:
    """A file with a program from assembly text, as :func:`program` has it in memory."""

    def build(source: str, vectors: str = "", name: str = "program.elf") -> Path:
        assembled = assemble(_text(source), ENTRY)
        code = assemble(_text(vectors), CODE).to_bytes().ljust(ENTRY - CODE, b"\0") + assembled.to_bytes()
        symbols = {label: (value, 0, GLOBAL_LABEL) for label, value in assembled.labels.items() if value >= ENTRY} | {
            "tohost": (TOHOST, 8, GLOBAL_LABEL),
            "fromhost": (FROMHOST, 8, GLOBAL_LABEL),
        }
        path = tmp_path / name
        path.write_bytes(elf_bytes([(CODE, code, len(code)), (DATA, b"", DATA_BYTES)], symbols, ENTRY))
        return path

    return build
