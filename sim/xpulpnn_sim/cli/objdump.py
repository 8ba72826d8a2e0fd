"""``xpulpnn objdump``: disassemble programs, objects and libraries."""

from collections.abc import Iterator
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BYTES, LENGTH_MASK, WORD_BYTES
from xpulpnn.isa.table import ALL_WORDS, Decoder, enabled
from xpulpnn.xif.config import XifConfig
from xpulpnn_sim.cli.common import finish, pick, tell
from xpulpnn_sim.cli.options import Json, Repeated, arguments, command
from xpulpnn_sim.reference.programs.objects import CodeSection, ObjectFile, SourceLine, read_objects
from xpulpnn_sw.assembly.disasm import render

_CONFIGS = (XifConfig(memory="obi", requantise="exact", opcode=opcode) for opcode in ("pulp", "custom"))
_WITH_COPROCESSOR = Decoder(
    [*enabled(BASE_EXTENSIONS, frozenset()), *(insn for config in _CONFIGS for insn in config.insns)]
)
"""Instructions of RV32IMC and of the coprocessor, whose words other instructions have in a core of ours."""
_LOOPS = "lp."


@arguments
class ObjdumpOptions(Json):
    files: tuple[Path, ...] = field(kw_only=False)
    """Programs (.elf), objects (.o), libraries (.a)."""
    section: Repeated = ()
    """Show this section only; repeatable."""
    function: Repeated = ()
    """Show what belongs to this symbol; repeatable."""
    headers: bool = False
    """Show the sections and symbols instead of the code."""
    no_source: bool = False
    """Without the lines of the sources."""
    xif: bool = False
    """The words of our opcodes are instructions of the coprocessor; so they are in what cc --xif built."""


@command("objdump")
def objdump_command(options: ObjdumpOptions) -> int:
    """
    xpulpnn objdump prog.elf  # the code, with all instructions by name and the lines of the sources
    xpulpnn objdump prog.elf --function main --no-source  # one function
    xpulpnn objdump libnn.a --headers  # sections and symbols
    """
    objects = [item for path in options.files for item in read_objects(path)]
    _require_names(options, objects)
    records = [_record(item, options) for item in objects]
    for record in records:
        cores = f", compiled for {', '.join(record['cores'])}" if record["cores"] else ""
        tell(f"{record['file']}: {record['kind']}{cores}", "")
        for section in record["sections"]:
            tell(*(_header(section) if options.headers else _code(section, options)), "")
    return finish(options.json, records)


def _require_names(options: ObjdumpOptions, objects: list[ObjectFile]) -> None:
    sections = [section for item in objects for section in item.sections]
    for option, names, known in (
        ("--section", options.section, {section.name for section in sections}),
        ("--function", options.function, {symbol.name for section in sections for symbol in section.symbols}),
    ):
        for name in names:
            if name not in known:
                # GCC's clones of a function begin with its name
                similar = sorted(symbol for symbol in known if symbol.startswith(f"{name}."))
                parts = f"; there is {', '.join(similar)}" if similar else ""
                raise InputError(f"{option} must be a name in the files, not {name}{parts}")


def _is_chosen(section: CodeSection, options: ObjdumpOptions) -> bool:
    if options.section:
        return section.name in options.section
    if options.function:
        return any(symbol.name in options.function for symbol in section.symbols)
    return section.is_code or options.headers


def _header(section: dict[str, Any]) -> Iterator[str]:
    kind = "code" if section["code"] else "data"
    yield f"{section['name']}: {section['bytes']} bytes of {kind} at 0x{section['address']:08x}"
    for symbol in section["symbols"]:
        yield "  {address:08x} {size:6} {name}".format(**symbol)


