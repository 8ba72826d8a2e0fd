"""Static timing analysis of a mapped netlist with the delay tables of its library, and with OpenSTA if installed.

The conventions are those of ABC's ``stime``. Register outputs count as inputs, register inputs as outputs. The
library's driving cell drives every input; only the load-dependent part of its delay counts. Every output has the output
load, and a wire what the library has for its fan-out, if anything. Slew and arrival of a net are each the worst over
its timing arcs. Among several arcs between two pins, the worst table counts, with the unateness of the first arc.
"""

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import inf
from pathlib import Path
from typing import NamedTuple

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.liberty import LibraryCell, Table, TimingArc
from xpulpnn_sim.exploration.library import WIRE_LOAD_CHOICE, Library, flow_folder
from xpulpnn_sim.exploration.mapped_netlist import CombinationalCells, MappedGate, MappedNetlist
from xpulpnn_sim.exploration.results import CornerResult, CriticalPath, PathStep
from xpulpnn_sim.tools.netlists import ONE, ZERO
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
        if netlist.wires_ff:
            (folder / "wires.spef").write_text(_spef(part, netlist.wires_ff))
            model = "read_spef wires.spef"
        reads_ns = {net: fo4 * library.fo4_ps / 1e3 for net, fo4 in netlist.read_fo4.items()}
        reads = (f"set_input_delay {at:.6f} -clock longest i{net}" for net, at in reads_ns.items())
        model = "\n".join([model, *reads])
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


def _net_name(part: CombinationalCells, net: int) -> str:
    if net <= ONE:
        return "1'b1" if net == ONE else "1'b0"
    return f"i{net}" if net in part.starts else f"n{net}"


_SPEF = f"""\
*SPEF "IEEE 1481-1998" *DESIGN "{_TOP}" *DATE "" *VENDOR "" *PROGRAM "xpulpnn explore" *VERSION "" *DESIGN_FLOW ""
*DIVIDER / *DELIMITER : *BUS_DELIMITER [ ] *T_UNIT 1 NS *C_UNIT 1 FF *R_UNIT 1 OHM *L_UNIT 1 HENRY
"""


def _spef(part: CombinationalCells, wires_ff: Mapping[int, float]) -> str:
    """Return the wires as capacitances at the pins that drive them, which resistors of 1 mOhm join to the others."""
    pins: dict[int, list[str]] = {net: [f"*P i{net} I"] for net in part.starts}
    for number, gate in enumerate(part.gates):
        for pin, way in (*((pin, "O") for pin in gate.cell.outputs), *((pin, "I") for pin in gate.cell.inputs)):
            pins.setdefault(gate.pins.get(pin.name, ONE), []).append(f"*I g{number}:{pin.name} {way}")
    for number, (net, _) in enumerate(part.ends):
        pins.setdefault(net, []).append(f"*P o{number} O")
    lines = [_SPEF]
    for net, load_ff in wires_ff.items():
        if net in pins:
            # a start or the output of a gate, which comes before those that read it, is the first pin
            driver, *others = (pin.split()[1] for pin in pins[net])
            lines += [f"*D_NET {_net_name(part, net)} {load_ff:.4f}", "*CONN", *pins[net]]
            lines += ["*CAP", f"1 {driver} {load_ff:.4f}", "*RES"]
            lines += [*(f"{number} {driver} {name} 0.001" for number, name in enumerate(others, 1)), "*END"]
    return "\n".join([*lines, ""])


def _verilog(part: CombinationalCells) -> str:
    name = partial(_net_name, part)
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
RISE, FALL = 0, 1
_EDGES = {"positive_unate": ((RISE, RISE), (FALL, FALL)), "negative_unate": ((FALL, RISE), (RISE, FALL))}
_BOTH = ((RISE, RISE), (FALL, RISE), (FALL, FALL), (RISE, FALL))
_SEQUENTIAL = frozenset({"three_state_enable", "three_state_disable", "clear", "preset", "rising_edge", "falling_edge"})


@dataclass(frozen=True, slots=True)
class CellArc:
    output: str
    pin: str
    input_edge: int
    output_edge: int
    delay: Table
    slew: Table


@cache
def timing_arcs(cell: LibraryCell, output: str) -> list[CellArc]:
    arcs_of_cell: list[CellArc] = []
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
                arcs_of_cell.append(CellArc(output, pin, cause, to, delay, slew))
    return arcs_of_cell


