"""Cell libraries for synthesis with their reference cells, and the Yosys and ABC scripts that use them."""

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path

from xpulpnn.errors import InputError, ToolError, require
from xpulpnn_sim.exploration.liberty import LibraryCell, TimingArc, WireLoad, read_liberty
from xpulpnn_sim.exploration.placement import Placer, require_coloquinte
from xpulpnn_sim.tools.yosys import Yosys

NO_TECHNOLOGY = (
    "The built-in library is of no technology: its energies compare configurations and are those of no chip. A Liberty "
    "file gives those of its cells."
)
"""Remark for energies that were estimated with :mod:`~xpulpnn_sim.exploration.generic_library`."""

_INVERTER = 0b01
_BUFFER = 0b10
_NAND2 = 0b0111
_FO4_STEPS = 100
NO_WIRES, BY_LIBRARY = "none", "library"
WIRE_LOAD_CHOICE = re.compile(r"^\s*default_wire_load(?:_selection)?\s*:.*$", re.MULTILINE)


class Library:
    """A cell library; areas are in um2 if ``physical``. Raises :class:`ToolError` for a bad file or a missing cell."""

    def __init__(self, content: bytes, source: object, *, name: str = "", physical: bool = True) -> None:
        self.content, self.physical = content, physical
        self.wires = NO_WIRES
        self.placer: Placer | None = None
        self.memory_files: Sequence[Path] = ()  # tables of macros; none: the default one
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.liberty = read_liberty(content.decode(errors="replace"), source)
        self.name = name or self.liberty.name  # name in reports
        self.corner = self.liberty.operating_conditions or Path(str(source)).stem
        self.cells = self.liberty.cells
        usable = [cell for cell in self.cells.values() if not cell.dont_use and cell.area > 0]

        def required(name: str, cells: Iterable[LibraryCell]) -> list[LibraryCell]:
            suitable = sorted(cells, key=lambda cell: (cell.area, len(cell.pins), cell.name))
            require(suitable, f"liberty must hold {name}, not none as {source}", ToolError)
            return suitable

        def by_table(table: int, inputs: int) -> Iterable[LibraryCell]:
            return (cell for cell in usable if len(cell.inputs) == inputs and cell.truth_table() == table)

        nand2 = required("a 2-input NAND", by_table(_NAND2, 2))[0]
        self.nand2, self.ge_area = nand2.name, nand2.area  # the smallest 2-input NAND: its area is one gate equivalent
        inverters = required("an inverter with delay tables", filter(_timed, by_table(_INVERTER, 1)))
        # the second smallest, if any: the smallest inverter of a library is often slow for its load
        inverter = inverters[min(1, len(inverters) - 1)]
        self.fo4_inverter, self.fo4_ps = inverter.name, round(fo4_delay_ps(inverter), 1)
        # drives every input: the medium one of the buffers that no other beats in both area and drive
        self.buffers = required("a buffer with delay tables", filter(_timed, by_table(_BUFFER, 1)))
        self.driving_cell = _middle(self.buffers).name
        # the smallest rising-edge flip-flop, which `dfflibmap` picks too
        self.flip_flop = required("a D flip-flop", filter(_is_d_flip_flop, usable))[0].name
        # clock-to-output and setup time of that flip-flop, if the file has them
        self.register_times_ps = _register_times_ps(self.cells[self.flip_flop], 2 * self.fo4_ps) if physical else None
        self.register_ps = sum(self.register_times_ps) if self.register_times_ps else None
        # the smallest latch-based clock gate for rising-edge registers, or empty
        gates = [cell for cell in self.cells.values() if cell.clock_gate == "latch_posedge"]
        self.clock_gate = min(gates, key=lambda cell: cell.area).name if gates else ""
        # load of every output: the library's default input capacitance if it is one to ten inverter inputs, else four
        # of them
        default, smallest = self.liberty.default_input_pin_cap_ff, inverters[0].inputs[0].capacitance_ff
        self.output_load_ff = default if smallest <= default <= 10 * smallest else 4 * smallest

    @property
    def corner_text(self) -> str:
        return f"{self.name} at {self.liberty.voltage:g} V and {self.liberty.temperature:g} degrees Celsius"

    def with_wires(self, wires: str) -> "Library":
        """Return the library with the wire load of a name, none, or for ``library`` the one that it chooses by area."""
        known = [NO_WIRES, *([BY_LIBRARY] if self._chosen(0.0) else []), *self.liberty.wire_loads]
        require(wires in known, f"wire_load must be one of {', '.join(known)}, not {wires}")
        library = copy(self)
        library.wires = wires
        if wires not in (NO_WIRES, BY_LIBRARY):
            named = WIRE_LOAD_CHOICE.sub("", self.content.decode(errors="replace")).rstrip().removesuffix("}")
            library.content = f'{named}  default_wire_load : "{wires}";\n}}\n'.encode()
        return library

    def with_placement(self, placer: Placer) -> "Library":
        """Return the library with settings for the placement of its cells."""
        require_coloquinte()
        library = copy(self)
        library.placer = placer
        return library

    @property
    def wire_settings(self) -> dict[str, str]:
        """Return what determines the wires of netlists, by name."""
        named = {"wires": self.wires} if self.wires != NO_WIRES else {}
        return named | (self.placer.settings() if self.placer else {})

    def wire_load(self, area: float) -> WireLoad | None:
        """Return the wire load of a design by the area of its combinational cells; None without."""
        return self.liberty.wire_loads.get(self._chosen(area) if self.wires == BY_LIBRARY else self.wires)

    def _chosen(self, area: float) -> str:
        return [name for low, name in self.liberty.wire_load_areas if low <= area][-1]


