"""Loads programs: 32-bit little-endian RISC-V ELF executables of any compiler, and checks that they suit a design."""

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import pairwise, zip_longest
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.segments import Segment as ElfSegment

from xpulpnn.config import TCDM_SPACE, ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, require, unreadable
from xpulpnn.isa.cluster import CONTROL, TCDM_ALIAS, TCDM_BASE, TEST_SET_BIT
from xpulpnn.isa.machine import ADDRESS_SPACE, HALF_BYTES, WORD_BYTES, XLEN
from xpulpnn_sim.reference.programs.foreign import MAGIC, described
from xpulpnn_sw.toolchain.build_options import NOTE_SECTION, ClusterNote, CoreNote, read_cluster_note, read_notes

SIZE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

TOHOST, FROMHOST = "tohost", "fromhost"

Window = tuple[int, int]  # First address and size of a piece of memory

_HEADER_BYTES = 52
_EXECUTABLE_SECTION = 0x4
_ENTRY = Struct("<IIIBBH")
"""Layout of an entry of a symbol table: offset of the name, value, size, type and binding, visibility, section
number."""
_KIND = 0xF
_UNTYPED, _FUNCTION, _SECTION, _FILE = 0, 2, 3, 4
_KINDS = {
    "ET_REL": "a relocatable object: link it",
    "ET_DYN": "a shared object or position-independent executable",
    "ET_CORE": "a core dump",
}

# ends of the lowest stacks of a core and of a cluster, and distance within which an access below is a stack overflow
_STACK_BOTTOMS, _STACK_REACH = ("__stack_bottom", "__stacks_bottom"), 1 << 20


class ElfError(InputError):
    """A file cannot be loaded as an RV32 program."""


@dataclass(frozen=True, slots=True)
class Segment:
    address: int
    data: bytes  # initial content
    size: int  # bytes in memory; those after `data` (.bss) are zero

    def patched(self, address: int, content: bytes) -> "Segment":
        """Return the segment with ``content`` in its data at ``address``, unchanged if its data are elsewhere."""
        at = address - self.address
        if not 0 <= at < len(self.data):
            return self
        return replace(self, data=self.data[:at] + content + self.data[at + len(content) :])


class FunctionSymbol(NamedTuple):
    address: int
    size: int  # bytes; for a label without a size up to the next symbol or the end of the section
    name: str

    def name_at(self, address: int) -> str:
        offset = address - self.address
        return f"{self.name}+0x{offset:x}" if offset else self.name


def symbol_before(symbols: Sequence[FunctionSymbol], address: int) -> FunctionSymbol | None:
    position = bisect_right(symbols, address, key=lambda symbol: symbol.address)
    return symbols[position - 1] if position else None


@dataclass(frozen=True, slots=True)
class Executable:
    path: Path
    entry: int  # address of the first instruction
    segments: tuple[Segment, ...]  # by address, disjoint
    tohost: int  # address of the exit channel
    fromhost: int | None = None  # address of its return channel, if there is one
    symbols: Mapping[str, int] = field(default_factory=dict[str, int])  # values; global symbols hide local ones
    functions: tuple[FunctionSymbol, ...] = ()  # by address, disjoint
    cores: tuple[CoreNote, ...] = ()  # notes of the objects on the cores that they were compiled for
    cluster: ClusterNote | None = None  # note on the cluster, if it was compiled for one

    def words(self) -> dict[int, int]:
        return {
            segment.address + at: int.from_bytes(segment.data[at : at + WORD_BYTES], "little")
            for segment in self.segments
            for at in range(0, segment.size, WORD_BYTES)
        }

    def function_at(self, address: int) -> FunctionSymbol | None:
        function = symbol_before(self.functions, address)
        return function if function is not None and address < function.address + max(function.size, 1) else None

    def symbol_at(self, address: int) -> str:
        """Return ``main+0x12``, ``__stack_bottom-0x4`` below the stack, or an empty string."""
        function = self.function_at(address)
        if function is not None:
            return function.name_at(address)
        below = ((name, self.symbols.get(name, 0) - address) for name in _STACK_BOTTOMS)
        return next((f"{name}-0x{distance:x}" for name, distance in below if 0 < distance <= _STACK_REACH), "")


