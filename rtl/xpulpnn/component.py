"""Base of the hardware components and of their signatures; assignments by name and by case."""

from collections.abc import Collection, Mapping
from typing import Any

from amaranth.hdl import Const, Module, ShapeLike, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

__all__ = [
    "Component",
    "In",
    "Out",
    "PortSignature",
    "assign_by_name",
    "connect",
    "flipped",
    "follow_case",
    "optional",
    "pass_ports",
    "signals",
]


class Component(wiring.Component):
    """Component with a configuration; ``ports`` are those that are no annotations of its class."""

    def __init__(self, config: Any = None, ports: dict[str, wiring.Member] | None = None) -> None:
        self.config = config
        super().__init__(ports)


class PortSignature(wiring.Signature):
    """Members are the annotations of the class, then those given; equal to one of its class with the same members."""

    def __init__(self, members: dict[str, wiring.Member] | None = None) -> None:
        super().__init__(vars(type(self)).get("__annotations__", {}) | (members or {}))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.members == self.members

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.members)})"


def signals(shape: ShapeLike, names: str) -> list[Signal]:
    """Signals of one shape, with these names."""
    return [Signal(shape, name=name) for name in names.split()]


def optional(interface: Any, name: str) -> Value:
    """A member of an interface, or constant 0 where the configuration leaves the member out."""
    return getattr(interface, name, Const(0))


def assign_by_name(target: Any, source: Any, *names: str, into: str = "", of: str = "") -> list[Any]:
    """Statements that assign members of ``source`` to those of ``target`` with the same names.

    In the target ``into`` stands before the names, in the source ``of``.
    """
    return [getattr(target, into + name).eq(getattr(source, of + name)) for name in names]


def pass_ports(m: Module, outer: Component, inner: Component, *, without: Collection[str] = ()) -> None:
    """Connect the ports of ``inner``, ``without`` these, to those of ``outer`` with the same names."""
    for name, member in inner.signature.members.items():
        if name in without:
            continue
        inside, outside = getattr(inner, name), getattr(outer, name)
        if not member.is_signature:
            m.d.comb += outside.eq(inside) if member.flow is Out else inside.eq(outside)
            continue
        for element, outer_element in zip(inside, outside, strict=True) if member.dimensions else [(inside, outside)]:
            connect(m, element, flipped(outer_element))


def set_and_clear(m: Any, flag: Signal, sets: ValueLike, clears: ValueLike) -> None:
    """Let a register of one bit be 1 after ``sets``, which goes first, and 0 after ``clears``."""
    with m.If(sets):
        m.d.sync += flag.eq(1)
    with m.Elif(clears):
        m.d.sync += flag.eq(0)


def follow_case(m: Module, target: Any, selector: ValueLike, values: Mapping[Any, ValueLike]) -> None:
    """Let ``target`` have the value of the case that ``selector`` is, None being any other; else it is as before."""
    with m.Switch(selector):
        for case, value in values.items():
            with m.Default() if case is None else m.Case(case):
                m.d.comb += target.eq(value)
