"""Plots of area and energy by instance, and of critical paths."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xpulpnn_sim.exploration.placement_result import PlacementResult
from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.report.cluster_blocks import block_energies, block_of, is_cluster
from xpulpnn_sim.exploration.results import (
    FlowResult,
    ModuleArea,
    ModuleEnergy,
    PointResult,
)
from xpulpnn_sim.tools.pages import INK, PALETTE, Figure, Plot, bar, figure, layout

_ENERGY_COLOURS = {"switching": "#0072b2", "internal": "#8cc9ef", "clock": "#e69f00", "leakage": "#5b5b5b"}
_SHOWN_MODULES = 16  # modules with a bar of their own; the others share one
_ITSELF, _ITSELF_COLOUR = "(top itself)", "#b8c0ca"
_TOP_COLOUR, _OWN_COLOUR = "#eef1f5", "#dfe4ea"
_GE_PER_KGE = 1000.0
_TICK = 48  # maximum length of a name beside a bar
Column = tuple[str, Sequence[float], str]


def point_name(points: Sequence[PointResult], number: int) -> str:
    return f"{number + 1} {points[number].label}"


def _detailed(points: Sequence[PointResult]) -> Iterator[tuple[tuple[str, str], FlowResult]]:
    return (((flow.name, str(at[0] - 1)), flow) for at, flow in comparison.numbered(points, "flows"))


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def blocks_of(points: Sequence[PointResult], name: str) -> list[tuple[str, list[float]]]:
    """Return name and size in kGE (one value per point) of the top's direct submodules, largest submodule first."""
    parts: dict[str, list[float]] = {}
    for number, point in enumerate(points):
        flow = comparison.flow_of(point, name)
        modules = flow.modules if flow is not None else []
        for module in modules:
            parent, _, leaf = module.path.rpartition(".")
            if "." not in parent:
                part, size = (leaf, module.total_ge) if parent else (_ITSELF, module.own_ge)
                part = block_of(part) if is_cluster(flow) else part
                parts.setdefault(part, [0.0] * len(points))[number] += size / _GE_PER_KGE
    rounded = {part: [round(size, 4) for size in sizes] for part, sizes in parts.items()}
    return sorted(rounded.items(), key=lambda item: -max(item[1]))


def area_plots(points: Sequence[PointResult]) -> tuple[Plot, Plot]:
    parts_of = {name: blocks_of(points, name) for name in comparison.flow_names(points)}
    names = dict.fromkeys(part for parts in parts_of.values() for part, _ in parts if part != _ITSELF)
    # common to all plots
    colours = {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(names)} | {_ITSELF: _ITSELF_COLOUR}
    blocks: dict[tuple[str, ...], Figure] = {}
    for name, parts in parts_of.items():
        present = [i for i in range(len(points)) if any(sizes[i] > 0 for _, sizes in parts)]
        if present:
            columns = [(part, [sizes[i] for i in present], colours[part]) for part, sizes in parts]
            blocks[(name,)] = _stacked([point_name(points, i) for i in present], columns, "kGE", 2)
    trees = {at: _tree(flow, colours) for at, flow in _detailed(points) if flow.modules}
    nothing = "This flow has no hierarchy of this point."
    return (
        Plot(name="blocks", variants=blocks, choices=("flow",), nothing="This flow has no hierarchy."),
        Plot(name="area", variants=trees, choices=("flow", "point"), nothing=nothing),
    )


