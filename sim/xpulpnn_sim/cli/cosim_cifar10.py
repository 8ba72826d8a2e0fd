"""``xpulpnn cosim cifar10``: the CIFAR-10 network of the PULP-NN paper, layer by layer."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sim.api.cosimulation import DEFAULT_CONFIG
from xpulpnn_sim.cli.network_report import Manner, NetworkRuns, run_networks
from xpulpnn_sim.cli.options import Jobs, Preset, arguments, command, listed
from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.cosimulation.networks.job import NetworkTask
from xpulpnn_sim.cosimulation.workloads.cifar10 import (
    CLASSES,
    IMAGE,
    WIDTHS,
    normalised_images,
    random_network,
    trained,
)

_PAPER_CYCLES = 4_862_000  # of the PULP-NN paper, 8 bit, one core


@arguments
class Cifar10Options(NetworkRuns, Jobs):
    """Options of the command, which always runs programs on whole cores."""

    preset: Preset = DEFAULT_CONFIG
    """Configuration to start from."""
    bits: Annotated[
        tuple[str, ...],
        listed(tuple(map(str, WIDTHS)), "Widths of random weights (default all; the first layer has 8)"),
    ] = ()
    network: Path | None = None
    """Weights and biases of 8 bits, FILE.npz: conv1, conv2, conv3 [out][ky][kx][in], ip1 [out][in], b1, b2, b3, bi."""
    images: Path | None = None
    """Classify these, 32x32 RGB in files NAME_LABEL.png of a folder, with --network."""
    check: Literal["results", "all"] = "all"
    """Comparison: the results of every layer, or every instruction too."""


@command
def cosim_cifar10_command(options: Cifar10Options) -> int:
    """Run the network for every width or image; fails if a check does."""
    if (options.network is None) != (options.images is None):
        given, missing = ("images", "network") if options.network is None else ("network", "images")
        raise InputError(f"--{given} must be given together with --{missing}, not by itself")
    if options.network is not None and options.bits:
        raise InputError("--bits must be left out with --network")
    manner = Manner(check="all" if options.check == "all" else "none", jobs=options.jobs)
    return run_networks(options, _tasks(options), manner, _PAPER_CYCLES)


def _tasks(options: Cifar10Options) -> list[NetworkTask]:
    """Networks and images, with the right answers where there are any."""
    if options.network is not None and options.images is not None:
        network = trained(options.network)
        images = read_images(options.images)
        if images.samples.shape[1:] != IMAGE:
            sizes = ["x".join(map(str, shape)) for shape in (IMAGE, images.samples.shape[1:])]
            raise InputError(f"images must be {sizes[0]}, not {sizes[1]}, in {options.images}")
        labels = images.known(CLASSES)
        return [
            NetworkTask(
                network=network, inputs=normalised_images(images.samples), labels=labels, samples=images.samples
            )
        ]
    drawn = (random_network(int(bits), options.seed) for bits in options.bits or WIDTHS)
    return [NetworkTask(network=network, inputs=image[np.newaxis]) for network, image in drawn]
