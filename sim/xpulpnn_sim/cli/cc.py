"""``xpulpnn cc``: compile C and assembly for the core."""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn_sim.cli.common import FAILED, finish, pass_on, pick, progress_bar, remark, table, tell
from xpulpnn_sim.cli.configurations import Hosted, refuse
from xpulpnn_sim.cli.options import CompilerChoice, Count, Json, NewFolder, Repeated, arguments, command
from xpulpnn_sim.tools.files import abridged, is_generated, output_folder, require_folder
from xpulpnn_sw.assembly.looppass.optimise import PassReport
from xpulpnn_sw.toolchain.build import archive, build, compile_sources, write_all
from xpulpnn_sw.toolchain.build_options import KIB, MIB, BuildStage, ClusterLayout, Options, parse_size
from xpulpnn_sw.toolchain.compilers import LINKED_SUFFIXES, SOURCE_SUFFIXES, CompileError, find_compiler
from xpulpnn_sw.toolchain.headers.generate import headers


def loop_record(report: PassReport) -> dict[str, Any]:
    return {
        "loops": [asdict(outcome) for outcome in report.loops],
        "hardware_loops": report.turned,
        "refusals": report.refusals(),
        "skipped_functions": dict(report.skipped),
        **pick(report, "increments", "sums"),
    }


def show_loops(report: PassReport) -> None:
    levels = ((loop, "no" if loop.level is None else loop.level) for loop in report.loops)
    rows = [(loop.function, loop.source, level, loop.reason) for loop, level in levels]
    rows += [(function, "", "no", reason) for function, reason in report.skipped.items()]
    shown = table(("function", "place", "hardware loop", "because"), rows, title="loops of the C code")
    text = f"{report.turned} of {len(report.loops)} loops; accesses: {report.increments} with increment, "
    tell(shown, text + f"{report.sums} with a sum for their address")


ARCHIVE_SUFFIX = ".a"
_SUFFIXES = {BuildStage.PREPROCESSED: ".i", BuildStage.ASSEMBLY: ".s", BuildStage.OBJECT: ".o"}
_IN_RUNTIME = ("m", "c", "gcc")  # libraries in every link
_TARGET_OPTIONS = (
    *("-march", "-mabi", "-mcpu", "-mtune", "-misa-spec", "-specs"),
    *("-flto", "-fpic", "-fPIC", "-fpie", "-fPIE"),
)


def _size(text: str) -> Parameter:
    return Parameter(help=text, metavar="SIZE")


_USUAL, _LAYOUT = Options(), ClusterLayout()  # with their defaults
_CORES = Parameter(help=f"With --cluster: how many cores (default {_LAYOUT.cores}).")
_TCDM = _size(f"With --cluster: bytes of the TCDM (default {_LAYOUT.tcdm // KIB}K).")
_STACK = _size(
    f"Bytes of the stack (default {_USUAL.stack // KIB}K; with --cluster of core 0 {_LAYOUT.stack // KIB}K)."
)
_CORE_STACK = _size(f"With --cluster: bytes of the stack of each other core (default {_LAYOUT.core_stack // KIB}K).")


@arguments
class CcOptions(Hosted, CompilerChoice, Json):
    files: Annotated[tuple[Path, ...], Parameter(metavar="FILE")] = field(default=(), kw_only=False)
    """Sources: .c, .cpp, .cc, .cxx, .S, .s; objects: .o, .obj; libraries: .a; - for standard input; @FILE for words
    in a file."""
    output: Annotated[Path | None, Parameter(alias="-o", metavar="PROG.elf")] = None
    """File to write (default: first FILE with .elf; with -c, -S each FILE with .o, .s); with -c
    also a library, LIB.a."""
    objects: Annotated[bool, Parameter(name="-c")] = False
    """Stop at objects."""
    assembly: Annotated[bool, Parameter(name="-S")] = False
    """Stop at assembly text."""
    preprocessed: Annotated[bool, Parameter(name="-E")] = False
    """Stop at preprocessed text, to the output or the file after -o."""
    level: Annotated[str, Parameter(name="-O", metavar="LEVEL")] = "2"
    """Optimisation level; -O is -O1."""
    include: Annotated[tuple[Path, ...], Parameter(name="-I", metavar="DIR")] = ()
    """Folder of headers; repeatable."""
    define: Annotated[Repeated, Parameter(name="-D", metavar="NAME[=V]")] = ()
    """Define a macro; repeatable."""
    jobs: Annotated[Count | None, Parameter(name="-j")] = None
    """Compilers at a time (default: processors)."""
    no_loop_pass: bool = False
    """Leave C code as the compiler writes it, without hardware loops and post-increment accesses."""
    loop_report: bool = False
    """Tell of every loop whether it is a hardware loop, and why not."""
    extra: Annotated[Repeated, Parameter(name=("--pass", "-X"), metavar="OPTION")] = ()
    """Option for the compiler, or the linker with -Wl. GCC's usual options need no --pass, such as -W, -std,
    -include, -MMD, -static and -s, which leaves out debug information; the last -O or -o counts. Instruction set
    and ABI are those of the configuration."""
    linking: Annotated[Repeated, Parameter(name="--link", metavar="OPTION")] = ()
    """-L DIR or -l NAME, which need no --link; the runtime contains m and c."""
    script: Annotated[Path | None, Parameter(name="-T", metavar="FILE")] = None
    """Linker script instead of the runtime's."""
    nostartfiles: Annotated[bool, Parameter(name="--nostartfiles")] = False
    """Without the crt0 of the runtime, also -nostartfiles."""
    quiet: bool = False
    """Do not name the files written."""
    cluster: bool = False
    """For the cores of a cluster: code and data in the L2, PI_L1 in the TCDM."""
    cores: Annotated[Count | None, _CORES] = None
    tcdm: Annotated[str | None, _TCDM] = None
    stack: Annotated[str | None, _STACK] = None
    core_stack: Annotated[str | None, _CORE_STACK] = None
    ram: Annotated[str, Parameter(metavar="SIZE")] = f"{_USUAL.ram // MIB}M"
    """Most bytes of stack, data and heap together, with --cluster of everything in the L2."""
    heap: Annotated[str | None, Parameter(metavar="SIZE")] = None
    """Bytes for malloc (default: a quarter of --ram)."""
    headers: NewFolder | None = None
    """Only write headers, runtime and linker script there, for builds without this command (README there)."""

    @property
    def stage(self) -> BuildStage | None:
        given = {BuildStage.OBJECT: self.objects, BuildStage.ASSEMBLY: self.assembly}
        given[BuildStage.PREPROCESSED] = self.preprocessed
        stages = [stage for stage, is_given in given.items() if is_given]
        if len(stages) > 1:
            raise InputError(f"{stages[0].value} must be left out with {stages[1].value}")
        return stages[0] if stages else None


