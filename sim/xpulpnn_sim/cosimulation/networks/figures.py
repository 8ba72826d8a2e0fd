"""Plots of runs of networks: cycles and energy of layers, use of memory, confusion of classes."""

from collections.abc import Mapping, Sequence
from typing import Any

from xpulpnn_sim.tools.pages import GRID, INK, Figure, bar, dots, layout

Record = Mapping[str, Any]
_HEIGHT, _MEMORY_HEIGHT = 430, 520
_KIB = 1024
_PERCENT = 100
_GAP = 0.06  # between consecutive pieces of memory, as a fraction of a step
_MARGIN = 1.03  # end of an axis as a multiple of the greatest value
_LABELLED = 0.03  # smallest height of a piece of memory with its name inside, as a fraction of the axis
_LONG = 9  # most columns with horizontal names
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
    "external": "#f0e442",
}
_OTHERS, _OTHERS_COLOUR = "other waits", "#bbbbbb"
_ACTIVATIONS, _WEIGHTS, _BUFFER, _REST = "activations", "weights", "buffer", "stacks, arguments, reports"
_KINDS = {_ACTIVATIONS: "#56b4e9", _WEIGHTS: "#009e73", _BUFFER: "#e69f00", _REST: "#bbbbbb"}
_BY_ENDING = {
    **dict.fromkeys(("output", "ahead", "input", "first", "second"), _ACTIVATIONS),
    **dict.fromkeys(("im2col", "buffer"), _BUFFER),
    "calls": _REST,
}


def layers_figure(record: Record, *, shares: bool) -> Figure:
    """Plot the cores' cycles of each layer by cause, or with ``shares`` the percentage of each cause."""
    layers = record["layers"]
    spent = [_spent(layer, record["cores"]) for layer in layers]
    names, traces = [layer["name"] for layer in layers], list[dict[str, Any]]()
    for cause in (*_CAUSES, _OTHERS):
        cycles = [own[cause] for own in spent]
        percentages = [_PERCENT * own[cause] / max(sum(own.values()), 1) for own in spent]
        if any(cycles):
            hover = "%{customdata[0]:,} core cycles, %{customdata[1]:.1f} %"
            colour, heights = _CAUSES.get(cause, _OTHERS_COLOUR), percentages if shares else cycles
            both = [*map(list, zip(cycles, percentages, strict=True))]
            traces.append(bar(cause.replace("_", " "), names, heights, colour, hover, customdata=both))
    shown = _layout("Share of the cores' cycles" if shares else "Core cycles of each layer", len(layers))
    shown["barmode"] = "stack"
    if shares:
        shown["yaxis"] |= {"title": {"text": "%"}, "range": [0, _PERCENT]}
        return {"data": traces, "layout": shown}
    rates = [layer["macs_per_cycle"] or None for layer in layers]
    marker = {"color": INK, "size": 9, "symbol": "diamond"}
    traces.append(dots("MAC/cycle", names, rates, "%{y:.2f}", yaxis="y2", marker=marker))
    shown["yaxis"] |= {"title": {"text": "cycles"}, "tickformat": "~s"}
    shown["yaxis2"] = {
        "title": {"text": "MAC/cycle"},
        "overlaying": "y",
        "side": "right",
        "tickmode": "auto",
        "range": [0, _MARGIN * max([rate for rate in rates if rate] or [1])],
        "showgrid": False,
    }
    return {"data": traces, "layout": shown}


def energy_figure(record: Record) -> Figure:
    layers = [layer for layer in record["layers"] if "energy_nj" in layer]
    parts = {"switching": "#0072b2", "internal": "#56b4e9", "clock": "#e69f00", "leakage": "#bbbbbb"}
    names = [layer["name"] for layer in layers]
    traces = [
        bar(part, names, (layer["energy_parts_nj"][part] for layer in layers), colour, "%{y:.4g} nJ")
        for part, colour in parts.items()
    ]
    shown = _layout("Energy of each layer", len(layers))
    shown["barmode"] = "stack"
    shown["yaxis"] |= {"title": {"text": "nJ"}}
    return {"data": traces, "layout": shown}


