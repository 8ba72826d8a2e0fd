"""Plots of the sweeps of packed products on a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpulpnn_sim.exploration.report.packed_grids import Grid, Record, grids
from xpulpnn_sim.tools.pages import PALETTE, Page, Plot, layout

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "triangle-down", "pentagon", "hexagon")
_DASHES = ("solid", "dot", "dash")  # of the lines that have the same colour
_MAP_HEIGHT, _LINE_HEIGHT = 430, 520
_BREAK_EVEN_SCALE = [[0.0, "#d55e00"], [0.5, "#ffffff"], [1.0, "#0072b2"]]
_DEPTH_SCALE = [[0.0, "#ffffff"], [1.0, "#56b4e9"]]


def write_packed_plots(path: Path, records: Sequence[Record]) -> None:
    """Write a page with a plot for every grid of the sweeps.

    Raises :class:`~xpulpnn.errors.ToolError` if the package ``plotly`` is missing.
    """
    sizes = sorted({record["matmul"] for record in records if record["sweep"] not in ("overflow", "k")})
    note = (
        f"Products of channels x reduction length x pixels ({', '.join(sizes)} unless told otherwise), every one run "
        "on the RTL and compared with numpy; activations are packed beforehand. Bytes: one element in each byte."
    )
    command = "xpulpnn cosim ulppack"
    page = Page(title="Packed products", command=command, writer=command, notes=[note])
    for number, grid in enumerate(grids(records)):
        page.section(f"grid-{number}", grid.title, Plot(name=f"grid-{number}", variants={(): packed_figure(grid)}))
    page.write(path)


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
    shown = layout("", _MAP_HEIGHT)
    shown["yaxis"] |= {"autorange": "reversed"}
    return {"data": [trace], "layout": shown}


def _lines(grid: Grid) -> dict[str, Any]:
    traces: list[dict[str, Any]] = []
    for number, row in enumerate(grid.rows):
        columns = [column for column in grid.columns if (row, column) in grid.numbers]
        traces.append(
            {
                "mode": "lines+markers",
                "name": row,
                "line": {
                    "color": PALETTE[number % len(PALETTE)],
                    "dash": _DASHES[number // len(PALETTE) % len(_DASHES)],
                },
                "marker": {"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 8},
                "x": [int(column) for column in columns],
                "y": [grid.numbers[row, column] for column in columns],
            }
        )
    shown = layout("", _LINE_HEIGHT)
    shown["xaxis"] |= {"title": {"text": grid.corner}, "tickvals": [int(column) for column in grid.columns]}
    if grid.sweep != "bits":
        shown["xaxis"] |= {"type": "log"}
    if grid.sweep != "iter":
        shown["yaxis"] |= {"type": "log"}
    return {"data": traces, "layout": shown}
