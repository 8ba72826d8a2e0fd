"""Builds C and assembly sources to ELF programs, with stock compilers: Debian's RISC-V GCC or the ziglang wheel.

The compilers know RV32IMC only. Other instructions come from the generated header ``xpulpnn.h``, which is on the
include path with the headers of the runtime and of the C library. Assembly text is translated between compiler and
assembler, so that inline assembly and assembly sources can use all mnemonics.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template

from xpulpnn.config import CoreConfig
from xpulpnn.errors import require
from xpulpnn_sw.assembly.looppass.optimise import has_volatile, optimise
from xpulpnn_sw.toolchain.build_options import HEAP_SHARE, BuildStage, ClusterLayout, Options, core_note, link_script
from xpulpnn_sw.toolchain.compilers import (
    C_SUFFIXES,
    CONVERSIONS,
    CPP_SUFFIXES,
    LIBRARIES,
    LINKED_SUFFIXES,
    LINKING,
    RUNTIME,
    SOURCE_SUFFIXES,
    TARGETS,
    TO_ASSEMBLY,
    CompileError,
    Compiler,
    cpp_archives,
    cpp_flags,
    find_compiler,
    header_flags,
    library_archive,
    library_files,
    library_root,
    run,
    source_flags,
    target_flags,
)
from xpulpnn_sw.toolchain.headers.generate import headers
from xpulpnn_sw.toolchain.stack_use import check_stacks
from xpulpnn_sw.toolchain.stock_assembly import SourcePlaces, translate

START_FILE, RUNTIME_LIBRARY, _README = "crt0.S", "runtime.c", "README.txt"

_ATTRIBUTES = re.compile(r"^\s*\.attribute\b.*", re.MULTILINE)  # the assembler's options tell the instruction set
_PLACE = re.compile(r"^\s*(?:\.file\b|#).*", re.MULTILINE)  # names a source
_ESCAPED = re.compile(r"(?:\\[23][0-7]{2})+")  # bytes of letters beyond ASCII
_QUOTED_CALL = re.compile(r'^(\s*(?:call|tail)\s+)("[^"]+")', re.MULTILINE)
_LINE = re.compile(r"^\s*\.loc\s+(\d+) \d+ \d+", re.MULTILINE)
_GLOBAL = re.compile(r"^\s*\.globl\s+([\w.$]+)", re.MULTILINE)


def _check_sources(sources: Iterable[Path]) -> None:
    for path in sources:
        require(path.suffix in SOURCE_SUFFIXES, f"source must end in one of {', '.join(SOURCE_SUFFIXES)}, not {path}")
        require(path.is_file(), f"source must be an existing file, not {path}")


@dataclass(frozen=True, slots=True)
class _Build:
    compiler: Compiler
    options: Options
    folder: Path

    def _flags(self, source: Path) -> list[str]:
        kind = self.compiler.kind
        cpp = cpp_flags(self.compiler) if source.suffix in CPP_SUFFIXES else []
        headers = [f"-isystem{self.folder / 'include'}", f"-isystem{RUNTIME / 'include'}", *header_flags()]
        # the translation accepts mnemonics in macros of the headers
        return [*self.compiler.command, *target_flags(kind), "-DXP_MNEMONICS", *cpp, *headers]

    def _chosen(self) -> list[str]:
        options = self.options
        include = [f"-I{path}" for path in options.include]
        define = [f"-D{name}" for name in options.define]
        return [options.opt, *include, *define, *options.extra]

    def compile(self, source: Path, output: Path, stage: BuildStage, place: Path | None = None) -> str:
        """Compile a source up to a stage and return the warnings; ``place`` is the later path of ``output``."""
        chosen = self._chosen()
        if stage is BuildStage.PREPROCESSED:
            return run([*self._flags(source), *chosen, "-E", str(source), "-o", str(output)])
        if place is not None and not {"-MMD", "-MD"}.isdisjoint(chosen):
            chosen += [] if "-MF" in chosen else ["-MF", str(place.with_suffix(".d"))]
            chosen += [] if "-MT" in chosen else ["-MT", str(place)]
        text, printed = self._assembly(source, output, chosen)
        if source.suffix in C_SUFFIXES and self.options.loop_pass and self.options.config.xpulpv2:
            # without -o the text goes to standard output, after the warnings
            preprocessed = run([*self._flags(source), *self._chosen(), "-w", "-E", str(source)])
            swap_loads = not has_volatile(preprocessed)
            text = optimise(text, self.options.config, swap_loads=swap_loads, report=self.options.report)
        if stage is BuildStage.ASSEMBLY:
            _write(output, text)
            return printed
        return printed + self._assemble(text, source, output)

    def _assembly(self, source: Path, output: Path, flags: Iterable[str]) -> tuple[str, str]:
        """Return a source's assembly text before its translation for the stock assembler, and compiler messages."""
        if source.suffix == ".s":
            return f'# 1 "{source}"\n{_read(source)}', ""
        step = TO_ASSEMBLY[self.compiler.kind] if source.suffix in C_SUFFIXES else ("-E",)
        written = self._beside(output, ".txt")
        chosen, dependencies = _without_dependencies(flags)
        command = [*self._flags(source), *chosen, *step, str(source), "-o", str(written)]
        if dependencies and self.compiler.kind == "zig":
            run([*command, *dependencies])
            dependencies = []
        printed = run([*command, *dependencies])
        text = _PLACE.sub(lambda line: _ESCAPED.sub(_letters, line[0]), _read(written))
        return _at_uses(_ATTRIBUTES.sub("", text), self.folder), printed

    def _assemble(self, text: str, source: Path, output: Path) -> str:
        translated, problems = translate(text, self.options.config)
        places = SourcePlaces(text, source)
        if problems:
            raise CompileError("".join(f"{places.source_line(item.line)}: error: {item.text}\n" for item in problems))
        written = self._beside(output, ".s")
        options = self.options
        note = core_note(options.config, options.core, options.cluster)
        assembler = self.compiler.assembler
        _write(written, (_with_plain_calls(translated) if assembler.kind == "zig" else translated) + note)
        command = [*assembler.command, *TARGETS[assembler.kind], "-c", str(written), "-o", str(output)]
        try:
            return places.in_messages(run(command), written)
        except CompileError as error:
            raise CompileError(places.in_messages(error.messages, written)) from None

    def _beside(self, output: Path, suffix: str) -> Path:
        output.parent.mkdir(exist_ok=True)
        return output.with_name(f"{output.name}{suffix}")

    def runtime_object(self, name: str) -> Path:
        return self.folder / f"runtime.{name}.o"

    def start(self) -> str:
        source, output = RUNTIME / START_FILE, self.runtime_object(START_FILE)
        return self._assemble(self._assembly(source, output, ())[0], source, output)

    def library(self) -> str:
        """Compile the runtime. Its symbols are weak, so that a program may define them itself."""
        source, output = RUNTIME / RUNTIME_LIBRARY, self.runtime_object(RUNTIME_LIBRARY)
        heap = self.options.heap or self.options.ram // HEAP_SHARE
        flags = ("-O2", "-fno-builtin", f"-DXP_HEAP_SIZE={heap}")
        text, _ = self._assembly(source, output, flags)
        defined = set(re.findall(r"^([\w.$]+):", text, re.MULTILINE))
        weak = _GLOBAL.sub(lambda match: f"\t.weak\t{match[1]}" if match[1] in defined else match[0], text)
        return self._assemble(weak, source, output)

    def link(self, objects: Iterable[Path], output: Path) -> str:
        """Link to an ELF file; if linking fails, no incomplete file is left."""
        linker, options = self.compiler.assembler, self.options
        script, program = options.script, self.folder / "program.elf"
        if script is None:
            script = self.folder / "link.ld"
            script.write_text(link_script(options))
        command = [*linker.command, *TARGETS[linker.kind], *LINKING[linker.kind], "-T", str(script)]
        inputs = list(objects)
        archives = [*cpp_archives(self.compiler, inputs, options.jobs), library_archive(linker, options.jobs)]
        libraries = [*options.linking, *map(str, archives), *LIBRARIES[linker.kind]]
        libraries = ["-Wl,--start-group", *libraries, "-Wl,--end-group"]
        printed = run([*command, *map(str, inputs), *libraries, "-o", str(program)])
        if options.script is None:
            check_stacks(program.read_bytes(), options)
        _put(program, output)
        return printed

    def archive(self, objects: Iterable[Path], output: Path) -> str:
        library = self.folder / "library.a"
        printed = run([*self.compiler.archiver, "qcs", str(library), *map(str, objects)])
        _put(library, output)
        return printed

    def run_all(self, tasks: Sequence[Callable[[], str]]) -> str:
        """Run tasks in parallel and return their output in order; if some fail, raise one error with all messages."""

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