def _tree(flow: FlowResult, colours: Mapping[str, str]) -> Figure:
    numbers = {module.path: str(number) for number, module in enumerate(flow.modules)}
    whole = flow.modules[0].total_ge or 1.0
    parents = {_parent(path) for path in numbers}
    boxes: list[tuple[str, str, str, float, str, list[Any]]] = []

    def add(key: str, label: str, parent: str, value: float, colour: str, size: float, module: ModuleArea) -> None:
        size_text, share = f"{size / _GE_PER_KGE:.2f} kGE", f"{100 * size / whole:.1f} %"
        shown = f"{label}  {size_text}, {share}" if not value else label
        details = [size_text, share, module.module, module.own_cells, label]
        boxes.append((key, shown, parent, round(value / _GE_PER_KGE, 4), colour, details))

    for path, module in zip(numbers, flow.modules, strict=True):
        depth, part = path.count("."), f"{path}.".split(".")[1]
        shade = colours.get(block_of(part) if is_cluster(flow) else part, PALETTE[0])
        own = 0.0 if path in parents else module.own_ge
        colour = _paler(shade, depth - 1) if depth else _TOP_COLOUR
        name, above = path.rpartition(".")[2], numbers.get(_parent(path), "")
        add(numbers[path], name, above, own, colour, module.total_ge, module)
        if path in parents and module.own_ge > 0:
            own_colour = _paler(shade, depth + 1) if depth else _OWN_COLOUR
            add(f"{numbers[path]}.own", "(own cells)", numbers[path], module.own_ge, own_colour, module.own_ge, module)
    keys, labels, above, values, fills, details = zip(*boxes, strict=True)
    trace = {
        "type": "treemap",
        "ids": keys,
        "labels": labels,
        "parents": above,
        "values": values,
        "branchvalues": "remainder",
        "customdata": details,
        "marker": {"colors": fills, "line": {"color": "#fff", "width": 1}, "pad": {"t": 22, "l": 3, "r": 3, "b": 3}},
        "tiling": {"packing": "squarify"},
        "text": [f"{detail[4]}<br>{detail[0]}<br>{detail[1]}" for detail in details],
        "textinfo": "text",
        "textfont": {"size": 12, "color": INK},
        "pathbar": {"visible": True, "textfont": {"size": 12, "color": INK}},
        "hovertemplate": "<b>%{customdata[4]}</b><br>%{customdata[0]}, %{customdata[1]}<br>"
        "module %{customdata[2]}<br>%{customdata[3]} own cells<extra></extra>",
    }
    note = {"text": area_note(flow), "font": {"size": 12}, "x": 0}
    shown = layout("", 560, margin={"l": 0, "r": 0, "t": 58, "b": 4}, uniformtext={"mode": "hide", "minsize": 9})
    return {"data": [trace], "layout": {**shown, "title": note}}


def area_note(flow: FlowResult) -> str:
    run = f" (run {flow.area_run} of {len(flow.runs)})" * (len(flow.runs) > 1)
    text = f"The instances add up to the {flow.size or 0.0:.2f} kGE of the tables{run}."
    if "function" not in flow.origins:
        return text
    shares = {name: f"{100 * share:.1f} %" for name, share in flow.origins.items()}
    return (
        f"{text}<br>Instances told by equal function for {shares['function']} of the area, by what reads a gate for "
        f"{shares['readers']}; {shares['shared']} is shared by several."
    )


def _paler(colour: str, steps: int) -> str:
    strength = max(0.2, 0.62 * 0.8**steps)
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - strength * (255 - part)):02x}" for part in parts)


