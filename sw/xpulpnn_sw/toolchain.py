"""C and assembly to ELF programs for the core, with compilers anybody has: Debian's RISC-V GCC or the ziglang wheel.

The compilers know RV32IMC only. Everything beyond is in the generated header ``xpulpnn.h``, which is on the include
path of every build together with the headers of the small C library in ``runtime``; and the assembly text between
compiler and assembler is translated, so that inline assembly and sources in assembly may use all mnemonics.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from string import Template

from xpulpnn.config import PRESETS, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.machine import DATA_BASE, TEXT_BASE
from xpulpnn_sw.cheaders.generate import headers
from xpulpnn_sw.compilers import (
    LIBRARIES,
    LINKING,
    RUNTIME,
    TARGETS,
    TO_ASSEMBLY,
    CompileError,
    Compiler,
    find,
    run,
    target_flags,
)
from xpulpnn_sw.core_note import core_name, core_note
from xpulpnn_sw.looppass.optimise import Report, has_volatile, optimise
from xpulpnn_sw.source_places import SourcePlaces
from xpulpnn_sw.stock_assembly import translate

START_FILE, LIBRARY = "crt0.S", "runtime.c"
OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "malloc.c": ("malloc", "calloc", "realloc", "free"),
    "math.c": tuple(re.findall(r"^(?:double|float) (\w+)\(", (RUNTIME / "include/math.h").read_text(), re.MULTILINE)),
    "setjmp.S": ("setjmp", "longjmp"),
}
"""Parts of the runtime that are compiled where something of them is named."""

C_SUFFIXES, ASSEMBLY_SUFFIXES, LINKED_SUFFIXES = (".c",), (".S", ".s"), (".o", ".a")
SOURCE_SUFFIXES = (*C_SUFFIXES, *ASSEMBLY_SUFFIXES, *LINKED_SUFFIXES)

KIB, MIB = 1 << 10, 1 << 20
DEFAULT_STACK, DEFAULT_RAM, DEFAULT_ROM = 64 * KIB, 4 * MIB, 4 * MIB
_HEAP_SHARE = 4
"""The heap is this part of the ram unless its size is given."""

MAX_RAM = 0x0C00_0000
"""Bytes between the data and the code of the memory map."""

# memcpy must not be compiled to a call of memcpy
_LIBRARY_FLAGS = {"gcc": ("-O2", "-fno-builtin", "-fno-tree-loop-distribute-patterns"), "zig": ("-O2", "-fno-builtin")}


_GLOBAL = re.compile(r"^\s*\.globl\s+([\w.$]+)", re.MULTILINE)


class Stage(StrEnum):
    """Where compiling stops."""

    PREPROCESSED = "-E"
    ASSEMBLY = "-S"
    OBJECT = "-c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a program is compiled and where it lies.

    Parameters
    ----------
    config : CoreConfig
        The core it is for: its header declares only what this core has.
    core : str
        What that core is called in messages; empty: after the preset it is.
    opt : str
        Optimisation level, such as ``-O2``.
    include : tuple of Path
        Folders of header files.
    define : tuple of str
        Macros, ``NAME`` or ``NAME=VALUE``.
    extra : tuple of str
        Further options for compiling.
    linking : tuple of str
        Further options for linking: libraries and their folders.
    start_files : bool
        Whether the program starts with the runtime's crt0.
    script : Path or None
        Linker script instead of the runtime's.
    stack, ram, rom : int
        Bytes of the stack, of everything in the data region, of everything in the code region.
    heap : int
        Bytes for malloc where the program calls it; 0: a quarter of the ram.
    loop_pass : bool
        Turn loops and accesses of C code into hardware loops and post-increment accesses, on a core with XpulpV2.
    report : Report or None
        Collects what that did.
    jobs : int
        Compilers at a time.
    """

    config: CoreConfig = field(default_factory=lambda: PRESETS["xpulpnn"])
    core: str = ""
    opt: str = "-O2"
    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    linking: tuple[str, ...] = ()
    start_files: bool = True
    script: Path | None = None
    stack: int = DEFAULT_STACK
    ram: int = DEFAULT_RAM
    rom: int = DEFAULT_ROM
    heap: int = 0
    loop_pass: bool = True
    report: Report | None = None
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)

    def __post_init__(self) -> None:
        if not 0 < self.ram <= MAX_RAM:
            raise InputError(f"ram must be 1..{MAX_RAM} bytes, not {self.ram}")
        if not 0 < self.stack <= self.ram:
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