@command("cc")
def cc_command(request: CcOptions) -> int:
    """
    xpulpnn cc hello.c -o hello.elf  # a program
    xpulpnn cc -O3 -Wall -I include main.c dot.S -lm -j 4 -o prog.elf  # options as of any C compiler
    xpulpnn cc -c conv.c pool.c -o libnn.a  # a library; then: xpulpnn cc main.c -L . -lnn
    xpulpnn cc -S --preset ri5cy dot.c  # assembly text for another core
    xpulpnn cc --cluster --cores 8 team.c -o team.elf  # for the cores of a cluster
    xpulpnn cc --xif --set memory=obi block.c  # for RV32IMC and the coprocessor of generate xif
    xpulpnn cc --headers build/sdk  # all that a build with plain GCC needs
    """
    if request.xif and (request.cluster or request.cores is not None):
        raise InputError("--xif must be left out with --cluster and --cores")
    config = request.with_number_of_cores(request.cores).core
    if request.headers is not None:
        names = _write_headers(request, request.headers, config)
        tell(f"{request.headers}: {len(names)} files; {request.headers / 'README.txt'} tells what they are for")
        return finish(request.json, {"files": names})
    require(request.files, "FILE must be given at least once, not left out")
    for name in (str(path).partition("=")[0] for path in request.files):
        if name.startswith("-"):
            known = [f"--{item.name.replace('_', '-')}" for item in fields(CcOptions)]
            likely = get_close_matches(name, known, 1)
            raise InputError(f"Unknown option: {name}." + "".join(f" Did you mean {option}?" for option in likely))
    for option in request.extra:
        if option.partition("=")[0] in _TARGET_OPTIONS:
            raise InputError(f"options must leave instruction set and linking model to the preset, not set {option}")
    if request.script is not None and not request.script.is_file():
        raise InputError(f"-T must be an existing linker script, not {request.script}")
    report = PassReport()
    for_linker = [word for word in request.extra if word.startswith("-Wl,")]
    libraries = [word for word in request.linking if word.removeprefix("-l") not in _IN_RUNTIME]
    options = Options(
        config=config,
        core=request.title,
        opt=f"-O{request.level}",
        extra=tuple(word for word in request.extra if word not in for_linker),
        linking=(*for_linker, *libraries),
        start_files=not request.nostartfiles,
        **pick(request, "include", "define", "script"),
        **_memory(request),
        loop_pass=not request.no_loop_pass,
        report=report,
    )
    compiler = find_compiler(request.compiler)
    try:
        bar = nullcontext() if request.quiet else progress_bar("compiling, the first time the C library too", None)
        with bar, output_folder(request.output.parent, "--output") if request.output else nullcontext():
            results, printed = _compile(request, options, compiler.kind)
    except CompileError as error:
        sys.stderr.write(error.messages)
        names = abridged(request.files)
        explanations = list(_explained(error.messages, request.title, names))
        for line in explanations or [f"{names} must compile and link with {compiler.kind}, not have errors"]:
            remark(f"error: {line}")
        return FAILED
    sys.stderr.write(printed)
    tell(*([] if request.quiet else results))
    record = {"files": results, "compiler": compiler.kind}
    if request.loop_report:
        show_loops(report)
        record["loop_pass"] = loop_record(report)
    return finish(request.json, record)


