"""Networks as plots: what the cores do in every layer, and which memory of the cluster is whose when."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.files import write_text

Record = Mapping[str, Any]

_INK, _GRID = "#1c2430", "#e6e9ee"
_LAYERS_HEIGHT, _MEMORY_HEIGHT = 460, 560
_KIB = 1024
_PERCENT = 100
_GAP = 0.06
"""Between pieces of memory that follow each other, as a part of a step."""

_MARGIN = 1.03
"""Of an axis above what it shows."""

_LABELLED = 6144
"""Bytes of a piece from which on its name is written into it."""

_INSTRUCTIONS = "instructions"
_CAUSES = {
    _INSTRUCTIONS: "#0072b2",
    "bank_conflict": "#d55e00",
    "fetch": "#e69f00",
    "jump": "#009e73",
    "branch": "#66c2a5",
    "load_use": "#cc79a7",
    "barrier": "#5b5b5b",
    "misaligned": "#8b1a1a",
    "multicycle": "#8c6bb1",
    "peripheral": "#a6761d",
    "external": "#56b4e9",
}
_OTHERS, _OTHERS_COLOUR = "other waits", "#bbbbbb"

_KINDS = {
    "activations": "#56b4e9",
    "weights": "#009e73",
    "im2col": "#e69f00",
    "stacks, arguments, reports": "#bbbbbb",
}
_BY_ENDING = {"output": "activations", "input": "activations", "weights": "weights", "im2col": "im2col"}

_PAGE = """<!DOCTYPE html>
<!-- xpulpnn cosim cifar10 -->
<html lang="en"><head><meta charset="utf-8"><title>Networks</title>
<style>body {{ font-family: sans-serif; color: {ink}; max-width: 1200px; margin: 2em auto; }}</style></head>
<body><h1>Networks, layer by layer</h1>
<p>{note}</p>
{plots}
</body></html>
"""
_NOTE = (
    "Run on the RTL, the results of every layer compared with numpy. Cycles of a layer on a cluster: from barrier to "
    "barrier. A piece of memory is drawn over the steps in which its content is needed."
)


def write_network_plots(path: Path, records: Sequence[Record]) -> None:
    """Write a page with the layers of every record, and the memory of those on clusters.

    Raises :class:`~xpulpnn.errors.ToolError` if the package ``plotly`` is missing.
    """
    try:
        from plotly.io import to_html
    except ModuleNotFoundError:
        raise ToolError("plotly must be installed for the plot: pip install plotly") from None
    figures: list[dict[str, Any]] = []
    for record in records:
        figures.append(layers_figure(record))
        if "plan" in record:
            figures.append(memory_figure(record))
    plots = [
        to_html(figure, full_html=False, include_plotlyjs=number == 0, config={"displaylogo": False})
        for number, figure in enumerate(figures)
    ]
    write_text(path, _PAGE.format(ink=_INK, note=_NOTE, plots="\n".join(plots)))


def layers_figure(record: Record) -> dict[str, Any]:
    """What the cores' cycles of each layer are spent on, in percent."""
    layers, cores = record["layers"], record["cores"]
    names = [_heading(layer) for layer in layers]
    spent: list[dict[str, int]] = []
    for layer in layers:
        own = dict.fromkeys((*_CAUSES, _OTHERS), 0)
        for cause, cycles in layer["stalls"].items():
            own[cause if cause in _CAUSES else _OTHERS] += cycles
        # waits at both ends of a step that are no instruction's come out as instructions: a few cycles each
        own[_INSTRUCTIONS] = max(cores * layer["cycles"] - sum(own.values()), 0)
        spent.append(own)
    traces = [
        {
            "type": "bar",
            "name": cause.replace("_", " "),
            "x": names,
            "y": [_PERCENT * own[cause] / max(sum(own.values()), 1) for own in spent],
            "customdata": [own[cause] for own in spent],
            "marker": {"color": _CAUSES.get(cause, _OTHERS_COLOUR)},
            "hovertemplate": "%{customdata} core cycles, %{y:.1f} %<extra>%{fullData.name}</extra>",
        }
        for cause in (*_CAUSES, _OTHERS)
        if any(own[cause] for own in spent)
    ]
    layout = _layout(f"{_title(record)}: what the cores' cycles are spent on", _LAYERS_HEIGHT)
    layout["barmode"] = "stack"
    layout["yaxis"] |= {"title": {"text": "% of the cores' cycles"}, "range": [0, _PERCENT]}
    return {"data": traces, "layout": layout}


def memory_figure(record: Record) -> dict[str, Any]:
    """Which memory of the cluster is whose in which step."""
    traces: list[dict[str, Any]] = []
    for kind, colour in _KINDS.items():
        pieces = [piece for piece in record["plan"] if _kind(piece["name"]) == kind]
        traces.append(
            {
                "type": "bar",
                "name": kind,
                "x": [(piece["first"] + piece["last"]) / 2 for piece in pieces],
                "width": [piece["last"] - piece["first"] + 1 - _GAP for piece in pieces],
                "base": [(piece["address"] - TCDM_BASE) / _KIB for piece in pieces],
                "y": [piece["bytes"] / _KIB for piece in pieces],
                "text": [piece["name"] if piece["bytes"] >= _LABELLED else "" for piece in pieces],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "customdata": [[piece["name"], piece["bytes"], f"0x{piece['address']:08x}"] for piece in pieces],
                "marker": {"color": colour, "line": {"color": "#fff", "width": 1}},
                "hovertemplate": "%{customdata[0]}: %{customdata[1]} bytes at %{customdata[2]}<extra></extra>",
            }
        )
    limit, steps = record["tcdm_bytes"] / _KIB, record["steps"]
    layout = _layout(
        f"{_title(record)}: {record['data_bytes'] / _KIB:.1f} of {limit:.0f} KiB of TCDM over the steps", _MEMORY_HEIGHT
    )
    # where most is free, what is used is worth the room
    used = record["data_bytes"] / _KIB
    top = _MARGIN * (limit if used > limit / 2 else used)
    layout["barmode"] = "overlay"
    layout["xaxis"] |= {
        "tickvals": list(range(len(steps))),
        "ticktext": [f"{step['name']}<br>{step['tcdm_bytes'] / _KIB:.1f} KiB" for step in steps],
        "range": [-0.5, len(steps) - 0.5],
        "showgrid": False,
    }
    layout["yaxis"] |= {"title": {"text": "address, KiB from the beginning of the TCDM"}, "range": [0, top]}
    layout["shapes"] = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": limit,
            "y1": limit,
            "line": {"color": _INK, "dash": "dash", "width": 1},
        }
    ]
    return {"data": traces, "layout": layout}


def _kind(name: str) -> str:
    return _BY_ENDING.get(name.rpartition(".")[2], next(reversed(_KINDS)))


def _heading(layer: Record) -> str:
    rate = f"<br>{layer['macs_per_cycle']:.2f} MAC/cycle" if layer["macs"] else ""
    return f"{layer['name']}<br>{layer['cycles']} cycles{rate}"


def _title(record: Record) -> str:
    where = "one core" if record["cores"] == 1 else f"{record['cores']} cores"
    return f"{record['kernel']} on {where}, {record['cycles']} cycles"


def _layout(title: str, height: int) -> dict[str, Any]:
    return {
        "title": {"text": title, "font": {"size": 15}},
        "height": height,
        "font": {"color": _INK},
        "plot_bgcolor": "#fff",
        "xaxis": {"linecolor": _INK},
        "yaxis": {"gridcolor": _GRID, "linecolor": _INK},
        "margin": {"t": 60, "b": 70},
    }
