"""Build options, memory maps of programs, and notes in ELF files on the core that a program needs.

The notes are an unloaded section, to which every compiled file adds a line:
``core xpulpnn; extensions XpulpV2 XpulpNN; widths 16 8 4 2; groups``. A core that has less cannot run the program.
Files compiled for a cluster add a second line: ``cluster; cores 8; tcdm 131072``.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from xpulpnn.config import CLUSTER_PRESETS, DEFAULT_PRESET, PRESETS, CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn.isa.cluster import MAX_CORES
from xpulpnn.isa.csr import CsrGroup
from xpulpnn.isa.formats import STOCK_EXTENSIONS, Extension
from xpulpnn.isa.machine import DATA_BASE, TEXT_BASE
from xpulpnn.xif.config import HOST_NAME, XifHost
from xpulpnn_sw.toolchain.compilers import RUNTIME

if TYPE_CHECKING:
    from xpulpnn_sw.assembly.looppass.optimise import PassReport

NOTE_SECTION = ".xpulpnn.core"

_KEYS = ("core", "extensions", "widths", "groups")

_NOT_NEEDED = {CsrGroup.BASE, CsrGroup.HWLOOP, CsrGroup.DEBUG, CsrGroup.TRIGGER}
"""Groups of CSRs that every core with the same instructions has, or that programs do not need."""
_CLUSTER = re.compile(rb"^cluster; cores (\d+); tcdm (\d+)$", re.MULTILINE)
DEFAULT_CORES, DEFAULT_TCDM = 8, 128 << 10
DEFAULT_MASTER_STACK, DEFAULT_CORE_STACK = 0x800, 0x400
STACK_ALIGNMENT = 16
MAX_TCDM = 1 << 20  # bytes between the TCDM and its test&set view
KIB, MIB = 1 << 10, 1 << 20
DEFAULT_STACK, DEFAULT_RAM, DEFAULT_ROM = 64 * KIB, 4 * MIB, 4 * MIB
HEAP_SHARE = 4  # the default heap is this fraction of the ram
MAX_ROM = 64 * MIB  # most bytes of code and constants
MAX_RAM = 0x0C00_0000  # bytes between data and code in the memory map


@dataclass(frozen=True, slots=True)
class CoreNote:
    """The core that a part of a program was compiled for, as a note in the ELF file states it."""

    name: str  # preset and settings
    extensions: frozenset[str]  # names of the extensions beyond RV32IMC
    widths: frozenset[int]  # SIMD element widths in bits
    groups: frozenset[str]  # names of the optional groups of CSRs

    @classmethod
    def of(cls, config: CoreConfig, name: str) -> "CoreNote":
        return cls(
            name,
            frozenset(extension.value for extension in config.extensions - STOCK_EXTENSIONS),
            config.widths,
            frozenset(group.name for group in config.csr_groups - _NOT_NEEDED),
        )

    @property
    def is_host(self) -> bool:
        """True if the core has the coprocessor behind CV-X-IF."""
        return not self.extensions.isdisjoint({Extension.XIF_PULP.value, Extension.XIF_CUSTOM.value})

    def lacks(self, needed: "CoreNote") -> list[str]:
        """Return, in words, the features of the core ``needed`` that this core lacks."""
        lacking = [extension.value for extension in Extension if extension.value in needed.extensions - self.extensions]
        lacking += [f"elements of {width} bits" for width in sorted(needed.widths - self.widths, reverse=True)]
        missing = needed.groups - self.groups
        if CsrGroup.PERFORMANCE.name in missing:
            lacking.append("the performance counters")
        if missing - {CsrGroup.PERFORMANCE.name}:
            lacking.append("the NN-RF as CSRs")
        return lacking


def core_name(config: CoreConfig) -> str:
    """Return the name of the preset with the features of ``config``, or ``a core of its own``."""
    required = CoreNote.of(config, "")
    named = {**PRESETS, HOST_NAME: XifHost()}
    names = (name for name, preset in named.items() if CoreNote.of(preset, "") == required)
    return next(names, "a core of its own")


def core_note(config: CoreConfig, name: str, cluster: "ClusterLayout | None" = None) -> str:
    """Return the assembly text of the note on a core, called ``name`` or like its preset, and on a cluster if given."""
    name = name or core_name(config)
    note = CoreNote.of(config, name)
    values = (name, *(" ".join(map(str, sorted(part))) for part in (note.extensions, note.widths, note.groups)))
    line = "; ".join(f"{key} {value}".rstrip() for key, value in zip(_KEYS, values, strict=True))
    lines = [line] if cluster is None else [line, f"cluster; cores {cluster.cores}; tcdm {cluster.tcdm}"]
    text = "".join(f'\t.ascii "{line}\\n"\n' for line in lines)
    return f'\n\t.section {NOTE_SECTION},"",@progbits\n{text}'


def read_notes(section: bytes) -> tuple[CoreNote, ...]:
    """Return the notes on cores in the note section of an ELF file, each once; skip other lines."""
    notes: list[CoreNote] = []
    for line in dict.fromkeys(section.decode(errors="replace").strip("\0\n").split("\n")):
        parts = [part.partition(" ") for part in line.strip("\0").split("; ")]
        if tuple(key for key, _space, _value in parts) != _KEYS:
            continue
        name, *sets = (value for _key, _space, value in parts)
        extensions, widths, groups = (frozenset(text.split()) for text in sets)
        if all(width.isdecimal() for width in widths):
            notes.append(CoreNote(name, extensions, frozenset(map(int, widths)), groups))
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class ClusterNote:
    cores: int
    tcdm_bytes: int


def read_cluster_note(section: bytes) -> ClusterNote | None:
    """Return a cluster that satisfies all notes of an ELF file; None if the program is for a single core."""
    clusters = [tuple(map(int, match.groups())) for match in _CLUSTER.finditer(section)]
    if not clusters:
        return None
    cores, sizes = zip(*clusters, strict=True)
    return ClusterNote(max(cores), max(sizes))


def require_core(notes: Iterable[CoreNote], config: CoreConfig, program: str, name: str) -> None:
    """Raise :class:`InputError` unless the core ``config``, called ``name``, has all features that a program needs."""
    core = CoreNote.of(config, name)
    for note in notes:
        lacking = core.lacks(note)
        if lacking:
            raise InputError(
                f"core must be {note.name}, which {program} is compiled for, or have as much, not {name}, "
                f"which has no {', no '.join(lacking)}"
            )


def named_core(notes: Sequence[CoreNote]) -> str:
    """Return the name of a core that can run all parts of a program: one in the notes if possible, else a preset."""
    presets = [CoreNote.of(PRESETS[name], name) for name in dict.fromkeys((DEFAULT_PRESET, *PRESETS))]
    named = [note for note in notes if note.name.partition(" ")[0] in (*PRESETS, *CLUSTER_PRESETS, HOST_NAME)]
    able = (candidate.name for candidate in (*named, *presets) if not any(candidate.lacks(note) for note in notes))
    return next(able, DEFAULT_PRESET)


def presets_with(extension: str, width: int | None = None) -> list[str]:
    notes = (CoreNote.of(config, name) for name, config in PRESETS.items())
    return [note.name for note in notes if extension in note.extensions and (width is None or width in note.widths)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """Cores of a cluster and its TCDM, which begins with their stacks."""

    cores: int = DEFAULT_CORES  # 1 to 16
    tcdm: int = DEFAULT_TCDM
    stack: int = DEFAULT_MASTER_STACK  # bytes of the stack of core 0, a multiple of 16
    core_stack: int = DEFAULT_CORE_STACK  # bytes of the stack of each other core, a multiple of 16

    def __post_init__(self) -> None:
        require(1 <= self.cores <= MAX_CORES, f"cores must be 1 to {MAX_CORES}, not {self.cores}")
        if not 0 < self.tcdm <= MAX_TCDM or self.tcdm.bit_count() != 1:
            raise InputError(f"TCDM must be a power of two up to {MAX_TCDM} bytes, not {self.tcdm}")
        for name, size in (("stack", self.stack), ("core stack", self.core_stack)):
            if size <= 0 or size % STACK_ALIGNMENT:
                raise InputError(f"{name} must be a multiple of {STACK_ALIGNMENT} bytes, not {size}")
        stacks = self.stack + (self.cores - 1) * self.core_stack
        if stacks > self.tcdm:
            raise InputError(f"stacks must be at most {self.tcdm} bytes together, the size of the TCDM, not {stacks}")


class BuildStage(StrEnum):
    PREPROCESSED = "-E"
    ASSEMBLY = "-S"
    OBJECT = "-c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    # the header declares only instructions of this core
    config: CoreConfig = field(default_factory=lambda: PRESETS[DEFAULT_PRESET])
    core: str = ""  # name of the core in messages; empty: its preset
    opt: str = "-O2"  # optimisation level, such as `-O2`
    include: tuple[Path, ...] = ()  # folders of header files
    define: tuple[str, ...] = ()  # Macros, `NAME` or `NAME=VALUE`
    extra: tuple[str, ...] = ()  # further options for compiling
    linking: tuple[str, ...] = ()  # further options for linking: libraries and their folders
    start_files: bool = True  # whether the program starts with the runtime's crt0
    script: Path | None = None  # linker script instead of the runtime's
    stack: int = DEFAULT_STACK  # bytes of the stack
    ram: int = DEFAULT_RAM  # bytes of the data region
    rom: int = MAX_ROM  # bytes of the code region
    heap: int = 0  # bytes for malloc if the program calls it; 0: a quarter of the ram
    cluster: ClusterLayout | None = None  # cluster whose TCDM holds the stacks, with the ram as L2; None: a single core
    loop_pass: bool = True  # whether C code gets hardware loops and post-increment accesses on a core with XpulpV2
    report: "PassReport | None" = None  # collects the results of that
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)  # parallel compilers

    def __post_init__(self) -> None:
        require(0 < self.ram <= MAX_RAM, f"ram must be 1..{MAX_RAM} bytes, not {self.ram}")
        if self.cluster is None and not 0 < self.stack <= self.ram:
            raise InputError(f"stack must be 1..{self.ram} bytes, the size of the ram, not {self.stack}")
        require(0 <= self.heap <= self.ram, f"heap must be 1..{self.ram} bytes, the size of the ram, not {self.heap}")
        require(self.jobs >= 1, f"jobs must be at least 1, not {self.jobs}")


def parse_size(text: str, what: str) -> int:
    """Return the bytes of ``4096``, ``0x1000``, ``64K`` or ``1M``; raises :class:`InputError`, which names ``what``."""
    unit = {"K": KIB, "M": MIB}.get(text[-1:].upper(), 1)
    try:
        size = int(text if unit == 1 else text[:-1], 0) * unit
    except ValueError:
        size = 0
    require(size > 0, f"{what} must be a number of bytes such as 65536, 64K or 1M, not {text}")
    return size


def link_script(options: Options) -> str:
    places = {"text": f"0x{TEXT_BASE:X}", "data": f"0x{DATA_BASE:X}", "ram": options.ram}
    if options.cluster is None:
        name, sizes = "link.ld", {"stack": options.stack, "rom": options.rom}
    else:
        name, sizes = "link_cluster.ld", asdict(options.cluster)
    return Template((RUNTIME / name).read_text()).substitute(places | sizes)
