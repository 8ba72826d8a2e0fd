"""Plots of the sweeps of packed products: one page that needs nothing but a browser."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.explorer.report.packed_grids import Grid, Record, grids
from xpulpnn_sim.files import write_text

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5b5b5b", "#8c6bb1", "#a6761d")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "triangle-down", "pentagon", "hexagon")
_DASHES = ("solid", "dot", "dash")
"""Of the lines that have the same colour."""
_INK, _GRID = "#1c2430", "#e6e9ee"
_MAP_HEIGHT, _LINE_HEIGHT = 430, 520
_BREAK_EVEN_SCALE = [[0.0, "#d55e00"], [0.5, "#ffffff"], [1.0, "#0072b2"]]
_DEPTH_SCALE = [[0.0, "#ffffff"], [1.0, "#56b4e9"]]
_PAGE = """<!DOCTYPE html>
<!-- xpulpnn cosim ulppack -->
<html lang="en"><head><meta charset="utf-8"><title>Packed products</title>
<style>body {{ font-family: sans-serif; color: {ink}; max-width: 1100px; margin: 2em auto; }}</style></head>
<body><h1>Packed products</h1>
<p>{note}</p>
{plots}
</body></html>
"""


def write_packed_plots(path: Path, records: Sequence[Record]) -> None:
    """Write a page with a plot for every grid of the sweeps.

    Raises :class:`~xpulpnn.errors.ToolError` if the package ``plotly`` is missing.
    """
    try:
        from plotly.io import to_html
    except ModuleNotFoundError:
        raise ToolError("plotly must be installed for the plot: pip install plotly") from None
    parts = [
        to_html(packed_figure(grid), full_html=False, include_plotlyjs=number == 0, config={"displaylogo": False})
        for number, grid in enumerate(grids(records))
    ]
    sizes = sorted({record["matmul"] for record in records if record["sweep"] not in ("overflow", "k")})
    note = (
        f"Products of channels x reduction length x pixels ({', '.join(sizes)} unless told otherwise), every one run "
        "on the RTL and compared with numpy; activations are packed beforehand. Bytes: one element in each byte."
    )
    write_text(path, _PAGE.format(ink=_INK, note=note, plots="\n".join(parts)))


def packed_figure(grid: Grid) -> dict[str, Any]:
    """A grid as plotly takes it: maps of widths as coloured cells, the others as lines."""
    return _map(grid) if grid.sweep in ("overflow", "best") else _lines(grid)


def _map(grid: Grid) -> dict[str, Any]:
    is_ratio = grid.sweep == "best"
    cells = [[grid.numbers.get((row, column)) for column in grid.columns] for row in grid.rows]
    # a new line before the last word: the packing above, the ratio below
    texts = [
        ["<br>".join(grid.texts.get((row, column), "").rsplit(" ", 1)) for column in grid.columns] for row in grid.rows
    ]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": grid.columns,
        "y": grid.rows,
        "z": cells,
        "text": texts,
        "texttemplate": "%{text}",
        "textfont": {"size": 11},
        "hoverinfo": "skip",
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "colorscale": _BREAK_EVEN_SCALE if is_ratio else _DEPTH_SCALE,
    }
    # white where nothing is gained, or packed
    trace |= {"zmin": 0.0, "zmid": 1.0, "zmax": 2.0} if is_ratio else {"zmin": 1, "zmax": max(grid.numbers.values())}
    layout = _layout(grid.title, _MAP_HEIGHT)
    layout["yaxis"] |= {"autorange": "reversed"}
    return {"data": [trace], "layout": layout}


def _lines(grid: Grid) -> dict[str, Any]:
    traces: list[dict[str, Any]] = []
    for number, row in enumerate(grid.rows):
        columns = [column for column in grid.columns if (row, column) in grid.numbers]
        traces.append(
            {
                "mode": "lines+markers",
                "name": row,
                "line": {
                    "color": _COLOURS[number % len(_COLOURS)],
                    "dash": _DASHES[number // len(_COLOURS) % len(_DASHES)],
                },
                "marker": {"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 8},
                "x": [int(column) for column in columns],
                "y": [grid.numbers[row, column] for column in columns],
            }
        )
    layout = _layout(grid.title, _LINE_HEIGHT)
    layout["xaxis"] |= {"title": {"text": grid.corner}, "tickvals": [int(column) for column in grid.columns]}
    if grid.sweep != "bits":
        layout["xaxis"] |= {"type": "log"}
    if grid.sweep != "iter":
        layout["yaxis"] |= {"type": "log"}
    return {"data": traces, "layout": layout}


def _layout(title: str, height: int) -> dict[str, Any]:
    lines: Mapping[str, Any] = {"gridcolor": _GRID, "linecolor": _INK}
    return {
        "title": {"text": title, "font": {"size": 15}},
        "height": height,
        "font": {"color": _INK},
        "plot_bgcolor": "#fff",
        "xaxis": {**lines},
        "yaxis": {**lines},
        "margin": {"t": 60, "b": 50},
    }
