"""Mapped netlists as Yosys writes them (``write_json``) after flattening, with the instance of every cell."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.explore.liberty import Cell

_IGNORED = frozenset({"$scopeinfo"})

Bit = int | str
"""Number of a net, or a constant: ``"0"``, ``"1"``, ``"x"`` or ``"z"``."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A cell: its name, the path of the instance it is in (empty: the top), its type, and the bit at each pin."""

    name: str
    path: str
    type: str
    pins: dict[str, Bit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Netlist:
    """A flat netlist of library cells.

    Parameters
    ----------
    module : str
        Name of the top module.
    gates : list of Gate
        All cells.
    inputs, outputs : dict
        Net by name of the port bit, such as ``op_a[3]``.
    names : dict
        Name of each net: the shortest of those that the Verilog gave it, else one made of the driver's instance path
        and the number of the net, such as ``dotp.array.n123``.
    """

    module: str
    gates: list[Gate]
    inputs: dict[str, Bit]
    outputs: dict[str, Bit]
    names: dict[int, str]


def read_netlist(path: Path, module: str, library: Mapping[str, Cell]) -> Netlist:
    """The module of a file written by ``write_json``.

    Cells that are not in ``library`` are taken over, but nothing is known about their outputs. Raises
    :class:`ToolError` if the file or the module is not there.
    """
    try:
        found = json.loads(path.read_text())["modules"][module]
    except (OSError, ValueError, KeyError) as error:
        raise ToolError(f"yosys must write a netlist of {module}, not {path.name} without it") from error
    gates = [_gate(name, cell) for name, cell in found["cells"].items() if cell["type"] not in _IGNORED]
    ports = found["ports"]
    return Netlist(
        module=module,
        gates=gates,
        inputs=_ports(ports, "input"),
        outputs=_ports(ports, "output"),
        names=_names(found["netnames"], gates, library),
    )


def instance_path(name: str) -> str:
    r"""Instance that a cell of a flattened netlist was in: ``dotp.array`` of ``$flatten\dotp.\array.$abc$12``."""
    rest = name.removeprefix("$flatten")
    if rest == name and name.startswith("$"):
        return ""
    parts: list[str] = []
    if rest != name:
        while rest.startswith("\\") and "." in rest:
            part, _, rest = rest[1:].partition(".")
            parts.append(part)
        return ".".join(parts)
    return name.rpartition(".")[0]


def cut_register(gate: Gate, cell: Cell, names: Mapping[int, str]) -> tuple[dict[int, str], list[tuple[int, str]]]:
    """Where combinational paths start and end at a register: nets with its name, the clock left out.

    The name is that of the first net it drives.
    """
    outputs = [bit for pin in cell.outputs if isinstance(bit := gate.pins.get(pin.name), int)]
    name = names[outputs[0]] if outputs else gate.name
    clock = cell.flip_flop.clocked_on if cell.flip_flop else ""
    entering = (gate.pins.get(pin.name) for pin in cell.inputs if not pin.clock and pin.name != clock)
    return {bit: names[bit] for bit in outputs}, [(bit, name) for bit in entering if isinstance(bit, int)]


def _gate(name: str, cell: Mapping[str, Any]) -> Gate:
    pins = {pin: bits[0] for pin, bits in cell["connections"].items() if bits}
    return Gate(name, instance_path(name), cell["type"], pins)


def _ports(ports: Mapping[str, Any], direction: str) -> dict[str, Bit]:
    return {
        name: bit
        for port, described in ports.items()
        if described["direction"] == direction
        for name, bit in _bits(port, described["bits"])
    }


def _bits(name: str, bits: list[Bit], offset: int = 0) -> list[tuple[str, Bit]]:
    if len(bits) == 1:
        return [(name, bits[0])]
    return [(f"{name}[{index + offset}]", bit) for index, bit in enumerate(bits)]


def _names(netnames: Mapping[str, Any], gates: list[Gate], library: Mapping[str, Cell]) -> dict[int, str]:
    names: dict[int, str] = {}
    for name, net in netnames.items():
        if net["hide_name"]:
            continue
        for bit_name, bit in _bits(name, net["bits"], net.get("offset", 0)):
            if isinstance(bit, int):
                known = names.get(bit)
                if known is None or (bit_name.count("."), len(bit_name)) < (known.count("."), len(known)):
                    names[bit] = bit_name
    for gate in gates:
        cell = library.get(gate.type)
        for pin in cell.outputs if cell else []:
            bit = gate.pins.get(pin.name)
            if isinstance(bit, int) and bit not in names:
                names[bit] = f"{gate.path}.n{bit}" if gate.path else f"n{bit}"
    return names
