"""What ports mean: the ``Members`` section of component docstrings, and the fields of structured ports."""

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data, wiring

_SECTION = re.compile(r"^Members\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^(?P<names>\S[^:\n]*?)\s*(?::[^\n]*)?\n(?P<text>(?:[ \t]+[^\n]*\n?|\n)*)", re.MULTILINE)


_ROLE = re.compile(r":[\w:]+:`~?(?:[\w.]*\.)?([^`]+)`")
_HEADING = re.compile(r"^\S[^\n]*\n-{3,}$", re.MULTILINE)


def plain_text(text: str) -> str:
    """Text without the marks of reStructuredText, on one line."""
    return " ".join(_ROLE.sub(r"\1", text).replace("``", "").split())


def summary(component: wiring.Component) -> str:
    """What a component is and does: its docstring up to the first section."""
    text = inspect.getdoc(component) or ""
    heading = _HEADING.search(text)
    return plain_text(text[: heading.start()] if heading else text)


def _documented(described: object) -> dict[str, str]:
    """What a component or signature says of its members, by dotted name.

    That is the section of its docstring, and for ports that are made from a table the mapping ``PORT_MEANINGS`` of its
    class. What Amaranth's own signatures say is written for those who use them in Python.
    """
    if type(described).__module__.partition(".")[0] == "amaranth":
        return {}
    meanings: dict[str, str] = {
        name: plain_text(text) for name, text in getattr(type(described), "PORT_MEANINGS", {}).items()
    }
    section = _SECTION.search(inspect.getdoc(described) or "")
    if section is None:
        return meanings
    for entry in _ENTRY.finditer(section.group(1)):
        text = plain_text(entry["text"])
        for name in entry["names"].split(","):
            meanings[name.strip().strip("`")] = text
    return meanings


def member_meanings(component: wiring.Component) -> dict[str, str]:
    """Meaning of every flattened port that the docstrings cover.

    A port takes the text of its own path (``insn.payload``), else that of a part of it from its beginning and what the
    signature there says of the rest.
    """
    return {
        "__".join(map(str, path)): text
        for path, _member, _value in component.signature.flatten(component)
        if (text := _meaning(component, component.signature, tuple(map(str, path))))
    }


def _meaning(described: object, signature: wiring.Signature, path: tuple[str, ...]) -> str:
    """What an object with a docstring says of the member ``path`` of its signature."""
    documented = _documented(described)
    known = documented.get(".".join(path))
    if known is not None:
        return known
    for length in reversed(range(1, len(path) + 1)):
        inner = _signature_at(signature, path[:length])
        rest = _meaning(inner, inner, path[length:]) if inner is not None and length < len(path) else ""
        own = documented.get(".".join(path[:length]), "")
        if own and rest:
            return f"{own} {rest}"
        if own or rest:
            return own or rest
    return ""


def _signature_at(signature: wiring.Signature, path: tuple[str, ...]) -> wiring.Signature | None:
    """The signature of a member, if it has one."""
    for name in path:
        member = signature.members.get(name) if name in signature.members else None
        if member is None or not member.is_signature:
            return None
        signature = member.signature
    return signature.flip() if isinstance(signature, wiring.FlippedSignature) else signature


def member_fields(component: wiring.Component) -> dict[str, list[dict[str, Any]]]:
    """Fields of every flattened port that is a structure, and the values of enumerations, by port name."""
    fields = {}
    for path, member, _value in component.signature.flatten(component):
        rows = list(_fields(member.shape))
        if rows and (len(rows) > 1 or "values" in rows[0]):
            fields["__".join(map(str, path))] = rows
    return fields


def _fields(shape: Any, name: str = "", lsb: int = 0) -> Iterator[dict[str, Any]]:
    """Leaf fields of a shape from bit 0 up: dotted name, lowest bit, width, names of the values."""
    if isinstance(shape, data.Layout) or (isinstance(shape, type) and issubclass(shape, data.Struct)):
        layout: Any = data.Layout.cast(shape)
        for key, field in layout:
            yield from _fields(field.shape, f"{name}.{key}" if name else str(key), lsb + field.offset)
        return
    row: dict[str, Any] = {"name": name, "lsb": lsb, "width": Shape.cast(shape).width}
    if isinstance(shape, type) and issubclass(shape, Enum):
        row["values"] = {member.name: member.value for member in shape}
    yield row
