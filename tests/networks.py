"""Networks of layers written as text, and programs of them on the instruction-set simulator."""

from collections.abc import Sequence

import numpy as np

from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase, compared
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sim.cosimulation.workloads.workload import executable_of
from xpulpnn_sim.reference.iss.cluster import ClusterSession
from xpulpnn_sw.kernels.catalogue import find_kernel, kernel_of
from xpulpnn_sw.layers.layer import ImageConvLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.deployed_program import DeployedProgram
from xpulpnn_sw.networks.network import Network, Stage

from .designs import FULL


def stage(name: str, kernel: str, text: str, precision: str, *sources: str, rng: np.random.Generator) -> Stage:
    """A layer with random tensors; ``text`` ends in ``:image`` for the first convolution of colours."""
    layer = (ImageConvLayer if text.endswith(":image") else find_kernel(kernel).layer).parse(text)
    known = kernel_of(layer)
    widths = known.precision(layer, Precision.parse(precision))
    tensors = known.tensors(layer, widths, rng)
    return Stage(name=name, layer=layer, precision=widths, tensors=tensors, sources=tuple(sources))


def network_of(layers: Sequence[Sequence[str]], seed: int = 0) -> tuple[Network, np.ndarray]:
    """A network of (kernel, layer, precision, sources) whose layers are named by kernel and number, and an input."""
    rng = np.random.default_rng(seed)
    stages = tuple(stage(f"{layer[0]}{number}", *layer, rng=rng) for number, layer in enumerate(layers))
    return Network(name="net", stages=stages), stages[0].tensors.activations


def cifar10_case(bits: int, config=FULL) -> NetworkCase:
    """The network for CIFAR-10 with random weights; retirements are not checked."""
    network, image = random_network(bits, seed=bits)
    return NetworkCase(network=network, image=image, config=config, machine=Machine(), checked=False)


def wrong_on_the_simulator(case: NetworkCase, program: DeployedProgram) -> list[int]:
    text = bytearray()
    executable = executable_of(program, "network", [program.outside])
    session = ClusterSession(executable, case.config, output=lambda output: text.extend(output.data))
    assert session.run(10_000_000).ok
    stored = program.outside.symbols[program.outputs[-1].symbol]
    results = [*program.results(bytes(text)), program.final(session.memory.read_bytes(stored.address, stored.length))]
    return [layer.wrong for layer in compared(case, results)]
