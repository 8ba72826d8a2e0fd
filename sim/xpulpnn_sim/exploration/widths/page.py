"""The points of an exploration as a page that needs nothing but a browser."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpulpnn_sim.exploration.widths.exploration import Exploration
from xpulpnn_sim.exploration.widths.search import Point, text_of, widths_front
from xpulpnn_sim.tools.named_table import Column, NamedTable
from xpulpnn_sim.tools.pages import INK, Page, Plot, layout

_FRONT, _CHOSEN = "#0072b2", "#d55e00"
_HEIGHT = 560
_KIB = 1024
_MILLION = 1e6
_PERCENT = 100


def write_page(path: Path, model: str, found: Exploration, command: str = "xpulpnn net explore") -> None:
    """Write a page with all points, by cycles and by weights, and the front as a table.

    Raises :class:`~xpulpnn.errors.ToolError` if the package ``plotly`` is missing.
    """
    images = found.points[0].images if found.points else 0
    note = (
        f"Bits of weights and, behind a stroke, of the maps that a layer reads; layers: {', '.join(found.layers)}. "
        f"Each point is an assignment, its accuracy that of {images} images, its cycles the sum of its layers', each "
        f"of which was measured once on the RTL. The table has the accuracy of {found.tested} other images."
    )
    page = Page(title=f"{model}: bits of the layers", command=command, writer="xpulpnn net explore", notes=[note])
    for name, title, figure in (
        ("cycles", "Accuracy over cycles", cycles_figure(found)),
        ("memory", "Accuracy over memory", weights_figure(found)),
    ):
        page.section(name, title, Plot(name=name, variants={(): figure}))
    page.section("front", "The front, and the most bits", front_table(found))
    page.write(path)


def front_table(found: Exploration) -> NamedTable:
    """Accuracies, cycles and weights of the front, and of the assignment with most bits."""
    rows = [*found.best, *([found.widest] if found.widest else [])]
    images = found.points[0].images if found.points else 0
    return NamedTable(
        title="The front, and the most bits",
        columns=[
            Column(name="bits"),
            Column(name=f"of {images} images", unit="%", digits=2),
            Column(name=f"of {found.tested} other images", unit="%", digits=2),
            Column(name="cycles", digits=0, grouped=True),
            Column(name="weights", unit="KiB", digits=1),
            Column(name="cycles of the whole network on the RTL", digits=0, grouped=True),
            Column(name="sum above these by", unit="%", digits=2, signed=True),
        ],
        rows=[
            [
                text_of(best.point.widths),
                _PERCENT * best.point.accuracy,
                _PERCENT * best.right / found.tested,
                best.point.cycles,
                best.point.weight_bytes / _KIB,
                best.measured,
                None if best.error is None else _PERCENT * best.error,
            ]
            for best in rows
        ],
        marked=frozenset(number for number, best in enumerate(rows) if best.point == found.chosen),
    )


def cycles_figure(found: Exploration) -> dict[str, Any]:
    """Accuracy over cycles: all points, the front, those that were run as whole networks, the chosen one."""
    runnable = [point for point in found.points if not point.problem]
    best = [one.point for one in found.best]
    whole = [one for one in found.best if one.measured is not None]
    traces = [
        _dots("assignments", [(point.cycles / _MILLION, point) for point in runnable], "#9aa5b1", 7)
        | {
            "marker": {
                "size": 7,
                "color": [point.weight_bytes / _KIB for point in runnable],
                "colorscale": "Viridis",
                "colorbar": {"title": {"text": "KiB of weights"}},
                "opacity": 0.7,
            }
        },
        _dots("front", [(point.cycles / _MILLION, point) for point in best], _FRONT, 9) | _stairs(_FRONT),
        _dots("whole network on the RTL", [((one.measured or 0) / _MILLION, one.point) for one in whole], INK, 15)
        | {"marker": {"symbol": "circle-open", "size": 15, "color": INK, "line": {"width": 2}}},
    ]
    if found.chosen is not None:
        star = {"marker": {"symbol": "star", "size": 15, "color": _CHOSEN}}
        traces.append(_dots("chosen", [(found.chosen.cycles / _MILLION, found.chosen)], _CHOSEN, 15) | star)
    return {"data": traces, "layout": _layout("Mcycles of an image")}


def weights_figure(found: Exploration) -> dict[str, Any]:
    """Accuracy over the memory of the weights, with a front of its own."""

    def dots(name: str, points: Sequence[Point], colour: str, size: int) -> dict[str, Any]:
        return _dots(name, [(point.weight_bytes / _KIB, point) for point in points], colour, size)

    runnable = [point for point in found.points if not point.problem]
    lightest = widths_front(runnable, lambda point: point.weight_bytes)
    traces = [
        dots("assignments", runnable, "#9aa5b1", 6),
        dots("front by memory", lightest, _CHOSEN, 9) | _stairs(_CHOSEN),
        dots("front by cycles", [one.point for one in found.best], _FRONT, 9),
    ]
    return {"data": traces, "layout": _layout("KiB of weights and parameters")}


def _stairs(colour: str) -> dict[str, Any]:
    return {"mode": "lines+markers", "line": {"shape": "hv", "color": colour, "width": 2}}


def _dots(name: str, placed: Sequence[tuple[float, Point]], colour: str, size: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [place for place, _ in placed],
        "y": [_PERCENT * point.accuracy for _, point in placed],
        "customdata": [[text_of(point.widths), point.weight_bytes / _KIB] for _, point in placed],
        "marker": {"color": colour, "size": size},
        "hovertemplate": "%{customdata[0]}<br>%{y:.2f} %, %{x:.3f}<br>%{customdata[1]:.1f} KiB"
        "<extra>%{fullData.name}</extra>",
    }


def _layout(across: str) -> dict[str, Any]:
    shown = layout("", _HEIGHT)
    shown["xaxis"] |= {"title": {"text": across}}
    shown["yaxis"] |= {"title": {"text": "% of the images classified as labelled"}}
    return shown