class ElfSymbol(NamedTuple):
    name: str
    value: int
    size: int
    kind: int
    is_global: bool
    section: int  # number of its section


def parse_number(text: str) -> int:
    unit = SIZE_UNITS.get(text[-1:].upper(), 1)
    return int(text[:-1] if unit > 1 else text, 0) * unit


def parse_ram(text: str) -> Window:
    base_text, colon, size_text = text.partition(":")
    try:
        base, size = parse_number(base_text), parse_number(size_text)
    except ValueError:
        base = size = 0
    aligned = base % WORD_BYTES == 0 and size % WORD_BYTES == 0
    if not colon or base < 0 or size <= 0 or base + size > ADDRESS_SPACE or not aligned:
        raise InputError(
            f"memory must be BASE:SIZE within 4 GiB, both multiples of {WORD_BYTES}, such as 0x80000000:1M, not {text}"
        )
    return base, size


def windows(executable: Executable, ram: Sequence[Window] = ()) -> tuple[Window, ...]:
    """Return the memory of a run by address: segments, rounded to words, and ``ram``; adjacent ranges are joined."""
    pieces = list(ram)
    for segment in executable.segments:
        first = segment.address // WORD_BYTES * WORD_BYTES
        pieces.append((first, -(-(segment.address + segment.size) // WORD_BYTES) * WORD_BYTES - first))
    joined: list[Window] = []
    for base, size in sorted(pieces):
        if joined and base <= joined[-1][0] + joined[-1][1]:
            first, length = joined[-1]
            joined[-1] = first, max(length, base + size - first)
        else:
            joined.append((base, size))
    return tuple(joined)


def load(path: Path, *, ram: Sequence[Window] = ()) -> Executable:
    content = content_of(path)
    if not content.startswith(MAGIC):
        raise ElfError(f"{path} must be an ELF file, not {described(path, content)}")
    require(len(content) >= _HEADER_BYTES, f"{path} must be a whole ELF file, not truncated in its header", ElfError)
    with well_formed(path):
        executable = _executable(path, ELFFile(BytesIO(content)), len(content))
    memory = windows(executable, ram)
    _require_inside(path, memory, "entry", executable.entry, HALF_BYTES)
    for name in (TOHOST, FROMHOST):
        if name in executable.symbols:
            _require_inside(path, memory, name, executable.symbols[name], WORD_BYTES)
    return executable


def content_of(path: Path) -> bytes:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ElfError(f"{path} must be a file, not a device or pipe")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ElfError(unreadable(path, error)) from None


@contextmanager
def well_formed(title: Path | str) -> Generator[None]:
    """Turn any exception of the reader, caused by a damaged file, into an :class:`ElfError`."""
    try:
        yield
    except ElfError:
        raise
    except Exception as error:
        raise ElfError(f"{title} must be a well-formed ELF file, not damaged ({type(error).__name__})") from None


def _check_whole(path: Path, elf: ELFFile, size: int) -> None:
    """Raise :class:`ElfError` if a segment, section or table in the headers extends past the end of the file."""

    def ends() -> Iterator[tuple[str, int]]:
        for letter, name in (("p", "program"), ("s", "section")):
            first, count, entry = (elf.header[f"e_{letter}h{field}"] for field in ("off", "num", "entsize"))
            yield f"before its {name} headers", first + count * entry
        for segment in elf.iter_segments("PT_LOAD"):
            yield "in a segment", segment["p_offset"] + segment["p_filesz"]
        for section in elf.iter_sections():
            if section["sh_type"] != "SHT_NOBITS":
                yield "in a section", section["sh_offset"] + section["sh_size"]

    # the headers are checked before what they describe is read
    for where, end in ends():
        require(end <= size, f"{path} must be a whole ELF file, not truncated {where}", ElfError)


def _executable(path: Path, elf: ELFFile, size: int) -> Executable:
    if elf.elfclass != XLEN or not elf.little_endian:
        actual = f"{elf.elfclass}-bit {'little' if elf.little_endian else 'big'}-endian"
        raise ElfError(f"{path} must be a 32-bit little-endian ELF file, not {actual} for {elf.header['e_machine']}")
    _check_whole(path, elf, size)
    kind, machine = elf.header["e_type"], elf.header["e_machine"]
    if kind != "ET_EXEC":
        raise ElfError(f"{path} must be an executable, not {_KINDS.get(kind, f'of type {kind}')}")
    require(machine == "EM_RISCV", f"{path} must be a RISC-V program, not for machine {machine}", ElfError)
    sections = list(elf.iter_sections())
    table = symbols_of(elf)
    code = {
        number: (section["sh_addr"], section["sh_size"])
        for number, section in enumerate(sections)
        if section["sh_flags"] & _EXECUTABLE_SECTION and section["sh_size"]
    }
    symbols = {symbol.name: symbol.value for symbol in sorted(table, key=lambda symbol: symbol.is_global)}
    segments = _disjoint(path, [part for segment in elf.iter_segments("PT_LOAD") for part in _placed(segment)])
    require(TOHOST in symbols, f"{path} must define the symbol {TOHOST}, not end without telling its result", ElfError)
    notes = b"".join(section.data() for section in sections if section.name == NOTE_SECTION)
    return Executable(
        path=path,
        entry=elf.header["e_entry"] & ~1,
        segments=segments,
        symbols=symbols,
        functions=tuple(_functions(table, code)),
        tohost=symbols[TOHOST],
        fromhost=symbols.get(FROMHOST),
        cores=read_notes(notes),
        cluster=read_cluster_note(notes),
    )


def _placed(segment: ElfSegment) -> Iterator[Segment]:
    """Place a segment at its load address, from which start-up code may copy it to its run-time address."""
    data, load_address, address, size = segment.data(), segment["p_paddr"], segment["p_vaddr"], segment["p_memsz"]
    if load_address == address:
        pieces = [Segment(address, data, size)]
    else:
        pieces = [Segment(load_address, data, len(data)), Segment(address, b"", size)]
    yield from (piece for piece in pieces if piece.size)


def symbols_of(elf: ELFFile) -> list[ElfSymbol]:
    """Return all definitions, unpacked together since some compilers emit ten thousand labels."""
    symbols: list[ElfSymbol] = []
    for section in elf.iter_sections("SHT_SYMTAB"):
        names = elf.get_section(section["sh_link"]).data()
        for at, value, size, info, _, where in _ENTRY.iter_unpack(section.data()):
            kind, name = info & _KIND, names[at : names.index(b"\0", at)].decode(errors="replace")
            if name and where and kind not in (_FILE, _SECTION):
                symbols.append(ElfSymbol(name, value, size, kind, info > _KIND, where))
    return symbols


def _disjoint(path: Path, segments: list[Segment]) -> tuple[Segment, ...]:
    require(segments, f"{path} must have something to load, not no segment", ElfError)
    ordered = sorted(segments, key=lambda segment: segment.address)
    end = 0
    for segment in ordered:
        if len(segment.data) > segment.size:
            raise ElfError(f"{path} must have segments that hold their content, not 0x{segment.address:08x}")
        if segment.address < end:
            raise ElfError(f"{path} must have segments apart from each other, not two at 0x{segment.address:08x}")
        end = segment.address + segment.size
        if end > ADDRESS_SPACE:
            raise ElfError(f"{path} must have segments below 4 GiB, not one that ends at 0x{end:x}")
    return tuple(ordered)


def _functions(symbols: Iterable[ElfSymbol], code: Mapping[int, Window]) -> Iterator[FunctionSymbol]:
    """Yield symbols with a size, and for assembly code without sizes its labels, each up to the next one."""
    labels = [
        symbol
        for symbol in symbols
        if symbol.section in code
        and symbol.kind in (_FUNCTION, _UNTYPED)
        # mapping symbols and local labels of the assembler
        and not symbol.name.startswith(("$", ".L"))
    ]
    # at the same address sized and global names come first
    labels.sort(key=lambda symbol: (symbol.value, -symbol.size, not symbol.is_global))
    end = 0
    starts: list[ElfSymbol] = []
    for label in labels:
        if label.value >= end and not (starts and starts[-1].value == label.value):
            starts.append(label)
            end = label.value + label.size
    for label, following in zip_longest(starts, starts[1:]):
        first, length = code[label.section]
        limit = first + length
        if following is not None and following.section == label.section:
            limit = following.value
        yield FunctionSymbol(label.value, label.size or max(limit - label.value, 0), label.name)


def functions_of(labels: Mapping[str, int], end: int) -> tuple[FunctionSymbol, ...]:
    starts = [*sorted((address, name) for name, address in labels.items()), (end, "")]
    return tuple(FunctionSymbol(address, after - address, name) for (address, name), (after, _) in pairwise(starts))


def _require_inside(path: Path, memory: tuple[Window, ...], what: str, address: int, size: int) -> None:
    if address % size:
        raise ElfError(f"{path} must have its {what} at a multiple of {size}, not at 0x{address:08x}")
    if not any(base <= address and address + size <= base + length for base, length in memory):
        raise ElfError(f"{path} must have its {what} inside memory, not at 0x{address:08x}")


_SINGLE_CORE_STACK = "__stack_top"
_CLUSTER_STACKS = "__stacks_top"  # symbols of the runtime's linker scripts for a core and for a cluster

_SPACES = {
    TCDM_ALIAS: "the alias of the TCDM",
    TCDM_BASE | 1 << TEST_SET_BIT: "the test&set view of the TCDM",
    CONTROL: "the peripherals of the cluster",
}


def memory_of(config: CoreConfig | ClusterConfig) -> tuple[Window, ...]:
    return ((TCDM_BASE, config.tcdm_bytes),) if isinstance(config, ClusterConfig) else ()


def require_fitting(executable: Executable, config: CoreConfig | ClusterConfig, ram: Sequence[Window] = ()) -> None:
    """Raise :class:`InputError` unless a program and ``ram`` suit the cores and the memory map of a configuration."""
    path, needed = executable.path, executable.cluster
    if isinstance(config, CoreConfig):
        if needed is not None:
            raise InputError(
                f"{path} must be run with --cores {needed.cores}, the cluster it is compiled for, not on one core alone"
            )
        return
    if needed is None:
        symbols = executable.symbols
        if config.cores > 1 and _SINGLE_CORE_STACK in symbols and _CLUSTER_STACKS not in symbols:
            raise InputError(
                f"{path} must be compiled for a cluster to run on {config.cores} cores, not for one core: "
                f"xpulpnn cc --cluster --cores {config.cores} does"
            )
    else:
        for name, own, least in (
            ("cores", config.cores, needed.cores),
            ("tcdm_bytes", config.tcdm_bytes, needed.tcdm_bytes),
        ):
            require(own >= least, f"{name} must be at least {least}, which {path} is compiled for, not {own}")
    segments = [(segment.address, segment.size) for segment in executable.segments]
    for who, pieces in ((str(path), segments), ("ram", ram)):
        for base, size in pieces:
            _require_place(who, base, size, TCDM_BASE + config.tcdm_bytes)


def _require_place(who: str, base: int, size: int, end: int) -> None:
    if _overlap(base, size, TCDM_BASE) and base + size > end:
        raise InputError(
            f"{who} must fit into the TCDM, which ends at 0x{end:08x}, not have a piece up to 0x{base + size:08x}"
        )
    for first, name in _SPACES.items():
        if _overlap(base, size, first):
            raise InputError(f"{who} must keep out of {name}, not have {size} bytes at 0x{base:08x}")


def _overlap(base: int, size: int, space: int) -> bool:
    return base < space + TCDM_SPACE and space < base + size


def load_for(path: Path, config: CoreConfig | ClusterConfig, ram: Sequence[Window] = ()) -> Executable:
    executable = load(path, ram=[*ram, *memory_of(config)])
    require_fitting(executable, config)
    return executable
