"""Plots of one result against another, such as area against delay, with Pareto fronts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.results import PointResult
from xpulpnn_sim.tools.named_table import Column
from xpulpnn_sim.tools.pages import INK, PALETTE, SOFT, SYMBOLS, Figure, Plot, layout

_TRADE_OFFS = (
    ("area-delay", "Area against delay", "delay", "area"),
    ("area-rate", "Area against MAC per cycle", "rate", "area"),
    ("area-speed", "Area against GMAC/s", "speed", "area"),
    ("delay-rate", "Delay against MAC per cycle", "rate", "delay"),
    ("energy-rate", "Energy per MAC against MAC per cycle", "rate", "energy"),
)
"""Name, heading, x axis and y axis of each trade-off."""

_MORE = ("rate", "speed")  # higher is better
_FEW = 4  # points that have their names beside them instead of numbers


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
            pairs = enumerate(zip(x.figure.values, y.figure.values, strict=True))
            known = [number for number, pair in pairs if None not in pair]
            axes_of = x.figure, y.figure
            comparable |= all(len({axis.values[number] for number in known}) > 1 for axis in axes_of)
            if known:
                choices = (*chosen, *(["colour"] if colour else []))
                figure = _figure(points, axes_of, known, groups, more_x=across in _MORE)
                variants[*chosen.values(), *([colour] if colour else [])] = figure
        if comparable:
            nothing = "No point has both figures with this choice."
            nothing += " GMAC/s needs the clock of a technology: asic or an FPGA." * (across == "speed")
            shown.append((title, Plot(name=name, variants=variants, choices=choices, nothing=nothing, selects="point")))
    return shown


def _figure(
    points: Sequence[PointResult],
    axes: tuple[comparison.Figure, comparison.Figure],
    known: Sequence[int],
    groups: Sequence[Any],
    *,
    more_x: bool,
) -> Figure:
    front = comparison.front(axes[0].values, axes[1].values, more_x=more_x)
    corners = [(axes[0].values[number], axes[1].values[number]) for number in front]
    # dominated points lie on one side of the line
    line = corners[:1]
    for before, corner in pairwise(corners):
        line += [(before[0], corner[1]) if more_x else (corner[0], before[1]), corner]
    names = list(dict.fromkeys(groups))
    margin = {"l": 62, "r": 20, "t": 32, "b": 50 + (28 if len(names) > 1 else 0)}
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
        if members := [point for point in known if groups[point] == name]:
            trace = _trace(points, axes, members, front, number)
            traces.append(trace | {"name": str(name), "showlegend": len(names) > 1})
    legend = {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom", "font": {"size": 12}}
    shown = layout("", 400, margin=margin, legend=legend, hovermode="closest")
    for key, axis in zip(("xaxis", "yaxis"), axes, strict=True):
        unit = f" [{axis.column.unit}]" if axis.column.unit else ""
        arrow = axis.column.heading.removeprefix(axis.column.name)
        title = {"text": f"{axis.column.name}{unit}{arrow}", "standoff": 8}
        shown[key] |= {"title": title, "range": _range(axis, known), "ticks": "outside"}
    return {"data": traces, "layout": shown}


def _ends(figure: comparison.Figure, point: int) -> comparison.Spread:
    """Return the ends of an error bar, which are the figure itself if there is no spread."""
    value = figure.values[point] or 0.0
    return (figure.spreads[point] if figure.spreads else None) or (value, value)


def _trace(
    points: Sequence[PointResult],
    axes: tuple[comparison.Figure, comparison.Figure],
    members: Sequence[int],
    front: Sequence[int],
    number: int,
) -> dict[str, Any]:
    columns, few = [axis.column for axis in axes], len(points) <= _FEW
    lines = [
        f"%{{{key}:.{column.digits}f}} {column.unit or column.name}" for key, column in zip("xy", columns, strict=True)
    ]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers+text",
        "customdata": [str(point) for point in members],
        "text": [points[point].label if few else str(point + 1) for point in members],
        "textposition": "top center",
        "textfont": {"size": 11, "color": INK},
        "hovertext": [f"{point + 1} {points[point].label}" for point in members],
        "hovertemplate": "<br>".join(["<b>%{hovertext}</b>", *lines]) + "<extra></extra>",
        "marker": {
            "color": PALETTE[number % len(PALETTE)],
            "symbol": SYMBOLS[(number + number // len(PALETTE)) % len(SYMBOLS)],
            "size": [11 if point in front else 9 for point in members],
            "opacity": 0.9,
            "line": {"color": "#fff", "width": 1},
        },
        "selected": {"marker": {"size": 15}},
        "unselected": {"marker": {"opacity": 0.9}, "textfont": {"color": INK}},
    }
    for key, axis in zip("xy", axes, strict=True):
        trace[key] = values = [axis.values[point] or 0.0 for point in members]
        bars = [
            (high - value, value - low)
            for value, (low, high) in zip(values, (_ends(axis, point) for point in members), strict=True)
        ]
        if any(map(any, bars)):
            ends = dict(zip(("array", "arrayminus"), map(list, zip(*bars, strict=True)), strict=True))
            trace[f"error_{key}"] = {
                "type": "data",
                "symmetric": False,
                **ends,
                "color": SOFT,
                "thickness": 1,
                "width": 4,
            }
    return trace


def _range(axis: comparison.Figure, known: Sequence[int]) -> list[float]:
    """Return the range of an axis; it starts at zero if the smallest value is below 45 % of the largest value."""
    values = [end for point in known for end in _ends(axis, point)]
    low, high = min(values), max(values)
    pad = 0.08 * (high - low or abs(high) or 1)
    return [0 if low < 0.45 * high else low - pad, high + pad]
