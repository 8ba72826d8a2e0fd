"""``xpulpnn net run``: a network out of a file on the design, layer by layer."""

import argparse
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import add_configuration, add_exact, add_json
from xpulpnn_sim.commands.network_images import add_images, labelled_inputs
from xpulpnn_sim.commands.network_report import Labelled, require_outputs, run_networks, targets
from xpulpnn_sw.networks.described import Described
from xpulpnn_sw.networks.form import read_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the action."""
    parser.add_argument(
        "network", type=Path, metavar="FILE.json", help="the layers; their weights are in the npz file that it names"
    )
    add_images(parser, "classify these; without them a random input")
    parser.add_argument(
        "--cores",
        metavar="LIST",
        help="1 for one core by itself, more for clusters, whose memory outside has input and weights (default 1, or "
        "the cluster of the preset)",
    )
    add_configuration(parser, clusters=True)
    add_exact(parser)
    parser.add_argument(
        "--l2-latency", type=int, default=1, metavar="N", help="cycles the memory outside takes to answer (default 1)"
    )
    parser.add_argument("--grant-stalls", type=float, default=0.0, metavar="P", help="probability of a withheld grant")
    parser.add_argument("--no-check", action="store_true", help="compare the results only, not every instruction")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the input and memory timing (default 0)")
    parser.add_argument("--plot", type=Path, metavar="FILE.html", help="plot layers and, of clusters, the memory")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the network for every image; fails if a check does."""
    require_outputs(arguments)
    if arguments.seed < 0:
        raise InputError(f"--seed must be at least 0, not {arguments.seed}")
    described = read_network(arguments.network)
    return run_networks(arguments, _inputs(arguments, described), targets(arguments))


def _inputs(arguments: argparse.Namespace, described: Described) -> list[Labelled]:
    """The images, with the right answers, or an input that is random."""
    if arguments.images is None:
        return [(described.network, described.random_input(arguments.seed), None)]
    inputs, labels = labelled_inputs(arguments, described)
    return [(described.network, image, int(label)) for image, label in zip(inputs, labels, strict=True)]
