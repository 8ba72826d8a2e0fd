"""Cell libraries as synthesis flows use them: gate equivalent, FO4 delay, register, driver and load; and the scripts
that map Verilog to one, Yosys with ABC inside it."""

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.liberty import LibraryCell, TimingArc, read_liberty
from xpulpnn_sim.tools.yosys import Yosys

NO_TECHNOLOGY = (
    "The built-in library is of no technology: its energies compare configurations and are those of no chip. A Liberty "
    "file gives those of its cells."
)
"""Remark on energies by the library of :mod:`~xpulpnn_sim.exploration.generic_library`."""

_INVERTER = 0b01
_BUFFER = 0b10
_NAND2 = 0b0111
_FO4_STEPS = 100


class Library:
    """A cell library as the flows use it, from a Liberty file.

    ``physical`` tells whether areas are in um2; the built-in library has areas in NAND2 equivalents alone. Raises
    :class:`ToolError` if it is no library, or lacks a cell that no flow can do without.
    """

    def __init__(self, content: bytes, source: object, *, name: str = "", physical: bool = True) -> None:
        self.content, self.physical = content, physical
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.liberty = read_liberty(content.decode(errors="replace"), source)
        self.name = name or self.liberty.name  # what reports call it
        self.cells = self.liberty.cells
        usable = [cell for cell in self.cells.values() if not cell.dont_use and cell.area > 0]

        def require(what: str, cells: Iterable[LibraryCell]) -> list[LibraryCell]:
            suitable = sorted(cells, key=lambda cell: (cell.area, len(cell.pins), cell.name))
            if not suitable:
                raise ToolError(f"liberty must hold {what}, not none as {source}")
            return suitable

        def by_table(table: int, inputs: int) -> Iterable[LibraryCell]:
            return (cell for cell in usable if len(cell.inputs) == inputs and cell.truth_table() == table)

        nand2 = require("a 2-input NAND", by_table(_NAND2, 2))[0]
        self.nand2, self.ge_area = nand2.name, nand2.area  # the smallest one; its area is one gate equivalent
        inverters = require("an inverter with delay tables", filter(_timed, by_table(_INVERTER, 1)))
        # the second smallest one, or the only one: the smallest one of a library is often slow for its load
        inverter = inverters[min(1, len(inverters) - 1)]
        self.fo4_inverter, self.fo4_ps = inverter.name, round(fo4_delay_ps(inverter), 1)
        # buffer that drives every input: the middle one of those that no other beats in both area and drive
        buffers = require("a buffer with delay tables", filter(_timed, by_table(_BUFFER, 1)))
        self.driving_cell = _middle(buffers).name
        # the smallest one on the rising edge (what `dfflibmap` picks)
        self.flip_flop = require("a D flip-flop", filter(_is_d_flip_flop, usable))[0].name
        # the smallest clock gate with a latch for rising-edge registers; empty if there is none
        gates = [cell for cell in self.cells.values() if cell.clock_gate == "latch_posedge"]
        self.clock_gate = min(gates, key=lambda cell: cell.area).name if gates else ""
        # load of every output: the default input capacitance of the library if that is plausible, one to ten inputs of
        # its smallest inverter, else four of them
        default, smallest = self.liberty.default_input_pin_cap_ff, inverters[0].inputs[0].capacitance_ff
        self.output_load_ff = default if smallest <= default <= 10 * smallest else 4 * smallest


