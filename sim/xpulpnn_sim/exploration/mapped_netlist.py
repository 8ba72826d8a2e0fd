"""Flat netlists of library cells, with the instance and a readable name of every gate and net.

Mapping the flattened design gives better results than mapping each module, but loses the instances of gates. They are
recovered by function: the netlists before and after mapping are simulated with the same random values of inputs and
registers, and a mapped net that always equals, or is the inverse of, a source net gets its instance and name. Other
gates belong to the instance of their readers or, if these disagree, of their drivers. A gate that serves several
instances is listed under :data:`SHARED`.
"""

import base64
import pickle
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from random import Random

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.liberty import LibraryCell, expression
from xpulpnn_sim.tools.netlists import DONT_CARE, GATES, ONE, ZERO, NetlistCell, NetlistModule, NetlistWire, sort_gates

GATED = "$_DFFE_PP_"
"""Cell type of registers with a gated clock in netlists for energies; its pins are C, D, E and Q."""


@dataclass(frozen=True, slots=True, eq=False)
class MappedGate:
    name: str
    path: str
    cell: LibraryCell
    pins: dict[str, int]

    @property
    def read(self) -> list[int]:
        return [self.pins[pin.name] for pin in self.cell.inputs if pin.name in self.pins]

    @property
    def driven(self) -> list[int]:
        return [self.pins[pin.name] for pin in self.cell.outputs if pin.name in self.pins]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedNetlist:
    module: str
    gates: list[MappedGate]
    inputs: dict[str, int]  # net of each port bit, such as `op_a[3]`
    outputs: dict[str, int]  # net of each port bit
    # name of each net: the shortest one in the Verilog, else the driver's instance and the net's number, as in
    # `dotp.array.n123`
    names: dict[int, str]
    # unmapped instances; their outputs count as inputs and their inputs as outputs
    unmapped: list[NetlistCell] = field(default_factory=list[NetlistCell])
    # capacitance of the wire of each net once the gates have places
    wires_ff: dict[int, float] = field(default_factory=dict[int, float])
    # when words that memories read arrive, in FO4, by net
    read_fo4: dict[int, float] = field(default_factory=dict[int, float])


class CombinationalCells:
    """The netlist without registers; a path that ends at a register is named after the net that the register drives."""

    def __init__(self, netlist: MappedNetlist) -> None:
        self.starts = {net: name for name, net in netlist.inputs.items() if net > ONE}
        self.ends = [(net, name) for name, net in netlist.outputs.items() if net > ONE]
        for gate in netlist.gates:
            if gate.cell.sequential:
                driven = [net for net in gate.driven if net > ONE]
                name = netlist.names[driven[0]] if driven else gate.name
                self.starts |= {net: netlist.names[net] for net in driven}
                clock = gate.cell.flip_flop.clocked_on if gate.cell.flip_flop else ""
                entering = [pin.name for pin in gate.cell.inputs if not pin.clock and pin.name != clock]
                self.ends += [(gate.pins[pin], name) for pin in entering if gate.pins.get(pin, ONE) > ONE]
        gates = [gate for gate in netlist.gates if not gate.cell.sequential]
        self.gates = sort_gates(gates, lambda gate: gate.read, lambda gate: gate.driven)
        self.area = sum(gate.cell.area for gate in gates)


def mapped_module(
    module: NetlistModule, library: Mapping[str, LibraryCell], apart: Collection[str] = ()
) -> MappedNetlist:
    gates: list[MappedGate] = []
    others = [cell for cell in module.cells if cell.type in apart]
    for cell in module.cells:
        if cell.type in apart:
            continue
        if cell.type not in library:
            raise ToolError(f"liberty must hold cells for all of {module.name}, not lack one for {cell.type}")
        pins = {pin: nets[0] for pin, nets in cell.pins.items()}
        gates.append(MappedGate(cell.name, instance_path(cell.name), library[cell.type], pins))
    inputs = {name: net for port in module.inputs.values() for name, net in port.bits}
    outputs = {name: net for port in module.outputs.values() for name, net in port.bits}
    for cell in others:
        inputs |= dict(pin_bits(cell, outputs=True))
        outputs |= dict(pin_bits(cell, outputs=False))
    names = {net: known[0] for net, known in net_names(module).items()}
    for gate in gates:
        for net in gate.driven:
            names.setdefault(net, f"{gate.path}.n{net}" if gate.path else f"n{net}")
    return MappedNetlist(module=module.name, gates=gates, inputs=inputs, outputs=outputs, names=names, unmapped=others)


