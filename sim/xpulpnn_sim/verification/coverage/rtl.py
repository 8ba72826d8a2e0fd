"""Executed lines and toggled bits of the emitted Verilog, as Verilator counts and writes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError

_HEAD = b"# SystemC::Coverage-3\n"
_COUNT = re.compile(rb"' (\d+)$", re.MULTILINE)
_POINT = re.compile(rb"^C '(.*)' \d+$", re.MULTILINE)
_BIT = re.compile(r"^(.*?)(?:\[(\d+)\])?(?::(0->1|1->0))?$")
_OWN = ("testbench", "core_waited")  # Modules around the core
_DROPPED = "unused"  # signal of a module that holds what nobody reads, for the sake of lint


@dataclass(frozen=True, slots=True)
class Point:
    """Something that is counted."""

    kind: str  # `line`, `branch` or `toggle`
    module: str  # of the emitted Verilog
    line: int  # in the emitted Verilog
    name: str  # which branch of the line, or which signal
    bit: int = -1  # of the signal; -1: it has one
    change: str = ""  # `0->1` or `1->0` of a toggle


def read_counts(path: Path) -> NDArray[np.int64]:
    """The counts of a file of Verilator, in the order of :func:`read_points`; raises :class:`ToolError` for others."""
    data = path.read_bytes()
    if not data.startswith(_HEAD):
        raise ToolError(f"{path.name} must be coverage in Verilator's format 3, not another one")
    return np.array(_COUNT.findall(data), np.int64)


def read_points(path: Path) -> list[Point]:
    """Points that a file of Verilator counts."""
    return [_point(found.decode()) for found in _POINT.findall(path.read_bytes())]


def _point(text: str) -> Point:
    # a name with two underscores in a row is written with the number of the second
    fields = dict(part.split("\x02", 1) for part in text.replace("___05F", "__").split("\x01") if "\x02" in part)
    kind, _, module = fields["page"].removeprefix("v_").partition("/")
    # an instance with parameters of its own would be named behind the module
    module = module.partition("__")[0]
    if kind != "toggle":
        return Point(kind, module, int(fields["l"]), fields["o"])
    found = _BIT.match(fields["o"])
    assert found is not None
    return Point(kind, module, int(fields["l"]), found[1], int(found[2] or -1), found[3] or "")


@dataclass(frozen=True, slots=True)
class ModuleCoverage:
    """Used parts of a module, all its instances together."""

    name: str  # in the Verilog
    component: str  # the Python class it was made of
    lines: tuple[int, int]  # used and counted
    branches: tuple[int, int]  # used and counted
    changes: tuple[int, int]  # used and counted


def _merged(points: Sequence[Point], used: NDArray[np.bool_]) -> dict[Point, bool]:
    """Points of the core, those of several instances of a module together."""
    merged: dict[Point, bool] = {}
    for point, was_used in zip(points, used.tolist(), strict=True):
        if point.module not in _OWN and point.name != _DROPPED:
            merged[point] = merged.get(point, False) or was_used
    return merged


def module_table(
    points: Sequence[Point], used: NDArray[np.bool_], components: Mapping[str, str]
) -> list[ModuleCoverage]:
    """Used parts of each module, in the order of the Verilog."""
    tallies: dict[str, dict[str, list[int]]] = {}
    firsts: dict[str, int] = {}
    for point, was_used in _merged(points, used).items():
        tally = tallies.setdefault(point.module, {kind: [0, 0] for kind in ("line", "branch", "toggle")})[point.kind]
        tally[0] += was_used
        tally[1] += 1
        firsts[point.module] = min(firsts.get(point.module, point.line), point.line)
    found: list[ModuleCoverage] = []
    for name in sorted(tallies, key=firsts.__getitem__):
        lines, branches, changes = ((tally[0], tally[1]) for tally in tallies[name].values())
        found.append(ModuleCoverage(name, components.get(name, ""), lines, branches, changes))
    return found


def unused_lines(
    points: Sequence[Point], used: NDArray[np.bool_], verilog: str
) -> list[tuple[str, list[tuple[int, str, str]]]]:
    """Lines and branches of each module that were never used: number, text, and which branch."""
    text = verilog.splitlines()
    found: dict[str, list[tuple[int, str, str]]] = {}
    for point, was_used in _merged(points, used).items():
        if point.kind != "toggle" and not was_used:
            line = text[point.line - 1].strip() if point.line <= len(text) else ""
            found.setdefault(point.module, []).append((point.line, line, point.name.replace("_", " ")))
    return [(module, sorted(lines)) for module, lines in sorted(found.items())]


def unused_bits(points: Sequence[Point], used: NDArray[np.bool_]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Signals of each module with bits that never rose, or never fell: name and which bits."""
    missing: dict[str, dict[str, dict[str, list[int]]]] = {}
    for point, was_used in _merged(points, used).items():
        if point.kind == "toggle" and not was_used:
            signals = missing.setdefault(point.module, {})
            signals.setdefault(point.name, {}).setdefault(point.change, []).append(point.bit)
    return [
        (module, [(name, _bits_text(changes)) for name, changes in sorted(signals.items())])
        for module, signals in sorted(missing.items())
    ]


def _bits_text(changes: Mapping[str, list[int]]) -> str:
    rising, falling = (sorted(changes.get(change, ())) for change in ("0->1", "1->0"))
    if rising == falling:
        return f"{_ranges(rising)}never changes"
    parts = [f"{_ranges(bits)}never {verb}" for bits, verb in ((rising, "rises"), (falling, "falls")) if bits]
    return ", ".join(parts)


def _ranges(bits: Sequence[int]) -> str:
    """Bit numbers as ranges; nothing for a signal of one bit."""
    if bits and bits[0] < 0:
        return ""
    spans: list[list[int]] = []
    for bit in bits:
        if spans and bit == spans[-1][1] + 1:
            spans[-1][1] = bit
        else:
            spans.append([bit, bit])
    return ", ".join(f"{high}:{low}" if high > low else str(low) for low, high in reversed(spans)) + " "