def load_library(path: Path) -> Library:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ToolError(f"liberty must be a Liberty file, not {path} ({error.strerror})") from error
    return Library(content, path)


def load_corners(paths: Sequence[Path]) -> list[Library]:
    """Return the libraries of several corners, whose inputs all have the driving cell of the first."""
    first, *others = corners = [load_library(path) for path in paths]
    for path, corner in zip(paths[1:], others, strict=True):
        pins = {name: cell.pins.keys() for name, cell in corner.cells.items()}
        for name, cell in first.cells.items():
            if pins.get(name) != cell.pins.keys():
                raise InputError(f"liberty must hold {name} with the same pins in every corner, not another as {path}")
        corner.driving_cell = first.driving_cell
    for names in ([corner.corner for corner in corners], [path.stem for path in paths]):
        if len(set(names)) == len(names):
            for corner, name in zip(corners, names, strict=True):
                corner.corner = name
            return corners
    raise InputError(f"liberty must be files of different names or operating conditions, not {paths[0].name} twice")


def fo4_delay_ps(inverter: LibraryCell) -> float:
    """Return the mean delay of rise and fall, at steady-state slew, of an inverter that drives four inverters."""
    arc, load = inverter.outputs[0].timing[0], 4 * inverter.inputs[0].capacitance_ff
    rise_at, fall_at = _lookup(arc, "rise_transition"), _lookup(arc, "fall_transition")
    rise = fall = 0.0
    for _ in range(_FO4_STEPS):
        rise, fall = rise_at(fall, load), fall_at(rise, load)
    return 1e3 * (_lookup(arc, "cell_rise")(fall, load) + _lookup(arc, "cell_fall")(rise, load)) / 2


def _lookup(arc: TimingArc, kind: str) -> Callable[[float, float], float]:
    return getattr(arc, kind).value_at


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


def _register_times_ps(cell: LibraryCell, slew_ps: float) -> tuple[float, float] | None:
    """Return clock-to-output time without load and setup time of a flip-flop; None if the file lacks them."""
    assert cell.flip_flop is not None
    arcs = [arc for pin in cell.outputs for arc in pin.timing if arc.timing_type == "rising_edge"]
    tables = [table for arc in arcs for table in (arc.cell_rise, arc.cell_fall) if table is not None]
    setups = [arc for arc in cell.pins[cell.flip_flop.next_state].timing if arc.timing_type == "setup_rising"]
    if not tables or not setups:
        return None
    starts = max(table.value_at(slew_ps / 1e3, 0.0) for table in tables)
    limits = [table.value_at(slew_ps / 1e3, slew_ps / 1e3) for arc in setups for table in arc.constraints]
    return 1e3 * starts, 1e3 * max(limits, default=0.0)


