"""Images for networks on the command line."""

import argparse
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim.images import FORMS, Images, read_images


def add_images(parser: argparse.ArgumentParser, what: str, *, required: bool = False) -> None:
    """Add ``--images``, which says ``what`` happens with them, ``--labels`` and ``--limit``."""
    parser.add_argument("--images", type=Path, metavar="PATH", required=required, help=f"{what}: {FORMS}")
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="IDX file with the classes of the images (default: the one beside them called labels-idx1)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N images")


def images_of(arguments: argparse.Namespace) -> Images:
    """The images that are asked for; raises :class:`InputError` for others."""
    if arguments.limit is not None and arguments.limit < 1:
        raise InputError(f"--limit must be at least 1, not {arguments.limit}")
    return read_images(arguments.images, arguments.labels).first(arguments.limit)
