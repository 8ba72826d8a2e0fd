"""``xpulpnn net generate``: a network as a C program."""

import sys
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.common import FAILED, OK, progress_bar, remark, tell, write_json
from xpulpnn_sim.cli.configurations import Cores
from xpulpnn_sim.cli.kernel_options import CompilerChoice, Specialising
from xpulpnn_sim.cli.network_samples import ImageOptions
from xpulpnn_sim.cli.options import Json, NewFolder, Seed, arguments, command
from xpulpnn_sim.cosimulation.networks.network_program import Inputs, NetworkProgram, network_program, program_options
from xpulpnn_sim.tools.files import require_folder, write_text
from xpulpnn_sw.networks.form import read_network
from xpulpnn_sw.networks.kernels import weight_bytes
from xpulpnn_sw.networks.network import Described
from xpulpnn_sw.toolchain.build import build
from xpulpnn_sw.toolchain.compilers import CompileError, find_compiler

_PROGRAM = "network.elf"


@arguments
class NetGenerateOptions(Cores, ImageOptions, Specialising, Seed, CompilerChoice, Json):
    """Options of the command; images are examples that the program computes, the first unless --limit says more."""

    network: Path = field(kw_only=False)
    """The network, FILE.json, its weights in the npz beside it."""
    output: Annotated[NewFolder, Parameter(alias="-o")]
    """Folder for sources, Makefile and a picture of the memory."""
    build: bool = False
    """Compile it at once, to DIR/network.elf."""


@command
def net_generate_command(asked: NetGenerateOptions) -> int:
    """Write the program, and maybe build it."""
    if asked.compiler is not None and not asked.build:
        raise InputError(f"--compiler must come with --build, not alone with {asked.compiler}")
    config = asked.target
    network = read_network(asked.network)
    inputs = _inputs(asked, network)
    if asked.build:
        find_compiler(asked.compiler)
    with progress_bar("kernels and reference", None):
        program = network_program(
            network.network,
            inputs,
            config,
            core=asked.title,
            settings=asked.command_words,
            specialise=asked.specialise,
            classes=network.labels,
        )
    if program.network.outside:
        remark(f"stays in the L2, for which the TCDM has no room: {', '.join(program.network.outside)}")
    folder: Path = asked.output
    require_folder(folder, "--output")
    written: list[Path] = []
    for name, text in program.texts.items():
        written.append(folder / name)
        write_text(written[-1], text)
    if asked.build:
        options = program_options(config, core=asked.title, include=(folder / "include",), extra=("-Wall", "-Wextra"))
        try:
            with progress_bar("compiling", None):
                printed = build(
                    [folder / name for name in program.sources],
                    folder / _PROGRAM,
                    compiler=asked.compiler,
                    options=options,
                )
        except CompileError as error:
            sys.stderr.write(error.messages)
            return FAILED
        sys.stderr.write(printed)
        written.append(folder / _PROGRAM)
    tell("\n".join(map(str, written)))
    write_json(asked.json, _record(program, written))
    return OK


def _inputs(asked: NetGenerateOptions, network: Described) -> Inputs:
    """The examples: images, or an input that is random."""
    images = asked.read()
    if images is None:
        return Inputs(values=network.random_input(asked.seed)[np.newaxis], scaling=network.scaling)
    images = images.first(asked.limit or 1)
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
