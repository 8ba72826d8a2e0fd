"""``xpulpnn library``: the kernels as a library for C programs."""

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
    core_title,
    output,
    progress_bar,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.commands.kernel import add_requantise, rule_of
from xpulpnn_sim.files import write_text
from xpulpnn_sw.build_options import Options
from xpulpnn_sw.clibrary.functions import WINDOWS, Selection, library_functions
from xpulpnn_sw.clibrary.public import PublicFunction, PublicFunctions
from xpulpnn_sw.clibrary.write import objects, texts
from xpulpnn_sw.compilers import COMPILERS, CompileError, find
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.kinds import KINDS
from xpulpnn_sw.precision import Precision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("--kernels", metavar="LIST", help=f"out of {','.join(KINDS)} (default all)")
    parser.add_argument(
        "--precision",
        metavar="LIST",
        help="widths of inputs, weights and results such as 8x8x8,8x4x8 (default: all of 8, 4 and 2 bits, and "
        "accumulators)",
    )
    parser.add_argument(
        "--variant", metavar="LIST", help="ways to write them, as of cosim (default: the fastest on the core)"
    )
    parser.add_argument(
        "--windows", metavar="LIST", help=f"windows and strides of pools, KyxKx[:s=] (default {','.join(WINDOWS)})"
    )
    add_requantise(parser)
    parser.add_argument(
        "--outside",
        action="store_true",
        help="also functions that are told the value around the map, such as the zero point of the inputs",
    )
    parser.add_argument(
        "--pulp-nn",
        action="store_true",
        help="functions with the public names of PULP-NN, and of the kernels those alone that they need unless "
        "--kernels names others; --requantise bn64: those with kappa and lambda of 64 bits",
    )
    add_configuration(parser)
    parser.add_argument("--compiler", metavar="NAME", help=f"{' or '.join(COMPILERS)} (default: the first installed)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("build/library"), metavar="DIR", help="folder (default build/library)"
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write library, headers and README."""
    config = configuration(arguments)
    selection = Selection(
        kernels=_list(arguments.kernels, "--kernels"),
        precisions=[Precision.parse(text) for text in _list(arguments.precision, "--precision")],
        variants=_list(arguments.variant, "--variant"),
        windows=_list(arguments.windows, "--windows") or WINDOWS,
        rule=rule_of(arguments),
        outside=arguments.outside,
    )
    find(arguments.compiler)
    require_writable(arguments.json)
    functions: dict[str, KernelRun] = {}
    public: list[PublicFunction] = []
    with progress_bar("functions", None) as (bar, task):
        if arguments.pulp_nn:
            for function in PublicFunctions(selection.precisions, selection.rule, config, selection.windows):
                public.append(function)
                functions |= {kernel.name: kernel for kernel in function.kernels}
                bar.advance(task)
        if selection.kernels or not arguments.pulp_nn:
            for kernel in library_functions(selection, config):
                functions[kernel.name] = kernel
                bar.advance(task)
    require_folder(arguments.output, "--output")
    with progress_bar(f"objects of {len(functions)} functions", None):
        try:
            built = objects(
                list(functions.values()),
                arguments.output,
                compiler=arguments.compiler,
                options=Options(config=config),
                public=public,
            )
        except CompileError as error:
            print(error.messages, file=sys.stderr)
            return FAILED
    settings = " ".join([f"--preset {arguments.preset}", *(f"--set {text}" for text in arguments.settings)])
    written = [built]
    for name, text in texts(list(functions.values()), core_title(arguments), settings, public).items():
        write_text(arguments.output / name, text)
        written.append(arguments.output / name)
    output().print("\n".join(str(path) for path in written), markup=False, soft_wrap=True)
    names = [name for function in public for name in function.names]
    output().print(f"{len(functions)} functions" + (f", {len(names)} public names" if names else ""), markup=False)
    write_json(
        arguments.json,
        {"functions": list(functions), "public": names, "files": [str(path) for path in written]},
    )
    return OK


def _list(text: str | None, option: str) -> list[str]:
    """The words of a list, each once; none if it was not given."""
    if text is None:
        return []
    words = list(dict.fromkeys(text.split(",")))
    if "" in words:
        raise InputError(f"{option} must be words with a comma between them, not {text or 'nothing'}")
    return words