def _code(section: dict[str, Any], options: ObjdumpOptions) -> Iterator[str]:
    yield f"section {section['name']}, {section['bytes']} bytes"
    names: dict[int, list[str]] = {}
    for symbol in section["symbols"]:
        names.setdefault(symbol["address"], []).append(symbol["name"])
    before = None
    for line in section["lines"]:
        yield from (f"\n{line['address']:08x} <{name}>:" for name in names.get(line["address"], ()))
        source = line["source"]
        if source not in (None, before) and not options.no_source:
            yield f"; {_position(**source)}"
            before = source
        digits = f"{line['word']:0{2 * line['size']}x}"
        yield f"{line['address']:08x}:  {digits:8}  {line['text']}"


def _position(file: str, line: int) -> str:
    lines = _text_of(file)
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return f"{file}:{line}  {text}".rstrip()


@cache
def _text_of(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


def _lines(item: ObjectFile, section: CodeSection, options: ObjdumpOptions) -> Iterator[dict[str, Any]]:
    ranges = [section.range_of(symbol) for symbol in section.symbols if symbol.name in options.function]
    offset = 0
    decoder = _WITH_COPROCESSOR if options.xif or any(note.is_host for note in item.cores) else ALL_WORDS
    while offset < len(section.data):
        address = section.address + offset
        size, word, text = _decoded(item, section, offset, decoder)
        offset += size
        if ranges and not any(first <= address < last for first, last in ranges):
            continue
        pending = [f"  # {item}" for item in section.relocations.get(address, ())]
        yield {"address": address, "size": size, "word": word, "text": text + "".join(pending)}


def _decoded(item: ObjectFile, section: CodeSection, offset: int, decoder: Decoder) -> tuple[int, int, str]:
    address, data = section.address + offset, section.data
    low = int.from_bytes(data[offset : offset + HALF_BYTES], "little")
    size = WORD_BYTES if low & LENGTH_MASK == LENGTH_MASK or section.is_data(address) else HALF_BYTES
    size = min(size, len(data) - offset)
    if not section.is_code:
        size = min(WORD_BYTES, len(data) - offset)
    word = int.from_bytes(data[offset : offset + size], "little")
    insn = decoder.decode(word) if section.is_code and size >= HALF_BYTES else None
    # hardware-loop setup is emitted as a data word for stock assemblers
    if insn is None or insn.size != size or (section.is_data(address) and not insn.mnemonic.startswith(_LOOPS)):
        directive = {1: ".byte", HALF_BYTES: ".half", WORD_BYTES: ".word"}.get(size, ".word")
        return size, word, f"{directive} 0x{word:0{2 * size}x}"
    return size, word, _instruction(item, section, insn, word, address)


def _instruction(item: ObjectFile, section: CodeSection, insn: Insn, word: int, address: int) -> str:
    text = render(insn, word)
    values = insn.decode(word)
    targets = [address + values[t.field.name] for t in insn.tokens if t.field.kind is FieldKind.TARGET]
    if not targets or address in section.relocations:
        return text
    name = item.name_of(targets[0], section)
    return f"{text}  # 0x{targets[0]:x}{f' <{name}>' if name else ''}"


def _record(item: ObjectFile, options: ObjdumpOptions) -> dict[str, Any]:
    sections = [
        {
            **pick(section, "name", "address"),
            "bytes": len(section.data),
            "code": section.is_code,
            "symbols": [symbol._asdict() for symbol in section.symbols],
            "lines": [] if options.headers else list(_with_source(item, section, options)),
        }
        for section in item.sections
        if _is_chosen(section, options)
    ]
    cores = [note.name for note in item.cores]
    return {"file": item.title, "kind": item.kind, "cores": cores, "sections": sections}


def _with_source(item: ObjectFile, section: CodeSection, options: ObjdumpOptions) -> Iterator[dict[str, Any]]:
    source: SourceLine | None = None
    for line in _lines(item, section, options):
        source = section.lines.get(line["address"], source)
        place = None if source is None else {"file": source.path, "line": source.line}
        yield line | {"symbol": section.name_of(line["address"]), "source": place}