def check_sources(sources: Iterable[Path]) -> None:
    """Raise :class:`InputError` unless every source is a readable file of a known kind."""
    for path in sources:
        if path.suffix not in SOURCE_SUFFIXES:
            raise InputError(f"source must end in one of {', '.join(SOURCE_SUFFIXES)}, not {path}")
        if not path.is_file():
            raise InputError(f"source must be an existing file, not {path}")


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

    def _chosen(self) -> list[str]:
        """The options of the user for compiling."""
        options = self.options
        include = [f"-I{path}" for path in options.include]
        define = [f"-D{name}" for name in options.define]
        return [options.opt, *include, *define, *options.extra]

    def compile(self, source: Path, output: Path, stage: Stage, place: Path | None = None) -> str:
        """Compile a file of the user up to a stage, to be put to ``place`` in the end; returns the warnings."""
        chosen = self._chosen()
        if stage is Stage.PREPROCESSED:
            return run([*self._flags(), *chosen, "-E", str(source), "-o", str(output)])
        if place is not None and not {"-MMD", "-MD"}.isdisjoint(chosen):
            chosen += [] if "-MF" in chosen else ["-MF", str(place.with_suffix(".d"))]
            chosen += [] if "-MT" in chosen else ["-MT", str(place)]
        text, printed = self._assembly(source, output, chosen)
        if source.suffix in C_SUFFIXES and self.options.loop_pass and self.options.config.xpulpv2:
            text = self._optimised(text, source)
        if stage is Stage.ASSEMBLY:
            _write(output, text)
            return printed
        return printed + self._assemble(text, source, output)

    def _assembly(self, source: Path, output: Path, flags: Iterable[str]) -> tuple[str, str]:
        """Assembly text of a source, which may use all mnemonics, and what the compiler said."""
        if source.suffix == ".s":
            return f'# 1 "{source}"\n{_read(source)}', ""
        step = TO_ASSEMBLY[self.compiler.kind] if source.suffix in C_SUFFIXES else ("-E",)
        written = self._beside(output, ".txt")
        chosen, dependencies = _without_dependencies(flags)
        command = [*self._flags(), *chosen, *step, str(source), "-o", str(written)]
        if dependencies and self.compiler.kind == "zig":
            # which writes either these or the text
            run([*command, *dependencies])
            dependencies = []
        printed = run([*command, *dependencies])
        return _read(written), printed

    def _optimised(self, text: str, source: Path) -> str:
        """The assembly text of a C source with hardware loops and post-increment accesses."""
        # without -o the text comes on the standard output, after warnings that have been printed already
        preprocessed = run([*self._flags(), *self._chosen(), "-w", "-E", str(source)])
        options = self.options
        return optimise(text, options.config, swap_loads=not has_volatile(preprocessed), report=options.report)

    def _assemble(self, text: str, source: Path, output: Path) -> str:
        """Assemble text that may use all mnemonics; returns the warnings."""
        translated, problems = translate(text, self.options.config)
        places = SourcePlaces(text, source)
        if problems:
            raise CompileError("".join(f"{places.of(item.line)}: error: {item.text}\n" for item in problems))
        written = self._beside(output, ".s")
        config = self.options.config
        _write(written, translated + core_note(config, self.options.core or core_name(config)))
        command = [*self.compiler.command, *TARGETS[self.compiler.kind], "-c", str(written), "-o", str(output)]
        try:
            return places.in_messages(run(command), written)
        except CompileError as error:
            raise CompileError(places.in_messages(error.messages, written)) from None

    def _beside(self, output: Path, suffix: str) -> Path:
        """A file of our own for a step toward ``output``."""
        output.parent.mkdir(exist_ok=True)
        return output.with_name(f"{output.name}{suffix}")

    def runtime_object(self, name: str) -> Path:
        """Where a part of the runtime is compiled to."""
        return self.folder / f"runtime.{name}.o"

    def start(self) -> str:
        """Compile the start-up code."""
        source, output = RUNTIME / START_FILE, self.runtime_object(START_FILE)
        return self._assemble(self._assembly(source, output, ())[0], source, output)

    def library(self, name: str) -> str:
        """Compile a part of the runtime. Its symbols are weak, so that a program may define them itself."""
        source, output = RUNTIME / name, self.runtime_object(name)
        heap = self.options.heap or self.options.ram // _HEAP_SHARE
        flags = (*_LIBRARY_FLAGS[self.compiler.kind], f"-DXP_HEAP_SIZE={heap}")
        text, _ = self._assembly(source, output, flags)
        defined = set(re.findall(r"^([\w.$]+):", text, re.MULTILINE))
        weak = _GLOBAL.sub(lambda match: f"\t.weak\t{match[1]}" if match[1] in defined else match[0], text)
        return self._assemble(weak, source, output)

    def link(self, objects: Iterable[Path], output: Path) -> str:
        """Link to an ELF file, which appears complete or not at all."""
        kind, options = self.compiler.kind, self.options
        script, program = options.script, self.folder / "program.elf"
        if script is None:
            script = self.folder / "link.ld"
            script.write_text(link_script(options))
        command = [*self.compiler.command, *TARGETS[kind], *LINKING[kind], "-T", str(script)]
        libraries = ["-Wl,--start-group", *options.linking, "-Wl,--end-group"] if options.linking else []
        printed = run([*command, *map(str, objects), *libraries, *LIBRARIES[kind], "-o", str(program)])
        _put(program, output)
        output.chmod(0o755)
        return printed

    def archive(self, objects: Iterable[Path], output: Path) -> str:
        """Put objects into a library."""
        library = self.folder / "library.a"
        printed = run([*self.compiler.archiver, "qcs", str(library), *map(str, objects)])
        _put(library, output)
        return printed

    def each(self, tasks: Sequence[Callable[[], str]]) -> str:
        """Do tasks at a time; returns what they printed, in order. Raises the errors of all of them together."""

        def attempt(task: Callable[[], str]) -> tuple[str, bool]:
            try:
                return task(), False
            except CompileError as error:
                return error.messages, True

        with ThreadPoolExecutor(self.options.jobs) as pool:
            done = list(pool.map(attempt, tasks))
        printed = "".join(text for text, _failed in done)
        if any(failed for _text, failed in done):
            raise CompileError(printed)
        return printed


