"""``xpulpnn kernel``: a kernel as an assembly function with a C program around it."""

import sys
from dataclasses import field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.common import FAILED, OK, tell, write_json
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.kernel_options import FORMS, CompilerChoice, Precisions, Specialising
from xpulpnn_sim.cli.options import Json, NewFolder, Seed, arguments, command
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, case_kernel, case_tensors
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.kernels.programs.c_program import CProgram, c_program
from xpulpnn_sw.toolchain.build import Options, build
from xpulpnn_sw.toolchain.compilers import CompileError


@arguments
class KernelOptions(Configuration, Precisions, Specialising, Seed, CompilerChoice, Json):
    """Options of the command."""

    kernel: Annotated[str, Parameter(choices=("conv", "pointwise", "matmul"), show_choices=True)] = field(kw_only=False)
    """Kernel with a program in plain C beside it."""
    layer: Annotated[str | None, Parameter(help=f"{FORMS} (default conv {kind('conv').usual}).", metavar="SPEC")] = None
    variant: str = "nn_4x4"
    """Way to write the kernel, as of cosim."""
    no_build: bool = False
    """Write the sources only."""
    output: Annotated[NewFolder, Parameter(alias="-o")] = Path("build/kernel")
    """Folder of sources and program."""


@command
def kernel_command(options: KernelOptions) -> int:
    """Write the sources and, unless told otherwise, the program NAME.elf."""
    config = options.core
    chosen = options.precisions(options.kernel)
    if len(chosen) != 1:
        raise InputError(f"--bits and --precision must be one, not {len(chosen)}")
    wanted = kind(options.kernel)
    layer = wanted.layer.parse(options.layer or wanted.usual)
    case = Case(
        layer=layer,
        precision=wanted.precision(layer, chosen[0]),
        variant=options.variant,
        config=config,
        machine=Machine(seed=options.seed),
        checked=False,
        specialise=options.specialise,
    )
    case.check()
    tensors = case_tensors(case)
    program = c_program(case_kernel(case, tensors), tensors)
    for name, text in program.files.items():
        write_text(options.output / name, text)
    written = [options.output / name for name in program.files]
    if not options.no_build:
        try:
            written.append(_built(program, options.output, Options(config=config), options.compiler))
        except CompileError as error:
            print(error.messages, file=sys.stderr)
            return FAILED
    tell("\n".join(str(path) for path in written))
    write_json(options.json, {"function": program.name, "files": [str(path) for path in written]})
    return OK


def _built(program: CProgram, folder: Path, options: Options, compiler: str | None) -> Path:
    elf = folder / f"{program.name}.elf"
    build([folder / name for name in program.sources], elf, compiler=compiler, options=options)
    return elf
