"""Plots of one result against another, such as area against delay, with Pareto fronts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import hypot
from typing import Any

from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.results import PointResult
from xpulpnn_sim.tools.named_table import Column
from xpulpnn_sim.tools.pages import INK, PALETTE, SOFT, SYMBOLS, Figure, Plot, layout

_WIDTH = 520  # usual width of the plotting area in pixels; it depends on the window
_NEAR = 5  # distance in pixels within which marks share a label
_MOST = 4  # maximum of numbers in a label
_PLACES = (
    ("top center", 0, -13),
    ("middle right", 1, 0),
    ("middle left", -1, 0),
    ("bottom center", 0, 13),
    ("top right", 1, -11),
    ("top left", -1, -11),
    ("bottom right", 1, 11),
    ("bottom left", -1, 11),
)
"""Plotly's label positions, best first, with their horizontal direction and downward offset in pixels."""

_Box = tuple[float, float, float, float]
Position = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Mark:
    point: int  # number of the point, from 0
    position: Position
    ends: tuple[Position | None, Position | None]  # of the error bars in x and in y
    is_best: bool  # on the Pareto front


def place_labels(
    marks: Sequence[Mark],
    line: Sequence[Position],
    ranges: Sequence[Sequence[float]],
    height: float,
    names: Sequence[str] = (),
) -> dict[int, tuple[str, str]]:
    """Return text and position of each label that has room: ``names`` if all fit, else numbers."""

    def pixel(position: Position) -> Position:
        x, y = ((value - low) / (high - low) for value, (low, high) in zip(position, ranges, strict=True))
        return x * _WIDTH, height - y * height

    groups: list[tuple[Position, list[Mark]]] = []
    for mark in marks:
        at = pixel(mark.position)
        near = next((group for place, group in groups if hypot(place[0] - at[0], place[1] - at[1]) < _NEAR), None)
        if near is None:
            groups.append((at, [mark]))
        else:
            near.append(mark)
    occupied: list[_Box] = [(x - 5, y - 5, x + 5, y + 5) for (x, y), _ in groups]
    for (x, y), (other_x, other_y) in pairwise(map(pixel, line)):
        occupied.append((min(x, other_x), min(y, other_y), max(x, other_x), max(y, other_y)))
    for mark in marks:
        x_ends, y_ends = mark.ends
        if x_ends:
            left, right = (pixel((end, mark.position[1])) for end in x_ends)
            occupied.append((left[0], left[1] - 3, right[0], left[1] + 3))
        if y_ends:
            low, high = (pixel((mark.position[0], end)) for end in y_ends)
            occupied.append((low[0] - 3, high[1], low[0] + 3, low[1]))
    groups.sort(key=lambda group: -any(mark.is_best for mark in group[1]))
    if names:
        texts = [", ".join(names[mark.point] for mark in group) for _, group in groups]
        named = _texts(groups, texts, list(occupied), height)
        if len(named) == len(groups):
            return named
    texts = list[str]()
    for _, group in groups:
        numbers = [str(mark.point + 1) for mark in group]
        texts.append(",".join(numbers) if len(numbers) <= _MOST else ",".join(numbers[: _MOST - 1]) + ",\u2026")
    return _texts(groups, texts, occupied, height)


def _texts(
    groups: Sequence[tuple[Position, list[Mark]]], texts: Sequence[str], occupied: list[_Box], height: float
) -> dict[int, tuple[str, str]]:
    labels: dict[int, tuple[str, str]] = {}
    for (at, group), text in zip(groups, texts, strict=True):
        half = 3.6 * len(text) + 2.5
        for position, side, down in _PLACES:
            x, y = at[0] + side * (half + 7), at[1] + down
            box = (x - half, y - 7, x + half, y + 7)
            inside = box[0] > 2 and box[2] < _WIDTH and box[1] > 0 and box[3] < height
            if inside and not any(_overlap(box, other) for other in occupied):
                occupied.append(box)
                labels[group[0].point] = text, position
                break
    return labels