def _at_uses(text: str, folder: Path) -> str:
    """Give the code of headers in ``folder`` the source lines where it is used."""
    headers, line = set(re.findall(rf"\.file\s+(\d+) .*{re.escape(str(folder))}", text)), ""

    def used(match: re.Match[str]) -> str:
        nonlocal line
        line = match[0] if match[1] not in headers or not line else line
        return line

    return _LINE.sub(used, text)


def _without_dependencies(flags: Iterable[str]) -> tuple[list[str], list[str]]:
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


def _letters(escaped: re.Match[str]) -> str:
    return bytes(int(code, 8) for code in escaped[0].split("\\")[1:]).decode(errors="surrogateescape")


def _with_plain_calls(text: str) -> str:
    """Give functions with quoted names, such as those with umlauts, others: LLVM's assembler calls no quoted ones."""
    named = partial(re.compile(r"[^A-Za-z0-9]").sub, lambda letter: f"_{ord(letter[0])}_")
    return _QUOTED_CALL.sub(lambda call: f"\t.set .L{named(call[2])}, {call[2]};{call[1]}.L{named(call[2])}", text)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    temporary.replace(path)


def _put(built: Path, output: Path) -> None:
    temporary = output.with_name(f".{output.name}.new")
    try:
        if output.exists() and not output.is_file():  # /dev/null and other devices stay what they are
            output.write_bytes(built.read_bytes())
            return
        shutil.copy(built, temporary)
        temporary.replace(output)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(output)) from None