def _largest(tables: Iterable[Table | None]) -> Table | None:
    """Return a table of the maxima of all tables, on the axes of the first table; None without tables."""
    known = [table for table in tables if table is not None]
    if len(known) < 2:
        return known[0] if known else None
    slews, loads = known[0].slews_ns, known[0].loads_ff
    columns = [[max(table.value_at(slew, load) for table in known) for slew in slews] for load in loads]
    return Table(slews, loads, columns)


class NetArc(NamedTuple):
    """A timing arc of a gate of the netlist."""

    gate: MappedGate
    arc: CellArc
    source: int  # net at the input
    delay_ns: float


def wires_ff(netlist: MappedNetlist, library: Library, logic: CombinationalCells) -> dict[int, float]:
    """Return the capacitance of the wire of each net, if there are wires: as placed, else by the wire load."""
    if netlist.wires_ff or not (wires := library.wire_load(logic.area)):
        return netlist.wires_ff
    sinks = Counter(gate.pins.get(pin.name, ONE) for gate in logic.gates for pin in gate.cell.inputs)
    sinks.update(net for net, _ in logic.ends)
    return {net: wires.capacitance_ff(fanout) for net, fanout in sinks.items()}


class Analysis:
    """Arrival time, slew and causing arc by net and edge, in ns, for paths from all inputs and registers.

    With the analysis of an earlier state of the netlist, only what differs from it is computed.
    """

    def __init__(self, netlist: MappedNetlist, library: Library, earlier: "Analysis | None" = None) -> None:
        self.arrival: dict[int, list[float]] = {}
        self.slew: dict[int, list[float]] = {}
        self.cause: dict[tuple[int, int], NetArc] = {}
        self.arcs: dict[int, list[NetArc]] = {}  # of the gate that drives a net
        self.netlist = netlist
        self.names, self.logic = netlist.names, CombinationalCells(netlist)
        self.load: defaultdict[int, float] = defaultdict(float)
        pins = ((gate.pins.get(pin.name, ONE), pin) for gate in self.logic.gates for pin in gate.cell.inputs)
        sinks = [(net, pin.capacitance_ff) for net, pin in pins]
        sinks += [(net, library.output_load_ff) for net, _ in self.logic.ends]
        for net, load_ff in sinks:
            self.load[net] += load_ff
        self.wires = wires_ff(netlist, library, self.logic)
        for net, load_ff in self.wires.items():
            self.load[net] += load_ff
        self.fixed: frozenset[int] = frozenset()
        self.previous: Analysis | None = None
        driver = library.cells[library.driving_cell]
        arcs = timing_arcs(driver, driver.outputs[0].name)
        for net in self.logic.starts:
            begin = netlist.read_fo4.get(net, 0.0) * library.fo4_ps / 1e3
            arrival, slew = [begin, begin], [0.0, 0.0]
            for arc in arcs:
                extra = begin + arc.delay.value_at(0.0, self.load[net]) - arc.delay.value_at(0.0, 0.0)
                arrival[arc.output_edge] = max(arrival[arc.output_edge], extra)
                slew[arc.output_edge] = max(slew[arc.output_edge], arc.slew.value_at(0.0, self.load[net]))
            self.arrival[net], self.slew[net] = arrival, slew
        self._propagate(earlier)

    def through_nets(self, nets: Collection[int]) -> "Analysis":
        """Return the analysis of only the paths through one of ``nets``; arrival times at these nets are kept."""
        analysis = copy(self)
        analysis.previous, analysis.fixed = self, frozenset(nets) & self.arrival.keys()
        analysis.arrival = {net: self.arrival[net] for net in analysis.fixed}
        analysis.slew = {net: self.slew[net] for net in analysis.fixed}
        analysis.cause, analysis.arcs = {}, {}
        analysis._propagate()
        return analysis

    def _propagate(self, earlier: "Analysis | None" = None) -> None:
        for gate in self.logic.gates:
            for pin in gate.cell.outputs:
                net = gate.pins.get(pin.name, ZERO)
                if pin.name in gate.pins and net not in self.fixed and not self._copied(gate, net, earlier):
                    self._reach(gate, net, timing_arcs(gate.cell, pin.name))

    def _copied(self, gate: MappedGate, net: int, earlier: "Analysis | None") -> bool:
        """Take over the times at a net if its gate, load and inputs are those of an earlier analysis."""
        if earlier is None or net not in earlier.arrival or earlier.load[net] != self.load[net]:
            return False
        if any(arc.gate is not gate for arc in earlier.arcs[net]) or any(
            self.arrival.get(source) != earlier.arrival.get(source) or self.slew.get(source) != earlier.slew.get(source)
            for source in gate.read
        ):
            return False
        self.arcs[net], self.arrival[net], self.slew[net] = earlier.arcs[net], earlier.arrival[net], earlier.slew[net]
        causes = (((net, edge), earlier.cause.get((net, edge))) for edge in (RISE, FALL))
        self.cause |= {key: arc for key, arc in causes if arc is not None}
        return True

    def _reach(self, gate: MappedGate, net: int, arcs: list[CellArc]) -> None:
        arrival, slew, load = [float("-inf")] * 2, [0.0, 0.0], self.load[net]
        self.arcs[net] = []
        for arc in arcs:
            source = gate.pins.get(arc.pin, ONE)
            if source not in self.arrival:
                continue
            slew_in = self.slew[source][arc.input_edge]
            self.arcs[net].append(NetArc(gate, arc, source, arc.delay.value_at(slew_in, load)))
            candidate = self.arrival[source][arc.input_edge] + self.arcs[net][-1].delay_ns
            if candidate > arrival[arc.output_edge]:
                arrival[arc.output_edge] = candidate
                self.cause[net, arc.output_edge] = self.arcs[net][-1]
            slew[arc.output_edge] = max(slew[arc.output_edge], arc.slew.value_at(slew_in, load))
        if max(arrival) > float("-inf"):
            self.arrival[net], self.slew[net] = arrival, slew

    @cached_property
    def worst_ns(self) -> float:
        return max((max(self.arrival[net]) for net, _ in self.logic.ends if net in self.arrival), default=0.0)

    @cached_property
    def required(self) -> dict[int, list[float]]:
        """Return the latest times at which nets may have their values without making the longest path longer."""
        required = {net: [self.worst_ns, self.worst_ns] for net, _ in self.logic.ends}
        for gate in reversed(self.logic.gates):
            for net in gate.driven:
                for arc in self.arcs[net] if net in required else ():
                    limits = required.setdefault(arc.source, [inf, inf])
                    edge, latest = arc.arc.input_edge, required[net][arc.arc.output_edge] - arc.delay_ns
                    limits[edge] = min(limits[edge], latest)
        return required

    def slack_ns(self, net: int) -> float:
        if net not in self.required or net not in self.arrival:
            return inf
        return min(self.required[net][edge] - self.arrival[net][edge] for edge in (RISE, FALL))

    def worst(self) -> tuple[CriticalPath | None, list[float]]:
        reached = [
            (self.arrival[net][edge], net, edge, name)
            for net, name in self.logic.ends
            for edge in (RISE, FALL)
            if net in self.arrival
        ]
        if not reached:
            return None, []
        worst, net, edge, end = max(reached, key=lambda item: item[0])
        steps: list[PathStep] = []
        times: list[float] = []
        analysis: Analysis | None = self
        while analysis is not None:
            while (net, edge) in analysis.cause:
                gate, arc, source, delay = analysis.cause[net, edge]
                load = analysis.load[net] - analysis.wires.get(net, 0.0)
                unwired = arc.delay.value_at(analysis.slew[source][arc.input_edge], load)
                names = {"net": self.names[net], "cell": gate.cell.name, "instance": gate.path}
                at_ps, wire_ps = _ps(analysis.arrival[net][edge]), _ps(delay - unwired)
                steps.append(PathStep(delay_ps=_ps(delay), arrival_ps=at_ps, wire_ps=wire_ps, **names))
                net, edge = source, arc.input_edge
            if net in self.netlist.read_fo4:
                memory, _, pin = self.names.get(net, "").rpartition(".")
                at_ps = _ps(self.arrival[net][edge])
                steps.append(PathStep(net=pin, cell="memory", instance=memory, delay_ps=at_ps, arrival_ps=at_ps))
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
    analysis = Analysis(netlist, library)
    path = analysis.worst()[0]
    if not through:
        return path, None, []
    for nets in through:
        analysis = analysis.through_nets(nets)
    return path, *analysis.worst()


def at_corner(
    netlist: MappedNetlist, library: Library, clock_ps: float | None, delay_ps: float | None = None, more_nw: float = 0
) -> CornerResult:
    """Return the figures of a netlist at a corner; with ``delay_ps`` if it is known, and ``more_nw`` of leakage."""
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
        leakage_uw=(sum(cell.leakage_nw for cell in cells) + more_nw) / 1e3 if library.physical else None,
        clock_ps=clock_ps,
    )


def _ps(time_ns: float) -> float:
    return round(time_ns * 1e3, 2)