def _overlap(box: _Box, other: _Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


_TRADE_OFFS = (
    ("area-delay", "Area against delay", "delay", "area"),
    ("area-rate", "Area against MAC per cycle", "rate", "area"),
    ("area-speed", "Area against GMAC/s", "speed", "area"),
    ("delay-rate", "Delay against MAC per cycle", "rate", "delay"),
    ("energy-rate", "Energy per MAC against MAC per cycle", "rate", "energy"),
)
"""Name, heading, x axis and y axis of each trade-off."""

_MORE = ("rate", "speed")  # higher is better
_HEIGHT = 400


@dataclass(frozen=True, slots=True)
class _Axis:
    """A quantity on an axis of a plot; it is shown if the page's controls have the values in ``selection``."""

    name: str
    selection: Mapping[str, str]
    figure: comparison.Figure


def _axes(points: Sequence[PointResult]) -> Iterator[_Axis]:
    def axis(name: str, selection: Mapping[str, str], column: Column, values: list[Any], spreads: Any = ()) -> _Axis:
        return _Axis(name, selection, comparison.Figure(column, values, compared=False, spreads=list(spreads)))

    fpga, kernels = comparison.fpga_flows(points), comparison.kernel_names(points)
    speeds = comparison.kernel_rates(points)
    for name in comparison.flow_names(points):
        flows, chosen = [comparison.flow_of(point, name) for point in points], {"flow": name}
        is_fpga = name in fpga
        area = Column(name="area", unit="LUT" if is_fpga else "kGE", digits=0 if is_fpga else 2, better="less")
        titles = ("clock period", "ns") if is_fpga else ("delay", "FO4")
        yield axis("area", chosen, area, comparison.pick(flows, "size"), comparison.pick(flows, "size_spread"))
        delay = Column(name=titles[0], unit=titles[1], digits=1, better="less")
        yield axis("delay", chosen, delay, comparison.pick(flows, "delay"), comparison.pick(flows, "delay_spread"))
        rates_of_flow = [rate for rate in speeds if rate.flow.name == name]
        for kernel in kernels:
            known = {rate.point: rate.gmacs for rate in rates_of_flow if comparison.kernel_name(rate.record) == kernel}
            values = [known.get(number) for number in range(1, len(points) + 1)]
            yield axis("speed", chosen | {"kernel": kernel}, Column(name="GMAC/s", digits=2, better="more"), values)
    for name in kernels:
        records = [comparison.best_record(point, name) for point in points]
        rates = [None if record is None else record["macs_per_cycle"] for record in records]
        yield axis("rate", {"kernel": name}, Column(name="MAC/cycle", digits=2, better="more"), rates)
    for name in comparison.workload_names(points):
        energies = [comparison.per_mac_pj(comparison.best_energy(point, name)) for point in points]
        if any(energy is not None for energy in energies):
            column = Column(name="energy", unit="pJ/MAC", digits=3, better="less")
            yield axis("energy", {"workload": name}, column, energies)


def trade_offs(points: Sequence[PointResult]) -> list[tuple[str, Plot]]:
    axes, colours = list(_axes(points)), comparison.varying(points) or {"": ["all points"] * len(points)}
    shown: list[tuple[str, Plot]] = []
    for name, title, across, upwards in _TRADE_OFFS:
        variants: dict[tuple[str, ...], Figure] = {}
        choices: tuple[str, ...] = ()
        comparable = False
        pairs = product([axis for axis in axes if axis.name == across], [axis for axis in axes if axis.name == upwards])
        for (x, y), (colour, groups) in product(pairs, colours.items()):
            chosen = {**y.selection, **x.selection}
            # area, delay and speed of one plot come from one flow
            if not y.selection.items() <= chosen.items():
                continue
            figure, marks = _figure(points, (x.figure, y.figure), groups, more_x=across in _MORE)
            comparable |= all(len({mark.position[place] for mark in marks}) > 1 for place in (0, 1))
            if marks:
                choices = (*chosen, *(["colour"] if colour else []))
                variants[*chosen.values(), *([colour] if colour else [])] = figure
        if comparable:
            nothing = "No point has both figures with this choice."
            nothing += " GMAC/s needs the clock of a technology: asic or an FPGA." * (across == "speed")
            shown.append((title, Plot(name=name, variants=variants, choices=choices, nothing=nothing, selects="point")))
    return shown


def _figure(
    points: Sequence[PointResult], axes: Sequence[comparison.Figure], groups: Sequence[Any], *, more_x: bool
) -> tuple[Figure, list[Mark]]:
    x_figure, y_figure = axes
    front = comparison.front(x_figure.values, y_figure.values, more_x=more_x)
    marks = [
        Mark(number, (x, y), (_ends(x_figure, number), _ends(y_figure, number)), is_best=number in front)
        for number, (x, y) in enumerate(zip(x_figure.values, y_figure.values, strict=True))
        if x is not None and y is not None
    ]
    if not marks:
        return {}, marks
    at = {mark.point: mark.position for mark in marks}
    corners = [at[number] for number in front]
    # dominated points lie on one side of the line
    line = corners[:1]
    for before, corner in pairwise(corners):
        line += [(before[0], corner[1]) if more_x else (corner[0], before[1]), corner]
    ranges = _range(marks, 0), _range(marks, 1)
    names = list(dict.fromkeys(groups))
    margin = {"l": 62, "r": 20, "t": 32, "b": 50 + (28 if len(names) > 1 else 0)}
    labels = [point.label for point in points]
    texts = place_labels(marks, line, ranges, _HEIGHT - margin["t"] - margin["b"], labels)
    front_line = {
        "type": "scatter",
        "mode": "lines",
        "x": [corner[0] for corner in line],
        "y": [corner[1] for corner in line],
        "line": {"color": SOFT, "width": 1.5, "dash": "dot"},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    traces: list[dict[str, Any]] = [front_line]
    for number, name in enumerate(names):
        members = [mark for mark in marks if groups[mark.point] == name]
        if members:
            traces.append(_trace(points, axes, members, texts, number, str(name)) | {"showlegend": len(names) > 1})
    legend = {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom", "font": {"size": 12}}
    shown = layout("", _HEIGHT, margin=margin, legend=legend, hovermode="closest")
    for key, axis, ends in zip(("xaxis", "yaxis"), axes, ranges, strict=True):
        shown[key] |= {"title": {"text": _title(axis.column), "standoff": 8}, "range": ends, "ticks": "outside"}
    return {"data": traces, "layout": shown}, marks


def _ends(figure: comparison.Figure, point: int) -> comparison.Spread | None:
    spread = figure.spreads[point] if figure.spreads else None
    return spread if spread and spread[0] < spread[1] else None


def _title(column: Column) -> str:
    arrow = column.heading.removeprefix(column.name)
    return f"{column.name} [{column.unit}]{arrow}" if column.unit else column.heading


def _trace(
    points: Sequence[PointResult],
    axes: Sequence[comparison.Figure],
    members: Sequence[Mark],
    texts: Mapping[int, tuple[str, str]],
    number: int,
    name: str,
) -> dict[str, Any]:
    columns = [axis.column for axis in axes]
    lines = [
        f"%{{{key}:.{column.digits}f}} {column.unit or column.name}" for key, column in zip("xy", columns, strict=True)
    ]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers+text",
        "name": name,
        "x": [mark.position[0] for mark in members],
        "y": [mark.position[1] for mark in members],
        "customdata": [str(mark.point) for mark in members],
        "text": [texts.get(mark.point, ("", ""))[0] for mark in members],
        "textposition": [texts.get(mark.point, ("", "top center"))[1] for mark in members],
        "textfont": {"size": 11, "color": INK},
        "hovertext": [f"{mark.point + 1} {points[mark.point].label}" for mark in members],
        "hovertemplate": "<br>".join(["<b>%{hovertext}</b>", *lines]) + "<extra></extra>",
        "marker": {
            "color": PALETTE[number % len(PALETTE)],
            "symbol": SYMBOLS[(number + number // len(PALETTE)) % len(SYMBOLS)],
            "size": [11 if mark.is_best else 9 for mark in members],
            "opacity": 0.9,
            "line": {"color": "#fff", "width": 1},
        },
        "selected": {"marker": {"size": 15}},
        "unselected": {"marker": {"opacity": 0.9}, "textfont": {"color": INK}},
    }
    for key, place in (("error_x", 0), ("error_y", 1)):
        ends = [mark.ends[place] or (mark.position[place], mark.position[place]) for mark in members]
        if any(mark.ends[place] for mark in members):
            trace[key] = {
                "type": "data",
                "symmetric": False,
                "array": [end[1] - mark.position[place] for end, mark in zip(ends, members, strict=True)],
                "arrayminus": [mark.position[place] - end[0] for end, mark in zip(ends, members, strict=True)],
                "color": SOFT,
                "thickness": 1,
                "width": 4,
            }
    return trace


def _range(marks: Sequence[Mark], place: int) -> list[float]:
    """Return the range of an axis; it starts at zero if the smallest value is below 45 % of the largest value."""
    values = [mark.position[place] for mark in marks]
    values += [end for mark in marks for end in mark.ends[place] or ()]
    low, high = min(values), max(values)
    pad = 0.08 * (high - low or abs(high) or 1)
    return [0 if low < 0.45 * high else low - pad, high + pad]
