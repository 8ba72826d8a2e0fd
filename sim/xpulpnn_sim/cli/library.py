"""``xpulpnn library``: the kernels as a library for C programs."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xpulpnn_sim.cli.common import FAILED, OK, progress_bar, tell, write_json
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.kernel_options import CompilerChoice, Requantising
from xpulpnn_sim.cli.options import Json, NewFolder, Words, arguments, command, listed
from xpulpnn_sim.tools.files import require_folder, write_text
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.kinds import KINDS
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.functions import WINDOWS, Selection, library_functions
from xpulpnn_sw.library.public import PublicFunction, PublicFunctions
from xpulpnn_sw.library.write import objects, texts
from xpulpnn_sw.toolchain.build_options import Options
from xpulpnn_sw.toolchain.compilers import CompileError, find_compiler

_WINDOWS = Parameter(help=f"Windows and strides of pools, KyxKx[:s=] (default {'+'.join(WINDOWS)}).")


@arguments
class LibraryOptions(Configuration, Requantising, CompilerChoice, Json):
    """Options of the command."""

    kernel: Annotated[tuple[str, ...], listed(tuple(KINDS), "Kernels; repeatable (default all)")] = ()
    precision: Words = ()
    """Widths of inputs, weights and results such as 8x8x8+8x4x8 (default: all of 8, 4 and 2 bits, and accumulators)."""
    variant: Words = ()
    """Ways to write them, as of cosim (default: the fastest on the core)."""
    windows: Annotated[Words, _WINDOWS] = ()
    outside: bool = False
    """Also functions that are told the value around the map, such as the zero point of the inputs."""
    pulp_nn: bool = False
    """Functions with the public names of PULP-NN, and of the kernels those alone that they need unless --kernel names
    others; --requantise bn64: those with kappa and lambda of 64 bits."""
    output: Annotated[NewFolder, Parameter(alias="-o")] = Path("build/library")
    """Folder of library, headers and README."""


@command
def library_command(options: LibraryOptions) -> int:
    """Write library, headers and README."""
    config = options.core
    selection = Selection(
        kernels=options.kernel,
        precisions=[Precision.parse(text) for text in options.precision],
        variants=options.variant,
        windows=options.windows or WINDOWS,
        rule=options.rule,
        outside=options.outside,
    )
    find_compiler(options.compiler)
    functions: dict[str, KernelRun] = {}
    public: list[PublicFunction] = []
    with progress_bar("functions", None) as bar:
        if options.pulp_nn:
            for function in PublicFunctions(selection.precisions, selection.rule, config, selection.windows):
                public.append(function)
                functions |= {kernel.name: kernel for kernel in function.kernels}
                bar.advance()
        if selection.kernels or not options.pulp_nn:
            for kernel in library_functions(selection, config):
                functions[kernel.name] = kernel
                bar.advance()
    require_folder(options.output, "--output")
    with progress_bar(f"objects of {len(functions)} functions", None):
        try:
            built = objects(
                list(functions.values()),
                options.output,
                compiler=options.compiler,
                options=Options(config=config),
                public=public,
            )
        except CompileError as error:
            print(error.messages, file=sys.stderr)
            return FAILED
    written = [built]
    for name, text in texts(list(functions.values()), options.title, options.command_words, public).items():
        write_text(options.output / name, text)
        written.append(options.output / name)
    tell("\n".join(str(path) for path in written))
    names = [name for function in public for name in function.names]
    tell(f"{len(functions)} functions" + (f", {len(names)} public names" if names else ""))
    write_json(
        options.json,
        {"functions": list(functions), "public": names, "files": [str(path) for path in written]},
    )
    return OK
