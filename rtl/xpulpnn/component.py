"""Base classes of hardware components and signatures, and helpers that write assignments."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from amaranth.hdl import Const, Module, ShapeLike, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

__all__ = [
    "Component",
    "In",
    "Out",
    "PortSignature",
    "Wrapper",
    "assign_by_name",
    "connect",
    "flipped",
    "follow_case",
    "optional",
    "pass_ports",
    "signals",
]


class Component(wiring.Component):
    """A component with a configuration; ``ports`` are ports in addition to those annotated in the class."""

    def __init__(self, config: Any = None, ports: dict[str, wiring.Member] | None = None) -> None:
        self.config = config
        super().__init__(ports)


class Wrapper(Component):
    """A component with the ports of the components in ``wrapped``, except those named in ``inside``, and ``ports``."""

    def __init__(
        self, config: Any, wrapped: Sequence[Component], inside: Collection[str], ports: dict[str, wiring.Member]
    ) -> None:
        self.wrapped = wrapped
        members = {name: member for inner in wrapped for name, member in inner.signature.members.items()}
        super().__init__(config, {name: member for name, member in members.items() if name not in inside} | ports)


class PortSignature(wiring.Signature):
    """A signature of annotated members and further ``members``; equal if class and members are equal."""

    def __init__(self, members: dict[str, wiring.Member] | None = None) -> None:
        super().__init__(vars(type(self)).get("__annotations__", {}) | (members or {}))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.members == self.members

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.members)})"


def signals(shape: ShapeLike, names: str) -> list[Signal]:
    """Return a new signal of this shape for each name in a string of names separated by spaces."""
    return [Signal(shape, name=name) for name in names.split()]


def optional(interface: Any, name: str) -> Value:
    """Return a member of an interface, or constant 0 where the configuration leaves the member out."""
    return getattr(interface, name, Const(0))


def assign_by_name(target: Any, source: Any, *names: str, to_prefix: str = "", from_prefix: str = "") -> list[Any]:
    """Return assignments of named members of ``source`` to those of ``target``; each prefix goes before the names."""
    return [getattr(target, to_prefix + name).eq(getattr(source, from_prefix + name)) for name in names]


def pass_ports(m: Module, outer: Component, inner: Component, *, excluded: Collection[str] = ()) -> None:
    """Connect the ports of ``inner``, except those in ``excluded``, to the ports of ``outer`` with the same names."""
    for name, member in inner.signature.members.items():
        if name in excluded:
            continue
        pairs: Any = (getattr(inner, name), getattr(outer, name))
        for inside, outside in zip(*pairs, strict=True) if member.dimensions else [pairs]:
            if member.is_signature:
                connect(m, inside, flipped(outside))
            else:
                m.d.comb += outside.eq(inside) if member.flow is Out else inside.eq(outside)


def set_and_clear(m: Any, flag: Signal, sets: ValueLike, clears: ValueLike) -> None:
    """Set a one-bit register to 1 by ``sets`` and to 0 by ``clears``; ``sets`` wins."""
    with m.If(sets):
        m.d.sync += flag.eq(1)
    with m.Elif(clears):
        m.d.sync += flag.eq(0)


def follow_case(m: Module, target: Any, selector: ValueLike, values: Mapping[Any, ValueLike]) -> None:
    """Assign to ``target`` the value of the case that ``selector`` matches; the key None is the default case."""
    with m.Switch(selector):
        for case, value in values.items():
            with m.Default() if case is None else m.Case(case):
                m.d.comb += target.eq(value)
