"""``xpulpnn kernel``: a kernel as an assembly function with a C program around it."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_configuration,
    add_json,
    comma_list,
    configuration,
    output,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.files import write_text
from xpulpnn_sim.harness.kernel_run import Case, case_kernel, case_tensors, short_precision
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sw.compilers import COMPILERS, CompileError
from xpulpnn_sw.kernels.kinds import KINDS, kind
from xpulpnn_sw.kernels.requantisation import RULES, Rule
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.precision import Precision
from xpulpnn_sw.programs.c_program import CProgram, c_program
from xpulpnn_sw.toolchain import Options, build

WIDTHS = ("16", "8", "4", "2", "1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    add_kernel(parser)
    parser.add_argument("--layer", metavar="SPEC", help=f"{forms()} (default conv {kind('conv').usual})")
    add_precision(parser, "8", "N")
    parser.add_argument("--variant", default="nn_4x4", metavar="NAME", help=f"one of {', '.join(VARIANTS)}")
    add_specialise(parser)
    add_configuration(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the tensors (default 0)")
    parser.add_argument("--compiler", metavar="NAME", help=f"{' or '.join(COMPILERS)} (default: the first installed)")
    parser.add_argument("--no-build", action="store_true", help="write the sources only")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("build/kernel"), metavar="DIR", help="folder (default build/kernel)"
    )
    add_json(parser)


def add_kernel(parser: argparse.ArgumentParser, others: Mapping[str, str] | None = None) -> None:
    """The name of a kernel, or of one of ``others``, with what they are."""
    helps = {one.name: one.help for one in KINDS.values()} | dict(others or {})
    known = "; ".join(f"{name}: {text}" for name, text in helps.items())
    parser.add_argument("kernel", choices=tuple(helps), metavar="KERNEL", help=known)


def forms(names: Sequence[str] = tuple(KINDS)) -> str:
    """How layers of kernels are written, as help."""
    return ", ".join(f"{name}: {KINDS[name].form}" for name in names)


def add_precision(parser: argparse.ArgumentParser, default: str, metavar: str) -> None:
    """``--bits`` and ``--precision``, which go to :func:`precisions`."""
    parser.add_argument(
        "--bits",
        metavar=metavar,
        help=f"width of inputs, weights and results, out of {','.join(WIDTHS)} (default {default})",
    )
    parser.add_argument(
        "--precision", metavar="XxWxY", help="the three widths, such as 8x8x8; comma-separated where --bits is"
    )
    parser.set_defaults(default_bits=default)


def precisions(arguments: argparse.Namespace) -> list[Precision]:
    """What was asked for."""
    if arguments.precision is not None:
        if arguments.bits is not None:
            raise InputError("--bits must be left out with --precision")
        return [Precision.parse(text) for text in arguments.precision.split(",")]
    bits = arguments.default_bits if arguments.bits is None else arguments.bits
    # only products are those of single bits
    known = WIDTHS if kind(arguments.kernel).rules else WIDTHS[:-1]
    texts = comma_list(bits, known, "--bits")
    return [short_precision(arguments.kernel, int(text)) for text in texts]


def add_requantise(parser: argparse.ArgumentParser) -> None:
    """``--requantise``, which goes to :func:`rule_of`."""
    parser.add_argument(
        "--requantise",
        choices=RULES,
        help="how results below 32 bits come of the accumulators: kappa*acc + lambda in 32 or in 64 bits, shifted, or "
        "one factor for all and a shift, or a shift alone, or thresholds of 16 bits, or (qnt) those by pv.qnt, for "
        "results of 4 and 2 bits on a core with --set qnt=true (default bn32; results of one bit by a threshold)",
    )


def rule_of(arguments: argparse.Namespace) -> Rule:
    """What was asked for."""
    return Rule(arguments.requantise or Rule.BN32)


def add_specialise(parser: argparse.ArgumentParser) -> None:
    """``--specialise``."""
    parser.add_argument(
        "--specialise", action="store_true", help="kernel functions for the one layer, its sizes constants"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the sources and, unless told otherwise, the program NAME.elf."""
    config = configuration(arguments)
    chosen = precisions(arguments)
    if len(chosen) != 1:
        raise InputError(f"--bits and --precision must be one, not {len(chosen)}")
    wanted = kind(arguments.kernel)
    layer = wanted.layer.parse(arguments.layer or wanted.usual)
    case = Case(
        layer=layer,
        precision=wanted.precision(layer, chosen[0]),
        variant=arguments.variant,
        config=config,
        machine=Machine(seed=arguments.seed),
        checked=False,
        specialise=arguments.specialise,
    )
    case.check()
    require_folder(arguments.output, "--output")
    require_writable(arguments.json)
    tensors = case_tensors(case)
    program = c_program(case_kernel(case, tensors), tensors)
    for name, text in program.files.items():
        write_text(arguments.output / name, text)
    written = [arguments.output / name for name in program.files]
    if not arguments.no_build:
        try:
            written.append(_built(program, arguments.output, Options(config=config), arguments.compiler))
        except CompileError as error:
            print(error.messages, file=sys.stderr)
            return FAILED
    output().print("\n".join(str(path) for path in written), markup=False, soft_wrap=True)
    write_json(arguments.json, {"function": program.name, "files": [str(path) for path in written]})
    return OK


def _built(program: CProgram, folder: Path, options: Options, compiler: str | None) -> Path:
    elf = folder / f"{program.name}.elf"
    build([folder / name for name in program.sources], elf, compiler=compiler, options=options)
    return elf
