"""``xpulpnn cc``: C and assembly to a program for the core."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpulpnn.config import CLUSTER_PRESETS, ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.commands.cluster_options import described
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_configuration,
    add_json,
    core_title,
    output,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.commands.loop_report import loop_record, show_loops
from xpulpnn_sw.build_options import DEFAULT_RAM, DEFAULT_STACK, KIB, MIB, Options, Stage, parse_size
from xpulpnn_sw.cluster_layout import (
    DEFAULT_CORE_STACK,
    DEFAULT_CORES,
    DEFAULT_MASTER_STACK,
    DEFAULT_TCDM,
    ClusterLayout,
)
from xpulpnn_sw.compilers import COMPILERS, CompileError, find
from xpulpnn_sw.foreign_build import write_all
from xpulpnn_sw.looppass.optimise import PassReport
from xpulpnn_sw.toolchain import LINKED_SUFFIXES, SOURCE_SUFFIXES, archive, build, compile_sources

ARCHIVE_SUFFIX = ".a"
_SUFFIXES = {Stage.PREPROCESSED: ".i", Stage.ASSEMBLY: ".s", Stage.OBJECT: ".o"}
_IN_RUNTIME = ("m", "c", "gcc")
"""Libraries that our runtime and every link have."""

_TARGET_OPTIONS = ("-march", "-mabi", "-mcpu", "-mtune", "-misa-spec", "-flto", "-fpic", "-fPIC", "-fpie", "-fPIE")


class _Pass(argparse.Action):
    """Keeps an option as it was written for the compiler or the linker."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Add the option, joined with its value unless that is a word of its own."""
        assert option_string is not None
        kept: list[str] = getattr(namespace, self.dest)
        if values is None or values == []:
            words = [option_string]
        elif option_string in _WITH_WORD:
            words = [option_string, str(values)]
        else:
            words = [f"{option_string}{'=' if option_string == '-std' else ''}{values}"]
        setattr(namespace, self.dest, [*kept, *words])


_WITH_WORD = ("-include", "-isystem", "-iquote", "-MF", "-MT", "-Xlinker")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="sources: .c, .S, .s; objects: .o; libraries: .a"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PROG.elf",
        help="what to write (default: first FILE with .elf; with -c, -S each FILE with .o, .s); with -c also a "
        "library, LIB.a",
    )
    parser.add_argument(
        "--compiler", metavar="NAME", help=f"{' or '.join(COMPILERS)} (default: the first that is installed)"
    )
    stages = parser.add_mutually_exclusive_group()
    for stage, text in (
        (Stage.OBJECT, "stop at objects"),
        (Stage.ASSEMBLY, "stop at assembly text"),
        (Stage.PREPROCESSED, "stop at preprocessed text, to the output or the file after -o"),
    ):
        stages.add_argument(stage.value, dest="stage", action="store_const", const=stage, help=text)
    parser.add_argument("-O", dest="level", default="2", metavar="LEVEL", help="optimisation level (default 2)")
    parser.add_argument("-I", dest="include", action="append", default=[], type=Path, metavar="DIR", help="headers")
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="NAME[=V]", help="define a macro")
    parser.add_argument(
        "-j", dest="jobs", type=int, default=None, metavar="N", help="compilers at a time (default: processors)"
    )
    parser.add_argument(
        "--no-loop-pass",
        action="store_true",
        help="leave C code as the compiler writes it, without hardware loops and post-increment accesses",
    )
    parser.add_argument(
        "--loop-report", action="store_true", help="tell of every loop whether it is a hardware loop, and why not"
    )
    _add_passed(parser)
    parser.add_argument(
        "-X", dest="extra", action="append", metavar="OPTION", help="other option for the compiler (-X=-Q)"
    )
    parser.set_defaults(extra=[], linking=[])
    add_configuration(parser)
    parser.add_argument("-T", dest="script", type=Path, metavar="FILE", help="linker script instead of the runtime's")
    parser.add_argument("-nostartfiles", action="store_true", help="without the crt0 of the runtime")
    parser.add_argument(
        "--cluster", action="store_true", help="for the cores of a cluster: code and data in the L2, PI_L1 in the TCDM"
    )
    parser.add_argument(
        "--cores", type=int, metavar="N", help=f"with --cluster: how many cores (default {DEFAULT_CORES})"
    )
    parser.add_argument(
        "--tcdm", metavar="SIZE", help=f"with --cluster: bytes of the TCDM (default {DEFAULT_TCDM // KIB}K)"
    )
    parser.add_argument(
        "--stack",
        metavar="SIZE",
        help=f"bytes of the stack (default {DEFAULT_STACK // KIB}K); with --cluster of core 0 "
        f"(default {DEFAULT_MASTER_STACK // KIB}K)",
    )
    parser.add_argument(
        "--core-stack",
        metavar="SIZE",
        help=f"with --cluster: bytes of the stack of each other core (default {DEFAULT_CORE_STACK // KIB}K)",
    )
    parser.add_argument(
        "--ram",
        default=f"{DEFAULT_RAM // MIB}M",
        metavar="SIZE",
        help=f"most bytes of stack, data and heap together, with --cluster of everything in the L2 "
        f"(default {DEFAULT_RAM // MIB}M)",
    )
    parser.add_argument("--heap", metavar="SIZE", help="bytes for malloc (default: a quarter of --ram)")
    parser.add_argument(
        "--headers",
        type=Path,
        metavar="DIR",
        help="only write headers, runtime and linker script into DIR, for builds without this command (README there)",
    )
    add_json(parser)


