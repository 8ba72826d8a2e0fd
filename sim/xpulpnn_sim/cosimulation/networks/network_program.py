"""Networks as self-checking C programs: their source files, with example inputs and the golden model's results."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.c_programs.c_network import CNetwork, c_network
from xpulpnn_sw.networks.c_programs.program_text import Example, ProgramTarget, program_files
from xpulpnn_sw.networks.kernels import packed_input
from xpulpnn_sw.networks.legalise import legalise, padded_input
from xpulpnn_sw.networks.network import Network, Scaling
from xpulpnn_sw.toolchain.build_options import DEFAULT_RAM, DEFAULT_ROM, KIB, ClusterLayout, Options

_RUNTIME_TCDM = 64  # bytes of the TCDM that the runtime needs in addition to the stacks
_PROGRAM = 64 * KIB  # upper bound of the size of a program without networks and examples
_MOST_SAMPLE = 255


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    values: Ints  # `[example]...`, each of the shape of the network's input
    samples: Ints | None = None  # images from which the values were computed
    labels: Ints | None = None  # class of each example
    scaling: Scaling = field(default_factory=Scaling)  # from samples to values


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkProgram:
    """A C program that computes a network; ``texts`` are the contents of its files by name."""

    network: CNetwork
    texts: dict[str, str]

    @property
    def sources(self) -> list[str]:
        return [name for name in self.texts if name.endswith((".c", ".s"))]


def network_program(
    original: Network,
    inputs: Inputs,
    config: CoreConfig | ClusterConfig,
    *,
    core: str,
    settings: str,
    command: str = "xpulpnn",
    specialise: bool = False,
    classes: Sequence[str] = (),
) -> NetworkProgram:
    network = _c_network(original, inputs.values[0], config, specialise=specialise)
    network = replace(network, classes=tuple(classes))
    _check_size(network, inputs)
    target = ProgramTarget(core=core, settings=settings, command=command, specialised=specialise)
    if isinstance(config, ClusterConfig):
        target = replace(target, tcdm=config.tcdm_bytes, icache=config.icache_private)
    texts = program_files(network, _examples(original, network, inputs), target, inputs.scaling)
    texts["plan.json"] = json.dumps(network.plan.record, indent=2) + "\n"
    return NetworkProgram(network=network, texts=texts)


def program_options(config: CoreConfig | ClusterConfig, **others: Any) -> Options:
    if isinstance(config, ClusterConfig):
        return Options(config=config.core, cluster=ClusterLayout(cores=config.cores, tcdm=config.tcdm_bytes), **others)
    return Options(config=config, **others)


def _c_network(original: Network, image: Ints, config: CoreConfig | ClusterConfig, *, specialise: bool) -> CNetwork:
    network = legalise(original, config.core.extensions)
    variants = [stage.fastest_variant(config.core.extensions, config.core.widths) for stage in network.stages]
    if isinstance(config, CoreConfig):
        return c_network(original, network, image, variants, specialise=specialise)
    layout = ClusterLayout(cores=config.cores, tcdm=config.tcdm_bytes)
    room = config.tcdm_bytes - layout.stack - (config.cores - 1) * layout.core_stack - _RUNTIME_TCDM
    return c_network(original, network, image, variants, cores=config.cores, memory=room, specialise=specialise)


def _check_size(network: CNetwork, inputs: Inputs) -> None:
    parts = {
        "weights": sum(layer.run.weight_bytes for layer in network.layers),
        "functions": sum(run.function.words.nbytes for run in network.functions),
        "examples": len(inputs.values) * sum(words.nbytes for words in network.input.values()),
        "maps": network.plan.outside.extent,
        "the rest": _PROGRAM,
    }
    name, alone = network.network.name, network.cores is None
    memories = [(DEFAULT_ROM, parts, f"{name}, in the memory of code and constants")] if alone else []
    data = {"maps and buffers": network.plan.extent, "the rest": _PROGRAM} if alone else parts
    memories.append((DEFAULT_RAM, data, name if alone else f"{name}, in the L2"))
    for limit, sizes, where in memories:
        if (needed := sum(sizes.values())) > limit:
            listed = ", ".join(f"{part} {size}" for part, size in sizes.items())
            raise LayerError(f"program must be at most {limit} bytes, not {needed}: {listed}, of {where}")


def _examples(original: Network, network: CNetwork, inputs: Inputs) -> list[Example]:
    """Return the examples with expected results; inputs are samples if the program can scale these itself."""
    computed, values = network.network, inputs.values
    filled = np.stack([padded_input(image, computed) for image in values])
    results, scores = run_reference(computed, filled), run_reference(original, values)[-1]
    return [
        Example(
            input=_input(network, inputs, number),
            scores=scores[number],
            results=[layer[number] for layer in results],
            label=None if inputs.labels is None else int(inputs.labels[number]),
        )
        for number in range(len(values))
    ]


def _input(network: CNetwork, inputs: Inputs, number: int) -> Any:
    samples: NDArray[Any] | None = inputs.samples
    if samples is not None and samples.min() >= 0 and samples.max() <= _MOST_SAMPLE:
        return samples[number].astype(np.uint8)
    filled = padded_input(inputs.values[number], network.network)
    return packed_input(network.network, filled, network.variants, cores=1)
