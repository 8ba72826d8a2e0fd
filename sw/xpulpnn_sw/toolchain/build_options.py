"""Options of compiling, and the memory map of a program for a core or a cluster."""

import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from string import Template

from xpulpnn.config import PRESETS, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import MAX_CORES
from xpulpnn.isa.machine import DATA_BASE, TEXT_BASE
from xpulpnn_sw.assembly.looppass.optimise import PassReport
from xpulpnn_sw.toolchain.compilers import RUNTIME

DEFAULT_CORES, DEFAULT_TCDM = 8, 128 << 10
DEFAULT_MASTER_STACK, DEFAULT_CORE_STACK = 0x800, 0x400
STACK_ALIGNMENT = 16
MAX_TCDM = 1 << 20  # bytes between the TCDM and its test&set view


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """The cores a program is for, and their TCDM, at whose start the stacks are."""

    cores: int = DEFAULT_CORES  # 1 to 16
    tcdm: int = DEFAULT_TCDM
    stack: int = DEFAULT_MASTER_STACK  # bytes of the stack of core 0, a multiple of 16
    core_stack: int = DEFAULT_CORE_STACK  # bytes of the stack of each other core, a multiple of 16

    def __post_init__(self) -> None:
        if not 1 <= self.cores <= MAX_CORES:
            raise InputError(f"cores must be 1 to {MAX_CORES}, not {self.cores}")
        if not 0 < self.tcdm <= MAX_TCDM or self.tcdm.bit_count() != 1:
            raise InputError(f"TCDM must be a power of two up to {MAX_TCDM} bytes, not {self.tcdm}")
        for name, size in (("stack", self.stack), ("core stack", self.core_stack)):
            if size <= 0 or size % STACK_ALIGNMENT:
                raise InputError(f"{name} must be a multiple of {STACK_ALIGNMENT} bytes, not {size}")
        stacks = self.stack + (self.cores - 1) * self.core_stack
        if stacks > self.tcdm:
            raise InputError(f"stacks must be at most {self.tcdm} bytes together, the size of the TCDM, not {stacks}")


KIB, MIB = 1 << 10, 1 << 20
DEFAULT_STACK, DEFAULT_RAM, DEFAULT_ROM = 64 * KIB, 4 * MIB, 4 * MIB
HEAP_SHARE = 4  # the heap is this part of the ram unless its size is given
MAX_RAM = 0x0C00_0000  # bytes between the data and the code of the memory map


class BuildStage(StrEnum):
    """Step at which compiling stops."""

    PREPROCESSED = "-E"
    ASSEMBLY = "-S"
    OBJECT = "-c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of compiling, and sizes of the memory map."""

    # the core it is for: its header declares only what this core has
    config: CoreConfig = field(default_factory=lambda: PRESETS["xpulpnn"])
    core: str = ""  # what that core is called in messages; empty: after the preset it is
    opt: str = "-O2"  # optimisation level, such as `-O2`
    include: tuple[Path, ...] = ()  # folders of header files
    define: tuple[str, ...] = ()  # Macros, `NAME` or `NAME=VALUE`
    extra: tuple[str, ...] = ()  # further options for compiling
    linking: tuple[str, ...] = ()  # further options for linking: libraries and their folders
    start_files: bool = True  # whether the program starts with the runtime's crt0
    script: Path | None = None  # linker script instead of the runtime's
    stack: int = DEFAULT_STACK  # bytes of the stack
    ram: int = DEFAULT_RAM  # bytes of everything in the data region
    rom: int = DEFAULT_ROM  # bytes of everything in the code region
    heap: int = 0  # bytes for malloc where the program calls it; 0: a quarter of the ram
    # the program is for the cores of a cluster, its stacks are there, and the ram is the L2; None: for one core
    cluster: ClusterLayout | None = None
    # turn loops and accesses of C code into hardware loops and post-increment accesses, on a core with XpulpV2
    loop_pass: bool = True
    report: PassReport | None = None  # collects what that did
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)  # compilers at a time

    def __post_init__(self) -> None:
        if not 0 < self.ram <= MAX_RAM:
            raise InputError(f"ram must be 1..{MAX_RAM} bytes, not {self.ram}")
        if self.cluster is None and not 0 < self.stack <= self.ram:
            raise InputError(f"stack must be 1..{self.ram} bytes, the size of the ram, not {self.stack}")
        if not 0 <= self.heap <= self.ram:
            raise InputError(f"heap must be 1..{self.ram} bytes, the size of the ram, not {self.heap}")
        if self.jobs < 1:
            raise InputError(f"jobs must be at least 1, not {self.jobs}")


def parse_size(text: str, what: str) -> int:
    """Bytes of ``4096``, ``0x1000``, ``64K`` or ``1M``; raises :class:`InputError` naming ``what``."""
    unit = {"K": KIB, "M": MIB}.get(text[-1:].upper(), 1)
    try:
        size = int(text if unit == 1 else text[:-1], 0) * unit
    except ValueError:
        size = 0
    if size <= 0:
        raise InputError(f"{what} must be a number of bytes such as 65536, 64K or 1M, not {text}")
    return size


def link_script(options: Options) -> str:
    """The linker script of the runtime."""
    places = {"text": f"0x{TEXT_BASE:X}", "data": f"0x{DATA_BASE:X}", "ram": options.ram}
    if options.cluster is None:
        return _script("link.ld", places | {"stack": options.stack, "rom": options.rom})
    cluster = options.cluster
    sizes = {"tcdm": cluster.tcdm, "stack": cluster.stack, "core_stack": cluster.core_stack, "cores": cluster.cores}
    return _script("link_cluster.ld", places | sizes)


def _script(name: str, values: dict[str, int | str]) -> str:
    return Template((RUNTIME / name).read_text()).substitute(values)
