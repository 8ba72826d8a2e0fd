"""Plots of kernels on clusters: rates over the number of cores and banks, and timelines of tiled layers."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpulpnn_sim.tools.pages import GRID, INK, PALETTE, SYMBOLS, Page, Plot, bar, figure, layout

Record = Mapping[str, Any]  # JSON record of a kernel on a cluster
_NAMES = ("kernel", "layer", "precision", "variant")
_LINE = (*_NAMES, "banks", "arbiter", "placement")  # runs of one line share these and differ in cores
_SAME = (*_NAMES, "arbiter", "placement", "cores")  # runs that differ in banks only share these
_BAR_COLOURS = ("#5b5b5b", "#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#8c6bb1", "#a6761d")
_LANE_COLOURS = {"cores compute": ("#0072b2", "#56b4e9"), "DMA moves": ("#d55e00",), "waiting for DMA": ("#5b5b5b",)}
"""One colour for each lane of a timeline, or two alternating colours."""

_PERCENT = 100
_GAP = 0.09  # between the two plots, as a fraction of the width


def write_cluster_plots(path: Path, records: Sequence[Record]) -> None:
    """Write plots over cores and over banks, as far as their numbers differ, and a timeline of each tiled layer."""
    command = "xpulpnn cosim"
    page = Page(title="Kernels on clusters", command=command, writer=command)
    tiled = [record for record in records if "tiling" in record]
    titled = [("Layer in tiles", timeline_figure(record)) for record in tiled]
    if len(tiled) < len(records) or len({record["cores"] for record in records}) > 1:
        titled.insert(0, ("Kernels over the cores", scaling_figure(records)))
    if any(gain is not None for gain in bank_gains(records)):
        titled.append(("Banks", banking_figure(records)))
    for number, (title, plotted) in enumerate(titled):
        page.section(f"plot-of-{number}", title, Plot(name=str(number), variants={(): plotted}))
    page.write(path)


def _values(record: Record, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(record[name] for name in names)


def clustered(record: Record) -> bool:
    return "arbiter" in record


def speed_ups(records: Sequence[Record]) -> list[float | None]:
    single = {_values(record, _LINE): record["cycles"] for record in records if record["cores"] == 1}
    alone = [single.get(_values(record, _LINE)) for record in records]
    pairs = zip(alone, records, strict=True)
    return [
        None if single_cycles is None else single_cycles / max(record["cycles"], 1) for single_cycles, record in pairs
    ]


def scaling_figure(records: Sequence[Record]) -> dict[str, Any]:
    differing = [name for name in _LINE if len({record[name] for record in records}) > 1]
    measured = list(zip(records, speed_ups(records), strict=True))
    compared = any(speed_up is not None for _, speed_up in measured)
    traces: list[dict[str, Any]] = []
    for number, group in enumerate(dict.fromkeys(_values(record, _LINE) for record in records)):
        rows = [pair for pair in measured if _values(pair[0], _LINE) == group]
        rows.sort(key=lambda pair: pair[0]["cores"])
        name = _named(rows[0][0], differing) or rows[0][0]["variant"]
        line = {
            "mode": "lines+markers",
            "name": name,
            "legendgroup": name,
            "line": {"color": PALETTE[number % len(PALETTE)]},
            "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8},
            "x": [record["cores"] for record, _ in rows],
        }
        rates = {
            "y": [record["macs_per_cycle"] for record, _ in rows],
            "customdata": [record["cycles"] for record, _ in rows],
            "hovertemplate": f"%{{x}} cores: %{{y:.2f}} MAC/cycle, %{{customdata}} cycles<extra>{name}</extra>",
        }
        shares = {
            "y": [speed_up and _PERCENT * speed_up / record["cores"] for record, speed_up in rows],
            "customdata": [speed_up for _, speed_up in rows],
            "hovertemplate": f"%{{x}} cores: %{{customdata:.2f}} times faster<extra>{name}</extra>",
            "xaxis": "x2",
            "yaxis": "y2",
            "showlegend": False,
        }
        traces += [line | rates, *([line | shares] if compared else [])]
    title = _named(records[0], [name for name in _LINE if name not in differing])
    cores = sorted({record["cores"] for record in records})
    lines = {"gridcolor": GRID, "linecolor": INK}
    across = {**lines, "title": {"text": "cores"}, "type": "log", "tickvals": cores, "ticktext": list(map(str, cores))}
    # one grid line per factor of two, as on the axis of cores
    doubling = {"title": {"text": "MAC per cycle, whole kernel"}, "type": "log", "tick0": 0, "dtick": math.log10(2)}
    shown = layout(title or "Kernels on clusters", 520, xaxis=across, yaxis=lines | doubling)
    if compared:
        half = (1 - _GAP) / 2
        shown["xaxis"] = {**across, "domain": [0, half]}
        shown["xaxis2"] = {**across, "domain": [1 - half, 1], "anchor": "y2"}
        ratio = {"title": {"text": "speed-up over one core / cores"}, "ticksuffix": " %", "anchor": "x2"}
        shown["yaxis2"] = {**lines, **ratio}
    return {"data": traces, "layout": shown}


def _named(record: Record, names: Sequence[str]) -> str:
    return ", ".join(f"{record[name]} banks" if name == "banks" else f"{record[name]}" for name in names)


def bank_gains(records: Sequence[Record]) -> list[float | None]:
    """Return the relative gain over the run with half as many banks; None without such a run, and on one core."""
    known = {
        (*_values(record, _SAME), record["banks"]): record["cycles_per_sdotp"]
        for record in records
        if record["cores"] > 1 and record["sdotp"]
    }
    gains: list[float | None] = []
    for record in records:
        own, half = (known.get((*_values(record, _SAME), record["banks"] / part)) for part in (1, 2))
        gains.append(half / own - 1 if own and half else None)
    return gains


def banking_figure(records: Sequence[Record]) -> dict[str, Any]:
    """Plot cycles per dot product by banking factor BF (banks / cores), as in Fig. 9 of the XpulpNN paper."""
    counted = [record for record in records if record["sdotp"]]
    names = [name for name in _NAMES if len({record[name] for record in counted}) > 1] or ["variant"]
    kinds = [name for name in ("arbiter", "placement") if len({record[name] for record in counted}) > 1]
    bars: dict[str, dict[str, float]] = {}
    for record in sorted(counted, key=lambda record: (record["cores"], record["banks"])):
        factor = record["banks"] / record["cores"]
        cluster = ", ".join([f"{record['cores']} cores", f"{record['banks']} banks (BF{factor:g})"])
        cluster = "1 core" if record["cores"] == 1 else ", ".join([cluster, *_values(record, kinds)])
        kernel = ", ".join(map(str, _values(record, names)))
        bars.setdefault(cluster, {}).setdefault(kernel, record["cycles_per_sdotp"])
    traces = [
        bar(
            cluster,
            values,
            values.values(),
            _BAR_COLOURS[number % len(_BAR_COLOURS)],
            "%{x}: %{y:.3f} cycles",
            text=[f"{value:.3f}" for value in values.values()],
            textposition="outside",
        )
        for number, (cluster, values) in enumerate(bars.items())
    ]
    common = _named(counted[0], [name for name in _NAMES if name not in names])
    title = f"Cycles per SIMD sum of dot products, inner loops{f': {common}' if common else ''}"
    y = {"title": {"text": "cycles per sdotp, of each core"}, "rangemode": "tozero"}
    return figure(traces, title, 420, barmode="group", xaxis={"linecolor": INK, "type": "category"}, y=y)


def timeline_figure(record: Record) -> dict[str, Any]:
    """Plot when cores compute, DMA moves data and cores wait; a DMA bar is as long as the cycles with moving data."""
    tiling = record["tiling"]
    bars: dict[str, list[tuple[int, int, str]]] = {lane: [] for lane in _LANE_COLOURS}
    computing, moves, waits = bars.values()
    for step in tiling["steps"]:
        if step["tile"] is not None:
            rows, channels = (f"{step[name][0]} to {step[name][1] - 1}" for name in ("rows", "channels"))
            name = f"tile {step['tile']}, {tiling['unit']} {rows}, channels {channels}"
            computing.append((step["begin"], step["computed"] - step["begin"], name))
        if step["moving"]:
            moves.append((step["begin"], step["moving"], f"{step['loaded']} bytes in, {step['stored']} out"))
        if step["waiting"]:
            waits.append((step["computed"], step["waiting"], "all cores wait"))
    traces: list[dict[str, Any]] = []
    for (lane, spans), colours in zip(bars.items(), _LANE_COLOURS.values(), strict=True):
        starts, lengths = ([span[at] for span in spans] for at in (0, 1))
        shades = [colours[number % len(colours)] for number in range(len(spans))]
        texts = [[text, start, start + length] for start, length, text in spans]
        hover = "%{customdata[0]}<br>cycles %{customdata[1]} to %{customdata[2]}"
        how = {"orientation": "h", "showlegend": False, "base": starts, "width": 0.6, "customdata": texts}
        traces.append(bar(lane, lengths, [lane] * len(spans), shades, hover, **how))
    title = (
        f"{record['kernel']} {record['layer']}, {record['precision']}, {record['variant']}, {record['cores']} cores: "
        f"{tiling['tiles']} tiles, {record['macs_per_cycle']:.2f} MAC per cycle"
    )
    x = {"title": {"text": "cycles"}, "rangemode": "tozero"}
    lanes = {"categoryorder": "array", "categoryarray": list(reversed(bars)), "linecolor": INK}
    margin = {"t": 50, "b": 50, "l": 130, "r": 20}
    return figure(traces, title, 330, x=x, yaxis=lanes, barmode="overlay", margin=margin)
