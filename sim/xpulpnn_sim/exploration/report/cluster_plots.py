"""Plots of kernels on clusters: rates over the number of cores, and timelines of tiled layers."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpulpnn_sim.tools.pages import INK, PALETTE, SYMBOLS, Page, Plot, bar, figure

Record = Mapping[str, Any]  # JSON record of a kernel on a cluster
_NAMES = ("kernel", "layer", "precision", "variant")
_LINE = (*_NAMES, "banks", "arbiter", "placement")  # runs of one line share these and differ in cores
_SAME = (*_NAMES, "arbiter", "placement", "cores")  # runs that differ in banks only share these
_LANE_COLOURS = {"cores compute": ("#0072b2", "#56b4e9"), "DMA moves": ("#d55e00",), "waiting for DMA": ("#5b5b5b",)}
"""One colour for each lane of a timeline, or two alternating colours."""


def write_cluster_plots(path: Path, records: Sequence[Record]) -> None:
    """Write a plot over the cores, if their numbers differ, and a timeline of each tiled layer."""
    command = "xpulpnn cosim"
    page = Page(title="Kernels on clusters", command=command, writer=command)
    tiled = [("Layer in tiles", timeline_figure(record)) for record in records if "tiling" in record]
    if len(tiled) < len(records) or len({record["cores"] for record in records}) > 1:
        tiled.insert(0, ("Kernels over the cores", scaling_figure(records)))
    for number, (title, plotted) in enumerate(tiled):
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
    traces: list[dict[str, Any]] = []
    for number, group in enumerate(dict.fromkeys(_values(record, _LINE) for record in records)):
        rows = sorted((one for one in records if _values(one, _LINE) == group), key=lambda record: record["cores"])
        name = _named(rows[0], differing) or rows[0]["variant"]
        line = {
            "mode": "lines+markers",
            "name": name,
            "line": {"color": PALETTE[number % len(PALETTE)]},
            "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8},
            "x": [record["cores"] for record in rows],
            "y": [record["macs_per_cycle"] for record in rows],
            "customdata": [record["cycles"] for record in rows],
            "hovertemplate": f"%{{x}} cores: %{{y:.2f}} MAC/cycle, %{{customdata}} cycles<extra>{name}</extra>",
        }
        traces.append(line)
    title = _named(records[0], [name for name in _LINE if name not in differing])
    cores = sorted({record["cores"] for record in records})
    across = {"title": {"text": "cores"}, "type": "log", "tickvals": cores, "ticktext": list(map(str, cores))}
    # one grid line per factor of two, as on the axis of cores
    doubling = {"title": {"text": "MAC per cycle, whole kernel"}, "type": "log", "tick0": 0, "dtick": math.log10(2)}
    return figure(traces, title or "Kernels on clusters", 520, x=across, y=doubling)


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
