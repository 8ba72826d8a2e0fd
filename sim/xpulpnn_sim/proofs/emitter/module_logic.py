"""A module between its registers: what goes in, what comes out, and what each register bit becomes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.elaborate import ClockCycle, ClockedGates
from xpulpnn_sim.proofs.engine.gate_graph import GateGraph
from xpulpnn_sim.tools.netlists import NetlistCell, NetlistModule

_REGISTER = re.compile(r"\$_DFF_(?P<edge>[NP])(?:(?P<active>[NP])(?P<value>[01]))?_")

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
        self.inputs: dict[Pin, list[int]] = {("", name): wire.nets for name, wire in module.inputs.items()}
        self.outputs: dict[Pin, list[int]] = {("", name): wire.nets for name, wire in module.outputs.items()}
        self.instances: dict[str, str] = {}
        self.registers: dict[int, RegisterBit] = {}
        operators: list[NetlistCell] = []
        names = _names(module)
        for cell in module.cells:
            if kind := _REGISTER.fullmatch(cell.type):
                (net,), (following,), (clock,) = (cell.pins[pin] for pin in ("Q", "D", "C"))
                value = kind["value"]
                self.registers[net] = RegisterBit(
                    names=tuple(names[net]),
                    start=module.initial.get(net),
                    reset=(cell.pins["R"][0], int(kind["active"] == "P"), int(value)) if value else None,
                    clock=(clock, int(kind["edge"] == "P")),
                    next=following,
                )
            elif cell.type in directions:
                self.instances[cell.name] = cell.type
                for port, nets in cell.pins.items():
                    if port not in directions[cell.type]:
                        raise ToolError(f"{cell.name} of {module.name} must use ports of {cell.type}, not {port}")
                    side = self.outputs if directions[cell.type][port] == "input" else self.inputs
                    side[cell.name, port] = nets
            elif "Y" in cell.pins:
                operators.append(cell)
            else:
                raise ToolError(
                    f"{module.name} must consist of operators and registers, not of {cell.type} {cell.name}"
                )
        self._gates = ClockedGates(replace(module, cells=operators))

    def literals(self, graph: GateGraph, known: Mapping[int, int]) -> ClockCycle:
        """The module's gates in ``graph``, given literals of the nets of inputs and registers."""
        return ClockCycle(graph, self._gates, {}, known)


def _names(module: NetlistModule) -> dict[int, list[tuple[str, int]]]:
    """Wires and bit numbers of each net, wires with a name of the source first."""
    found: dict[int, list[tuple[str, int]]] = {}
    for wire in sorted(module.wires.values(), key=lambda wire: wire.hidden):
        for place, net in enumerate(wire.nets):
            found.setdefault(net, []).append((wire.name, place))
    return found
