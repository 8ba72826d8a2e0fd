"""``xpulpnn net generate``: a network as a C program."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.cluster_options import add_cores, described
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_configuration,
    add_json,
    core_title,
    output,
    progress_bar,
    remark,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.commands.network_images import add_images, images_of
from xpulpnn_sim.files import write_text
from xpulpnn_sim.harness.network_program import Inputs, NetworkProgram, network_program, program_options
from xpulpnn_sw.compilers import COMPILERS, CompileError, find
from xpulpnn_sw.networks.described import Described
from xpulpnn_sw.networks.form import read_network
from xpulpnn_sw.networks.kernels import weight_bytes
from xpulpnn_sw.toolchain import build

_PROGRAM = "network.elf"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the action."""
    parser.add_argument("network", type=Path, metavar="FILE.json", help="the network, its weights in the npz beside it")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for sources, Makefile and a picture of the memory",
    )
    add_images(
        parser,
        "examples that the program computes, the first of them unless --limit says more; without them a random input",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random input (default 0)")
    parser.add_argument(
        "--specialise",
        action="store_true",
        help="a function for each layer, which knows its arguments: faster, and more code (default: functions of the "
        "kernel library, shared by layers)",
    )
    add_cores(parser)
    add_configuration(parser, clusters=True)
    parser.add_argument("--build", action="store_true", help=f"compile it at once, to DIR/{_PROGRAM}")
    parser.add_argument("--compiler", metavar="NAME", help=f"{' or '.join(COMPILERS)} (default: the first installed)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the program, and maybe build it."""
    if arguments.seed < 0:
        raise InputError(f"--seed must be at least 0, not {arguments.seed}")
    if arguments.compiler is not None and not arguments.build:
        raise InputError(f"--compiler must come with --build, not alone with {arguments.compiler}")
    config = described(arguments)
    require_writable(arguments.json)
    network = read_network(arguments.network)
    inputs = _inputs(arguments, network)
    if arguments.build:
        find(arguments.compiler)
    settings = " ".join([f"--preset {arguments.preset}", *(f"--set {text}" for text in arguments.settings)])
    with progress_bar("kernels and reference", None):
        program = network_program(
            network.network,
            inputs,
            config,
            core=core_title(arguments),
            settings=settings,
            specialise=arguments.specialise,
            classes=network.labels,
        )
    if program.network.outside:
        remark(f"stays in the L2, for which the TCDM has no room: {', '.join(program.network.outside)}")
    folder: Path = arguments.output
    require_folder(folder, "--output")
    written: list[Path] = []
    for name, text in program.texts.items():
        written.append(folder / name)
        write_text(written[-1], text)
    if arguments.build:
        options = program_options(
            config, core=core_title(arguments), include=(folder / "include",), extra=("-Wall", "-Wextra")
        )
        try:
            with progress_bar("compiling", None):
                printed = build(
                    [folder / name for name in program.sources],
                    folder / _PROGRAM,
                    compiler=arguments.compiler,
                    options=options,
                )
        except CompileError as error:
            sys.stderr.write(error.messages)
            return FAILED
        sys.stderr.write(printed)
        written.append(folder / _PROGRAM)
    output().print("\n".join(map(str, written)), markup=False, soft_wrap=True)
    write_json(arguments.json, _record(program, written))
    return OK


def _inputs(arguments: argparse.Namespace, network: Described) -> Inputs:
    """The examples: images, or an input that is random."""
    if arguments.images is None:
        return Inputs(values=network.random_input(arguments.seed)[np.newaxis], scaling=network.scaling)
    images = images_of(arguments).first(arguments.limit or 1)
    return Inputs(
        values=network.batch(images.samples), samples=images.samples, labels=images.labels, scaling=network.scaling
    )


def _record(program: NetworkProgram, written: Sequence[Path]) -> dict[str, object]:
    network = program.network
    return {
        "name": network.name,
        "cores": network.cores or 1,
        "files": [str(path) for path in written],
        "memory_bytes": network.plan.extent,
        "outside": network.outside,
        "weight_bytes": sum(weight_bytes(layer.run) for layer in network.layers),
        "layers": [
            {"name": layer.stage.name, "function": layer.run.name, "macs": layer.macs} for layer in network.layers
        ],
    }
