"""HTML page of a search for bit widths: accuracy over cycles and over memory, and the Pareto front."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpulpnn_sim.exploration.widths.exploration import Exploration
from xpulpnn_sim.exploration.widths.width_search import WidthPoint, widths_front, widths_text
from xpulpnn_sim.tools.named_table import Column, NamedTable, table_of
from xpulpnn_sim.tools.pages import INK, Page, Plot, dots, figure

_FRONT, _CHOSEN = "#0072b2", "#d55e00"
_HEIGHT = 560
_ACCURACY = {"title": {"text": "% of the images classified as labelled"}}
_KIB = 1024
_MILLION = 1e6
_PERCENT = 100


def write_widths_page(path: Path, model: str, exploration: Exploration, command: str = "xpulpnn net explore") -> None:
    images = exploration.points[0].images if exploration.points else 0
    layers = ", ".join(exploration.layers)
    note = (
        f"Bits of weights and, behind a stroke, of the maps that a layer reads; layers: {layers}. Each point is an "
        f"assignment, its accuracy that of {images} images, its cycles the sum of its layers', each of which was "
        f"measured once on the RTL. The table has the accuracy of {exploration.tested} other images."
    )
    page = Page(title=f"{model}: bits of the layers", command=command, writer="xpulpnn net explore", notes=[note])
    for name, title, plotted in (
        ("cycles", "Accuracy over cycles", cycles_figure(exploration)),
        ("memory", "Accuracy over memory", weights_figure(exploration)),
    ):
        page.section(name, title, Plot(name=name, variants={(): plotted}))
    page.section("front", "The front, and the most bits", front_table(exploration))
    page.write(path)


def front_table(exploration: Exploration) -> NamedTable:
    rows = [*exploration.best, *([exploration.widest] if exploration.widest else [])]
    images = exploration.points[0].images if exploration.points else 0
    chosen = exploration.chosen
    others = Column(name=f"of {exploration.tested} other images", unit="%", digits=2)
    whole = Column(name="cycles of the whole network on the RTL", digits=0, grouped=True)
    error = Column(name="sum above these by", unit="%", digits=2, signed=True)
    return table_of(
        "The front, and the most bits",
        rows,
        [
            (Column(name="bits"), lambda best: widths_text(best.widths)),
            (Column(name=f"of {images} images", unit="%", digits=2), lambda best: _PERCENT * best.accuracy),
            (others, lambda best: _PERCENT * best.test_right / exploration.tested),
            (Column(name="cycles", digits=0, grouped=True), lambda best: best.cycles),
            (Column(name="weights", unit="KiB", digits=1), lambda best: best.weight_bytes / _KIB),
            (whole, lambda best: best.measured),
            (error, lambda best: None if best.error is None else _PERCENT * best.error),
        ],
        marked=frozenset(n for n, best in enumerate(rows) if chosen is not None and best.widths == chosen.widths),
    )


def cycles_figure(exploration: Exploration) -> dict[str, Any]:
    runnable = [point for point in exploration.points if not point.problem]
    whole = [(best.measured / _MILLION, best) for best in exploration.best if best.measured is not None]
    shade = {
        "color": [point.weight_bytes / _KIB for point in runnable],
        "colorbar": {"title": {"text": "KiB of weights"}},
    }
    traces = [
        _dots("assignments", _placed(runnable, "cycles"), size=7, opacity=0.7, **shade),
        _dots("front", _placed(exploration.best, "cycles"), size=9, color=_FRONT) | _stairs(_FRONT),
        _dots("whole network on the RTL", whole, symbol="circle-open", size=15, color=INK, line={"width": 2}),
    ]
    if exploration.chosen is not None:
        traces.append(_dots("chosen", _placed([exploration.chosen], "cycles"), symbol="star", size=15, color=_CHOSEN))
    return figure(traces, "", _HEIGHT, x={"title": {"text": "Mcycles of an image"}}, y=_ACCURACY)


def weights_figure(exploration: Exploration) -> dict[str, Any]:
    runnable = [point for point in exploration.points if not point.problem]
    lightest = _placed(widths_front(runnable, lambda point: point.weight_bytes), "weight_bytes")
    traces = [
        _dots("assignments", _placed(runnable, "weight_bytes"), color="#9aa5b1", size=6),
        _dots("front by memory", lightest, color=_CHOSEN, size=9) | _stairs(_CHOSEN),
        _dots("front by cycles", _placed(exploration.best, "weight_bytes"), color=_FRONT, size=9),
    ]
    return figure(traces, "", _HEIGHT, x={"title": {"text": "KiB of weights and parameters"}}, y=_ACCURACY)


def _placed(points: Sequence[WidthPoint], cost: str) -> list[tuple[float, WidthPoint]]:
    return [(getattr(point, cost) / (_MILLION if cost == "cycles" else _KIB), point) for point in points]


def _stairs(colour: str) -> dict[str, Any]:
    return {"mode": "lines+markers", "line": {"shape": "hv", "color": colour, "width": 2}}


def _dots(name: str, placed: Sequence[tuple[float, WidthPoint]], **marker: Any) -> dict[str, Any]:
    x, y = [place for place, _ in placed], [_PERCENT * point.accuracy for _, point in placed]
    texts = [[widths_text(point.widths), point.weight_bytes / _KIB] for _, point in placed]
    hover = "%{customdata[0]}<br>%{y:.2f} %, %{x:.3f}<br>%{customdata[1]:.1f} KiB"
    return dots(name, x, y, hover, customdata=texts, marker=marker)
