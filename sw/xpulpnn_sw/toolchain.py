"""C and assembly to ELF programs for the core, with compilers anybody has: Debian's RISC-V GCC or the ziglang wheel.

The compilers know RV32IMC only. Everything beyond is in the generated header ``xpulpnn.h``, which is on the include
path of every build together with the headers of the small C library in ``runtime``.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from string import Template

from xpulpnn.config import PRESETS, CoreConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn.isa.machine import DATA_BASE, TEXT_BASE
from xpulpnn_sw.cheaders.generate import headers
from xpulpnn_sw.looppass.optimise import Report, has_volatile, optimise

RUNTIME = Path(__file__).parent / "runtime"
RUNTIME_SOURCES = ("crt0.S", "runtime.c")
SOURCE_SUFFIXES = (".c", ".S", ".s", ".o")

KIB, MIB = 1 << 10, 1 << 20
DEFAULT_STACK, DEFAULT_RAM, DEFAULT_ROM = 64 * KIB, 4 * MIB, 4 * MIB
MAX_RAM = 0x0C00_0000
"""Bytes between the data and the code of the memory map."""

COMPILERS = ("gcc", "zig")
INSTALL_HINT = "apt-get install gcc-riscv64-unknown-elf, or pip install ziglang"

_GCC_NAMES = ("riscv64-unknown-elf-gcc", "riscv32-unknown-elf-gcc")
_TARGETS: Mapping[str, tuple[str, ...]] = {
    # the older ISA specification counts csr and fence.i instructions to RV32I and has the libgcc for rv32imc
    "gcc": ("-march=rv32imc", "-misa-spec=2.2", "-mabi=ilp32"),
    "zig": ("-target", "riscv32-freestanding", "-mcpu=generic_rv32+m+c"),
}
_COMMON = (
    "-g",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-pic",
    "-fno-stack-protector",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    # public PULP sources assign vectors of the same size to each other
    "-flax-vector-conversions",
)
_COMPILING: Mapping[str, tuple[str, ...]] = {
    "gcc": (f"-isystem{RUNTIME / 'include_gcc'}",),
    # zig compiles as for a debug build; a main that runs off its end returns 0 in hosted mode only;
    # and clang takes for errors what GCC and the public PULP sources take for warnings
    "zig": (
        "-fno-sanitize=all",
        "-fhosted",
        "-fomit-frame-pointer",
        "-UNDEBUG",
        "-Wno-error=implicit-function-declaration",
        "-Wno-error=incompatible-pointer-types",
        "-Wno-error=int-conversion",
        "-Wno-error=return-mismatch",
    ),
}
_LINKING: Mapping[str, tuple[str, ...]] = {
    "gcc": (
        "-nostdlib",
        "-nostartfiles",
        "-Wl,--gc-sections",
        "-Wl,-z,max-page-size=4096",
    ),
    "zig": ("-static", "-Wl,--gc-sections"),
}
_LIBRARIES: Mapping[str, tuple[str, ...]] = {"gcc": ("-lgcc",), "zig": ()}
_RUNTIME_FLAGS: Mapping[str, tuple[str, ...]] = {
    # memcpy must not be compiled to a call of memcpy
    "gcc": ("-O2", "-fno-builtin", "-fno-tree-loop-distribute-patterns"),
    "zig": ("-O2", "-fno-builtin"),
}

_NOISE = "zig: warning: argument unused during compilation: '-c'"
"""What zig says of its own options when a source has errors."""


class CompileError(ToolError):
    """The compiler or linker refused a program.

    Members
    -------
    messages : str
        What it printed.
    """

    def __init__(self, messages: str) -> None:
        """Keep the compiler's own words."""
        super().__init__(messages)
        self.messages = messages


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that is installed.

    Parameters
    ----------
    kind : str
        ``gcc`` or ``zig``.
    command : tuple of str
        How it is called.
    """

    kind: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a program is compiled and where it lies.

    Parameters
    ----------
    config : CoreConfig
        The core it is for: its header declares only what this core has.
    opt : str
        Optimisation level, such as ``-O2``.
    include : tuple of Path
        Folders of header files.
    define : tuple of str
        Macros, ``NAME`` or ``NAME=VALUE``.
    extra : tuple of str
        Further options for compiling.
    stack, ram, rom : int
        Bytes of the stack, of everything in the data region, of everything in the code region.
    loop_pass : bool
        Turn loops and accesses of C code into hardware loops and post-increment accesses, on a core with XpulpV2.
    report : Report or None
        Collects what that did.
    """

    config: CoreConfig = field(default_factory=lambda: PRESETS["xpulpnn"])
    opt: str = "-O2"
    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    stack: int = DEFAULT_STACK
    ram: int = DEFAULT_RAM
    rom: int = DEFAULT_ROM
    loop_pass: bool = True
    report: Report | None = None

    def __post_init__(self) -> None:
        if not 0 < self.ram <= MAX_RAM:
            raise InputError(f"ram must be 1..{MAX_RAM} bytes, not {self.ram}")
        if not 0 < self.stack <= self.ram:
            raise InputError(f"stack must be 1..{self.ram} bytes, the size of the ram, not {self.stack}")


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


