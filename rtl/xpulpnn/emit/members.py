"""Descriptions of the flattened ports of components, and the fields of structured ports."""

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
    """Return ``text`` on one line, without reStructuredText markup."""
    return " ".join(_ROLE.sub(r"\1", text).replace("``", "").split())


def summary(component: wiring.Component) -> str:
    """Return the docstring of a component up to the first section."""
    text = inspect.getdoc(component) or ""
    heading = _HEADING.search(text)
    return plain_text(text[: heading.start()] if heading else text)


def member_meanings(component: wiring.Component) -> dict[str, str]:
    """Return the description of every flattened port, by port name, from ``#:`` comments on the members in its path.

    The description of ``insn__payload__word`` joins the component's comment on ``insn``, the longest documented prefix
    of the path, any array indices, and the comment on ``payload.word`` in the signature of ``insn``. Ports without
    comments are left out.
    """
    meanings = {}
    for port in component_ports(component):
        texts = list(_texts(component, component.signature, [str(name) for name in port.path]))
        if texts:
            meanings[port.name] = " ".join(texts)
    return meanings


def _texts(described: object, signature: wiring.Signature, names: list[str]) -> Iterator[str]:
    # Amaranth's own signatures are documented for Python users
    if type(described).__module__.partition(".")[0] == "amaranth":
        return
    documented = _documented(described)
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


def _documented(described: object) -> dict[str, str]:
    """Return the descriptions of ports or members by name; a wrapper takes over those of the components inside it."""
    documented: dict[str, str] = {}
    for inner in getattr(described, "wrapped", ()):
        documented |= _documented(inner)
    # ports that are created from a table are documented in a mapping
    documented |= getattr(described, "PORT_MEANINGS", {})
    for kind in reversed(type(described).__mro__):
        if kind.__module__.partition(".")[0] not in ("amaranth", "builtins"):
            documented |= declared_meanings(kind)
    return documented


def _signature_at(signature: wiring.Signature, names: list[str]) -> wiring.Signature | None:
    """Return the signature at a path of member names and array indices; None for a port."""
    for name in (name for name in names if not name.isdecimal()):
        member = signature.members[name]
        if not member.is_signature:
            return None
        signature = member.signature
    return signature.flip() if isinstance(signature, wiring.FlippedSignature) else signature


def member_fields(component: wiring.Component) -> dict[str, list[dict[str, Any]]]:
    """Return the fields and enumeration values of every structured port, by port name."""
    fields = {}
    for port in component_ports(component):
        rows = list(_fields(port.shape))
        if rows and (rows[0]["name"] or "values" in rows[0]):
            fields[port.name] = rows
    return fields


def _fields(shape: Any, name: str = "", lsb: int = 0) -> Iterator[dict[str, Any]]:
    """Yield dotted name, lowest bit, width and value names of each leaf field of a shape, from bit 0 up."""
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
    parts: list[str] = []
    for row in rows:
        top = row["lsb"] + row["width"] - 1
        bits = str(top) if row["width"] == 1 else f"{top}:{row['lsb']}"
        values = ", ".join(f"{value} {name}" for name, value in row.get("values", {}).items())
        name = " ".join(part for part in (bits, row["name"]) if part)
        parts.append(f"{name}: {values}" if values else name)
    return parts
