"""Signatures whose members are annotations, as the ports of components are; ports that follow others of one name."""

from typing import Any

from amaranth.lib import wiring


class PortSignature(wiring.Signature):
    """Members are the annotations of the class, then those given; equal to one of its class with the same members."""

    def __init__(self, members: dict[str, wiring.Member] | None = None) -> None:
        super().__init__(vars(type(self)).get("__annotations__", {}) | (members or {}))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.members == self.members

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.members)})"


def following(target: Any, source: Any, *names: str) -> list[Any]:
    """Statements that let ports of ``target`` follow those of ``source`` with the same names."""
    return [getattr(target, name).eq(getattr(source, name)) for name in names]