def load_library(path: Path) -> Library:
    """The library in a Liberty file; raises :class:`ToolError` as :class:`Library` does."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ToolError(f"liberty must be a Liberty file, not {path} ({error.strerror})") from error
    return Library(content, path)


def fo4_delay_ps(inverter: LibraryCell) -> float:
    """Mean of rise and fall delay of an inverter in a chain in which each stage drives four of its kind.

    The slew is the one that such a chain settles at.
    """
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


DESIGN, LIBRARY, CONSTRAINTS = "design.v", "library.lib", "library.constr"  # inputs of the scripts
_KEPT = frozenset({".abc", ".constr", ".log", ".out", ".rpt", ".tcl", ".v", ".ys"})


class FlowError(ToolError):
    """A flow that failed, with the files it left."""

    def __init__(self, message: str, files: Mapping[str, str]) -> None:
        super().__init__(message)
        self.files = files


@contextmanager
def flow_folder(files: dict[str, str], folder: str = "") -> Iterator[Path]:
    """A folder for tools to run in; what is worth keeping is added to ``files`` when they have finished.

    That is all but the library, which is the user's; and :data:`DESIGN`, which the point has, if they have succeeded.
    """
    with tempfile.TemporaryDirectory(prefix="xpulpnn-flow-") as name:
        try:
            yield Path(name)
        except ToolError as error:
            _collect(Path(name), files, folder)
            raise FlowError(str(error), files) from error
        (Path(name) / DESIGN).unlink(missing_ok=True)
        _collect(Path(name), files, folder)


def _collect(folder: Path, files: dict[str, str], prefix: str) -> None:
    for path in sorted(folder.iterdir()):
        if path.suffix in _KEPT:
            files[f"{prefix}/{path.name}" if prefix else path.name] = path.read_text(errors="replace")


_PREPARE = "strash; &get -n; &fraig -x; &put; scorr; dc2"
_DEEP = "balance; rewrite; refactor; balance; rewrite; rewrite -z; balance; refactor -z; rewrite -z; balance"
_BUFFERED = "topo; buffer -N 16 -S 400"
_TIMED = "stime -p"
_SPEED_PS = 1000.0
"""Delay that the speed script asks the mapper for without a clock: out of reach, so that it does what it can."""

SCRIPTS = ("area", "speed")  # For area, or for speed

_STATISTICS = "stats.txt"
"""File to which ``stime -d`` appends cells, area and delay, in whole ps: the wheel loses what ABC prints."""

_NATIVE_ALIAS = "alias stat print_stats"


def abc_commands(script: str, clock_ps: float | None = None) -> str:
    """The commands of ABC, separated by semicolons."""
    target = "" if clock_ps is None else f" -D {clock_ps:.0f}"
    sized = f"upsize{target}; dnsize{target}"
    if script == "area":
        return f"{_PREPARE}; dch -f; map -B 0.9{target}; {_BUFFERED}; {sized}; {_TIMED}"
    mapped = f"map -B 0.9{target or f' -D {_SPEED_PS:g}'}"
    return f"{_PREPARE}; {_DEEP}; if -g -K 6; strash; dch -f; {mapped}; {_BUFFERED}; {sized}; {sized}; {_TIMED}"


def write_inputs(folder: Path, verilog: str, library: Library, name: str, commands: str, yosys: Yosys) -> None:
    """Write design, library, constraints and the ABC commands, in a file of this name, that the scripts read."""
    (folder / DESIGN).write_text(verilog)
    (folder / LIBRARY).write_bytes(library.content)
    lines = [*([_NATIVE_ALIAS] if yosys.native else []), *commands.replace(_TIMED, f"{_TIMED} -d").split("; ")]
    (folder / name).write_text("\n".join(lines) + "\n")
    load = f"set_load {library.output_load_ff:g} [all_outputs]"
    (folder / CONSTRAINTS).write_text(f"set_driving_cell {library.driving_cell}\n{load}\n")


def map_gates(commands: str) -> str:
    """The command of Yosys that maps to the library with a file of ABC commands."""
    return f"abc -liberty {LIBRARY} -constr {CONSTRAINTS} -script {commands}"


def read_verilog(module: str) -> Sequence[str]:
    """Commands that read the design."""
    return f"read_verilog {DESIGN}", f"hierarchy -check -top {module}"


def delay_ps(folder: Path, log: str) -> float | None:
    """Delay that ABC printed into a log, or wrote to its statistics in whole ps; None for a design without gates."""
    printed = re.findall(r"Delay = *([\d.]+) ps", (folder / log).read_text(errors="replace"))
    if printed:
        return float(printed[-1])
    try:
        return float((folder / _STATISTICS).read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return None