def _without_dependencies(flags: Iterable[str]) -> tuple[list[str], list[str]]:
    """The options without and with what they say of dependency files."""
    others: list[str] = []
    dependencies: list[str] = []
    words = iter(flags)
    for word in words:
        if word in ("-MMD", "-MD", "-MP"):
            dependencies.append(word)
        elif word in ("-MF", "-MT"):
            dependencies += [word, next(words, "")]
        else:
            others.append(word)
    return others, dependencies


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    temporary.replace(path)


def _put(built: Path, output: Path) -> None:
    """Move a built file to its place, where it appears complete or not at all."""
    temporary = output.with_name(f".{output.name}.new")
    shutil.copyfile(built, temporary)
    temporary.replace(output)


@contextmanager
def _working(compiler: str | None, options: Options) -> Generator[_Build]:
    found = find(compiler)
    with tempfile.TemporaryDirectory(prefix="xpulpnn-cc-") as name:
        work = _Build(found, options, Path(name))
        write_headers(work.folder / "include", options.config)
        yield work


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
    check_sources(sources)
    with _working(compiler, options or Options()) as work:
        objects: list[Path] = []
        tasks = [*_compiling(work, sources, objects), lambda: work.library(LIBRARY)]
        runtime = [work.runtime_object(LIBRARY)]
        if work.options.start_files:
            tasks.append(work.start)
            runtime.append(work.runtime_object(START_FILE))
        printed = work.each(tasks)
        parts = [part for part, names in OPTIONAL.items() if work.options.linking or _any_named(objects, names)]
        printed += work.each([lambda part=part: work.library(part) for part in parts])
        return printed + work.link([*runtime, *objects, *map(work.runtime_object, parts)], output)


def _any_named(objects: Iterable[Path], names: Iterable[str]) -> bool:
    """Whether a string of an object ends in one of the names: its symbols are among them."""
    ends = [f"{name}\0".encode() for name in names]
    contents = (path.read_bytes() for path in objects)
    return any(end in content for content in contents for end in ends)


def _compiling(work: _Build, sources: Sequence[Path], objects: list[Path]) -> list[Callable[[], str]]:
    """Tasks that compile the sources; adds what is to be linked to ``objects``."""
    tasks: list[Callable[[], str]] = []
    for number, source in enumerate(sources):
        if source.suffix in LINKED_SUFFIXES:
            objects.append(source)
            continue
        target = work.folder / str(number) / f"{source.stem}.o"
        objects.append(target)
        tasks.append(lambda source=source, target=target: work.compile(source, target, Stage.OBJECT))
    return tasks


def archive(
    sources: Sequence[Path], output: Path, *, compiler: str | None = None, options: Options | None = None
) -> str:
    """Compile ``sources`` into the library ``output``; otherwise as :func:`build`."""
    check_sources(sources)
    with _working(compiler, options or Options()) as work:
        objects: list[Path] = []
        printed = work.each(_compiling(work, sources, objects))
        return printed + work.archive(objects, output)


def compile_sources(
    files: Sequence[tuple[Path, Path]],
    stage: Stage,
    *,
    compiler: str | None = None,
    options: Options | None = None,
) -> str:
    """Compile each first file of ``files`` to the second one, up to a stage; otherwise as :func:`build`."""
    check_sources(source for source, _output in files)
    with _working(compiler, options or Options()) as work:

        def task(number: int, source: Path, output: Path) -> str:
            built = work.folder / str(number) / f"{source.stem}{output.suffix}"
            built.parent.mkdir()
            printed = work.compile(source, built, stage, output)
            _put(built, output)
            return printed

        return work.each(
            [lambda n=number, s=source, o=output: task(n, s, o) for number, (source, output) in enumerate(files)]
        )


def link_script(options: Options) -> str:
    """The linker script of the runtime."""
    sizes = {"stack": options.stack, "ram": options.ram, "rom": options.rom}
    memory_map = sizes | {"text": f"0x{TEXT_BASE:X}", "data": f"0x{DATA_BASE:X}"}
    return Template((RUNTIME / "link.ld").read_text()).substitute(memory_map)


def write_headers(folder: Path, config: CoreConfig) -> list[Path]:
    """Write the headers generated for ``config`` into ``folder``, made if it does not exist; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, text in headers(config).items():
        paths.append(folder / name)
        paths[-1].write_text(text)
    return paths
