"""``xpulpnn net reference``: how many images a network classifies as labelled, by the reference alone."""

from dataclasses import field
from pathlib import Path
from time import perf_counter
from typing import Annotated

from cyclopts import Parameter

from xpulpnn_sim.cli.common import OK, output, progress_bar, write_json
from xpulpnn_sim.cli.network_report import class_table
from xpulpnn_sim.cli.options import Count, Json, arguments, command
from xpulpnn_sim.cosimulation.networks.images import FORMS, read_images
from xpulpnn_sim.cosimulation.networks.summary import classified
from xpulpnn_sw.networks.form import read_network

_DIGITS = 4
_MOST_CLASSES = 20  # of which a table is shown


@arguments
class ReferenceOptions(Json):
    """Options of the command."""

    network: Path = field(kw_only=False)
    """The network, FILE.json, its weights in the npz beside it."""
    images: Annotated[Path, Parameter(help=f"Classify these: {FORMS}.", metavar="PATH")]
    labels: Path | None = None
    """IDX file with the classes of the images (default: the one beside them called labels-idx1)."""
    limit: Count | None = None
    """Only the first N images."""


@command
def net_reference_command(options: ReferenceOptions) -> int:
    """Compute the network for every image, and show how many answers are right."""
    described = read_network(options.network)
    images = read_images(options.images, options.labels).first(options.limit)
    started = perf_counter()
    with progress_bar("images", len(images.samples)) as bar:
        result = classified(described, images, bar.reach)
    wall = perf_counter() - started
    console = output()
    if described.classes <= _MOST_CLASSES:
        console.print(class_table(result.classes))
    console.print(
        f"{result.right} of {len(result.labels)} images classified as labelled: {result.accuracy:.2%}, {wall:.1f} s"
    )
    write_json(options.json, result.record() | {"wall_s": round(wall, _DIGITS)})
    return OK
