"""Executed lines and toggled bits of the emitted Verilog, as Verilator counts and writes them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError

_HEAD = b"# SystemC::Coverage-3\n"
_COUNT = re.compile(rb"' (\d+)$", re.MULTILINE)
_POINT = re.compile(rb"^C '(.*)' \d+$", re.MULTILINE)
_BIT = re.compile(r"^(.*?)(?:\[(\d+)\])?(?::(0->1|1->0))?$")
_OWN = ("testbench", "core_waited")
"""Modules around the core."""


@dataclass(frozen=True, slots=True)
class Point:
    """Something that is counted.

    Members
    -------
    kind : str
        ``line``, ``branch`` or ``toggle``.
    module : str
        Of the emitted Verilog.
    line : int
        In the emitted Verilog.
    name : str
        Which branch of the line, or which signal.
    bit : int
        Of the signal; -1: it has one.
    change : str
        ``0->1`` or ``1->0`` of a toggle.
    """

    kind: str
    module: str
    line: int
    name: str
    bit: int = -1
    change: str = ""


def read_counts(path: Path) -> NDArray[np.int64]:
    """The counts of a file of Verilator, in the order of :func:`read_points`; raises :class:`ToolError` for others."""
    data = path.read_bytes()
    if not data.startswith(_HEAD):
        raise ToolError(f"{path.name} must be coverage in Verilator's format 3, not another one")
    return np.array(_COUNT.findall(data), np.int64)


def read_points(path: Path) -> list[Point]:
    """What a file of Verilator counts."""
    return [_point(found.decode()) for found in _POINT.findall(path.read_bytes())]


def _point(text: str) -> Point:
    fields = dict(part.split("\x02", 1) for part in text.split("\x01") if "\x02" in part)
    kind, _, module = fields["page"].removeprefix("v_").partition("/")
    # an instance with parameters of its own would be named behind the module
    module = module.partition("__")[0]
    if kind != "toggle":
        return Point(kind, module, int(fields["l"]), fields["o"])
    found = _BIT.match(fields["o"])
    assert found is not None
    return Point(kind, module, int(fields["l"]), found[1], int(found[2] or -1), found[3] or "")


def counted(points: Sequence[Point]) -> NDArray[np.bool_]:
    """Which points belong to the core and not to what is around it."""
    return np.array([point.module not in _OWN for point in points], np.bool_)
