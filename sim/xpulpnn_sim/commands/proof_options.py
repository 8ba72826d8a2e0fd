"""What ``formal`` and ``sequences`` have in common: options, tools and the folder of outcomes."""

import argparse
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from xpulpnn.errors import InputError
from xpulpnn_sim.abc_tool import find_abc
from xpulpnn_sim.commands.common import add_json, require_folder, require_writable
from xpulpnn_sim.commands.yosys_option import add_yosys
from xpulpnn_sim.folder_lock import folder_lock
from xpulpnn_sim.yosys import Yosys, find_yosys


class Workplace(NamedTuple):
    """Where outcomes are kept, and the tools that make them."""

    folder: Path
    yosys: Yosys
    abc: str


def add_proof_options(parser: argparse.ArgumentParser, name: str, *, each: str, seeding: str, listing: str) -> None:
    """Add the options that both have."""
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="S", help=f"seconds for the search of {each} (default 600)"
    )
    parser.add_argument("--resume", action="store_true", help="take outcomes of an earlier run in the same folder")
    parser.add_argument("--faults", action="store_true", help=f"instead, {seeding}")
    parser.add_argument("--list", action="store_true", help=f"show {listing}, and go")
    add_yosys(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help=f"folder for outcomes and examples (default build/{name}/PRESET)",
    )
    add_json(parser)


def require_proof_options(arguments: argparse.Namespace, least: Mapping[str, int]) -> None:
    """Raise :class:`InputError` if the result cannot be written, or a number is below its least."""
    require_writable(arguments.json)
    for name, low in least.items():
        value = getattr(arguments, name)
        if value is not None and value < low:
            raise InputError(f"--{name} must be at least {low}, not {value:g}")


@contextmanager
def workplace(arguments: argparse.Namespace, name: str) -> Generator[Workplace]:
    """The tools, and the folder of the options, which no other run uses meanwhile; raises :class:`ToolError`."""
    abc, yosys = find_abc(), find_yosys(arguments.yosys)
    folder = arguments.output or Path("build", name, arguments.preset)
    require_folder(folder, "--output")
    with folder_lock(folder, "--output"):
        yield Workplace(folder, yosys, abc)