def _find_gcc() -> Compiler | None:
    place = next((found for name in _GCC_NAMES if (found := shutil.which(name))), None)
    return None if place is None else Compiler("gcc", (place,))


def _find_zig() -> Compiler | None:
    if util.find_spec("ziglang") is not None:
        return Compiler("zig", (sys.executable, "-m", "ziglang", "cc"))
    place = shutil.which("zig")
    return None if place is None else Compiler("zig", (place, "cc"))


def find(kind: str | None = None) -> Compiler:
    """The compiler called ``kind``, or the first that is installed; raises :class:`ToolError` with what to install."""
    if kind is not None and kind not in COMPILERS:
        raise InputError(f"compiler must be one of {', '.join(COMPILERS)}, not {kind}")
    finders = {"gcc": _find_gcc, "zig": _find_zig}
    for name in COMPILERS if kind is None else (kind,):
        compiler = finders[name]()
        if compiler is not None:
            return compiler
    raise ToolError(f"{kind or 'C compiler'} must be installed ({INSTALL_HINT}), not missing")


def check_sources(sources: Iterable[Path]) -> None:
    """Raise :class:`InputError` unless every source is a readable file of a known kind."""
    for path in sources:
        if path.suffix not in SOURCE_SUFFIXES:
            raise InputError(f"source must end in one of {', '.join(SOURCE_SUFFIXES)}, not {path}")
        if not path.is_file():
            raise InputError(f"source must be an existing file, not {path}")


def target_flags(kind: str) -> tuple[str, ...]:
    """What tells a compiler of this kind the target and how its code is linked."""
    return (*_TARGETS[kind], *_COMMON, *_COMPILING[kind])