def _stacked(names: Sequence[str], columns: Sequence[Column], unit: str, digits: int) -> Figure:
    hover, more = f"<b>%{{hovertext}}</b><br>%{{x:.{digits}f}} {unit}", {"orientation": "h", "hovertext": list(names)}
    traces = [
        bar(name, values, range(len(names)), colour, hover, **more)
        | {"marker": {"color": colour, "line": {"color": "#fff", "width": 0.5}}}
        for name, values, colour in columns
    ]
    legend = {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"}
    margin = {"l": 10, "r": 16, "t": 30, "b": 46}
    axes = {"x": {"title": {"text": unit}, "rangemode": "tozero"}, "yaxis": _named_rows(names)}
    return figure(traces, "", 110 + 20 * len(names), **axes, barmode="stack", bargap=0.25, legend=legend, margin=margin)


def _named_rows(names: Sequence[str]) -> dict[str, Any]:
    texts = [name if len(name) <= _TICK else f"{name[: _TICK - 1]}\u2026" for name in names]
    ticks = {"tickvals": list(range(len(names))), "ticktext": texts, "ticks": ""}
    return {**ticks, "autorange": "reversed", "automargin": True}


def energy_plots(points: Sequence[PointResult]) -> tuple[Plot, Plot]:
    whole: dict[tuple[str, ...], Figure] = {}
    modules: dict[tuple[str, ...], Figure] = {}
    for name in comparison.workload_names(points):
        rows: list[tuple[str, dict[str, float]]] = []
        clusters: list[tuple[str, dict[str, float]]] = []  # blocks of clusters
        for number, point in enumerate(points):
            energy = comparison.best_energy(point, name)
            if energy is None:
                continue
            rows.append((point_name(points, number), _sums(energy.modules)))
            if energy.accesses:
                clusters.append((point_name(points, number), block_energies(energy)))
            if energy.modules:
                ordered = sorted(energy.modules, key=lambda module: -module.total)
                shown, others = ordered[:_SHOWN_MODULES], ordered[_SHOWN_MODULES:]
                bars = [(module.path, _sums([module])) for module in shown]
                bars += [(f"({len(others)} others)", _sums(others))] if others else []
                modules[name, str(number)] = _parts_figure(bars, 3)
        whole[(name,)] = _parts_figure(clusters or rows, 2)
    nothing = "This workload was not estimated on this point."
    return (
        Plot(name="energy-points", variants=whole, choices=("workload",)),
        Plot(name="energy", variants=modules, choices=("workload", "point"), nothing=nothing),
    )


def _parts_figure(rows: Sequence[tuple[str, Mapping[str, float]]], digits: int) -> Figure:
    columns = [
        (part, [round(parts[part], 4) for _, parts in rows], _ENERGY_COLOURS.get(part, PALETTE[number % len(PALETTE)]))
        for number, part in enumerate(rows[0][1])
    ]
    return _stacked([name for name, _ in rows], columns, "pJ/cycle", digits)


def _sums(modules: Sequence[ModuleEnergy]) -> dict[str, float]:
    """Return the energy in pJ per cycle, summed over modules, for each component such as switching or leakage."""
    sums = {part: sum(getattr(module, part) for module in modules) for part in _ENERGY_COLOURS}
    return {part: energy / comparison.FJ_PER_PJ for part, energy in sums.items()}


def placement_plot(points: Sequence[PointResult]) -> Plot:
    """Return pictures of the cells in their rows, coloured by module."""
    variants = {at: _placement(flow.placement) for at, flow in _detailed(points) if flow.placement}
    nothing = "This flow has no placement of this point."
    return Plot(name="placement", variants=variants, choices=("flow", "point"), nothing=nothing)


def _placement(placed: PlacementResult) -> Figure:
    names = [name or _ITSELF for name in placed.modules]
    count, pitch = len(names), max(placed.width_um / len(placed.tiles[0]), placed.height_um / len(placed.tiles))
    trace = {
        "type": "heatmap",
        "z": [[None if module < 0 else module for module in row] for row in placed.tiles],
        "text": [["" if module < 0 else names[module] for module in row] for row in placed.tiles],
        "hovertemplate": "%{text}<extra></extra>",
        "dx": pitch,
        "dy": pitch,
        "zmin": -0.5,
        "zmax": count - 0.5,
        "colorscale": [[(i + end) / count, PALETTE[i % len(PALETTE)]] for i in range(count) for end in (0, 1)],
        "colorbar": {"tickvals": list(range(count)), "ticktext": names},
    }
    return figure([trace], "", 640, x={"title": {"text": "um"}}, y={"scaleanchor": "x", "title": {"text": "um"}})
