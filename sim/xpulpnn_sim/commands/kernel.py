"""``xpulpnn kernel``: a kernel as an assembly function with a C program around it."""

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
from xpulpnn_sim.files import write_text
from xpulpnn_sim.harness.engine import BusTiming
from xpulpnn_sim.harness.kernel_run import Case, case_kernel, case_tensors
from xpulpnn_sw.kernels.figures import PAPER_LAYER
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layer import ConvLayer, MatmulLayer
from xpulpnn_sw.programs.c_program import CProgram, c_program
from xpulpnn_sw.toolchain import COMPILERS, CompileError, Options, build

_LAYERS = {"conv": PAPER_LAYER, "matmul": "64x288x256"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("kernel", choices=tuple(_LAYERS), help="whole convolution, or the MatMul alone")
    parser.add_argument("--layer", metavar="SPEC", help="conv: HxWxC:OxKyxKx[:s=,p=], matmul: CxKxP (default papers')")
    parser.add_argument("--bits", type=int, default=8, metavar="N", help="operand width: 16, 8, 4 or 2 (default 8)")
    parser.add_argument("--variant", default="nn_4x4", metavar="NAME", help=f"one of {', '.join(VARIANTS)}")
    add_configuration(parser, "xpulpnn-full")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the tensors (default 0)")
    parser.add_argument("--compiler", metavar="NAME", help=f"{' or '.join(COMPILERS)} (default: the first installed)")
    parser.add_argument("--no-build", action="store_true", help="write the sources only")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("build/kernel"), metavar="DIR", help="folder (default build/kernel)"
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the sources and, unless told otherwise, the program NAME.elf."""
    config = configuration(arguments)
    if arguments.seed < 0:
        raise InputError(f"--seed must be at least 0, not {arguments.seed}")
    layer_type = ConvLayer if arguments.kernel == "conv" else MatmulLayer
    case = Case(
        layer=layer_type.parse(arguments.layer or _LAYERS[arguments.kernel]),
        bits=arguments.bits,
        variant=arguments.variant,
        config=config,
        timing=BusTiming(seed=arguments.seed),
        checked=False,
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
