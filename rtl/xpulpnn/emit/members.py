"""Meanings of the flattened ports of components, and the fields of structured ports."""

import inspect
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import takewhile
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data, wiring

from xpulpnn.emit.declarations import declared_meanings
from xpulpnn.emit.hierarchy import component_ports

_ROLE = re.compile(r":[\w:]+:`~?(?:[\w.]*\.)?([^`]+)`")
_HEADING = re.compile(r"^\S[^\n]*\n-{3,}$", re.MULTILINE)


def plain_text(text: str) -> str:
    """Text without the marks of reStructuredText, on one line."""
    return " ".join(_ROLE.sub(r"\1", text).replace("``", "").split())


def summary(component: wiring.Component) -> str:
    """Return the docstring of a component up to the first section."""
    text = inspect.getdoc(component) or ""
    heading = _HEADING.search(text)
    return plain_text(text[: heading.start()] if heading else text)


def member_meanings(component: wiring.Component) -> dict[str, str]:
    """Meaning of every flattened port that a docstring covers.

    A port takes the text of the longest documented prefix of its path. Behind it stands what the signature of that
    member says of the rest: ``insn__payload__word`` is what the component says of ``insn`` and the signature of
    ``insn`` of ``payload.word``. Of an array the number is told between them.
    """
    meanings = {}
    for port in component_ports(component):
        texts = list(_texts(component, component.signature, [str(name) for name in port.path]))
        if texts:
            meanings[port.name] = " ".join(texts)
    return meanings


def _texts(described: object, signature: wiring.Signature, names: list[str]) -> Iterator[str]:
    # what Amaranth's own signatures say is written for those who use them in Python
    if type(described).__module__.partition(".")[0] == "amaranth":
        return
    # ports that are made from a table have theirs in a mapping
    documented = dict(getattr(described, "PORT_MEANINGS", {}))
    for kind in reversed(type(described).__mro__):
        if kind.__module__.partition(".")[0] not in ("amaranth", "builtins"):
            documented |= declared_meanings(kind)
    for length in range(len(names), 0, -1):
        text = documented.get(".".join(names[:length]))
        if text is None:
            continue
        yield plain_text(text)
        places = list(takewhile(str.isdecimal, names[length:]))
        if places:
            yield f"Number {' '.join(places)}."
        inner = _signature_at(signature, names[:length])
        if inner is not None:
            yield from _texts(inner, inner, names[length + len(places) :])
        return


def _signature_at(signature: wiring.Signature, names: list[str]) -> wiring.Signature | None:
    """The signature of the member at a path, whose numbers are places in arrays; None if it is a port."""
    for name in (name for name in names if not name.isdecimal()):
        member = signature.members[name]
        if not member.is_signature:
            return None
        signature = member.signature
    return signature.flip() if isinstance(signature, wiring.FlippedSignature) else signature


def member_fields(component: wiring.Component) -> dict[str, list[dict[str, Any]]]:
    """Fields of every flattened port that is a structure, and the values of enumerations, by port name."""
    fields = {}
    for port in component_ports(component):
        rows = list(_fields(port.shape))
        if rows and (rows[0]["name"] or "values" in rows[0]):
            fields[port.name] = rows
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


def field_texts(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Each field of a structured port in words, such as ``7:4 result: 0 ADD, 1 SHIFT``."""
    parts: list[str] = []
    for row in rows:
        top = row["lsb"] + row["width"] - 1
        bits = str(top) if row["width"] == 1 else f"{top}:{row['lsb']}"
        values = ", ".join(f"{value} {name}" for name, value in row.get("values", {}).items())
        name = " ".join(part for part in (bits, row["name"]) if part)
        parts.append(f"{name}: {values}" if values else name)
    return parts