def memory_figure(record: Record, *, external: bool = False) -> Figure:
    """Plot the memory areas in use in each step of a cluster, or in each layer of a core. On a cluster these are areas
    of the TCDM, or with ``external`` areas of external memory that the DMA engine accesses."""
    plan, steps = record["outside" if external else "plan"], record.get("steps", record["layers"])
    base = min(piece["address"] for piece in plan)
    limit = record["tcdm_bytes"] / _KIB if "tcdm_bytes" in record and not external else None
    used = max(piece["address"] + piece["bytes"] - base for piece in plan) / _KIB
    # the axis ends at the used part if most of the memory is free
    top = _MARGIN * (limit if limit is not None and used > limit / 2 else used)
    traces = [
        _pieces(kind, colour, [piece for piece in plan if _kind(piece["name"]) == kind], base, top)
        for kind, colour in _KINDS.items()
    ]
    where = f"KiB of memory{' outside, from the first to the last transfer' * external}, by step"
    title = f"{used:.1f} {where}" if limit is None else f"{used:.1f} of {limit:.0f} KiB of TCDM, by step"
    shown = _layout(title, len(steps), _MEMORY_HEIGHT)
    shown["barmode"] = "overlay"
    shown["xaxis"] |= {
        "tickvals": list(range(len(steps))),
        "ticktext": [step["name"] for step in steps],
        "range": [-0.5, len(steps) - 0.5],
        "showgrid": False,
    }
    shown["yaxis"] |= {"title": {"text": "address, KiB from the beginning"}, "range": [0, top]}
    if limit is not None:
        line = {"color": INK, "dash": "dash", "width": 1}
        shown["shapes"] = [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": limit, "y1": limit, "line": line}]
    return {"data": traces, "layout": shown}


def confusion_figure(names: Sequence[str], counts: Sequence[Sequence[int]]) -> Figure:
    own = [f"{name} " for name in names]
    trace = {
        "type": "heatmap",
        "x": own,
        "y": own,
        "z": [list(row) for row in counts],
        "text": [[str(count) if count else "" for count in row] for row in counts],
        "texttemplate": "%{text}",
        "colorscale": [[0, "#ffffff"], [1, "#0072b2"]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": "%{z} of label %{y}taken for %{x}<extra></extra>",
    }
    shown = _layout("Labels (rows) and answers (columns)", len(names), _HEIGHT)
    shown["yaxis"] |= {"autorange": "reversed", "showgrid": False, "type": "category", "automargin": True}
    shown["xaxis"] |= {"showgrid": False, "type": "category"}
    shown["plot_bgcolor"] = GRID
    return {"data": [trace], "layout": shown}


def _spent(layer: Record, cores: int) -> dict[str, int]:
    own = dict.fromkeys((*_CAUSES, _OTHERS), 0)
    for cause, cycles in layer["stalls"].items():
        own[cause if cause in _CAUSES else _OTHERS] += cycles
    # the few cycles of waits at both ends of a step that belong to no instruction count as instructions
    own[_INSTRUCTIONS] = max(cores * layer["cycles"] - sum(own.values()), 0)
    return own


def _pieces(kind: str, colour: str, pieces: Sequence[Record], base: int, top: float) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": kind,
        "x": [(piece["first"] + piece["last"]) / 2 for piece in pieces],
        "width": [piece["last"] - piece["first"] + 1 - _GAP for piece in pieces],
        "base": [(piece["address"] - base) / _KIB for piece in pieces],
        "y": [piece["bytes"] / _KIB for piece in pieces],
        "text": [piece["name"] if piece["bytes"] / _KIB >= _LABELLED * top else "" for piece in pieces],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "customdata": [[piece["name"], piece["bytes"], f"0x{piece['address']:08x}"] for piece in pieces],
        "marker": {"color": colour, "line": {"color": "#fff", "width": 1}},
        "hovertemplate": "%{customdata[0]}: %{customdata[1]:,} bytes at %{customdata[2]}<extra></extra>",
    }


def _kind(name: str) -> str:
    # buffers of tiles and reloaded maps have numbers
    name = name.rstrip("0123456789").removesuffix(".")
    return _BY_ENDING.get(name.rpartition(".")[2], _WEIGHTS if "." in name else _REST)


def _layout(title: str, columns: int, height: int = _HEIGHT) -> dict[str, Any]:
    legend = {"orientation": "h", "y": -0.25, "yanchor": "top", "traceorder": "normal"}
    shown = layout(title, height, legend=legend, margin={"t": 50, "b": 40, "l": 60, "r": 60})
    shown["xaxis"] = {"linecolor": INK, "automargin": True, "tickangle": -45 if columns > _LONG else 0}
    return shown
