"""Layers in tiles as a plot: when the cores compute, when the DMA engine moves data, and who waits for whom."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpulpnn_sim.exploration.report.banking import bank_gains, banking_figure
from xpulpnn_sim.exploration.report.scaling import Record, scaling_figure
from xpulpnn_sim.tools.pages import INK, Page, Plot, layout

_LANES = ("cores compute", "DMA moves", "waiting for DMA")
_COLOURS = {"cores compute": ("#0072b2", "#56b4e9"), "DMA moves": ("#d55e00",), "waiting for DMA": ("#5b5b5b",)}
"""Colours of a lane, by turns."""

_HEIGHT = 330
_BAR = 0.6


def write_cluster_plots(path: Path, records: Sequence[Record]) -> None:
    """Write a page with how kernels scale with the cores, what more banks bring where their number was varied, and a
    timeline of each layer in tiles.

    Where a single number of cores ran in tiles, there are timelines only. Raises
    :class:`~xpulpnn.errors.ToolError` if the package ``plotly`` is missing.
    """
    command = "xpulpnn cosim"
    page = Page(title="Kernels on clusters", command=command, writer=command)
    tiled = [record for record in records if "tiling" in record]
    found = [("Layer in tiles", timeline_figure(record)) for record in tiled]
    if len(tiled) < len(records) or len({record["cores"] for record in records}) > 1:
        found.insert(0, ("Kernels over the cores", scaling_figure(records)))
    if any(gain is not None for gain in bank_gains(records)):
        found.append(("Banks", banking_figure(records)))
    for number, (title, figure) in enumerate(found):
        page.section(f"plot-of-{number}", title, Plot(name=str(number), variants={(): figure}))
    page.write(path)


def timeline_figure(record: Record) -> dict[str, Any]:
    """The timeline of a layer in tiles as plotly takes it: a lane for the cores, one for the DMA engine, one for waits.

    The bar of the DMA engine begins with its step and is as long as it moved data in it.
    """
    steps = record["tiling"]["steps"]
    unit = record["tiling"]["unit"]
    bars: dict[str, list[tuple[int, int, str]]] = {lane: [] for lane in _LANES}
    for step in steps:
        if step["tile"] is not None:
            name = f"tile {step['tile']}, {unit} {_range(step['rows'])}, channels {_range(step['channels'])}"
            bars["cores compute"].append((step["begin"], step["computed"] - step["begin"], name))
        if step["moving"]:
            text = f"{step['loaded']} bytes in, {step['stored']} out"
            bars["DMA moves"].append((step["begin"], step["moving"], text))
        if step["waiting"]:
            bars["waiting for DMA"].append((step["computed"], step["waiting"], "all cores wait"))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": lane,
            "showlegend": False,
            "y": [lane] * len(found),
            "base": [start for start, _, _ in found],
            "x": [length for _, length, _ in found],
            "width": _BAR,
            "customdata": [[text, start, start + length] for start, length, text in found],
            "marker": {"color": [_COLOURS[lane][number % len(_COLOURS[lane])] for number in range(len(found))]},
            "hovertemplate": "%{customdata[0]}<br>cycles %{customdata[1]} to %{customdata[2]}<extra></extra>",
        }
        for lane, found in bars.items()
    ]
    return {"data": traces, "layout": _layout(record)}


def _range(ends: Sequence[int]) -> str:
    return f"{ends[0]} to {ends[1] - 1}"


def _layout(record: Record) -> dict[str, Any]:
    tiling = record["tiling"]
    title = (
        f"{record['kernel']} {record['layer']}, {record['precision']}, {record['variant']}, {record['cores']} cores: "
        f"{tiling['tiles']} tiles, {record['macs_per_cycle']:.2f} MAC per cycle"
    )
    shown = layout(title, _HEIGHT, barmode="overlay", margin={"t": 50, "b": 50, "l": 130, "r": 20})
    shown["xaxis"] |= {"title": {"text": "cycles"}, "rangemode": "tozero"}
    shown["yaxis"] = {"categoryorder": "array", "categoryarray": list(reversed(_LANES)), "linecolor": INK}
    return shown
