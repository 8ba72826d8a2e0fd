"""Simulate netlists: a compiled model evaluates their gates beside the modules of the RTL, compares and counts."""

import ctypes
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.cosimulation.model.build import TOP, build_model
from xpulpnn_sim.cosimulation.model.libraries import cached_emission, observed, rig_of
from xpulpnn_sim.exploration.liberty import FlipFlop, Liberty, LibraryCell, expression
from xpulpnn_sim.exploration.mapped_netlist import GATED, instance_path
from xpulpnn_sim.tools.netlists import ONE, ZERO, read_module, sort_gates

CLOCK_GATE = "clock_gate"  # module of the clock gates of a design
CLOCK, RESET = "clk", "rst"  # ports of clock and reset, if there are any
NO_RESET = WORD_MASK  # stands for the reset net of a circuit without reset
NEVER = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    path: str  # instance it belongs to; empty for the top
    cell: LibraryCell
    pin: str  # output pin
    output: int
    inputs: Mapping[str, int]  # net of each input pin


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    path: str  # instance it belongs to; empty for the top
    cell: LibraryCell
    data: int  # net of the next state
    data_pin: str
    clock_pin: str
    enable: int  # net of the clock enable; ONE if the register is not gated
    clock: int  # net that lets the clock through a clock gate of the design; ONE if it is not behind one
    outputs: list[tuple[str, int, bool]]  # name and net of each output, and whether it is inverted


_REQUESTS = ("__req", ".read", ".write")  # ends of the names of requests to memories


class Circuit:
    """The mapped design in a file; pins of the modules in ``apart`` become ports such as ``core0.data__req``."""

    def __init__(self, path: Path, module: str, liberty: Liberty, flip_flop: str, apart: Collection[str] = ()) -> None:
        netlist = read_module(path, module)
        gates: list[Gate] = []
        self.registers: list[Register] = []  # the state
        gates_of_design = [cell for cell in netlist.cells if cell.type == CLOCK_GATE]
        # path of the clock gates of the design, by the net that lets the clock through
        self.clock_gates = {cell.pins["enable"][0]: instance_path(cell.name) for cell in gates_of_design}
        gated = {cell.pins["gated"][0]: cell.pins["enable"][0] for cell in gates_of_design}
        for netlist_cell in (cell for cell in netlist.cells if cell.type not in {*apart, CLOCK_GATE}):
            where = instance_path(netlist_cell.name)
            nets = {pin: max(bits[0], ZERO) for pin, bits in netlist_cell.pins.items()}
            cell = liberty.cells.get(flip_flop if netlist_cell.type == GATED else netlist_cell.type)
            if cell is None:
                raise ToolError(f"cells of the netlist must be in the library {liberty.name}, not {netlist_cell.type}")
            output = cell.outputs[0].name
            if cell.flip_flop is not None:
                self.registers.append(_register(where, cell, cell.flip_flop, nets, gated, netlist_cell.type == GATED))
            elif cell.truth_table() is None:
                raise ToolError(f"cells of the netlist must be gates or flip-flops, not {netlist_cell.type}")
            elif output in nets:
                gates.append(Gate(where, cell, output, nets[output], {pin.name: nets[pin.name] for pin in cell.inputs}))
        self.top = module
        # nets of each port, least significant bit first, clock included
        self.inputs, self.outputs = (
            {name: [max(net, ZERO) for net in wire.nets] for name, wire in group.items()}
            for group in (netlist.inputs, netlist.outputs)
        )
        for netlist_cell in (cell for cell in netlist.cells if cell.type in apart):
            for pin, nets in netlist_cell.pins.items():
                ports = self.inputs if pin in netlist_cell.outputs else self.outputs
                if pin != CLOCK:
                    ports[f"{netlist_cell.name}.{pin}"] = [max(net, ZERO) for net in nets]
        # in topological order
        self.gates = sort_gates(gates, lambda gate: gate.inputs.values(), lambda gate: [gate.output])
        # nets of the inputs without the clock, in the order of the ports
        self.sources = [net for name, nets in self.inputs.items() if name != CLOCK for net in nets]
        used = (nets for cell in netlist.cells for nets in cell.pins.values())
        # nets of the outputs, in the order of the ports
        self.sinks = [net for nets in self.outputs.values() for net in nets]
        # one more than the highest net number
        self.net_count = max(net for nets in (*used, *self.inputs.values()) for net in (ONE, *nets)) + 1
        self.delays = np.ones(len(self.gates), np.uint32)  # of each gate, in steps of time
        # nets of a request to a memory and of its write enable (ONE without one), by name of the request
        self.requests = {
            name: (nets[0], self.outputs.get(name.replace("__req", "__we"), [ONE])[0])
            for name, nets in self.outputs.items()
            if name.endswith(_REQUESTS)
        }


