"""Facts of a cell library for the synthesis flows: gate equivalent, FO4 delay, register, driver and load."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn.user_cache import cache_directory
from xpulpnn_sim.exploration.liberty import Liberty, LibraryCell, TimingArc, read_liberty
from xpulpnn_sim.tools.files import write_bytes

_INVERTER = 0b01
_BUFFER = 0b10
_NAND2 = 0b0111
_FO4_STEPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A cell library as the flows use it."""

    path: Path  # Liberty file
    liberty: Liberty
    name: str  # what reports call it
    physical: bool  # whether areas are in um2; the built-in library has areas in NAND2 equivalents alone
    sha256: str
    nand2: str  # the smallest 2-input NAND; its area is one gate equivalent
    ge_area: float  # area of it, um2 by custom
    # mean of rise and fall delay of `fo4_inverter` driving four of itself, with the slew that such a chain settles at,
    # rounded to 0.1 ps
    fo4_ps: float
    # the second smallest inverter, or the only one: the smallest one of a library is often slow for its load
    fo4_inverter: str
    flip_flop: str  # the smallest D flip-flop on the rising edge (what `dfflibmap` picks)
    clock_gate: str  # the smallest clock gate with a latch for rising-edge registers; empty if there is none
    # buffer that drives every input: the middle one of those that no other beats in both area and drive
    driving_cell: str
    # load of every output: the default input capacitance of the library if that is plausible, one to ten inputs of its
    # smallest inverter, else four of them
    output_load_ff: float

    @property
    def cells(self) -> dict[str, LibraryCell]:
        """Cells by name."""
        return self.liberty.cells

    def __reduce__(self) -> tuple[Any, ...]:
        """A library travels to other processes and machines with its file."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "path"}
        return _arrived, (str(self.path), self.path.read_bytes(), values)


def _arrived(place: str, content: bytes, values: dict[str, Any]) -> Library:
    """A library from another process; its file is the one there was there, or a copy in the cache."""
    path = Path(place)
    if not path.is_file() or path.read_bytes() != content:
        path = cache_directory() / "liberty" / f"{values['sha256'][:32]}.lib"
        if not path.exists() or path.read_bytes() != content:
            write_bytes(path, content)
    return Library(path=path, **values)


def load_library(path: Path, *, name: str = "", physical: bool = True) -> Library:
    """Reads a Liberty file; raises :class:`ToolError` if it is none or lacks a cell that no flow can do without."""
    liberty = read_liberty(path)
    usable = [cell for cell in liberty.cells.values() if not cell.dont_use and cell.area > 0]

    def require(what: str, cells: Iterable[LibraryCell]) -> list[LibraryCell]:
        found = sorted(cells, key=lambda cell: (cell.area, len(cell.pins), cell.name))
        if not found:
            raise ToolError(f"liberty must hold {what}, not none as {path}")
        return found

    def by_table(table: int, inputs: int) -> Iterable[LibraryCell]:
        return (cell for cell in usable if len(cell.inputs) == inputs and cell.truth_table() == table)

    nand2 = require("a 2-input NAND", by_table(_NAND2, 2))[0]
    inverters = require("an inverter with delay tables", filter(_timed, by_table(_INVERTER, 1)))
    buffers = require("a buffer with delay tables", filter(_timed, by_table(_BUFFER, 1)))
    flip_flop = require("a D flip-flop", filter(_is_d_flip_flop, usable))[0]
    gates = [cell for cell in liberty.cells.values() if cell.clock_gate == "latch_posedge"]
    inverter = inverters[min(1, len(inverters) - 1)]
    default, smallest = liberty.default_input_pin_cap_ff, inverters[0].inputs[0].capacitance_ff
    return Library(
        path=path,
        liberty=liberty,
        name=name or liberty.name,
        physical=physical,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        nand2=nand2.name,
        ge_area=nand2.area,
        fo4_ps=round(fo4_delay_ps(inverter), 1),
        fo4_inverter=inverter.name,
        flip_flop=flip_flop.name,
        clock_gate=min(gates, key=lambda cell: cell.area).name if gates else "",
        driving_cell=_middle(buffers).name,
        output_load_ff=default if smallest <= default <= 10 * smallest else 4 * smallest,
    )


def fo4_delay_ps(inverter: LibraryCell) -> float:
    """Mean of rise and fall delay of an inverter in a chain in which each stage drives four of its kind."""
    arc, load = inverter.outputs[0].timing[0], 4 * inverter.inputs[0].capacitance_ff
    rise_at, fall_at = _lookup(arc, "rise_transition"), _lookup(arc, "fall_transition")
    rise = fall = 0.0
    for _ in range(_FO4_STEPS):
        rise, fall = rise_at(fall, load), fall_at(rise, load)
    return 1e3 * (_lookup(arc, "cell_rise")(fall, load) + _lookup(arc, "cell_fall")(rise, load)) / 2


def _lookup(arc: TimingArc, kind: str) -> Callable[[float, float], float]:
    return getattr(arc, kind).at


def _timed(cell: LibraryCell) -> bool:
    arcs = cell.outputs[0].timing
    tables = [(arc.cell_rise, arc.cell_fall, arc.rise_transition, arc.fall_transition) for arc in arcs]
    return bool(tables) and None not in tables[0]


def _is_d_flip_flop(cell: LibraryCell) -> bool:
    if cell.flip_flop is None or cell.latch or cell.clock_gate:
        return False
    names = {pin.name for pin in cell.inputs}
    plain = cell.flip_flop.next_state in names and cell.flip_flop.clocked_on in names
    return plain and any(pin.function == cell.flip_flop.state for pin in cell.outputs)


def _middle(buffers: list[LibraryCell]) -> LibraryCell:
    """The middle one in drive of the buffers that are not beaten in both area and drive, such as delay cells."""
    best: list[LibraryCell] = []
    for cell in buffers:
        if not best or _resistance(cell) < _resistance(best[-1]):
            best.append(cell)
    return best[len(best) // 2]


def _resistance(cell: LibraryCell) -> float:
    """Slope of the delay over the load."""
    arc = cell.outputs[0].timing[0]
    load = 4 * cell.inputs[0].capacitance_ff
    rise = _lookup(arc, "cell_rise")
    return (rise(0.0, 2 * load) - rise(0.0, load)) / load
