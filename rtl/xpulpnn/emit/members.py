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


def _documented(component: wiring.Component) -> dict[str, str]:
    section = _SECTION.search(inspect.getdoc(component) or "")
    if section is None:
        return {}
    meanings = {}
    for entry in _ENTRY.finditer(section.group(1)):
        text = " ".join(entry["text"].split())
        for name in entry["names"].split(","):
            meanings[name.strip().strip("`")] = text
    return meanings


def member_meanings(component: wiring.Component) -> dict[str, str]:
    """Meaning of every flattened port that the docstring covers.

    A port takes the text of the longest documented prefix of its path: ``insn__payload__word`` that of
    ``insn.payload``, else that of ``insn``.
    """
    documented = {name.replace(".", "__"): text for name, text in _documented(component).items()}
    meanings = {}
    for path, _member, _value in component.signature.flatten(component):
        for length in range(len(path), 0, -1):
            text = documented.get("__".join(map(str, path[:length])))
            if text is not None:
                meanings["__".join(map(str, path))] = text
                break
    return meanings


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