def _run(command: Sequence[str]) -> str:
    """What the compiler printed; raises :class:`CompileError` if it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise ToolError(f"{command[0]} must be executable, not failing with: {error.strerror}") from None
    lines = (done.stdout + done.stderr).splitlines(keepends=True)
    printed = "".join(line for line in lines if not line.startswith(_NOISE))
    if done.returncode:
        raise CompileError(printed)
    return printed


@dataclass(frozen=True, slots=True)
class _Build:
    """One run of a compiler over several files."""

    compiler: Compiler
    options: Options
    folder: Path

    def _flags(self) -> list[str]:
        kind = self.compiler.kind
        headers = [f"-isystem{self.folder / 'include'}", f"-isystem{RUNTIME / 'include'}"]
        return [*self.compiler.command, *target_flags(kind), *headers]

    def _compile(self, source: Path, output: Path, step: str, flags: Iterable[str]) -> str:
        return _run([*self._flags(), *flags, step, str(source), "-o", str(output)])

    def compile(self, source: Path, output: Path, step: str = "-c") -> str:
        """Compile a file of the user; returns the warnings."""
        options = self.options
        include = [f"-I{path}" for path in options.include]
        define = [f"-D{name}" for name in options.define]
        flags = [options.opt, *include, *define, *options.extra]
        if source.suffix != ".c" or not options.loop_pass or not options.config.xpulpv2:
            return self._compile(source, output, step, flags)
        assembly = output if step == "-S" else output.with_suffix(".s")
        printed = self._compile(source, assembly, "-S", flags)
        # without -o the text comes on the standard output, after warnings that have been printed already
        preprocessed = _run([*self._flags(), *flags, "-w", "-E", str(source)])
        text = assembly.read_text()
        swap_loads = not has_volatile(preprocessed)
        assembly.write_text(optimise(text, options.config, swap_loads=swap_loads, report=options.report))
        if step == "-S":
            return printed
        command = [*self.compiler.command, *_TARGETS[self.compiler.kind], "-c", str(assembly), "-o", str(output)]
        return printed + _run(command)

    def runtime(self) -> list[Path]:
        """The compiled runtime."""
        objects = [self.folder / f"runtime.{name}.o" for name in RUNTIME_SOURCES]
        for name, output in zip(RUNTIME_SOURCES, objects, strict=True):
            self._compile(RUNTIME / name, output, "-c", _RUNTIME_FLAGS[self.compiler.kind])
        return objects

    def link(self, objects: Iterable[Path], output: Path) -> str:
        """Link to an ELF file, which appears complete or not at all."""
        kind, options = self.compiler.kind, self.options
        script, program = self.folder / "link.ld", self.folder / "program.elf"
        sizes = {"stack": options.stack, "ram": options.ram, "rom": options.rom}
        memory_map = sizes | {"text": f"0x{TEXT_BASE:X}", "data": f"0x{DATA_BASE:X}"}
        script.write_text(Template((RUNTIME / "link.ld").read_text()).substitute(memory_map))
        command = [*self.compiler.command, *_TARGETS[kind], *_LINKING[kind], "-T", str(script)]
        printed = _run([*command, *map(str, objects), *_LIBRARIES[kind], "-o", str(program)])
        temporary = output.with_name(f".{output.name}.new")
        shutil.copyfile(program, temporary)
        temporary.chmod(0o755)
        temporary.replace(output)
        return printed


def build(
    sources: Sequence[Path],
    output: Path,
    *,
    compiler: str | None = None,
    options: Options | None = None,
) -> str:
    """Compile and link ``sources`` to the ELF file ``output``; returns what the compiler said, mostly nothing.

    Raises :class:`CompileError` for errors in the sources, :class:`ToolError` for a missing compiler and
    :class:`InputError` for sources that are no files.
    """
    found, chosen = find(compiler), options or Options()
    check_sources(sources)
    with tempfile.TemporaryDirectory(prefix="xpulpnn-cc-") as name:
        work = _Build(found, chosen, Path(name))
        write_headers(work.folder / "include", chosen.config)
        printed: list[str] = []
        objects: list[Path] = []
        for number, source in enumerate(sources):
            if source.suffix == ".o":
                objects.append(source)
                continue
            objects.append(work.folder / f"{number}.{source.stem}.o")
            printed.append(work.compile(source, objects[-1]))
        return "".join([*printed, work.link([*work.runtime(), *objects], output)])


def compile_to_assembly(
    source: Path,
    output: Path,
    *,
    compiler: str | None = None,
    options: Options | None = None,
) -> str:
    """Compile one C file to assembly text; otherwise as :func:`build`."""
    found, chosen = find(compiler), options or Options()
    check_sources([source])
    with tempfile.TemporaryDirectory(prefix="xpulpnn-cc-") as name:
        work = _Build(found, chosen, Path(name))
        write_headers(work.folder / "include", chosen.config)
        return work.compile(source, output, "-S")


def write_headers(folder: Path, config: CoreConfig) -> list[Path]:
    """Write the headers generated for ``config`` into ``folder``, made if it does not exist; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, text in headers(config).items():
        paths.append(folder / name)
        paths[-1].write_text(text)
    return paths
