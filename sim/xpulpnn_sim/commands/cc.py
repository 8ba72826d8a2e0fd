"""``xpulpnn cc``: C and assembly to a program for the core."""

import argparse
import sys
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_configuration,
    add_json,
    configuration,
    output,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sw.toolchain import (
    COMPILERS,
    DEFAULT_RAM,
    DEFAULT_STACK,
    KIB,
    MIB,
    CompileError,
    Options,
    build,
    compile_to_assembly,
    find,
    parse_size,
    write_headers,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="sources: .c, .S, .s; objects: .o")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PROG.elf", help="program to write (default: first FILE with .elf)"
    )
    parser.add_argument(
        "--compiler", metavar="NAME", help=f"{' or '.join(COMPILERS)} (default: the first that is installed)"
    )
    parser.add_argument("-O", dest="level", default="2", metavar="LEVEL", help="optimisation level (default 2)")
    parser.add_argument("-I", dest="include", action="append", default=[], type=Path, metavar="DIR", help="headers")
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="NAME[=V]", help="define a macro")
    parser.add_argument(
        "-X", dest="extra", action="append", default=[], metavar="OPTION", help="option for the compiler (-X=-Wall)"
    )
    add_configuration(parser, "xpulpnn")
    parser.add_argument(
        "--stack",
        default=f"{DEFAULT_STACK // KIB}K",
        metavar="SIZE",
        help=f"bytes of the stack (default {DEFAULT_STACK // KIB}K)",
    )
    parser.add_argument(
        "--ram",
        default=f"{DEFAULT_RAM // MIB}M",
        metavar="SIZE",
        help=f"most bytes of stack and data together (default {DEFAULT_RAM // MIB}M)",
    )
    parser.add_argument("-S", dest="assembly", action="store_true", help="stop at assembly text, FILE with .s")
    parser.add_argument("--headers", type=Path, metavar="DIR", help="only write the generated headers into DIR")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compile; what the compiler says about the sources is passed on as it is, with exit code 1 if it refuses them."""
    config = configuration(arguments)
    require_writable(arguments.json)
    if arguments.headers is not None:
        require_folder(arguments.headers, "--headers")
        names = write_headers(arguments.headers, config)
        output().print("\n".join(str(path) for path in names), markup=False, soft_wrap=True)
        write_json(arguments.json, {"files": [str(path) for path in names]})
        return OK
    if not arguments.files:
        raise InputError("FILE must be given at least once, not left out")
    options = Options(
        config=config,
        opt=f"-O{arguments.level}",
        include=tuple(arguments.include),
        define=tuple(arguments.define),
        extra=tuple(arguments.extra),
        stack=parse_size(arguments.stack, "--stack"),
        ram=parse_size(arguments.ram, "--ram"),
    )
    compiler = find(arguments.compiler)
    try:
        results, printed = _compile(arguments, options, compiler.kind)
    except CompileError as error:
        sys.stderr.write(error.messages)
        return FAILED
    sys.stderr.write(printed)
    output().print("\n".join(map(str, results)), markup=False, soft_wrap=True)
    write_json(arguments.json, {"files": [str(path) for path in results], "compiler": compiler.kind})
    return OK


def _compile(arguments: argparse.Namespace, options: Options, compiler: str) -> tuple[list[Path], str]:
    """The files written and what the compiler said."""
    files: list[Path] = arguments.files
    if arguments.output is not None and arguments.output.is_dir():
        raise InputError(f"-o must be a file, not the folder {arguments.output}")
    if not arguments.assembly:
        program: Path = arguments.output or Path(files[0].name).with_suffix(".elf")
        require_folder(program.parent, "--output")
        return [program], build(files, program, compiler=compiler, options=options)
    if arguments.output is not None and len(files) > 1:
        raise InputError(f"-o must be left out with -S and several files, not {arguments.output}")
    targets: list[Path] = [arguments.output or Path(path.name).with_suffix(".s") for path in files]
    printed: list[str] = []
    for source, target in zip(files, targets, strict=True):
        require_folder(target.parent, "--output")
        printed.append(compile_to_assembly(source, target, compiler=compiler, options=options))
    return targets, "".join(printed)