def pin_bits(cell: NetlistCell, *, outputs: bool) -> Iterator[tuple[str, int]]:
    """Yield name, such as ``core0.data__addr[3]``, and net of each bit of the outputs or inputs of a cell."""
    for pin, nets in cell.pins.items():
        if (pin in cell.outputs) == outputs:
            yield from NetlistWire(f"{cell.name}.{pin}", nets).bits


def instance_path(name: str) -> str:
    r"""Return the instance of a cell in a flattened netlist: ``dotp.array`` for ``$flatten\dotp.\array.$abc$12``."""
    rest = name.removeprefix("$flatten")
    if rest == name:
        return "" if name.startswith("$") else name.rpartition(".")[0]
    parts: list[str] = []
    while rest.startswith("\\") and "." in rest:
        part, _, rest = rest[1:].partition(".")
        parts.append(part)
    return ".".join(parts)


def net_names(module: NetlistModule) -> dict[int, list[str]]:
    """Return all source names of each net, the shortest name in the highest instance first."""
    names: dict[int, list[str]] = {}
    for wire in module.wires.values():
        for name, net in () if wire.hidden else wire.bits:
            names.setdefault(net, []).append(name)
    return {net: sorted(known, key=name_length) for net, known in names.items()}


def name_length(name: str) -> tuple[int, int, str]:
    return name.count("."), len(name), name


def packed_netlist(netlist: MappedNetlist) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(netlist))).decode()


def unpacked(text: str) -> MappedNetlist:
    return pickle.loads(zlib.decompress(base64.b64decode(text)))


SHARED = "(shared)"
"""Name in place of an instance for gates that serve several instances and match no net of the source."""

VECTORS = 2048
_ALL = (1 << VECTORS) - 1
_DENSITIES = 4


def with_origins(
    source: NetlistModule, flat: NetlistModule, mapped: MappedNetlist
) -> tuple[MappedNetlist, dict[str, float]]:
    """Return the netlist with instances of gates and readable net names, and area shares by attribution method."""
    names = net_names(flat)
    driven = [net for gate in mapped.gates if gate.cell.sequential for net in gate.driven]
    # maps all names of a register output to one of them
    registers = {name: names[net][0] for net in driven if net in names for name in names[net]}
    known = _Source(source, registers, {cell.type for cell in mapped.unmapped})
    part = CombinationalCells(mapped)
    values = _mapped_values(part)
    instances, shares = _attribute_gates(mapped, part, known, values)
    gates = [replace(gate, path=_common_instance(instances[gate])) for gate in mapped.gates]
    readable = dict(mapped.names)
    for gate in gates:
        for net in gate.driven:
            own = (name for name in names.get(net, ()) if name.rpartition(".")[0] == gate.path)
            if gate.cell.sequential:
                readable[net] = next(own, readable[net])
            if readable[net] == f"n{net}":
                readable[net] = known.name(values[net], gate.path) or f"{gate.path}.n{net}".lstrip(".")
    return replace(mapped, gates=gates, names=readable), shares


def _random(name: str) -> int:
    """Return random test vectors of a net; four equal parts have ones with probability 1/2, 1/4, 3/4 and 1/2."""
    random = Random(name)
    part = VECTORS // _DENSITIES
    drawn = [random.getrandbits(part) for _ in range(_DENSITIES + 2)]
    parts = (drawn[0], drawn[1] & drawn[4], drawn[2] | drawn[5], drawn[3])
    return sum(value << part * place for place, value in enumerate(parts))


def _up_to_inversion(value: int) -> int:
    return min(value, value ^ _ALL)


def _sum_of_products(pins: str, table: int) -> str:
    rows = [row for row in range(1 << len(pins)) if table >> row & 1]
    return "+".join("*".join(f"{'!' * (~row >> place & 1)}{pin}" for place, pin in enumerate(pins)) for row in rows)


_FUNCTIONS = {kind: expression(_sum_of_products(*gate)) for kind, gate in GATES.items()}


