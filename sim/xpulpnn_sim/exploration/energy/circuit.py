"""Mapped netlists as gates in the order of their evaluation, and registers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.liberty import Liberty, LibraryCell
from xpulpnn_sim.exploration.liberty_expression import Expression
from xpulpnn_sim.exploration.mapped_netlist import GATED, instance_path
from xpulpnn_sim.tools.netlists import ONE, ZERO, in_order, read_module

CLOCK = "clk"  # port of the clock, if there is one


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """One output of a combinational library cell."""

    path: str  # instance it belongs to; empty for the top
    cell: LibraryCell
    pin: str
    output: int
    inputs: Mapping[str, int]  # nets of all input pins of the cell
    first: bool  # whether it stands for the cell as such: of a cell with several outputs, one does


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """A flip-flop."""

    path: str  # instance it belongs to; empty for the top
    cell: LibraryCell
    data: int  # net of the next state
    data_pin: str
    clock_pin: str
    enable: int  # net that lets the clock through; ONE if nothing does but the clock
    outputs: list[tuple[str, int, bool]]  # name and net of each output, and whether it is the inverse of the state


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Circuit:
    """A mapped design."""

    top: str  # name of its module
    inputs: dict[str, list[int]]  # nets of each port, least significant bit first, the clock among them
    outputs: dict[str, list[int]]  # nets of each port, least significant bit first, the clock among them
    gates: list[Gate]  # in topological order: every gate comes after those that drive it
    registers: list[Register]  # state of the design
    net_count: int  # nets are numbered below this

    @property
    def sources(self) -> list[int]:
        """Nets of the inputs, without the clock, in the order of the ports."""
        return [net for name, nets in self.inputs.items() if name != CLOCK for net in nets]


@cache
def expression(text: str) -> Expression:
    """A parsed Liberty expression."""
    return Expression(text)


def read_circuit(path: Path, module: str, liberty: Liberty, flip_flop: str) -> Circuit:
    """The netlist in a file.

    Raises :class:`ToolError` for cells that are not in the library or whose kind is not known.
    """
    found = read_module(path, module)
    gates: list[Gate] = []
    registers: list[Register] = []
    for one in found.cells:
        where = instance_path(one.name)
        nets = {pin: max(bits[0], ZERO) for pin, bits in one.pins.items()}
        if one.type == GATED:
            registers.append(_gated_register(where, liberty.cells[flip_flop], nets))
            continue
        cell = liberty.cells.get(one.type)
        if cell is None:
            raise ToolError(f"cells of the netlist must be in the library {liberty.name}, not {one.type}")
        if cell.flip_flop is not None:
            _check_reset(cell, nets)
            registers.append(_register(where, cell, nets, ONE))
        elif cell.sequential:
            raise ToolError(f"cells of the netlist must be gates or flip-flops, not {one.type}")
        else:
            inputs = {pin.name: nets[pin.name] for pin in cell.inputs}
            outputs = [pin.name for pin in cell.outputs if pin.name in nets]
            gates += [Gate(where, cell, pin, nets[pin], inputs, pin == outputs[0]) for pin in outputs]
    ports = [
        {name: [max(net, ZERO) for net in wire.nets] for name, wire in group.items()}
        for group in (found.inputs, found.outputs)
    ]
    seen = [ONE, *(net for nets in ports[0].values() for net in nets)]
    seen += [net for register in registers for _, net, _ in register.outputs]
    seen += [net for gate in gates for net in (gate.output, *gate.inputs.values())]
    return Circuit(
        top=module,
        inputs=ports[0],
        outputs=ports[1],
        gates=in_order(gates, lambda gate: gate.inputs.values(), lambda gate: [gate.output]),
        registers=registers,
        net_count=max(seen) + 1,
    )


def _gated_register(path: str, cell: LibraryCell, nets: Mapping[str, int]) -> Register:
    data, clock = _data_and_clock(cell)
    pins = {data: nets["D"], clock: nets["C"], cell.outputs[0].name: nets["Q"]}
    return _register(path, cell, pins, nets["E"])


def _register(path: str, cell: LibraryCell, nets: Mapping[str, int], enable: int) -> Register:
    state = cell.flip_flop
    assert state is not None
    data, clock = _data_and_clock(cell)
    outputs = [
        (pin.name, nets[pin.name], expression(pin.function).inputs[0] == state.state_inverse)
        for pin in cell.outputs
        if pin.name in nets
    ]
    return Register(path, cell, nets[data], data, clock, enable, outputs)


def _check_reset(cell: LibraryCell, nets: Mapping[str, int]) -> None:
    """Raise :class:`ToolError` unless the asynchronous inputs are tied off."""
    state = cell.flip_flop
    assert state is not None
    for text in filter(None, (state.clear, state.preset)):
        values = {name: {ZERO: False, ONE: True}.get(nets[name]) for name in expression(text).inputs}
        if None in values.values() or expression(text).evaluate(values):
            raise ToolError(f"asynchronous reset of {cell.name} must be tied off, not used")


def _data_and_clock(cell: LibraryCell) -> tuple[str, str]:
    state = cell.flip_flop
    assert state is not None
    if state.next_state not in cell.pins or state.clocked_on not in cell.pins:
        raise ToolError(f"flip-flop must take one pin at the rising edge of another, not {cell.name}")
    return state.next_state, state.clocked_on
