"""Folder in which proofs keep their outcomes, and the tools that make them."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from xpulpnn_sim.cli.option_groups import ProofOptions
from xpulpnn_sim.tools.files import folder_lock, require_folder
from xpulpnn_sim.tools.yosys import Yosys, find_abc, find_yosys


class Workplace(NamedTuple):
    """Folder of the outcomes, and the tools that make them."""

    folder: Path
    yosys: Yosys
    abc: str


@contextmanager
def workplace(options: ProofOptions, name: str) -> Generator[Workplace]:
    """The tools, and the folder of the options, which no other run uses meanwhile; raises :class:`ToolError`."""
    abc, yosys = find_abc(), find_yosys(options.yosys)
    folder = options.output or Path("build", name, options.preset)
    require_folder(folder, "--output")
    with folder_lock(folder, "--output"):
        yield Workplace(folder, yosys, abc)
