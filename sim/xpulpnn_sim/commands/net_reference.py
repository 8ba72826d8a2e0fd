"""``xpulpnn net reference``: how many images a network classifies as labelled, by the reference alone."""

import argparse
from pathlib import Path
from time import perf_counter

from xpulpnn_sim.commands.common import OK, add_json, output, progress_bar, require_writable, write_json
from xpulpnn_sim.commands.network_images import add_images, images_of
from xpulpnn_sim.commands.network_tables import class_table
from xpulpnn_sim.harness.classified import classified
from xpulpnn_sw.networks.form import read_network

_DIGITS = 4
_MOST_CLASSES = 20
"""Of which a table is shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the action."""
    parser.add_argument("network", type=Path, metavar="FILE.json", help="the network, its weights in the npz beside it")
    add_images(parser, "classify these", required=True)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compute the network for every image, and show how many answers are right."""
    require_writable(arguments.json)
    described = read_network(arguments.network)
    images = images_of(arguments)
    started = perf_counter()
    with progress_bar("images", len(images.samples)) as (progress, task):
        result = classified(described, images, lambda done: progress.update(task, completed=done))
    wall = perf_counter() - started
    console = output()
    if described.classes <= _MOST_CLASSES:
        console.print(class_table(result.classes))
    console.print(
        f"{result.right} of {len(result.labels)} images classified as labelled: {result.accuracy:.2%}, {wall:.1f} s"
    )
    write_json(arguments.json, result.record() | {"wall_s": round(wall, _DIGITS)})
    return OK
