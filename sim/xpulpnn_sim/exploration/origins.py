"""Instance of the source to which each gate of a flat mapped netlist belongs, and the source's names of nets.

A mapper that sees the whole design at once gives better figures than one that stops at the borders of modules, but its
gates have lost the instances they come from. They are told from what they compute: source and mapped netlist run the
same random values of inputs and registers, and a net of the mapped netlist that always equals, or always differs from,
a net of the source gets the instance and the name of that net. A gate of which the source knows nothing belongs where
those belong that read it, or, if they do not agree, that feed it. What serves several instances stays apart, under
:data:`SHARED`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from xpulpnn_sim.exploration.boolean import expression
from xpulpnn_sim.exploration.mapped_netlist import (
    CombinationalCells,
    MappedGate,
    MappedNetlist,
    instance_path,
    name_length,
    net_names,
    pin_bits,
)
from xpulpnn_sim.tools.netlists import DONT_CARE, GATES, ONE, ZERO, NetlistModule, in_order

SHARED = "(shared)"
"""Stands for an instance: gates for several instances below the same one that the source has no net for."""

VECTORS = 2048
_ALL = (1 << VECTORS) - 1
_DENSITIES = 4


def with_origins(
    source: NetlistModule, flat: NetlistModule, mapped: MappedNetlist
) -> tuple[MappedNetlist, dict[str, float]]:
    """The mapped netlist with the instance of each gate and the readable name of each net.

    Shares of the area by what told the instance come with it: equal function, what reads the gate, or nothing (it is
    shared).
    """
    names = net_names(flat)
    driven = [net for gate in mapped.gates if gate.cell.sequential for net in gate.driven]
    # the one name that all names of each net that leaves a register stand for
    registers = {name: names[net][0] for net in driven if net in names for name in names[net]}
    known = _Source(source, registers, {cell.type for cell in mapped.apart})
    part = mapped.combinational()
    values = _mapped_values(part)
    told, shares = _told(mapped, part, known, values)
    gates = [replace(gate, path=_lowest_above(told[gate])) for gate in mapped.gates]
    readable = dict(mapped.names)
    for gate in gates:
        for net in gate.driven:
            if readable[net] == f"n{net}":
                readable[net] = known.name(values[net], gate.path) or f"{gate.path}.n{net}".lstrip(".")
    return replace(mapped, gates=gates, names=readable), shares


def _random(name: str) -> int:
    """Values of the input or register ``name``: even ones, rarely ones, mostly ones, even again."""
    random = Random(name)
    part = VECTORS // _DENSITIES
    drawn = [random.getrandbits(part) for _ in range(_DENSITIES + 2)]
    parts = (drawn[0], drawn[1] & drawn[4], drawn[2] | drawn[5], drawn[3])
    return sum(value << part * place for place, value in enumerate(parts))


def _function(value: int) -> int:
    """The same for a value and its inverse."""
    return min(value, value ^ _ALL)


class _Source:
    """Values of the source, the instances that compute them, and their names."""

    def __init__(self, module: NetlistModule, registers: Mapping[str, str], apart: Collection[str]) -> None:
        gates = [cell for cell in module.cells if cell.type in GATES]
        names = net_names(module)
        self.values: dict[int, int] = {ZERO: 0, ONE: _ALL, DONT_CARE: 0}
        self.register_path: dict[str, str] = {}
        for cell in module.cells:
            if cell.type in apart:
                self.values |= {net: _random(name) for name, net in pin_bits(cell, outputs=True)}
                continue
            for net in () if cell.type in GATES else cell.driven:
                shared = next((registers[name] for name in names.get(net, ()) if name in registers), None)
                self.values[net] = _random(shared or f"{cell.name} {net}")
                if shared:
                    self.register_path[shared] = instance_path(cell.name)
        for port in module.inputs.values():
            self.values |= {net: _random(name) for name, net in port.bits}
        self.instances: defaultdict[int, set[str]] = defaultdict(set)
        for cell in in_order(gates, lambda cell: cell.read, lambda cell: cell.driven):
            pins, table = GATES[cell.type]
            value = _look_up(table, [self.values.get(cell.pins[pin][0], 0) for pin in pins])
            self.values[cell.pins["Y"][0]] = value
            if _function(value):
                self.instances[_function(value)].add(instance_path(cell.name))
        self.names: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for net, known in names.items():
            value = self.values.get(net, 0)
            if _function(value):
                self.names[_function(value)] += [(name, value) for name in known]

    def name(self, value: int, path: str) -> str:
        """Name of a net with this value, of the instance if it has one, with ``!`` for the inverse; or nothing."""
        named = self.names.get(_function(value), ())
        inside = [item for item in named if item[0].rpartition(".")[0] == path] or named
        if not inside:
            return ""
        name, found = min(inside, key=lambda item: (item[1] != value, *name_length(item[0])))
        return name if found == value else f"!{name}"


def _mapped_values(part: CombinationalCells) -> dict[int, int]:
    """Values of all nets of the mapped netlist."""
    values = {ZERO: 0, ONE: _ALL, DONT_CARE: 0}
    values |= {net: _random(name) for net, name in part.starts.items()}
    for gate in part.gates:
        inputs = {pin.name: values.get(gate.pins.get(pin.name, ZERO), 0) for pin in gate.cell.inputs}
        for pin in gate.cell.outputs:
            if pin.name in gate.pins:
                values[gate.pins[pin.name]] = expression(pin.function).evaluate(inputs, _ALL)
    return values


def _look_up(table: int, inputs: Sequence[int]) -> int:
    """The function with this truth table, of words of values; the first input is the least significant."""
    if not inputs:
        return _ALL if table else 0
    half = 1 << (len(inputs) - 1)
    low, high = table & ((1 << half) - 1), table >> half
    if low == high:
        return _look_up(low, inputs[:-1])
    chosen = inputs[-1]
    return (_look_up(low, inputs[:-1]) & ~chosen) | (_look_up(high, inputs[:-1]) & chosen)


def _told(
    mapped: MappedNetlist, part: CombinationalCells, known: _Source, values: Mapping[int, int]
) -> tuple[dict[MappedGate, frozenset[str]], dict[str, float]]:
    """Instances that each gate may belong to, one if that is told; and shares of the area by what told it."""
    told: dict[MappedGate, frozenset[str]] = {}
    area: dict[str, float] = dict.fromkeys(("function", "readers", "shared"), 0.0)

    def tell(gate: MappedGate, paths: Iterable[str], what: str) -> None:
        told[gate] = frozenset(paths)
        if len(told[gate]) == 1:
            area[what] += gate.cell.area

    registers = [gate for gate in mapped.gates if gate.cell.sequential]
    for gate in registers:
        names = {part.starts[net] for net in gate.driven}
        tell(gate, {known.register_path[name] for name in names if name in known.register_path}, "function")
    for gate in part.gates:
        by_function = set[str]().union(*(known.instances.get(_function(values[net]), ()) for net in gate.driven))
        tell(gate, by_function, "function")
    pins = {name: cell for cell in mapped.apart for name, _ in pin_bits(cell, outputs=False)}
    above: defaultdict[int, set[str]] = defaultdict(set)
    for name, net in mapped.outputs.items():
        above[net].add(instance_path(pins[name].name) if name in pins else "")
    readers: defaultdict[int, list[MappedGate]] = defaultdict(list)
    for gate in (*part.gates, *registers):
        for net in gate.read:
            readers[net].append(gate)
    for gate in (*reversed(part.gates), *registers):
        if len(told[gate]) != 1:
            reading = set[str]().union(*(above.get(net, ()) for net in gate.driven))
            reading = reading.union(*(told[reader] for net in gate.driven for reader in readers[net]))
            both = told[gate] & reading
            if len(both) == 1 or not told[gate]:
                tell(gate, both or reading, "readers")
    drivers = {net: gate for gate in (*part.gates, *registers) for net in gate.driven}
    for gate in part.gates:
        if len(told[gate]) != 1:
            feeding = set[str]().union(*(told[drivers[net]] for net in gate.read if net in drivers))
            both = told[gate] & feeding
            if both or len(feeding) == 1:
                tell(gate, both or feeding, "readers")
    area["shared"] = sum(gate.cell.area for gate in (*part.gates, *registers) if len(told[gate]) != 1)
    whole = sum(area.values()) or 1.0
    return told, {what: one / whole for what, one in area.items()}


def _lowest_above(paths: frozenset[str]) -> str:
    """The path itself; the lowest instance above all that a gate may belong to, with :data:`SHARED`, if several."""
    if len(paths) == 1:
        return next(iter(paths))
    common: list[str] = []
    for parts in zip(*(path.split(".") if path else [] for path in paths), strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join([*common, SHARED])
