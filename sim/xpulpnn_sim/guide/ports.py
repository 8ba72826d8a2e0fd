# amaranth: UnusedElaboratable=no
"""Ports of the components that can be generated, with their meaning."""

from html import escape

from xpulpnn.config import preset
from xpulpnn.emit.hierarchy import component_ports
from xpulpnn.emit.members import member_meanings
from xpulpnn.emit.names import port_name
from xpulpnn.errors import InputError
from xpulpnn_sim.guide import html
from xpulpnn_sim.tops import TOPS

_CLOCKING = (
    ("clk", "clock; everything happens on its rising edge"),
    ("rst", "synchronous reset, active high; rst_n with --reset async-low"),
)


def ports(top: str) -> str:
    """Table of the ports of ``top`` in preset ``xpulpnn``; raises :class:`InputError` for an unknown component."""
    if top not in TOPS:
        raise InputError(f"ports must be of one of {', '.join(TOPS)}, not {top}")
    # looked at only, never elaborated, of which Amaranth would warn
    component = TOPS[top](preset("xpulpnn"))
    meanings = member_meanings(component)
    rows = [[html.code(name), "input", "1", escape(text)] for name, text in _CLOCKING]
    rows += [
        [
            html.code(port_name(port.name)),
            port.direction,
            str(port.width),
            escape(meanings.get(port.name, "")).replace("``", ""),
        ]
        for port in component_ports(component)
        if port.width
    ]
    return html.table(("port", "direction", "bits", "meaning"), rows)