@contextmanager
def _working(compiler: str | None, given: Options | None) -> Generator[_Build]:
    located, options = find_compiler(compiler), given or Options()
    with tempfile.TemporaryDirectory(prefix="xpulpnn-cc-") as name:
        work = _Build(located, options, Path(name))
        write_headers(work.folder / "include", options.config, options.cluster)
        yield work


def build(sources: Sequence[Path], output: Path, *, compiler: str | None = None, options: Options | None = None) -> str:
    """Compile and link ``sources`` to the ELF file ``output``; returns the messages of the compiler.

    Raises :class:`CompileError` for errors in the sources, :class:`ToolError` for a missing compiler and
    :class:`InputError` for missing sources and stacks that are too small.
    """
    _check_sources(sources)
    with _working(compiler, options) as work:
        objects, compiling = _compiling(work, sources)
        tasks, runtime = [*compiling, work.library], [work.runtime_object(RUNTIME_LIBRARY)]
        if work.options.start_files:
            tasks.append(work.start)
            runtime.append(work.runtime_object(START_FILE))
        printed = work.run_all(tasks)
        try:
            return printed + work.link([*runtime, *objects], output)
        except CompileError as error:
            raise CompileError(printed + error.messages) from None


def _compiling(work: _Build, sources: Sequence[Path]) -> tuple[list[Path], list[Callable[[], str]]]:
    objects = [
        source if source.suffix in LINKED_SUFFIXES else work.folder / str(number) / f"{source.stem}.o"
        for number, source in enumerate(sources)
    ]
    pairs = [pair for pair in zip(sources, objects, strict=True) if pair[0] not in objects]
    return objects, [partial(work.compile, source, target, BuildStage.OBJECT) for source, target in pairs]


def archive(
    sources: Sequence[Path], output: Path, *, compiler: str | None = None, options: Options | None = None
) -> str:
    """Compile ``sources`` into the static library ``output``; other arguments and errors are those of :func:`build`."""
    _check_sources(sources)
    with _working(compiler, options) as work:
        objects, tasks = _compiling(work, sources)
        return work.run_all(tasks) + work.archive(objects, output)


def compile_sources(
    files: Sequence[tuple[Path, Path]],
    stage: BuildStage,
    *,
    compiler: str | None = None,
    options: Options | None = None,
) -> str:
    """Compile ``files``, pairs of source and output path, up to a stage; errors are those of :func:`build`."""
    _check_sources(source for source, _output in files)
    with _working(compiler, options) as work:

        def task(number: int, source: Path, output: Path) -> str:
            built = work.folder / str(number) / f"{source.stem}{output.suffix}"
            built.parent.mkdir()
            printed = work.compile(source, built, stage, output)
            _put(built, output)
            return printed

        return work.run_all([partial(task, number, *pair) for number, pair in enumerate(files)])


def write_headers(folder: Path, config: CoreConfig, cluster: ClusterLayout | None = None) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, text in headers(config, cluster).items():
        paths.append(folder / name)
        paths[-1].write_text(text)
    return paths


def write_all(folder: Path, config: CoreConfig, core: str, cluster: ClusterLayout | None = None) -> list[Path]:
    """Write headers, runtime and linker script for ``core``, or a cluster, into ``folder``; returns the paths."""
    paths = write_headers(folder, config, cluster)
    library = folder / "picolibc"
    compiled, included = library_files()
    places = {library_root() / path: Path("picolibc") / path for path in (*compiled, *included)}
    places |= {path: Path("runtime") / path.name for path in RUNTIME.iterdir() if path.suffix in (".c", ".S", ".h")}
    places |= {path: path.relative_to(RUNTIME / "include") for path in (RUNTIME / "include").rglob("*.h")}
    places |= {RUNTIME / name: Path(name) for name in ("xpulpnn.cmake", "xpulpnn.ini")}
    for source, place in sorted(places.items()):
        paths.append(folder / place)
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, paths[-1])
    readme = Template((RUNTIME / _README).read_text()).substitute(
        core=core,
        folder=folder,
        start=START_FILE,
        runtime=RUNTIME_LIBRARY,
        library=" ".join([f"-isystem {folder}", *header_flags(library), *source_flags(library)]),
        sources=library / "sources",
        gcc=" ".join(TARGETS["gcc"]),
        zig=" ".join(TARGETS["zig"]),
        gcc_libraries=" ".join(LIBRARIES["gcc"]),
    )
    places = (*(folder / "runtime" / name for name in CONVERSIONS), *(library / path for path in compiled))
    sources = "".join(f"{path}\n" for path in places)
    script = link_script(Options(config=config, cluster=cluster))
    for name, text in (("link.ld", script), ("README.txt", readme), ("picolibc/sources", sources)):
        paths.append(folder / name)
        paths[-1].write_text(text)
    return paths
