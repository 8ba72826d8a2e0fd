"""Flat netlists of library cells, with the instance and the readable name of everything in them."""

import base64
import pickle
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.liberty import LibraryCell
from xpulpnn_sim.tools.netlists import ONE, NetlistCell, NetlistModule, NetlistWire, in_order

GATED = "$_DFFE_PP_"
"""Type of the registers that stand behind a clock gate in netlists for energies; their pins are C, D, E, Q."""


@dataclass(frozen=True, slots=True, eq=False)
class MappedGate:
    """A cell: its name, the path of the instance it is in (empty: the top), what it is, and the net at each pin."""

    name: str
    path: str
    cell: LibraryCell
    pins: dict[str, int]

    @property
    def read(self) -> list[int]:
        """Nets of the inputs."""
        return [self.pins[pin.name] for pin in self.cell.inputs if pin.name in self.pins]

    @property
    def driven(self) -> list[int]:
        """Nets of the outputs."""
        return [self.pins[pin.name] for pin in self.cell.outputs if pin.name in self.pins]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CombinationalCells:
    """Logic between registers: gates in order, names of nets that paths start at, and nets with names of ends."""

    gates: list[MappedGate]
    starts: dict[int, str]
    ends: list[tuple[int, str]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedNetlist:
    """A flat netlist of library cells."""

    module: str  # name of the top module
    gates: list[MappedGate]
    inputs: dict[str, int]  # net by name of the port bit, such as `op_a[3]`
    outputs: dict[str, int]  # likewise
    # name of each net: the shortest of those that the Verilog gave it, else one made of the driver's instance path and
    # the number of the net, such as `dotp.array.n123`
    names: dict[int, str]
    # instances that were not mapped; their outputs are among the inputs, their inputs among the outputs
    apart: list[NetlistCell] = field(default_factory=list[NetlistCell])

    def combinational(self) -> CombinationalCells:
        """The netlist with its registers cut: what leaves one starts a path, what enters one but its clock ends one.

        Ends at a register have the name of the first net it drives.
        """
        starts = {net: name for name, net in self.inputs.items() if net > ONE}
        ends = [(net, name) for name, net in self.outputs.items() if net > ONE]
        for gate in self.gates:
            if gate.cell.sequential:
                driven = [net for net in gate.driven if net > ONE]
                name = self.names[driven[0]] if driven else gate.name
                starts |= {net: self.names[net] for net in driven}
                clock = gate.cell.flip_flop.clocked_on if gate.cell.flip_flop else ""
                entering = [pin.name for pin in gate.cell.inputs if not pin.clock and pin.name != clock]
                ends += [(gate.pins[pin], name) for pin in entering if gate.pins.get(pin, ONE) > ONE]
        gates = [gate for gate in self.gates if not gate.cell.sequential]
        ordered = in_order(gates, lambda gate: gate.read, lambda gate: gate.driven)
        return CombinationalCells(gates=ordered, starts=starts, ends=ends)


def mapped_module(
    found: NetlistModule, library: Mapping[str, LibraryCell], apart: Collection[str] = ()
) -> MappedNetlist:
    """A flat module as library cells, and as those whose type is in ``apart``.

    Raises :class:`ToolError` if there are others.
    """
    gates: list[MappedGate] = []
    others = [cell for cell in found.cells if cell.type in apart]
    for cell in found.cells:
        if cell.type in apart:
            continue
        if cell.type not in library:
            raise ToolError(f"liberty must hold cells for all of {found.name}, not lack one for {cell.type}")
        pins = {pin: nets[0] for pin, nets in cell.pins.items()}
        gates.append(MappedGate(cell.name, instance_path(cell.name), library[cell.type], pins))
    inputs = {name: net for port in found.inputs.values() for name, net in port.bits}
    outputs = {name: net for port in found.outputs.values() for name, net in port.bits}
    for cell in others:
        inputs |= dict(pin_bits(cell, outputs=True))
        outputs |= dict(pin_bits(cell, outputs=False))
    return MappedNetlist(
        module=found.name, gates=gates, inputs=inputs, outputs=outputs, names=_names(found, gates), apart=others
    )


def pin_bits(cell: NetlistCell, *, outputs: bool) -> Iterator[tuple[str, int]]:
    """Name, such as ``core0.data__addr[3]``, and net of each bit of the output pins of a cell, or of the others."""
    for pin, nets in cell.pins.items():
        if (pin in cell.outputs) == outputs:
            yield from NetlistWire(f"{cell.name}.{pin}", nets).bits


def instance_path(name: str) -> str:
    r"""Instance that a cell of a flattened netlist was in: ``dotp.array`` of ``$flatten\dotp.\array.$abc$12``."""
    rest = name.removeprefix("$flatten")
    if rest == name:
        return "" if name.startswith("$") else name.rpartition(".")[0]
    parts: list[str] = []
    while rest.startswith("\\") and "." in rest:
        part, _, rest = rest[1:].partition(".")
        parts.append(part)
    return ".".join(parts)


def net_names(module: NetlistModule) -> dict[int, list[str]]:
    """All names that the source gives to each net, the shortest one of the highest instance first."""
    names: dict[int, list[str]] = {}
    for wire in module.wires.values():
        for name, net in () if wire.hidden else wire.bits:
            names.setdefault(net, []).append(name)
    return {net: sorted(known, key=name_length) for net, known in names.items()}


def name_length(name: str) -> tuple[int, int, str]:
    """Sorts names of nets: those of high instances first, then short ones."""
    return name.count("."), len(name), name


def _names(module: NetlistModule, gates: list[MappedGate]) -> dict[int, str]:
    names = {net: known[0] for net, known in net_names(module).items()}
    for gate in gates:
        for net in gate.driven:
            names.setdefault(net, f"{gate.path}.n{net}" if gate.path else f"n{net}")
    return names


def packed_netlist(netlist: MappedNetlist) -> str:
    """A netlist with its library cells as text without line breaks."""
    return base64.b64encode(zlib.compress(pickle.dumps(netlist))).decode()


def unpacked(text: str) -> MappedNetlist:
    """Inverse of :func:`packed_netlist`."""
    return pickle.loads(zlib.decompress(base64.b64decode(text)))
