"""Mapped netlists: library cells and registers, from the JSON that Yosys writes."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.explore.function import Expression
from xpulpnn_sim.explore.liberty import Cell, Liberty
from xpulpnn_sim.explore.netlist import instance_path

ZERO, ONE = 0, 1
"""Nets of the constants; Yosys numbers its nets from 2 on."""

_CONSTANTS = {"0": ZERO, "1": ONE, "x": ZERO, "z": ZERO}


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """One output of a combinational library cell.

    Parameters
    ----------
    path : str
        Instance it belongs to; empty for the top.
    cell : Cell
        Its library cell.
    pin : str
        The output.
    output : int
        Its net.
    inputs : dict of str to int
        Nets of all input pins of the cell.
    first : bool
        Whether it stands for the cell as such: of a cell with several outputs, one does.
    """

    path: str
    cell: Cell
    pin: str
    output: int
    inputs: Mapping[str, int]
    first: bool


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """A flip-flop.

    Parameters
    ----------
    path : str
        Instance it belongs to; empty for the top.
    cell : Cell
        Its library cell.
    data : int
        Net of the next state.
    data_pin, clock_pin : str
        Names of its pins.
    enable : int
        Net that lets the clock through; :data:`ONE` if nothing does but the clock.
    outputs : list of (str, int, bool)
        Name and net of each output, and whether it is the inverse of the state.
    """

    path: str
    cell: Cell
    data: int
    data_pin: str
    clock_pin: str
    enable: int
    outputs: list[tuple[str, int, bool]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Circuit:
    """A mapped design.

    Parameters
    ----------
    top : str
        Name of its module.
    inputs, outputs : dict of str to list of int
        Nets of each port, least significant bit first, the clock among them.
    gates : list of Gate
        In topological order: every gate comes after those that drive it.
    registers : list of Register
        State of the design.
    net_count : int
        Nets are numbered below this.
    clock : str
        Port of the clock; empty without registers.
    """

    top: str
    inputs: dict[str, list[int]]
    outputs: dict[str, list[int]]
    gates: list[Gate]
    registers: list[Register]
    net_count: int
    clock: str = "clk"

    @property
    def sources(self) -> list[int]:
        """Nets of the inputs, without the clock, in the order of the ports."""
        return [net for name, nets in self.inputs.items() if name != self.clock for net in nets]


@cache
def expression(text: str) -> Expression:
    """A parsed Liberty expression."""
    return Expression(text)


def read_circuit(path: Path, liberty: Liberty, flip_flop: str, *, enabled: str = "", clock: str = "clk") -> Circuit:
    """The netlist in a file.

    Parameters
    ----------
    path : Path
        JSON of Yosys with one module, whose cells are those of the library; cells below the top are named
        after the instance they come from (``flatten``).
    liberty : Liberty
        The library.
    flip_flop : str
        Library cell that an ``enabled`` cell consists of, behind a clock gate.
    enabled : str
        Type of the cells (pins C, D, E, Q) that stand for registers behind a clock gate; empty if there are none.
    clock : str
        Port of the clock.

    Raises :class:`ToolError` for cells that are not in the library or whose kind is not known.
    """
    content = json.loads(path.read_text())
    modules = [name for name, module in content["modules"].items() if module.get("cells") or module.get("netnames")]
    tops = [name for name in modules if "top" in content["modules"][name].get("attributes", {})] or modules
    if len(tops) != 1:
        raise ToolError(f"netlist must have one top module, not {len(tops)}")
    module = content["modules"][tops[0]]
    builder = _Builder(liberty, flip_flop, enabled)
    for name, cell in module["cells"].items():
        builder.add(name, cell["type"], {pin: _net(bits[0]) for pin, bits in cell["connections"].items() if bits})
    ports: dict[str, dict[str, list[int]]] = {"input": {}, "output": {}}
    for name, port in module["ports"].items():
        ports[port["direction"]][name] = [_net(bit) for bit in port["bits"]]
    known = {ZERO, ONE} | {net for nets in ports["input"].values() for net in nets}
    known |= {net for register in builder.registers for _, net, _ in register.outputs}
    gates = _sorted(builder.gates, known)
    nets = [ONE, *(gate.output for gate in gates), *known]
    return Circuit(
        top=tops[0],
        inputs=ports["input"],
        outputs=ports["output"],
        gates=gates,
        registers=builder.registers,
        net_count=max(nets) + 1,
        clock=clock,
    )


def _net(bit: int | str) -> int:
    return _CONSTANTS[bit] if isinstance(bit, str) else bit


class _Builder:
    """Collects gates and registers from cells."""

    def __init__(self, liberty: Liberty, flip_flop: str, enabled: str) -> None:
        self.liberty, self.flip_flop, self.enabled = liberty, flip_flop, enabled
        self.gates: list[Gate] = []
        self.registers: list[Register] = []

    def add(self, name: str, kind: str, nets: Mapping[str, int]) -> None:
        path = instance_path(name)
        if self.enabled and kind == self.enabled:
            cell = self.liberty.cells[self.flip_flop]
            state, output = _state_output(cell)
            data, clock = _data_and_clock(cell)
            nets = {data: nets["D"], clock: nets["C"], output: nets["Q"], "": nets["E"]}
            self.registers.append(
                Register(path, cell, nets[data], data, clock, nets[""], [(output, nets[output], state)])
            )
            return
        cell = self.liberty.cells.get(kind)
        if cell is None:
            raise ToolError(f"cells of the netlist must be in the library {self.liberty.name}, not {kind}")
        if cell.flip_flop is not None:
            self._register(path, cell, nets)
        elif cell.latch is not None or cell.clock_gate:
            raise ToolError(f"cells of the netlist must be gates or flip-flops, not {kind}")
        else:
            inputs = {pin.name: nets[pin.name] for pin in cell.inputs}
            for number, pin in enumerate(pin for pin in cell.outputs if pin.name in nets):
                self.gates.append(Gate(path, cell, pin.name, nets[pin.name], inputs, number == 0))

    def _register(self, path: str, cell: Cell, nets: Mapping[str, int]) -> None:
        state = cell.flip_flop
        assert state is not None
        for text in filter(None, (state.clear, state.preset)):
            values = {name: {ZERO: False, ONE: True}.get(nets[name]) for name in expression(text).inputs}
            if None in values.values() or expression(text).evaluate(values):
                raise ToolError(f"asynchronous reset of {cell.name} must be tied off, not used")
        data, clock = _data_and_clock(cell)
        outputs = [
            (pin.name, nets[pin.name], expression(pin.function).inputs[0] == state.state_inverse)
            for pin in cell.outputs
            if pin.name in nets
        ]
        self.registers.append(Register(path, cell, nets[data], data, clock, ONE, outputs))


def _data_and_clock(cell: Cell) -> tuple[str, str]:
    state = cell.flip_flop
    assert state is not None
    if state.next_state not in cell.pins or state.clocked_on not in cell.pins:
        raise ToolError(f"flip-flop must take one pin at the rising edge of another, not {cell.name}")
    return state.next_state, state.clocked_on


def _state_output(cell: Cell) -> tuple[bool, str]:
    """Whether the first output of a flip-flop is inverted, and its name."""
    assert cell.flip_flop is not None
    pin = cell.outputs[0]
    return expression(pin.function).inputs[0] == cell.flip_flop.state_inverse, pin.name


def _sorted(gates: Sequence[Gate], known: set[int]) -> list[Gate]:
    """Gates in topological order."""
    missing = [sum(net not in known for net in set(gate.inputs.values())) for gate in gates]
    users: defaultdict[int, list[int]] = defaultdict(list)
    for number, gate in enumerate(gates):
        for net in set(gate.inputs.values()) - known:
            users[net].append(number)
    ready = [number for number, count in enumerate(missing) if not count]
    for number in ready:
        for user in users[gates[number].output]:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    if len(ready) != len(gates):
        raise ToolError(
            f"netlist must be free of combinational loops, not have {len(gates) - len(ready)} gates in some"
        )
    return [gates[number] for number in ready]
