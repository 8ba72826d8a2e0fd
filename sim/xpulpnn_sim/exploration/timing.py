"""Static timing analysis of a mapped netlist with the delay tables of its library, and with OpenSTA if installed.

The conventions are those of ABC's ``stime``. Register outputs count as inputs, register inputs as outputs. The
library's driving cell drives every input; only the load-dependent part of its delay counts. Every output has the output
load, and a wire what the library has for its fan-out, if anything. Slew and arrival of a net are each the worst over
its timing arcs. Among several arcs between two pins, the worst table counts, with the unateness of the first arc.
"""

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.liberty import LibraryCell, Table, TimingArc
from xpulpnn_sim.exploration.library import WIRE_LOAD_CHOICE, Library, flow_folder
from xpulpnn_sim.exploration.mapped_netlist import CombinationalCells, MappedGate, MappedNetlist
from xpulpnn_sim.exploration.results import CornerResult, CriticalPath, PathStep
from xpulpnn_sim.tools.netlists import ONE
from xpulpnn_sim.tools.yosys import command_output, run_tool

_TIMEOUT_S = 600.0
_TOP = "combinational"
_LIBRARY = "timing.lib"
_REPORT = "timing.rpt"
# the period is near the delays, since slacks are single-precision floats
_SCRIPT = """\
read_liberty {library}
set_cmd_units -time ns -capacitance pF
read_verilog timing.v
link_design {top}
create_clock -name longest -period 10
set_input_delay 0 -clock longest [all_inputs]
set_output_delay 0 -clock longest [all_outputs]
set_driving_cell -lib_cell {driver} -pin {pin} [all_inputs]
set_load {load} [all_outputs]
{wires}
report_checks -path_delay max -format full -digits 6 > {report}
"""
_ARRIVAL = re.compile(r"^\s*-?[\d.]+\s+(-?[\d.]+)\s+[v^]\s+o\d+\s+\(out\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OpenSta:
    program: str
    version: str

    def delay_ps(self, netlist: MappedNetlist, library: Library, folder: Path) -> float | None:
        part = CombinationalCells(netlist)
        if not part.starts or not part.ends:
            return None
        (folder / "timing.v").write_text(_verilog(part))
        liberty = library.content.decode(errors="replace")
        (folder / _LIBRARY).write_text(WIRE_LOAD_CHOICE.sub("", liberty), encoding="utf-8")
        wires = library.wire_load(part.area)
        model = f"set_wire_load_mode top\nset_wire_load_model -name {wires.name}" if wires else ""
        driver = library.cells[library.driving_cell]
        pin, load = driver.outputs[0].name, library.output_load_ff / 1e3
        script = _SCRIPT.format(
            library=_LIBRARY, report=_REPORT, top=_TOP, driver=driver.name, pin=pin, load=load, wires=model
        )
        (folder / "timing.tcl").write_text(script)
        report = folder / _REPORT
        task = f"time {netlist.module}"
        command = [self.program, "-no_splash", "-no_init", "-exit", "timing.tcl"]
        code, said = run_tool("opensta", command, folder, task, _TIMEOUT_S)
        if failed := re.search(r"^(?:Error:|.*, line \d+ Error:?) *(.*)$", said, re.MULTILINE):
            raise ToolError(f"opensta must be able to {task}: {failed[1]}")
        if code or not report.exists():
            raise ToolError(f"opensta must be able to {task}: it wrote no report")
        arrival = _ARRIVAL.search(report.read_text())
        return round(float(arrival[1]) * 1e3, 2) if arrival else None


def _verilog(part: CombinationalCells) -> str:
    def name(net: int) -> str:
        if net <= ONE:
            return "1'b1" if net == ONE else "1'b0"
        return f"i{net}" if net in part.starts else f"n{net}"

    ports = [f"i{net}" for net in part.starts] + [f"o{number}" for number in range(len(part.ends))]
    lines = [f"module {_TOP} ({', '.join(ports)});"]
    lines += [f"  input i{net};" for net in part.starts]
    lines += [f"  output o{number};" for number in range(len(part.ends))]
    for number, gate in enumerate(part.gates):
        pins = ", ".join(f".{pin}({name(net)})" for pin, net in gate.pins.items())
        lines.append(f"  {gate.cell.name} g{number} ({pins});")
    lines += [f"  assign o{number} = {name(net)};" for number, (net, _) in enumerate(part.ends)]
    return "\n".join([*lines, "endmodule", ""])


def opensta_delays(netlist: MappedNetlist, library: Library, files: dict[str, str], folder: str) -> dict[str, float]:
    """Return the longest path by OpenSTA, if it is installed; its files go to ``folder`` among ``files``."""
    opensta = find_opensta()
    if opensta is None:
        return {}
    with flow_folder(files, folder) as place:
        timed = opensta.delay_ps(netlist, library, place)
    return {} if timed is None else {f"OpenSTA {opensta.version}": timed}


def find_opensta() -> OpenSta | None:
    program = shutil.which("sta") or shutil.which("opensta")
    return _installed(program) if program else None


@cache
def _installed(program: str) -> OpenSta | None:
    version = re.search(r"\d+(?:\.\d+)+", command_output([program, "-version"]))
    return OpenSta(program, version[0]) if version else None


TOOL = "the explorer's timer on the delay tables of the library, with the conventions of ABC"
_RISE, _FALL = 0, 1
_EDGES = {"positive_unate": ((_RISE, _RISE), (_FALL, _FALL)), "negative_unate": ((_FALL, _RISE), (_RISE, _FALL))}
_BOTH = ((_RISE, _RISE), (_FALL, _RISE), (_FALL, _FALL), (_RISE, _FALL))
_SEQUENTIAL = frozenset({"three_state_enable", "three_state_disable", "clear", "preset", "rising_edge", "falling_edge"})


@dataclass(frozen=True, slots=True)
class _Arc:
    pin: str
    input_edge: int
    output_edge: int
    delay: Table
    slew: Table


@cache
def _arcs(cell: LibraryCell, output: str) -> list[_Arc]:
    arcs_of_cell: list[_Arc] = []
    by_pin: defaultdict[str, list[TimingArc]] = defaultdict(list)
    for timing in cell.pins[output].timing:
        if timing.timing_type not in _SEQUENTIAL:
            by_pin[timing.related_pin].append(timing)
    for pin, arcs in by_pin.items():
        delays = _largest(arc.cell_rise for arc in arcs), _largest(arc.cell_fall for arc in arcs)
        slews = _largest(arc.rise_transition for arc in arcs), _largest(arc.fall_transition for arc in arcs)
        for cause, to in _EDGES.get(arcs[0].timing_sense, _BOTH):
            delay, slew = delays[to], slews[to]
            if delay is not None and slew is not None:
                arcs_of_cell.append(_Arc(pin, cause, to, delay, slew))
    return arcs_of_cell


def _largest(tables: Iterable[Table | None]) -> Table | None:
    """Return a table of the maxima of all tables, on the axes of the first table; None without tables."""
    known = [table for table in tables if table is not None]
    if len(known) < 2:
        return known[0] if known else None
    slews, loads = known[0].slews_ns, known[0].loads_ff
    columns = [[max(table.value_at(slew, load) for table in known) for slew in slews] for load in loads]
    return Table(slews, loads, columns)


class _Analysis:
    """Arrival time, slew and causing arc by net and edge, in ns, for paths from all inputs and registers."""

    def __init__(self, netlist: MappedNetlist, library: Library) -> None:
        self.arrival: dict[int, list[float]] = {}
        self.slew: dict[int, list[float]] = {}
        self.cause: dict[tuple[int, int], tuple[MappedGate, int, int]] = {}
        self.names, self.logic = netlist.names, CombinationalCells(netlist)
        self.load: defaultdict[int, float] = defaultdict(float)
        pins = ((gate.pins.get(pin.name, ONE), pin) for gate in self.logic.gates for pin in gate.cell.inputs)
        sinks = [(net, pin.capacitance_ff) for net, pin in pins]
        sinks += [(net, library.output_load_ff) for net, _ in self.logic.ends]
        for net, load_ff in sinks:
            self.load[net] += load_ff
        if wires := library.wire_load(self.logic.area):
            for net, fanout in Counter(net for net, _ in sinks).items():
                self.load[net] += wires.capacitance_ff(fanout)
        self.fixed: frozenset[int] = frozenset()
        self.previous: _Analysis | None = None
        driver = library.cells[library.driving_cell]
        arcs = _arcs(driver, driver.outputs[0].name)
        for net in self.logic.starts:
            arrival, slew = [0.0, 0.0], [0.0, 0.0]
            for arc in arcs:
                extra = arc.delay.value_at(0.0, self.load[net]) - arc.delay.value_at(0.0, 0.0)
                arrival[arc.output_edge] = max(arrival[arc.output_edge], extra)
                slew[arc.output_edge] = max(slew[arc.output_edge], arc.slew.value_at(0.0, self.load[net]))
            self.arrival[net], self.slew[net] = arrival, slew
        self._propagate()

    def through_nets(self, nets: Collection[int]) -> "_Analysis":
        """Return the analysis of only the paths through one of ``nets``; arrival times at these nets are kept."""
        analysis = copy(self)
        analysis.previous, analysis.fixed = self, frozenset(nets) & self.arrival.keys()
        analysis.arrival = {net: self.arrival[net] for net in analysis.fixed}
        analysis.slew = {net: self.slew[net] for net in analysis.fixed}
        analysis.cause = {}
        analysis._propagate()
        return analysis

    def _propagate(self) -> None:
        for gate in self.logic.gates:
            for pin in gate.cell.outputs:
                if pin.name in gate.pins and gate.pins[pin.name] not in self.fixed:
                    self._reach(gate, gate.pins[pin.name], _arcs(gate.cell, pin.name))

    def _reach(self, gate: MappedGate, net: int, arcs: list[_Arc]) -> None:
        arrival, slew, load = [float("-inf")] * 2, [0.0, 0.0], self.load[net]
        for arc in arcs:
            source = gate.pins.get(arc.pin, ONE)
            if source not in self.arrival:
                continue
            slew_in = self.slew[source][arc.input_edge]
            candidate = self.arrival[source][arc.input_edge] + arc.delay.value_at(slew_in, load)
            if candidate > arrival[arc.output_edge]:
                arrival[arc.output_edge] = candidate
                self.cause[net, arc.output_edge] = gate, source, arc.input_edge
            slew[arc.output_edge] = max(slew[arc.output_edge], arc.slew.value_at(slew_in, load))
        if max(arrival) > float("-inf"):
            self.arrival[net], self.slew[net] = arrival, slew

    def worst(self) -> tuple[CriticalPath | None, list[float]]:
        reached = [
            (self.arrival[net][edge], net, edge, name)
            for net, name in self.logic.ends
            for edge in (_RISE, _FALL)
            if net in self.arrival
        ]
        if not reached:
            return None, []
        worst, net, edge, end = max(reached, key=lambda item: item[0])
        steps: list[PathStep] = []
        times: list[float] = []
        analysis: _Analysis | None = self
        while analysis is not None:
            while (net, edge) in analysis.cause:
                gate, source, cause = analysis.cause[net, edge]
                arrival = analysis.arrival[net][edge]
                delay = arrival - analysis.arrival[source][cause]
                placed = {"net": self.names[net], "cell": gate.cell.name, "instance": gate.path}
                steps.append(PathStep(delay_ps=_ps(delay), arrival_ps=_ps(arrival), **placed))
                net, edge = source, cause
            if analysis.previous is not None:
                times.append(_ps(analysis.arrival[net][edge]))
            analysis = analysis.previous
        path = CriticalPath(
            tool=TOOL,
            netlist="mapped",
            start=self.logic.starts.get(net, self.names.get(net, "")),
            end=end,
            delay_ps=_ps(worst),
            steps=steps[::-1],
        )
        return path, times[::-1]


def longest_paths(
    netlist: MappedNetlist, library: Library, through: Sequence[Collection[int]] = ()
) -> tuple[CriticalPath | None, CriticalPath | None, list[float]]:
    """Return the longest path, the longest one through a net of each set, and the arrival times at those nets."""
    analysis = _Analysis(netlist, library)
    path = analysis.worst()[0]
    if not through:
        return path, None, []
    for nets in through:
        analysis = analysis.through_nets(nets)
    return path, *analysis.worst()


def at_corner(
    netlist: MappedNetlist, library: Library, clock_ps: float | None, delay_ps: float | None = None
) -> CornerResult:
    """Return the figures of a netlist with the cells of a corner; ``delay_ps`` if another tool knows the delay."""
    cells = [library.cells[gate.cell.name] for gate in netlist.gates]
    if delay_ps is None:
        gates = [replace(gate, cell=cell) for gate, cell in zip(netlist.gates, cells, strict=True)]
        path = longest_paths(replace(netlist, gates=gates), library)[0]
        delay_ps = path and path.delay_ps
    return CornerResult(
        corner=library.corner,
        delay_ps=delay_ps,
        delay_fo4=None if delay_ps is None else delay_ps / library.fo4_ps,
        register_ps=library.register_ps,
        leakage_uw=sum(cell.leakage_nw for cell in cells) / 1e3 if library.physical else None,
        clock_ps=clock_ps,
    )


def _ps(time_ns: float) -> float:
    return round(time_ns * 1e3, 2)
