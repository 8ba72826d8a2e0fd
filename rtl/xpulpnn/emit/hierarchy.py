"""Splits an elaborated component into one flat module per component.

Amaranth derives the ports of a submodule from the nets that cross its boundary, so their number and names depend on
the surroundings. Here each component is converted on its own with the ports of its signature, and its parent
instantiates it by name; two instances of equal components then share one module.
"""

import pickle
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, DomainRenamer, Fragment, Instance, MemoryInstance, ResetSignal, Signal, Value
from amaranth.lib import wiring

from xpulpnn.errors import ToolError


@dataclass(frozen=True, slots=True)
class ModulePort:
    name: str
    direction: str
    width: int
    path: tuple[str | int, ...]
    shape: Any
    value: Value


def component_ports(component: wiring.Component) -> tuple[ModulePort, ...]:
    ports = []
    for path, member, value in component.signature.flatten(component):
        direction, cast = "input" if member.flow is wiring.In else "output", Value.cast(value)
        ports.append(ModulePort("__".join(map(str, path)), direction, len(cast), path, member.shape, cast))
    return tuple(ports)


def component_of(fragment: Fragment) -> wiring.Component | None:
    origins = fragment.origins or ()
    return next((origin for origin in origins if isinstance(origin, wiring.Component)), None)


def component_rtlil(component: wiring.Component, fragment: Fragment) -> str:
    # the conversion sets the origin again
    fragment.origins = None
    vars(component)["elaborate"] = lambda platform: fragment
    try:
        return rtlil.convert(component, name="module", emit_src=False)
    finally:
        del vars(component)["elaborate"]


_LIBRARY = tuple(f"_{base.__name__}__" for base in wiring.Component.__mro__)
"""Prefixes of the private attributes of Amaranth's classes."""


def likeness(component: wiring.Component, fragment: Fragment, children: list[tuple[str, str | None]]) -> Hashable:
    """Return a key that is equal for components that elaborate to the same module; None if the component is unique.

    Equal components have the same type, attributes and ports, the same children under the same names (``children``,
    with their modules), and statements with the same text. A component with an attribute that cannot be pickled,
    another signal in the place of a port, or with its own clock domain or memory, is unique.
    """
    members, values = component.signature.members, vars(component)
    own = {name: value for name, value in values.items() if name not in members and not name.startswith(_LIBRARY)}
    ports: list[Hashable] = []
    for port in component_ports(component):
        if not isinstance(port.value, Signal) or port.value.name != port.name:
            return None
        ports.append((port.name, port.direction, repr(port.value.shape()), port.value.init))
    if fragment.domains or any(module is None for _name, module in children):
        return None
    try:
        attributes = pickle.dumps(own)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return type(component), attributes, tuple(ports), tuple(children), repr(fragment.statements)


def renamed(fragment: Fragment) -> tuple[Fragment, str]:
    """Name the main clock domain of a fragment ``sync``; return the fragment and the domain's name outside of it."""
    domain = fragment.domain_renames.get("sync", "sync")
    return fragment if domain == "sync" else Fragment.get(DomainRenamer({domain: "sync"})(fragment), None), domain


def instance(module: str, clocking: Iterable[str], component: wiring.Component, sync: str = "sync") -> Instance:
    """Return an instance of the module of a component; ``clocking`` are the clock and reset ports that Amaranth added.

    The main domain of the component is connected to the domain ``sync``.
    """
    ports = (port for port in component_ports(component) if port.width)
    connections: dict[str, Any] = {f"{port.direction[0]}_{port.name}": port.value for port in ports}
    for name in clocking:
        domain, _, kind = name.rpartition("_")
        connections[f"i_{name}"] = {"clk": ClockSignal, "rst": ResetSignal}[kind](domain or sync)
    return Instance(module, **connections)


def flatten(component: wiring.Component, fragment: Fragment) -> None:
    subfragments = []
    for index, (child, name, src_loc) in enumerate(fragment.subfragments):
        if isinstance(child, Instance | MemoryInstance) or component_of(child) is not None:
            subfragments.append((child, name, src_loc))
            continue
        name = name or f"unnamed{index}"
        flatten(component, child)
        for domain in child.domains.values():
            if domain.local or domain.name in fragment.domains:
                raise ToolError(
                    f"clock domain {domain.name} of submodule {name} of {type(component).__name__} must be seen by "
                    "everything around it, as the submodule has no ports of its own"
                )
            fragment.add_domains(domain)
        for domain, statements in child.statements.items():
            fragment.add_statements(domain, statements)
        subfragments += [(inner, f"{name}_{own}" if own else None, loc) for inner, own, loc in child.subfragments]
    fragment.subfragments = subfragments