def _add_passed(parser: argparse.ArgumentParser) -> None:
    """Options that the compiler or the linker gets as they are written."""
    group = parser.add_argument_group("passed on as with any C compiler")

    def passed(*names: str, dest: str = "extra", nargs: int | None = None, metavar: str = "WORD", text: str) -> None:
        group.add_argument(*names, dest=dest, action=_Pass, nargs=nargs, metavar=metavar, help=text)

    passed("-g", "-g0", "-g1", "-g2", "-g3", "-ggdb", nargs=0, text="debug information (always there but with -g0)")
    passed("-W", metavar="NAME", text="warnings; -Wl,... goes to the linker")
    passed("-f", metavar="NAME", text="code generation")
    passed("-m", metavar="NAME", text="machine options other than instruction set and ABI, which the preset decides")
    passed("-std", metavar="NAME", text="dialect (-std=c11)")
    passed("-U", metavar="NAME", text="undefine a macro")
    passed("-include", "-isystem", "-iquote", metavar="PLACE", text="header files and their folders")
    passed("-w", "-pedantic", "-pipe", "-MMD", "-MD", "-MP", nargs=0, text="as there")
    passed("-MF", "-MT", metavar="NAME", text="dependency file, its target")
    passed("-L", metavar="DIR", dest="linking", text="folder of libraries")
    passed("-l", metavar="NAME", dest="linking", text="library libNAME.a; m and c are in the runtime")


def run(arguments: argparse.Namespace) -> int:
    """Compile; what the compiler says about the sources is passed on as it is, with exit code 1 if it refuses them."""
    config = _core(arguments)
    require_writable(arguments.json)
    if arguments.headers is not None:
        require_folder(arguments.headers, "--headers")
        names = write_all(arguments.headers, config, core_title(arguments), _cluster(arguments))
        output().print("\n".join(str(path) for path in names), markup=False, soft_wrap=True)
        write_json(arguments.json, {"files": [str(path) for path in names]})
        return OK
    if not arguments.files:
        raise InputError("FILE must be given at least once, not left out")
    for option in arguments.extra:
        if option.partition("=")[0] in _TARGET_OPTIONS:
            raise InputError(f"options must leave instruction set and linking model to the preset, not set {option}")
    report = PassReport()
    options = Options(
        config=config,
        core=core_title(arguments),
        opt=f"-O{arguments.level}",
        include=tuple(arguments.include),
        define=tuple(arguments.define),
        extra=tuple(word for word in arguments.extra if not word.startswith("-Wl,")),
        linking=tuple(_linking(arguments)),
        start_files=not arguments.nostartfiles,
        script=_script(arguments.script),
        **_memory(arguments),
        loop_pass=not arguments.no_loop_pass,
        report=report,
        **({} if arguments.jobs is None else {"jobs": arguments.jobs}),
    )
    compiler = find(arguments.compiler)
    try:
        results, printed = _compile(arguments, options, compiler.kind)
    except CompileError as error:
        sys.stderr.write(error.messages)
        names = ", ".join(str(path) for path in arguments.files)
        print(f"error: {names} must compile and link with {compiler.kind}, not have errors", file=sys.stderr)
        return FAILED
    sys.stderr.write(printed)
    if results:
        output().print("\n".join(map(str, results)), markup=False, soft_wrap=True)
    if arguments.loop_report:
        show_loops(report)
    record = {"files": [str(path) for path in results], "compiler": compiler.kind}
    write_json(arguments.json, record | ({"loop_pass": loop_record(report)} if arguments.loop_report else {}))
    return OK


