"""``xpulpnn net generate``: a network as a C program."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.commands.cluster_options import add_cores
from xpulpnn_sim.commands.cluster_options import described as target_of
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
from xpulpnn_sim.commands.network_images import add_images, images_of
from xpulpnn_sim.files import write_text
from xpulpnn_sim.golden.network import run_reference
from xpulpnn_sw.build_options import Options
from xpulpnn_sw.cluster_layout import ClusterLayout
from xpulpnn_sw.cnetworks.c_network import CNetwork, c_network, packed_input
from xpulpnn_sw.cnetworks.plan import MemoryPlan
from xpulpnn_sw.cnetworks.program_text import Example, Target, files
from xpulpnn_sw.compilers import COMPILERS, CompileError, find
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.networks.form import read_network
from xpulpnn_sw.networks.network import Network
from xpulpnn_sw.networks.whole_words import filled_input, in_whole_words
from xpulpnn_sw.toolchain import build

_RUNTIME_TCDM = 64
"""Bytes of the TCDM that the runtime has for itself beside the stacks."""

_USUAL_EXAMPLES = 1
_MOST_SAMPLE = 255


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the action."""
    parser.add_argument("network", type=Path, metavar="FILE.json", help="the network, its weights in the npz beside it")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the program")
    add_images(parser, "examples that the program runs; without them a random input")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random input (default 0)")
    add_cores(parser)
    add_configuration(parser, clusters=True)
    parser.add_argument("--build", action="store_true", help="compile it at once, to DIR/network.elf")
    parser.add_argument("--compiler", metavar="NAME", help=f"{' or '.join(COMPILERS)} (default: the first installed)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the program, and maybe build it."""
    if arguments.seed < 0:
        raise InputError(f"--seed must be at least 0, not {arguments.seed}")
    target = target_of(arguments)
    require_writable(arguments.json)
    described = read_network(arguments.network)
    samples, labels = _samples(arguments)
    if arguments.build:
        find(arguments.compiler)
    inputs = described.random_input(arguments.seed)[np.newaxis] if samples is None else described.batch(samples)
    network = _c_network(described.network, inputs[0], target)
    examples = _examples(described.network, network, inputs, samples, labels)
    folder: Path = arguments.output
    require_folder(folder, "--output")
    settings = " ".join([f"--preset {arguments.preset}", *(f"--set {text}" for text in arguments.settings)])
    tcdm = target.tcdm_bytes if isinstance(target, ClusterConfig) else None
    texts = files(
        network, examples, Target(core=core_title(arguments), settings=settings, tcdm=tcdm), described.scaling
    )
    texts["plan.json"] = json.dumps(_plan(network.plan), indent=2) + "\n"
    written = [folder / name for name in texts]
    for path, text in zip(written, texts.values(), strict=True):
        write_text(path, text)
    if arguments.build:
        program = folder / "network.elf"
        try:
            printed = build(
                [path for path in written if path.suffix in (".c", ".s")],
                program,
                compiler=arguments.compiler,
                options=_options(target, core_title(arguments), folder),
            )
        except CompileError as error:
            sys.stderr.write(error.messages)
            return FAILED
        sys.stderr.write(printed)
        written.append(program)
    output().print("\n".join(map(str, written)), markup=False, soft_wrap=True)
    write_json(arguments.json, _record(network, written))
    return OK


def _samples(arguments: argparse.Namespace) -> tuple[Ints | None, Ints | None]:
    """The images of the examples, and their classes if these are known."""
    if arguments.images is None:
        return None, None
    images = images_of(arguments).first(arguments.limit or _USUAL_EXAMPLES)
    return images.samples, images.labels


def _c_network(original: Network, image: Ints, target: CoreConfig | ClusterConfig) -> CNetwork:
    core = target.core if isinstance(target, ClusterConfig) else target
    network = in_whole_words(original)
    variants = [stage.fastest(core.extensions, core.widths) for stage in network.stages]
    if isinstance(target, CoreConfig):
        return c_network(original, network, image, variants)
    layout = _layout(target)
    room = target.tcdm_bytes - layout.stack - (target.cores - 1) * layout.core_stack - _RUNTIME_TCDM
    return c_network(original, network, image, variants, cores=target.cores, memory=room)


def _examples(
    original: Network, network: CNetwork, inputs: Ints, samples: Ints | None, labels: Ints | None
) -> list[Example]:
    """The examples with what the reference makes of them; as samples where the program can make inputs of these."""
    computed = network.network
    filled = np.stack([filled_input(image, computed) for image in inputs])
    results, scores = run_reference(computed, filled), run_reference(original, inputs)[-1]
    variants = [layer.run.variant.name for layer in network.layers]
    is_packed = samples is None or not network.input_layouts or samples.min() < 0 or samples.max() > _MOST_SAMPLE
    return [
        Example(
            input=packed_input(computed, image, variants)
            if is_packed or samples is None
            else samples[number].astype(np.uint8),
            scores=scores[number],
            results=[layer[number] for layer in results],
            label=None if labels is None else int(labels[number]),
        )
        for number, image in enumerate(inputs)
    ]


def _layout(target: ClusterConfig) -> ClusterLayout:
    return ClusterLayout(cores=target.cores, tcdm=target.tcdm_bytes)


def _options(target: CoreConfig | ClusterConfig, title: str, folder: Path) -> Options:
    is_cluster = isinstance(target, ClusterConfig)
    return Options(
        config=target.core if is_cluster else target,
        core=title,
        include=(folder / "include",),
        extra=("-Wall", "-Wextra"),
        cluster=_layout(target) if is_cluster else None,
    )


def _plan(plan: MemoryPlan) -> dict[str, object]:
    """The memory plan for machines."""
    places = plan.places
    return {
        "bytes": plan.extent,
        "steps": [
            {"layer": step.layer, "load": step.load, "bytes": plan.demand(number)}
            for number, step in enumerate(plan.steps)
        ],
        "pieces": [
            {"name": one.name, "offset": places[one.name], "bytes": one.size, "first": one.first, "last": one.last}
            for one in plan.pieces
        ],
    }


def _record(network: CNetwork, written: Sequence[Path]) -> dict[str, object]:
    return {
        "name": network.name,
        "cores": network.cores or 1,
        "files": [str(path) for path in written],
        "functions": [run.name for run in network.functions],
        "memory_bytes": network.plan.extent,
        "layers": [{"name": layer.stage.name, "function": layer.run.name} for layer in network.layers],
    }
