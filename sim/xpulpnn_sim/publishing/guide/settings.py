"""Reference of the configuration, from its classes and the comments at their fields."""

import re
from dataclasses import MISSING, fields, is_dataclass
from html import escape
from typing import Any, get_args, get_origin

from xpulpnn import config
from xpulpnn.emit.members import declared_meanings
from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide import html


def _values(kind: Any) -> str:
    if kind is bool:
        return "true, false"
    if get_args(kind) and get_origin(kind) is not frozenset:
        return ", ".join(map(str, get_args(kind)))
    return (
        "a set such as 16,8" if get_origin(kind) is frozenset else "a configuration" if is_dataclass(kind) else "number"
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, frozenset):
        return ",".join(map(str, sorted(value, reverse=True)))
    return "" if is_dataclass(value) else str(value)


def marked(text: str) -> str:
    """Text of a docstring as HTML: its code and references in the font of code."""
    parts = re.split(r"``(.+?)``|:\w+:`~?(.+?)`", text)
    return "".join(
        escape(part) if index % 3 == 0 else html.code(part) for index, part in enumerate(parts) if part is not None
    )


def settings(name: str) -> str:
    """Table of the fields of the configuration class ``name``; raises :class:`InputError` for an unknown one."""
    kind = getattr(config, name, None)
    if not is_dataclass(kind) or not isinstance(kind, type):
        raise InputError(f"settings must be of a class of xpulpnn.config, not {name}")
    texts, rows = declared_meanings(kind), []
    for item in fields(kind):
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        rows.append(
            [
                html.code(item.name),
                escape(_values(item.type)),
                html.code(_shown(default)) if _shown(default) else "",
                marked(texts[item.name]),
            ]
        )
    return html.table(("setting", "values", "default", "meaning"), rows)
