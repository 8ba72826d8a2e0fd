"""``xpulpnn net run``: a network out of a file on the design, layer by layer."""

import argparse
from pathlib import Path

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import add_configuration, add_exact, add_json
from xpulpnn_sim.commands.network_images import add_images, images_of
from xpulpnn_sim.commands.network_report import Manner, require_outputs, run_networks, targets, usable_processors
from xpulpnn_sim.explorer.library import load_library
from xpulpnn_sim.harness.machine import USUAL_L2_BYTES
from xpulpnn_sim.netruns.job import CHECKS, Task
from xpulpnn_sim.tools.dask_workers import require_dask
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
    parser.add_argument(
        "--l2-bytes",
        type=int,
        default=USUAL_L2_BYTES,
        metavar="N",
        help="size of the memory outside, or of that of one core, for code and data "
        f"(default {USUAL_L2_BYTES}, {USUAL_L2_BYTES >> 20} MiB)",
    )
    parser.add_argument("--grant-stalls", type=float, default=0.0, metavar="P", help="probability of a withheld grant")
    parser.add_argument(
        "--check",
        choices=CHECKS,
        default=CHECKS[0],
        help="images of which every retirement is checked besides the results of every layer, which are of all "
        f"(default {CHECKS[0]})",
    )
    parser.add_argument("--no-check", dest="check", action="store_const", const="none", help="the same as --check none")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the input and memory timing (default 0)")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: processors that may be used)")
    parser.add_argument(
        "--dask", default="", metavar="ADDRESS", help="run on the workers of this Dask scheduler instead"
    )
    parser.add_argument("--fresh", action="store_true", help="do not go on from where an interrupted run left off")
    parser.add_argument(
        "--liberty",
        type=Path,
        metavar="FILE",
        help="cell library for energies of the layers on one core: pieces of them at gate level, as in explore",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.html", help="plot layers and, of clusters, the memory")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the network for every image; fails if a check does."""
    require_outputs(arguments)
    if arguments.seed < 0:
        raise InputError(f"--seed must be at least 0, not {arguments.seed}")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {arguments.jobs}")
    described = read_network(arguments.network)
    task, chosen = _task(arguments, described), targets(arguments)
    if arguments.dask:
        require_dask(arguments.dask)
    library = None
    if arguments.liberty is not None:
        if all(isinstance(one, ClusterConfig) for one in chosen):
            raise InputError("--liberty must come with one core among --cores, not with clusters alone")
        library = load_library(arguments.liberty)
    manner = Manner(
        check=arguments.check,
        jobs=arguments.jobs or usable_processors(),
        dask=arguments.dask,
        fresh=arguments.fresh,
        library=library,
    )
    return run_networks(arguments, [task], chosen, manner)


def _task(arguments: argparse.Namespace, described: Described) -> Task:
    """The images, with the right answers if these are known, or an input that is random."""
    if arguments.images is None:
        return Task(network=described.network, inputs=described.random_input(arguments.seed)[None])
    images = images_of(arguments)
    return Task(
        network=described.network,
        inputs=described.batch(images.samples),
        labels=None if images.labels is None else images.known(described.classes),
        classes=described.labels,
        samples=images.samples,
    )
