"""``--yosys``, of the subcommands that run Yosys."""

import argparse

from xpulpnn_sim.yosys import CHOICES, VARIABLE


def add_yosys(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add ``--yosys WHICH``, which :func:`~xpulpnn_sim.yosys.find_yosys` takes."""
    parser.add_argument(
        "--yosys", default="", metavar="WHICH", help=f"Yosys: {CHOICES} (default: {VARIABLE}, or the pinned wheel)"
    )