class _Source:
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
        for cell in sort_gates(gates, lambda cell: cell.read, lambda cell: cell.driven):
            pins = {pin: self.values.get(nets[0], 0) for pin, nets in cell.pins.items()}
            value = _FUNCTIONS[cell.type].evaluate(pins, _ALL)
            self.values[cell.pins["Y"][0]] = value
            if _up_to_inversion(value):
                self.instances[_up_to_inversion(value)].add(instance_path(cell.name))
        self.names: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for net, known in names.items():
            value = self.values.get(net, 0)
            if _up_to_inversion(value):
                self.names[_up_to_inversion(value)] += [(name, value) for name in known]

    def name(self, value: int, path: str) -> str:
        """Return the name of a net with this value, or ``!`` and a net of inverse value, preferably in ``path``, or
        ""."""
        named = self.names.get(_up_to_inversion(value), ())
        inside = [item for item in named if item[0].rpartition(".")[0] == path] or named
        if not inside:
            return ""
        name, own_value = min(inside, key=lambda item: (item[1] != value, *name_length(item[0])))
        return name if own_value == value else f"!{name}"


def _mapped_values(part: CombinationalCells) -> dict[int, int]:
    values = {ZERO: 0, ONE: _ALL, DONT_CARE: 0}
    values |= {net: _random(name) for net, name in part.starts.items()}
    for gate in part.gates:
        inputs = {pin.name: values.get(gate.pins.get(pin.name, ZERO), 0) for pin in gate.cell.inputs}
        for pin in gate.cell.outputs:
            if pin.name in gate.pins:
                values[gate.pins[pin.name]] = expression(pin.function).evaluate(inputs, _ALL)
    return values


def _attribute_gates(
    mapped: MappedNetlist, part: CombinationalCells, known: _Source, values: Mapping[int, int]
) -> tuple[dict[MappedGate, frozenset[str]], dict[str, float]]:
    """Return the instances to which each gate may belong, and the share of the area that each method attributes."""
    instances: dict[MappedGate, frozenset[str]] = {}
    area: dict[str, float] = dict.fromkeys(("function", "readers", "shared"), 0.0)

    def attribute(gate: MappedGate, paths: Iterable[str], kind: str) -> None:
        instances[gate] = frozenset(paths)
        if len(instances[gate]) == 1:
            area[kind] += gate.cell.area

    registers = [gate for gate in mapped.gates if gate.cell.sequential]
    for gate in registers:
        names = {part.starts[net] for net in gate.driven}
        attribute(gate, {known.register_path[name] for name in names if name in known.register_path}, "function")
    for gate in part.gates:
        by_function = set[str]().union(*(known.instances.get(_up_to_inversion(values[net]), ()) for net in gate.driven))
        attribute(gate, by_function, "function")
    pins = {name: cell for cell in mapped.unmapped for name, _ in pin_bits(cell, outputs=False)}
    output_readers: defaultdict[int, set[str]] = defaultdict(set)
    for name, net in mapped.outputs.items():
        output_readers[net].add(instance_path(pins[name].name) if name in pins else "")
    readers: defaultdict[int, list[MappedGate]] = defaultdict(list)
    for gate in (*part.gates, *registers):
        for net in gate.read:
            readers[net].append(gate)
    for gate in (*reversed(part.gates), *registers):
        if len(instances[gate]) != 1:
            reading = set[str]().union(*(output_readers.get(net, ()) for net in gate.driven))
            reading = reading.union(*(instances[reader] for net in gate.driven for reader in readers[net]))
            both = instances[gate] & reading
            if len(both) == 1 or not instances[gate]:
                attribute(gate, both or reading, "readers")
    drivers = {net: gate for gate in (*part.gates, *registers) for net in gate.driven}
    for gate in part.gates:
        if len(instances[gate]) != 1:
            feeding = set[str]().union(*(instances[drivers[net]] for net in gate.read if net in drivers))
            both = instances[gate] & feeding
            if both or len(feeding) == 1:
                attribute(gate, both or feeding, "readers")
    area["shared"] = sum(gate.cell.area for gate in (*part.gates, *registers) if len(instances[gate]) != 1)
    whole = sum(area.values()) or 1.0
    return instances, {kind: part_area / whole for kind, part_area in area.items()}


def _common_instance(paths: frozenset[str]) -> str:
    if len(paths) == 1:
        return next(iter(paths))
    levels = zip(*(path.split(".") if path else [] for path in paths), strict=False)
    common = takewhile(lambda parts: len(set(parts)) == 1, levels)
    return ".".join([*(parts[0] for parts in common), SHARED])
