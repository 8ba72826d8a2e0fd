"""``xpulpnn cosim cifar10``: the CIFAR-10 network of the PULP-NN paper, layer by layer."""

import argparse
from pathlib import Path

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import comma_list
from xpulpnn_sim.commands.network_report import Manner, require_outputs, run_networks, targets
from xpulpnn_sim.harness.cifar10 import CLASSES, IMAGE, WIDTHS, normalised, random_network, trained
from xpulpnn_sim.images import read_images
from xpulpnn_sim.netruns.job import Task

NAME = "cifar10"
HELP = "the CIFAR-10 network of the PULP-NN paper, all layers in one program"

_SHARED = (
    *("kernel", "preset", "settings", "exact", "no_check", "seed", "json", "bits", "cores", "grant_stalls"),
    *("l2_latency", "plot", "jobs"),
)
_OPTIONS = ("network", "images")

_PAPER_CYCLES = 4_862_000
"""Of the PULP-NN paper, 8 bit, one core."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the network."""
    widths = ",".join(map(str, WIDTHS))
    group = parser.add_argument_group(
        NAME,
        f"With the kernel {NAME}, which always runs as a program on whole cores: random weights of --bits, out of "
        f"{widths} (default all; the first layer has 8), or",
    )
    group.add_argument(
        "--network",
        type=Path,
        metavar="FILE.npz",
        help="weights and biases of 8 bits: conv1, conv2, conv3 [out][ky][kx][in], ip1 [out][in], b1, b2, b3, bi",
    )
    group.add_argument(
        "--images", type=Path, metavar="DIR", help="classify these, 32x32 RGB in files NAME_LABEL.png, with --network"
    )


def refuse_its_options(arguments: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options of this kernel with another."""
    for name in _OPTIONS:
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} must be left out with {arguments.kernel}: it is for {NAME}")


def run(arguments: argparse.Namespace, usual: argparse.Namespace) -> int:
    """Run the network for every width or image; fails if a check does. ``usual`` are the arguments' defaults."""
    for name, value in vars(arguments).items():
        if name not in (*_SHARED, *_OPTIONS) and value != getattr(usual, name, value):
            raise InputError(f"--{name.replace('_', '-')} must be left out with {NAME}")
    require_outputs(arguments)
    if (arguments.network is None) != (arguments.images is None):
        given, missing = ("images", "network") if arguments.network is None else ("network", "images")
        raise InputError(f"--{given} must be given together with --{missing}, not by itself")
    if arguments.network is not None and arguments.bits is not None:
        raise InputError("--bits must be left out with --network")
    manner = Manner(check="none" if arguments.no_check else "all", jobs=arguments.jobs)
    return run_networks(arguments, _tasks(arguments), targets(arguments), manner, _PAPER_CYCLES)


def _tasks(arguments: argparse.Namespace) -> list[Task]:
    """Networks and images, with the right answers where there are any."""
    if arguments.network is not None:
        network = trained(arguments.network)
        images = read_images(arguments.images)
        if images.samples.shape[1:] != IMAGE:
            sizes = ["x".join(map(str, shape)) for shape in (IMAGE, images.samples.shape[1:])]
            raise InputError(f"images must be {sizes[0]}, not {sizes[1]}, in {arguments.images}")
        labels = images.known(CLASSES)
        return [Task(network=network, inputs=normalised(images.samples), labels=labels, samples=images.samples)]
    known = tuple(map(str, WIDTHS))
    chosen = known if arguments.bits is None else comma_list(arguments.bits, known, "--bits")
    drawn = (random_network(int(bits), arguments.seed) for bits in chosen)
    return [Task(network=network, inputs=image[np.newaxis]) for network, image in drawn]