def _memory(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fields of :class:`Options` about memory and cores."""
    cluster = _cluster(arguments)
    sizes = {name: getattr(arguments, name) for name in ("ram", "heap", *(() if cluster else ("stack",)))}
    given = {name: parse_size(text, f"--{name}") for name, text in sizes.items() if text is not None}
    return given | {"cluster": cluster}


def _core(arguments: argparse.Namespace) -> CoreConfig:
    """The core to compile for."""
    config = described(arguments)
    return config.core if isinstance(config, ClusterConfig) else config


def _cluster(arguments: argparse.Namespace) -> ClusterLayout | None:
    """The cluster to compile for, if any."""
    options = ("cores", "tcdm", "core_stack")
    named = CLUSTER_PRESETS.get(arguments.preset)
    if not arguments.cluster and named is None:
        for name in options:
            if getattr(arguments, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} must come with --cluster, not alone")
        return None
    given = {name: getattr(arguments, name) for name in (*options, "stack") if getattr(arguments, name) is not None}
    sizes = {} if named is None else {"cores": named.cores, "tcdm": named.tcdm_bytes}
    sizes |= {
        name: value if name == "cores" else parse_size(value, f"--{name.replace('_', '-')}")
        for name, value in given.items()
    }
    return ClusterLayout(**sizes)


def _linking(arguments: argparse.Namespace) -> list[str]:
    """The options for the linker."""
    passed = [word for word in arguments.extra if word.startswith("-Wl,")]
    return passed + [word for word in arguments.linking if word.removeprefix("-l") not in _IN_RUNTIME]


def _script(path: Path | None) -> Path | None:
    if path is not None and not path.is_file():
        raise InputError(f"-T must be an existing linker script, not {path}")
    return path


def _compile(arguments: argparse.Namespace, options: Options, compiler: str) -> tuple[list[Path], str]:
    """The files written and what the compiler said."""
    files: list[Path] = arguments.files
    target: Path | None = arguments.output
    stage: Stage | None = arguments.stage
    if target is not None and target.is_dir():
        raise InputError(f"-o must be a file, not the folder {target}")
    if target is not None and target in files:
        raise InputError(f"-o must be another file than the sources, not {target}")
    if stage is None:
        if not {"-MMD", "-MD"}.isdisjoint(options.extra):
            raise InputError("-MMD must come with -c or -S, not with a program")
        program = target or Path(files[0].name).with_suffix(".elf")
        require_folder(program.parent, "--output")
        return [program], build(files, program, compiler=compiler, options=options)
    linked = [path for path in files if path.suffix in LINKED_SUFFIXES]
    if linked:
        known = ", ".join(suffix for suffix in SOURCE_SUFFIXES if suffix not in LINKED_SUFFIXES)
        raise InputError(f"source must end in one of {known} with {stage.value}, not {linked[0]}")
    if stage is Stage.OBJECT and target is not None and target.suffix == ARCHIVE_SUFFIX:
        require_folder(target.parent, "--output")
        return [target], archive(files, target, compiler=compiler, options=options)
    if target is not None and len(files) > 1:
        raise InputError(f"-o must be left out with {stage.value} and several files, not {target}")
    if stage is Stage.PREPROCESSED and target is None:
        return [], _preprocess(files, options, compiler)
    targets = [target or Path(path.name).with_suffix(_SUFFIXES[stage]) for path in files]
    for path in targets:
        require_folder(path.parent, "--output")
    return targets, compile_sources(list(zip(files, targets, strict=True)), stage, compiler=compiler, options=options)


def _preprocess(files: list[Path], options: Options, compiler: str) -> str:
    """Print the preprocessed sources; returns what the compiler said."""
    with tempfile.TemporaryDirectory(prefix="xpulpnn-cc-") as name:
        pairs = [(path, Path(name) / f"{number}.i") for number, path in enumerate(files)]
        printed = compile_sources(pairs, Stage.PREPROCESSED, compiler=compiler, options=options)
        for _source, text in pairs:
            sys.stdout.write(text.read_text())
    return printed
