"""A module between its registers: what goes in, what comes out, and what each register bit becomes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.elaborate import of_cell
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph
from xpulpnn_sim.tools.netlists import DONT_CARE, ONE, ZERO, NetlistCell, NetlistModule, in_order

Pin = tuple[str, str]  # Instance (empty: the module itself) and port


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBit:
    """One bit of a register."""

    # wires that have the bit, and its number in each, those with a name of the source first
    names: tuple[tuple[str, int], ...]
    start: int | None  # initial value, None if it has none
    # net of an asynchronous reset, the value of that net that resets, and the value that the bit then has
    reset: tuple[int, int, int] | None
    clock: tuple[int, int]  # net of the clock and the value it has after the active edge
    next: int  # net of the value at the next edge


class ModuleLogic:
    """A module with its registers and its instances of other modules cut out."""

    def __init__(self, module: NetlistModule, directions: Mapping[str, Mapping[str, str]]) -> None:
        self.name = module.name
        self.inputs: dict[Pin, list[int]] = {("", name): wire.nets for name, wire in module.inputs.items()}
        self.outputs: dict[Pin, list[int]] = {("", name): wire.nets for name, wire in module.outputs.items()}
        self.instances: dict[str, str] = {}
        self.registers: dict[int, RegisterBit] = {}
        operators: list[NetlistCell] = []
        registers: list[NetlistCell] = []
        for cell in module.cells:
            if cell.type in ("$dff", "$adff"):
                registers.append(cell)
            elif cell.type in directions:
                self._cut(cell, directions[cell.type])
            elif "Y" in cell.pins:
                operators.append(cell)
            else:
                raise ToolError(
                    f"{module.name} must consist of operators and registers, not of {cell.type} {cell.name}"
                )
        names = _names(module)
        for cell in registers:
            self._add_register(cell, names, module.initial)
        self._operators = in_order(operators, lambda cell: cell.read, lambda cell: cell.driven)

    def _cut(self, cell: NetlistCell, directions: Mapping[str, str]) -> None:
        self.instances[cell.name] = cell.type
        for port, nets in cell.pins.items():
            if port not in directions:
                raise ToolError(f"instance {cell.name} of {self.name} must use ports of {cell.type}, not {port}")
            side = self.outputs if directions[port] == "input" else self.inputs
            side[cell.name, port] = nets

    def _add_register(
        self, cell: NetlistCell, names: Mapping[int, list[tuple[str, int]]], initial: Mapping[int, int]
    ) -> None:
        def parameter(name: str) -> int:
            return int(cell.parameters[name], 2)

        clock = (cell.pins["CLK"][0], parameter("CLK_POLARITY"))
        for index, (net, following) in enumerate(zip(cell.pins["Q"], cell.pins["D"], strict=True)):
            reset = None
            if cell.type == "$adff":
                value = cell.parameters["ARST_VALUE"][-1 - index]
                if value not in "01":
                    raise ToolError(f"reset value of {cell.name} in {self.name} must be a number, not {value}")
                reset = (cell.pins["ARST"][0], parameter("ARST_POLARITY"), int(value))
            self.registers[net] = RegisterBit(
                names=tuple(names[net]), start=initial.get(net), reset=reset, clock=clock, next=following
            )

    def literals(self, graph: GateGraph, known: Mapping[int, int]) -> "Literals":
        """The module's gates in ``graph``, given literals of the nets of inputs and registers."""
        found = Literals(graph, known)
        for cell in self._operators:
            found.known.update(zip(cell.pins["Y"], of_cell(graph, cell, found.bit), strict=True))
        return found


class Literals:
    """Literals of nets. Those that nobody drives become variables, and each undefined bit one of its own."""

    def __init__(self, graph: GateGraph, known: Mapping[int, int]) -> None:
        self._graph = graph
        self.known: dict[int, int] = {ZERO: FALSE, ONE: TRUE, **known}

    def word(self, nets: Iterable[int]) -> list[int]:
        """Literals of several nets."""
        return [self.bit(net) for net in nets]

    def bit(self, net: int) -> int:
        """Literal of a net."""
        if net == DONT_CARE:
            return self._graph.input()
        if net not in self.known:
            self.known[net] = self._graph.input()
        return self.known[net]


def _names(module: NetlistModule) -> dict[int, list[tuple[str, int]]]:
    """Wires and bit numbers of each net, wires with a name of the source first."""
    found: dict[int, list[tuple[str, int]]] = {}
    for wire in sorted(module.wires.values(), key=lambda wire: wire.hidden):
        for place, net in enumerate(wire.nets):
            found.setdefault(net, []).append((wire.name, place))
    return found
