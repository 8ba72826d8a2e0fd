"""One netlist of the netlists that a design was mapped in, part by part."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xpulpnn_sim.exploration.mapped_netlist import MappedGate, MappedNetlist, pin_bits
from xpulpnn_sim.tools.netlists import ONE, ZERO, NetlistCell


@dataclass(eq=False)
class _Joined:
    """Nets that are the same one, by one of them."""

    same: dict[int, int] = field(default_factory=dict[int, int])

    def of(self, net: int) -> int:
        """The one net that a net is."""
        path: list[int] = []
        while net in self.same:
            path.append(net)
            net = self.same[net]
        self.same.update(dict.fromkeys(path, net))
        return net

    def all(self, nets: Mapping[str, int]) -> dict[str, int]:
        """Likewise of nets by name."""
        return {name: self.of(net) for name, net in nets.items()}

    def join(self, net: int, driven_by: int) -> None:
        """A net is what drives it."""
        driver = self.of(driven_by)
        if self.of(net) != driver:
            self.same[self.of(net)] = driver


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assembly:
    """A netlist put together."""

    netlist: MappedNetlist
    pins: dict[str, int]  # net at each bit of the ports of the parts, such as `core0.data__addr[3]`


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of a part: the instance it becomes, and the number that its nets follow."""

    instance: str
    offset: int
    constants: int = ONE

    def net(self, net: int) -> int:
        return net if net <= self.constants else net + self.offset

    def path(self, inner: str) -> str:
        return f"{self.instance}.{inner}" if inner else self.instance

    def gate(self, gate: MappedGate) -> MappedGate:
        pins = {pin: self.net(net) for pin, net in gate.pins.items()}
        return MappedGate(gate.name, self.path(gate.path), gate.cell, pins)

    def cell(self, cell: NetlistCell) -> NetlistCell:
        pins = {pin: [self.net(net) for net in nets] for pin, nets in cell.pins.items()}
        return replace(cell, name=f"{self.instance}.{cell.name}", pins=pins)


def assembled(top: MappedNetlist, parts: Mapping[str, MappedNetlist]) -> Assembly:
    """The netlist of a top whose instances ``apart`` are replaced by those of the parts, by their types.

    Instances of other types stay apart.
    """
    joined = _Joined()
    gates, names, pins = list(top.gates), dict(top.names), dict[str, int]()
    apart = [cell for cell in top.apart if cell.type not in parts]
    offset = _last(top)
    for instance in top.apart:
        if instance.type not in parts:
            continue
        part, place = parts[instance.type], _Place(instance.name, offset)
        offset += _last(part)
        pins |= dict(pin_bits(instance, outputs=False)) | dict(pin_bits(instance, outputs=True))
        for name, net in pin_bits(instance, outputs=False):
            inner = part.inputs.get(name.removeprefix(f"{instance.name}."), ZERO)
            if inner > ONE:
                joined.join(place.net(inner), net)
        for name, net in pin_bits(instance, outputs=True):
            joined.join(net, place.net(part.outputs[name.removeprefix(f"{instance.name}.")]))
        gates += map(place.gate, part.gates)
        apart += map(place.cell, part.apart)
        names |= {place.net(net): place.path(name) for net, name in part.names.items() if net > ONE}
    inputs = {name: net for name, net in top.inputs.items() if name not in pins}
    outputs = {name: net for name, net in top.outputs.items() if name not in pins}
    for cell in apart:
        inputs |= dict(pin_bits(cell, outputs=True))
        outputs |= dict(pin_bits(cell, outputs=False))
    return Assembly(
        netlist=MappedNetlist(
            module=top.module,
            gates=[MappedGate(gate.name, gate.path, gate.cell, joined.all(gate.pins)) for gate in gates],
            inputs=joined.all(inputs),
            outputs=joined.all(outputs),
            # the top has its own names for what its instances drive
            names={joined.of(net): name for net, name in reversed(names.items())},
            apart=apart,
        ),
        pins=joined.all(pins),
    )


def _last(netlist: MappedNetlist) -> int:
    """The highest number of a net."""
    ports = (*netlist.inputs.values(), *netlist.outputs.values())
    return max(ONE, *netlist.names, *ports, *(net for gate in netlist.gates for net in gate.pins.values()))