_UNKNOWN = re.compile(
    "(?:undefined reference to|implicit declaration of function|undeclared function) [`'\u2018](\\w+)"
    r"|undefined symbol: (\w+)"
)
"""Compiler and linker messages about an undefined function."""


_MISSING_CPP_HEADER = re.compile(r"fatal error: '?(\w+)(?:: No such file|' file not found)")


def _explained(messages: str, core: str, files: str) -> Iterator[str]:
    """Yield explanations of undefined functions in ``messages``: intrinsics that the core lacks, or no ``main``."""
    for header in dict.fromkeys(_MISSING_CPP_HEADER.findall(messages)):
        yield f"<{header}> needs --compiler zig, which has the standard library of C++ (pip install ziglang)"
    names = dict.fromkeys(match[1] or match[2] for match in _UNKNOWN.finditer(messages))
    if "main" in names:
        yield f"no main() in {files}; -c compiles what is no whole program"
    texts = {name: "\n".join(headers(config).values()) for name, config in PRESETS.items()} if names else {}
    for name in names:
        having = [preset for preset, text in texts.items() if re.search(rf"\b{name}\(", text)]
        if having:
            yield f"{name} needs --preset {' or '.join(having)}, not {core}"


def _memory(request: CcOptions) -> dict[str, Any]:
    cluster = _cluster(request)
    sizes = pick(request, "ram", "heap", *([] if cluster else ["stack"]))
    given = {name: parse_size(text, f"--{name}") for name, text in sizes.items() if text is not None}
    return {**given, "cluster": cluster, **({} if request.jobs is None else {"jobs": request.jobs})}


def _cluster(request: CcOptions) -> ClusterLayout | None:
    named = CLUSTER_PRESETS.get(request.preset)
    fields = pick(request, "cores", "tcdm", "core_stack", "stack")
    given = {name: value for name, value in fields.items() if value is not None}
    if not request.cluster and named is None:
        refuse(request, ("cores", "tcdm", "core_stack"), "must come with --cluster, not alone")
        return None
    sizes = {} if named is None else {"cores": named.cores, "tcdm": named.tcdm_bytes}
    for name, value in given.items():
        sizes[name] = value if name == "cores" else parse_size(value, f"--{name.replace('_', '-')}")
    return ClusterLayout(**sizes)


def _write_headers(request: CcOptions, folder: Path, config: CoreConfig) -> list[Path]:
    require_folder(folder, "--headers")
    is_new, readme = not any(folder.iterdir()), folder / "README.txt"
    if not is_new and not (readme.is_file() and is_generated(readme)):
        raise InputError(f"--headers must be a folder without files of yours, not {folder}")
    try:
        return write_all(folder, config, request.title, _cluster(request))
    except OSError as error:
        if is_new:
            shutil.rmtree(folder)
        raise OSError(error.errno, error.strerror, error.filename or str(folder)) from None


def _compile(request: CcOptions, options: Options, compiler: str) -> tuple[list[Path], str]:
    files = list(request.files)
    target: Path | None = request.output
    stage: BuildStage | None = request.stage
    require(target is None or not target.is_dir(), f"-o must be a file, not the folder {target}")
    require(target is None or target not in files, f"-o must be another file than the sources, not {target}")
    if stage is None:
        require({"-MMD", "-MD"}.isdisjoint(options.extra), "-MMD must come with -c or -S, not with a program")
        program = target or Path(files[0].name).with_suffix(".elf")
        require_folder(program.parent, "-o")
        return [program], build(files, program, compiler=compiler, options=options)
    linked = [path for path in files if path.suffix in LINKED_SUFFIXES]
    if linked:
        known = ", ".join(suffix for suffix in SOURCE_SUFFIXES if suffix not in LINKED_SUFFIXES)
        raise InputError(f"source must end in one of {known} with {stage.value}, not {linked[0]}")
    if stage is BuildStage.OBJECT and target is not None and target.suffix == ARCHIVE_SUFFIX:
        require_folder(target.parent, "-o")
        return [target], archive(files, target, compiler=compiler, options=options)
    if target is not None and len(files) > 1:
        raise InputError(f"-o must be left out with {stage.value} and several files, not {target}")
    with tempfile.TemporaryDirectory(prefix="xpulpnn-cc-") as folder:
        is_shown = stage is BuildStage.PREPROCESSED and target is None
        targets = [target or Path(path.name).with_suffix(_SUFFIXES[stage]) for path in files]
        if is_shown:
            targets = [Path(folder) / f"{number}.i" for number in range(len(files))]
        for path in targets:
            require_folder(path.parent, "--output")
        pairs = list(zip(files, targets, strict=True))
        printed = compile_sources(pairs, stage, compiler=compiler, options=options)
        for path in targets if is_shown else ():
            pass_on(path.read_bytes(), error=False)
    return [] if is_shown else targets, printed
