# amaranth: UnusedElaboratable=no
"""Replace ``% generated: NAME [ARGUMENT]`` in the guide's Markdown pages by tables made from the sources."""

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from html import escape
from typing import Any, get_args, get_origin

from docs.generate import drawings, html, machine
from docs.generate.instructions import instructions
from docs.generate.pictures import picture

from xpulpnn import config
from xpulpnn.config import CLUSTER_PRESETS, preset
from xpulpnn.debug.config import DebugConfig
from xpulpnn.emit.declarations import declared_meanings, declared_type
from xpulpnn.emit.hierarchy import component_ports
from xpulpnn.emit.members import member_meanings
from xpulpnn.emit.names import port_name
from xpulpnn.errors import InputError, require
from xpulpnn.field_values import setting_text
from xpulpnn.xif.config import XIF_PRESETS
from xpulpnn_sim.tools.component_names import ALL_TOPS
from xpulpnn_sim.tools.components import CLUSTER_TOPS, DEBUG_TOPS, component_of

_CLOCKING = (
    ("clk", "clock; registers change at its rising edge"),
    ("rst", "synchronous reset, active high; rst_n with --reset async-low"),
)


def ports(top: str) -> str:
    """Return a table of the ports of ``top`` in the preset ``xpulpnn`` or ``cluster``, only element 0 of arrays;
    raise :class:`InputError` for an unknown component."""
    require(top in ALL_TOPS, f"ports must be of one of {', '.join(ALL_TOPS)}, not {top}")
    configs = dict.fromkeys(DEBUG_TOPS, DebugConfig()) | dict.fromkeys(CLUSTER_TOPS, CLUSTER_PRESETS["cluster"])
    # never elaborated, see the first line
    component = component_of(top, {**configs, **XIF_PRESETS}.get(top, preset("xpulpnn")))
    meanings = member_meanings(component)
    rows = [[html.code(name), "input", "1", escape(text)] for name, text in _CLOCKING]
    for port in component_ports(component):
        if port.width and not any(isinstance(part, int) and part for part in port.path):
            meaning = escape(meanings.get(port.name, "")).replace("``", "")
            rows.append([html.code(port_name(port.name)), port.direction, str(port.width), meaning])
    return html.table(("port", "direction", "bits", "meaning"), rows)


def _values(kind: Any) -> str:
    if kind is bool:
        return "true, false"
    if get_args(kind) and get_origin(kind) is not frozenset:
        return ", ".join(map(str, get_args(kind)))
    return (
        "a set such as 16,8" if get_origin(kind) is frozenset else "a configuration" if is_dataclass(kind) else "number"
    )


def docstring_html(text: str) -> str:
    parts = re.split(r"``(.+?)``|:\w+:`~?(.+?)`", text)
    return "".join(
        escape(part) if index % 3 == 0 else html.code(part) for index, part in enumerate(parts) if part is not None
    )


def settings(name: str) -> str:
    kind = getattr(config, name, None)
    if not is_dataclass(kind) or not isinstance(kind, type):
        raise InputError(f"settings must be of a class of xpulpnn.config, not {name}")
    texts, rows = declared_meanings(kind), []
    for item in fields(kind):
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        shown = "" if is_dataclass(default) else html.code(setting_text(default))
        rows.append([html.code(item.name), escape(_values(item.type)), shown, docstring_html(texts[item.name])])
    return html.table(("setting", "values", "default", "meaning"), rows)


def members_section(kind: type) -> Iterator[str]:
    meanings = declared_meanings(kind)
    if meanings:
        yield from ("", "Members", "-------")
    for name, text in meanings.items():
        declared = declared_type(kind, name)
        yield f"{name} : {declared}" if declared else name
        yield f"    {text}"


_TEXTS = {**machine.TABLES, "layers": drawings.layers()}
_WITH_ARGUMENT: dict[str, Callable[[str], str]] = {
    table.__name__: table for table in (instructions, ports, machine.registers, settings, picture)
}

_ENCODINGS = re.compile(r"^```encodings\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^% generated: (\S+)(?: (\S+))?$", re.MULTILINE)


def expand_page(text: str, **others: Callable[[], str]) -> str:
    """Replace ``% generated`` marks by tables, or by the results of ``others``, and draw ``timing`` and ``encodings``.

    Raises :class:`InputError` for unknown names.
    """

    def generated(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
        if argument is None and name in _TEXTS:
            return _TEXTS[name]
        if argument is None and name in others:
            return others[name]()
        if argument is not None and name in _WITH_ARGUMENT:
            return _WITH_ARGUMENT[name](argument)
        known = ", ".join([*_TEXTS, *others, *(f"{name} ARGUMENT" for name in _WITH_ARGUMENT)])
        raise InputError(f"generated must be one of {known}, not {match[0]}")

    text = _ENCODINGS.sub(lambda block: machine.encodings(block[1]), drawings.draw_timings(text))
    return _MARK.sub(generated, text)
