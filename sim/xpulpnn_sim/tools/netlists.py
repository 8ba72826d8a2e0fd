"""Read netlists that Yosys writes with ``write_json``, and sort gates in the order of evaluation."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

from xpulpnn.errors import ToolError

ZERO, ONE, DONT_CARE = 0, 1, -1  # constant nets; Yosys numbers nets from 2

GATES: Mapping[str, tuple[str, int]] = {
    "$_AND_": ("AB", 0b1000),
    "$_NAND_": ("AB", 0b0111),
    "$_OR_": ("AB", 0b1110),
    "$_NOR_": ("AB", 0b0001),
    "$_XOR_": ("AB", 0b0110),
    "$_XNOR_": ("AB", 0b1001),
    "$_ANDNOT_": ("AB", 0b0010),
    "$_ORNOT_": ("AB", 0b1011),
    "$_MUX_": ("ABS", 0b11001010),
    "$_NMUX_": ("ABS", 0b00110101),
    "$_NOT_": ("A", 0b01),
    "$_BUF_": ("A", 0b10),
}
"""Yosys gates with an output Y, by type: input pins, and truth table with the first pin least significant."""

_CONSTANTS = {"0": ZERO, "1": ONE, "x": DONT_CARE, "z": DONT_CARE}
_SKIPPED = "$scopeinfo"
_Gate = TypeVar("_Gate")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetlistCell:
    """A cell with the nets of each pin (lowest bit first), its parameters and its output pins."""

    name: str
    type: str
    pins: dict[str, list[int]]
    parameters: dict[str, str]
    outputs: frozenset[str]

    @property
    def driven(self) -> list[int]:
        return [net for pin, nets in self.pins.items() if pin in self.outputs for net in nets]

    @property
    def read(self) -> list[int]:
        return [net for pin, nets in self.pins.items() if pin not in self.outputs for net in nets]


@dataclass(frozen=True, slots=True, eq=False)
class NetlistWire:
    """A named vector of nets, lowest bit first; ``hidden`` if Yosys made up the name."""

    name: str
    nets: list[int]
    hidden: bool = False
    offset: int = 0

    @property
    def bits(self) -> Iterator[tuple[str, int]]:
        """Yield the name, such as ``rs1[3]``, and the net of each bit."""
        if len(self.nets) == 1:
            yield self.name, self.nets[0]
        else:
            yield from ((f"{self.name}[{index}]", net) for index, net in enumerate(self.nets, self.offset))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetlistModule:
    name: str
    inputs: dict[str, NetlistWire]
    outputs: dict[str, NetlistWire]
    wires: dict[str, NetlistWire]
    cells: list[NetlistCell]
    initial: dict[int, int]


def read_module(path: Path, name: str) -> NetlistModule:
    return read_modules(path, [name])[0]


def read_modules(path: Path, names: Iterable[str]) -> list[NetlistModule]:
    required = list(names)
    name = required[0]
    modules: list[NetlistModule] = []
    try:
        modules_by_name = json.loads(path.read_text())["modules"]
        for name in required:
            modules.append(_module(name, modules_by_name[name]))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ToolError(f"yosys must write a netlist of {name}, not {path.name} without it") from error
    return modules


def _module(name: str, described: dict[str, Any]) -> NetlistModule:
    def ports(direction: str) -> dict[str, NetlistWire]:
        return {
            port: NetlistWire(port, _nets(described["bits"]))
            for port, described in described["ports"].items()
            if described["direction"] == direction
        }

    return NetlistModule(
        name=name,
        inputs=ports("input"),
        outputs=ports("output"),
        wires={
            wire: NetlistWire(wire, _nets(described["bits"]), bool(described["hide_name"]), described.get("offset", 0))
            for wire, described in described["netnames"].items()
        },
        cells=[
            _cell(cell, described) for cell, described in described["cells"].items() if described["type"] != _SKIPPED
        ],
        initial=_initial(described["netnames"].values()),
    )


def _initial(wires: Iterable[dict[str, Any]]) -> dict[int, int]:
    values: dict[int, int] = {}
    for described in wires:
        bits = reversed(described.get("attributes", {}).get("init", ""))
        values.update({net: int(bit) for net, bit in zip(described["bits"], bits, strict=False) if bit in "01"})
    return values


def _nets(bits: list[int | str]) -> list[int]:
    return [_CONSTANTS[bit] if isinstance(bit, str) else bit for bit in bits]


def _cell(name: str, described: dict[str, Any]) -> NetlistCell:
    directions = described.get("port_directions", {})
    return NetlistCell(
        name=name,
        type=described["type"],
        pins={pin: _nets(bits) for pin, bits in described["connections"].items() if bits},
        parameters=described.get("parameters", {}),
        outputs=frozenset(pin for pin, direction in directions.items() if direction == "output"),
    )


def sort_gates(
    gates: Sequence[_Gate], nets_read: Callable[[_Gate], Iterable[int]], nets_driven: Callable[[_Gate], Iterable[int]]
) -> list[_Gate]:
    drivers = {net: number for number, gate in enumerate(gates) for net in nets_driven(gate)}
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(gates)), ()))
    for number, gate in enumerate(gates):
        sorter.add(number, *{drivers[net] for net in nets_read(gate) if net in drivers})
    try:
        return [gates[number] for number in sorter.static_order()]
    except CycleError as error:
        raise ToolError(
            f"netlist must be free of combinational loops, not have one of {len(error.args[1]) - 1} gates"
        ) from None
