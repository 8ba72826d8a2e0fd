"""The points of an exploration as a page that needs nothing but a browser."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.files import write_text
from xpulpnn_sim.widths.exploration import Best, Exploration
from xpulpnn_sim.widths.point import Point, front, text_of

_INK, _GRID = "#1c2430", "#e6e9ee"
_FRONT, _CHOSEN = "#0072b2", "#d55e00"
_HEIGHT = 560
_KIB = 1024
_MILLION = 1e6
_PERCENT = 100

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{model}: bits of the layers</title>
<style>
body {{ font-family: sans-serif; color: {ink}; max-width: 1200px; margin: 2em auto; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: .3em .8em; text-align: right; border-bottom: 1px solid {grid}; }}
td:first-child, th:first-child {{ text-align: left; font-family: monospace; }}
tr.chosen td {{ font-weight: bold; }}
</style></head>
<body><h1>{model}: bits of the layers</h1>
<p>{note}</p>
{plots}
<h2>The front, and the most bits</h2>
<table><thead><tr>{headings}</tr></thead>
<tbody>
{rows}
</tbody></table>
</body></html>
"""


def write_page(path: Path, model: str, found: Exploration) -> None:
    """Write a page with all points, by cycles and by weights, and the front as a table.

    Raises :class:`~xpulpnn.errors.ToolError` if the package ``plotly`` is missing.
    """
    try:
        from plotly.io import to_html
    except ModuleNotFoundError:
        raise ToolError("plotly must be installed for the plot: pip install plotly") from None
    plots = [
        to_html(figure, full_html=False, include_plotlyjs=number == 0, config={"displaylogo": False})
        for number, figure in enumerate((cycles_figure(found), weights_figure(found)))
    ]
    images = found.points[0].images if found.points else 0
    note = (
        f"Bits of weights and, behind a stroke, of the maps that a layer reads; layers: {', '.join(found.layers)}. "
        f"Each point is an assignment, its accuracy that of {images} images, its cycles the sum of its layers', each "
        f"of which was measured once on the RTL. The table has the accuracy of {found.tested} other images."
    )
    headings = (
        "bits",
        f"of {images} images",
        f"of {found.tested} other images",
        "cycles",
        "KiB of weights",
        "cycles of the whole network on the RTL",
        "sum above these by",
    )
    text = _PAGE.format(
        model=escape(model),
        ink=_INK,
        grid=_GRID,
        note=escape(note),
        plots="\n".join(plots),
        headings="".join(f"<th>{escape(heading)}</th>" for heading in headings),
        rows="\n".join(_row(best, found) for best in (*found.best, *([found.widest] if found.widest else ()))),
    )
    write_text(path, text)


def _row(best: Best, found: Exploration) -> str:
    point = best.point
    cells = [
        text_of(point.widths),
        f"{point.accuracy:.2%}",
        f"{best.right / found.tested:.2%}",
        f"{point.cycles:,}",
        f"{point.weight_bytes / _KIB:.1f}",
        "-" if best.measured is None else f"{best.measured:,}",
        "-" if best.error is None else f"{best.error:+.2%}",
    ]
    is_chosen = found.chosen is not None and point.widths == found.chosen.widths
    mark = ' class="chosen"' if is_chosen else ""
    return f"<tr{mark}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def cycles_figure(found: Exploration) -> dict[str, Any]:
    """Accuracy over cycles: all points, the front, those that were run as whole networks, the chosen one."""
    runnable = [point for point in found.points if not point.problem]
    best = [one.point for one in found.best]
    whole = [one for one in found.best if one.measured is not None]
    traces = [
        _dots("assignments", runnable, [point.cycles / _MILLION for point in runnable], "#9aa5b1", 6)
        | {
            "marker": {
                "size": 7,
                "color": [point.weight_bytes / _KIB for point in runnable],
                "colorscale": "Viridis",
                "colorbar": {"title": {"text": "KiB of weights"}},
                "opacity": 0.7,
            }
        },
        _dots("front", best, [point.cycles / _MILLION for point in best], _FRONT, 9)
        | {"mode": "lines+markers", "line": {"shape": "hv", "color": _FRONT, "width": 2}},
        _dots(
            "whole network on the RTL",
            [one.point for one in whole],
            [(one.measured or 0) / _MILLION for one in whole],
            _INK,
            15,
        )
        | {"marker": {"symbol": "circle-open", "size": 15, "color": _INK, "line": {"width": 2}}},
    ]
    if found.chosen is not None:
        at = [found.chosen.cycles / _MILLION]
        traces.append(
            _dots("chosen", [found.chosen], at, _CHOSEN, 15)
            | {"marker": {"symbol": "star", "size": 15, "color": _CHOSEN}}
        )
    return {"data": traces, "layout": _layout("Accuracy over cycles", "Mcycles of an image")}


def weights_figure(found: Exploration) -> dict[str, Any]:
    """Accuracy over the memory of the weights, with a front of its own."""
    runnable = [point for point in found.points if not point.problem]
    best = [one.point for one in found.best]
    lightest = front(runnable, lambda point: point.weight_bytes)
    traces = [
        _dots("assignments", runnable, [point.weight_bytes / _KIB for point in runnable], "#9aa5b1", 6),
        _dots("front by memory", lightest, [point.weight_bytes / _KIB for point in lightest], _CHOSEN, 9)
        | {"mode": "lines+markers", "line": {"shape": "hv", "color": _CHOSEN, "width": 2}},
        _dots("front by cycles", best, [point.weight_bytes / _KIB for point in best], _FRONT, 9),
    ]
    return {"data": traces, "layout": _layout("Accuracy over memory", "KiB of weights and parameters")}


def _dots(name: str, points: Sequence[Point], places: Sequence[float], colour: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(places),
        "y": [_PERCENT * point.accuracy for point in points],
        "customdata": [[text_of(point.widths), point.weight_bytes / _KIB] for point in points],
        "marker": {"color": colour, "size": size},
        "hovertemplate": "%{customdata[0]}<br>%{y:.2f} %, %{x:.3f}<br>%{customdata[1]:.1f} KiB"
        "<extra>%{fullData.name}</extra>",
    }


def _layout(title: str, across: str) -> dict[str, Any]:
    axis = {"gridcolor": _GRID, "zeroline": False}
    return {
        "title": {"text": title},
        "height": _HEIGHT,
        "plot_bgcolor": "white",
        "font": {"color": _INK},
        "legend": {"orientation": "h", "y": -0.2},
        "xaxis": axis | {"title": {"text": across}},
        "yaxis": axis | {"title": {"text": "% of the images classified as labelled"}},
    }