def _register(
    path: str, cell: LibraryCell, state: FlipFlop, nets: dict[str, int], enables: Mapping[int, int], gated: bool
) -> Register:
    """Return a flip-flop with the nets at its pins; a ``gated`` one has the pins of the cell type :data:`GATED`."""
    data, clock, enable = state.next_state, state.clocked_on, ONE
    if data not in cell.pins or clock not in cell.pins:
        raise ToolError(f"flip-flop must take one pin at the rising edge of another, not {cell.name}")
    if gated:
        nets, enable = {data: nets["D"], clock: nets["C"], cell.outputs[0].name: nets["Q"]}, nets["E"]
    else:
        _check_reset(cell.name, state, nets)
    outputs = [
        (pin.name, nets[pin.name], expression(pin.function).inputs[0] == state.state_inverse)
        for pin in cell.outputs
        if pin.name in nets
    ]
    return Register(path, cell, nets[data], data, clock, enable, enables.get(nets[clock], ONE), outputs)


def _check_reset(cell: str, state: FlipFlop, nets: Mapping[str, int]) -> None:
    for text in filter(None, (state.clear, state.preset)):
        values = {name: {ZERO: False, ONE: True}.get(nets[name]) for name in expression(text).inputs}
        if None in values.values() or expression(text).evaluate(values):
            raise ToolError(f"asynchronous reset of {cell} must be tied off, not used")


_SOURCE = Path(__file__).with_name("gate_model.cpp")
_PINS = 8  # inputs of a gate, at most


class Activity(NamedTuple):
    """What an instance of a netlist did in the cycles that were counted, or several instances together."""

    edges: int  # of the clock, in all of the run
    cycles: int  # clock cycles counted
    transitions: int  # pairs of consecutive cycles in which transitions were counted
    toggles: NDArray[np.uint64]  # transitions of each net, glitches included
    clocked: NDArray[np.uint64]  # cycles in which the clock reached a register, by its next and its current state
    opened: NDArray[np.uint64]  # cycles in which each clock gate of the design let the clock through
    requests: NDArray[np.uint64]  # cycles with each request to a memory, and those of them that wrote

    @staticmethod
    def total(activities: Iterable["Activity"]) -> "Activity":
        counts: list[Any] = list(map(sum, zip(*activities, strict=True)))
        return Activity(*counts)


class Gates:
    """Netlist instances that a compiled model evaluates; the constructor removes all earlier ones of the model."""

    def __init__(self, library: Path) -> None:
        self._loaded = ctypes.CDLL(str(library))
        self._created: list[tuple[Circuit, int, int]] = []  # circuit of each instance, chunks and cycles of a chunk
        self._numbers: dict[int, int] = {}  # number of each netlist by its circuit's id()
        self._loaded.gate_clear()

    def create(self, circuit: Circuit, name: str, starts: Sequence[int] = (), cycles: int = 0) -> None:
        """Create an instance, of which a run counts ``cycles`` from each of ``starts``."""
        if id(circuit) not in self._numbers:
            self._numbers[id(circuit)] = len(self._numbers)
            arrays = _native_circuit(circuit)
            counted = [ctypes.c_uint64(number) for array in arrays for number in (array.ctypes.data, len(array))]
            self._loaded.gate_load(ctypes.c_uint64(circuit.net_count), *counted)
        begins = np.array(starts, np.uint64)
        reset = circuit.inputs.get(RESET, [NO_RESET])[0]
        places = map(ctypes.c_uint64, [reset, begins.ctypes.data, len(begins), cycles])
        self._loaded.gate_create(ctypes.c_uint64(self._numbers[id(circuit)]), name.encode(), *places)
        self._created.append((circuit, len(begins), cycles))

    def result(self, instance: int) -> tuple[Activity, int, int]:
        """Return counts, and the first cycle and output that differed from the RTL module beside it (or NEVER)."""
        circuit, chunks, cycles = self._created[instance]
        gates = len(circuit.clock_gates)
        shapes = 3, circuit.net_count, (len(circuit.registers), 2, 2), (gates + len(circuit.requests), 2)
        run, toggles, clocked, together = arrays = [np.zeros(shape, np.uint64) for shape in shapes]
        self._loaded.gate_result(*map(ctypes.c_uint64, (instance, *(array.ctypes.data for array in arrays))))
        edges, differs_at, different = run.tolist()
        counts = edges, chunks * cycles, chunks * (cycles - 1), toggles, clocked, together[:gates, 0], together[gates:]
        return Activity(*counts), differs_at, different