def _middle(buffers: list[LibraryCell]) -> LibraryCell:
    best: list[LibraryCell] = []
    for cell in buffers:
        if not best or _resistance(cell) < _resistance(best[-1]):
            best.append(cell)
    return best[len(best) // 2]


def _resistance(cell: LibraryCell) -> float:
    arc = cell.outputs[0].timing[0]
    load = 4 * cell.inputs[0].capacitance_ff
    rise = _lookup(arc, "cell_rise")
    return (rise(0.0, 2 * load) - rise(0.0, load)) / load


DESIGN, LIBRARY, CONSTRAINTS = "design.v", "library.lib", "library.constr"
_KEPT = frozenset({".abc", ".constr", ".log", ".out", ".rpt", ".spef", ".tcl", ".v", ".ys"})


class FlowError(ToolError):
    def __init__(self, message: str, files: Mapping[str, str]) -> None:
        super().__init__(message)
        self.files = files


@contextmanager
def flow_folder(files: dict[str, str], folder: str = "") -> Iterator[Path]:
    """Yield a temporary folder for tools; add scripts, logs and netlists to ``files`` afterwards, also on failure."""
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
"""Delay target of the speed script without a clock: it cannot be met, so that ABC optimises as far as it can."""

SCRIPTS = ("area", "speed")
_STATISTICS = "stats.txt"
"""File to which ``stime -d`` appends cells, area and delay in ps, as ABC's output is lost in the Yosys wheel."""

_NATIVE_ALIAS = "alias stat print_stats"


def abc_commands(script: str, clock_ps: float | None = None, *, wires: bool = False) -> str:
    target, loads = "" if clock_ps is None else f" -D {clock_ps:.0f}", " -c" * wires
    sized = f"upsize{target}{loads}; dnsize{target}{loads}"
    buffered, timed = f"{_BUFFERED}{loads}", f"{_TIMED}{loads}"
    if script == "area":
        return f"{_PREPARE}; dch -f; map -B 0.9{target}; {buffered}; {sized}; {timed}"
    mapped = f"map -B 0.9{target or f' -D {_SPEED_PS:g}'}"
    return f"{_PREPARE}; {_DEEP}; if -g -K 6; strash; dch -f; {mapped}; {buffered}; {sized}; {sized}; {timed}"


def write_inputs(folder: Path, verilog: str, library: Library, name: str, commands: str, yosys: Yosys) -> None:
    (folder / DESIGN).write_text(verilog)
    (folder / LIBRARY).write_bytes(library.content)
    lines = [*([_NATIVE_ALIAS] if yosys.native else []), *commands.replace(_TIMED, f"{_TIMED} -d").split("; ")]
    (folder / name).write_text("\n".join(lines) + "\n")
    load = f"set_load {library.output_load_ff:g} [all_outputs]"
    (folder / CONSTRAINTS).write_text(f"set_driving_cell {library.driving_cell}\n{load}\n")


def map_gates(commands: str) -> str:
    return f"abc -liberty {LIBRARY} -constr {CONSTRAINTS} -script {commands}"


def read_verilog(module: str) -> Sequence[str]:
    return f"read_verilog {DESIGN}", f"hierarchy -check -top {module}"


def delay_ps(folder: Path, log: str) -> float | None:
    """Return the delay from the log of ABC or from its statistics; None for a design without gates."""
    printed = re.findall(r"Delay = *([\d.]+) ps", (folder / log).read_text(errors="replace"))
    if printed:
        return float(printed[-1])
    try:
        return float((folder / _STATISTICS).read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return None
