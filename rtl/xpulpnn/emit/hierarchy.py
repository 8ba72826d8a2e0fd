"""Takes an elaborated component apart into one flat module per component.

Amaranth derives the ports of a submodule from the nets that cross its boundary, so their number and names depend on
the surroundings. Here each component is converted on its own with the ports of its signature, and its parent
instantiates it by name; two instances of equal components then share one module.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Elaboratable, Fragment, Instance, ResetSignal, Value
from amaranth.lib import wiring

from xpulpnn.errors import ToolError

_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """``DotpUnit`` -> ``dotp_unit``."""
    return _UPPER.sub("_", name).lower()


@dataclass(frozen=True, slots=True)
class Port:
    """One flattened port of a component."""

    name: str
    direction: str
    width: int
    path: tuple[str | int, ...]
    shape: object


def component_ports(component: wiring.Component) -> tuple[Port, ...]:
    """The flattened ports in declaration order."""
    ports = []
    for path, member, value in component.signature.flatten(component):
        direction = "input" if member.flow is wiring.In else "output"
        width = len(Value.cast(value))
        ports.append(Port("__".join(map(str, path)), direction, width, path, member.shape))
    return tuple(ports)


class _Alone(Elaboratable):
    """A component whose hierarchy was already elaborated, as a top level of its own."""

    def __init__(self, component: wiring.Component, fragment: Fragment) -> None:
        self._component = component
        self._fragment = fragment
        self.signature = component.signature

    def __getattr__(self, name: str) -> object:
        return getattr(self._component, name)

    def elaborate(self, platform: object) -> Fragment:
        return self._fragment


def _component_of(fragment: Fragment) -> wiring.Component | None:
    origins = fragment.origins or ()
    return next((origin for origin in origins if isinstance(origin, wiring.Component)), None)


def _clocking(name: str) -> Value:
    """The clock or reset that Amaranth made the port ``name`` for."""
    domain, _, kind = name.rpartition("_")
    return {"clk": ClockSignal, "rst": ResetSignal}[kind](domain or "sync")


@dataclass(frozen=True, slots=True)
class Emitted:
    """What the caller of :func:`walk` reports for one component: module name and implicit clock and reset ports."""

    module: str
    clocking: tuple[str, ...]


def walk(component: wiring.Component, build: Callable[[wiring.Component, str, str], Emitted], path: str) -> None:
    """Convert a component and everything inside it, children first.

    Calls ``build(component, RTLIL text, instance path)`` for every component of the hierarchy.
    """
    _walk(component, Fragment.get(component, None), build, path)


def _walk(
    component: wiring.Component,
    fragment: Fragment,
    build: Callable[[wiring.Component, str, str], Emitted],
    path: str,
) -> Emitted:
    for index, (child, name, src_loc) in enumerate(fragment.subfragments):
        if isinstance(child, Instance):
            continue
        inner = _component_of(child)
        if inner is None:
            raise ToolError(f"submodule {path}.{name} must be a Component, not a bare Module")
        emitted = _walk(inner, child, build, f"{path}.{name}")
        connections = {
            f"{'i' if member.flow is wiring.In else 'o'}_{'__'.join(map(str, port))}": value
            for port, member, value in inner.signature.flatten(inner)
            if len(Value.cast(value))
        }
        connections |= {f"i_{clock}": _clocking(clock) for clock in emitted.clocking}
        fragment.subfragments[index] = (Instance(emitted.module, **connections), name, src_loc)
    text = rtlil.convert(_Alone(component, fragment), name="module", emit_src=False)
    return build(component, text, path)
