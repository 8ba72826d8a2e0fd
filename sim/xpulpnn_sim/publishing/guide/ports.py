# amaranth: UnusedElaboratable=no
"""Ports of the components that can be generated, with their meaning."""

from html import escape

from xpulpnn.config import CLUSTER_PRESETS, preset
from xpulpnn.emit.hierarchy import component_ports
from xpulpnn.emit.members import member_meanings
from xpulpnn.emit.names import port_name
from xpulpnn.errors import InputError
from xpulpnn_sim.publishing.guide import html
from xpulpnn_sim.tools.top_names import ALL_TOPS
from xpulpnn_sim.tools.tops import CLUSTER_TOPS, TOPS

_CLOCKING = (
    ("clk", "clock; everything happens on its rising edge"),
    ("rst", "synchronous reset, active high; rst_n with --reset async-low"),
)


def ports(top: str) -> str:
    """Table of the ports of ``top`` in preset ``xpulpnn`` or ``cluster``; of the elements of an array the first.

    Raises :class:`InputError` for an unknown component.
    """
    if top not in ALL_TOPS:
        raise InputError(f"ports must be of one of {', '.join(ALL_TOPS)}, not {top}")
    # looked at only, never elaborated, of which Amaranth would warn
    of_cluster = CLUSTER_TOPS.get(top)
    component = TOPS[top](preset("xpulpnn")) if of_cluster is None else of_cluster(CLUSTER_PRESETS["cluster"])
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
        if port.width and not any(isinstance(part, int) and part for part in port.path)
    ]
    return html.table(("port", "direction", "bits", "meaning"), rows)