def _native_circuit(circuit: Circuit) -> list[NDArray[Any]]:
    """Return registers, sources, sinks, tables, outputs and delays of gates, pins of each net, and pairs to count."""
    cells = {gate.cell.name: gate.cell for gate in circuit.gates}
    tables = {name: cell.truth_table() or 0 for name, cell in cells.items()}
    registers = np.zeros((len(circuit.registers), 5), np.uint32)
    for row, register in zip(registers, circuit.registers, strict=True):
        states = [2 * net + inverse for _, net, inverse in register.outputs]
        row[: 3 + len(states)] = [register.data, register.enable, register.clock, *states]
    pins = [
        (net, _PINS * gate + pin)
        for gate, one in enumerate(circuit.gates)
        for pin, net in enumerate(one.inputs.values())
    ]
    nets, places = np.array(sorted(pins), np.uint32).reshape(-1, 2).T
    begins = np.searchsorted(nets, np.arange(circuit.net_count + 1))
    table_of = np.array([tables[gate.cell.name] for gate in circuit.gates], np.uint64)
    pairs = [(net, ONE) for net in circuit.clock_gates] + [*circuit.requests.values()]
    numbers = circuit.sources, circuit.sinks, [gate.output for gate in circuit.gates], circuit.delays, begins, places
    sources, sinks, *others = (np.array(listed, np.uint32) for listed in (*numbers, [*chain(*pairs)]))
    return [registers, sources, sinks, table_of, *others]


def gate_sources() -> dict[str, str]:
    return {_SOURCE.name: _SOURCE.read_text()}


_SHADOW = "gate_shadow"
_WORD_BITS = 32
_BOUND = f"""
import "DPI-C" function int gate_instance(input string name);
import "DPI-C" function void gate_port(input int instance_number, input int place, input int word);
import "DPI-C" function void gate_follow(input int instance_number);
module {_SHADOW} #(parameter WORDS = 1)(input wire clk, input wire [{_WORD_BITS}*WORDS-1:0] ports);
  int number;
  initial number = gate_instance($sformatf("%m"));
  always @(posedge clk) if (number >= 0) begin
    for (int i = 0; i < WORDS; i = i + 1) gate_port(number, i, ports[{_WORD_BITS}*i +: {_WORD_BITS}]);
    gate_follow(number);
  end
endmodule
"""
"""Verilog of a module that passes the ports of its bound instance to ``gate_model.cpp`` at every clock edge."""


def _bind_statement(module: str, circuit: Circuit) -> str:
    """Return the Verilog bind statement for all instances of ``module``, with its inputs first, then its outputs."""
    ports = {name: nets for name, nets in circuit.inputs.items() if name != CLOCK} | circuit.outputs
    bits = sum(map(len, ports.values()))
    words = bits // _WORD_BITS + 1
    joined = ", ".join([f"{words * _WORD_BITS - bits}'d0", *reversed(ports)])
    return f"bind {module} {_SHADOW} #(.WORDS({words})) {_SHADOW}(.clk({CLOCK}), .ports({{{joined}}}));\n"


class ShadowedDesign:
    """The compiled model of a core, back end or cluster, with netlists that run beside its modules."""

    def __init__(self, top: str, config: CoreConfig | ClusterConfig, circuits: Mapping[str, Circuit]) -> None:
        self._circuits = circuits
        rig = rig_of(*cached_emission(top, observed(config)))
        bind_statements = "".join(_bind_statement(module, circuit) for module, circuit in circuits.items())
        self.library = build_model(replace(rig, verilog=rig.verilog + _BOUND + bind_statements), added=gate_sources())
        self._top_path = f"{TOP}.{TOP}.{rig.manifest['top']}"  # the model and its wrapper have the same name

    def span(self, run: Callable[[Path], tuple[int, int] | None], top: str) -> tuple[int, int]:
        """Run the design with the netlist ``top``; return the first cycle and the end that the run tells, or of all."""
        told: list[tuple[int, int] | None] = []
        seen = self.watch(lambda library: told.append(run(library)), {"": top})
        return told[0] or (0, seen[""].edges)

    def watch(
        self,
        run: Callable[[Path], object],
        instances: Mapping[str, str],
        starts: Mapping[str, Sequence[int]] | None = None,
        cycles: int = 0,
    ) -> dict[str, Activity]:
        """Run the design; return the counts of each instance in ``cycles`` from each of its ``starts``."""
        gates = Gates(self.library)
        for path, module in instances.items():
            name = ".".join(filter(None, (self._top_path, path, _SHADOW)))
            gates.create(self._circuits[module], name, (starts or {}).get(path, ()), cycles)
        run(self.library)
        activities: dict[str, Activity] = {}
        for number, (path, module) in enumerate(instances.items()):
            activities[path], cycle, sink = gates.result(number)
            if cycle != NEVER:
                ports = [name for name, nets in self._circuits[module].outputs.items() for _ in nets]
                port = ".".join(filter(None, (path, ports[sink])))
                raise ToolError(f"{port} of the netlist must be what the design has in cycle {cycle}, not another")
            if not activities[path].edges:
                raise ToolError(f"netlist of {path or module} must follow the design, not rest")
        return activities
