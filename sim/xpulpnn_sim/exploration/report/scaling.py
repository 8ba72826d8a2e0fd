"""Scaling of kernels with the cores of a cluster: speed-ups, and the plot of them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xpulpnn_sim.tools.pages import GRID, INK, PALETTE, SYMBOLS, layout

Record = Mapping[str, Any]  # figures of a kernel on a cluster, under the names of their JSON record

_GROUP = ("kernel", "layer", "precision", "variant", "banks", "arbiter", "placement")
"""Fields that runs of one line share; only the number of cores differs."""

_NAMED = {"banks": "{} banks"}  # how what is not its own name is called in the legend

_HEIGHT = 520
_PERCENT = 100
_GAP = 0.09  # Between the two plots, as a fraction of the width


def _group(record: Record) -> tuple[Any, ...]:
    return tuple(record[name] for name in _GROUP)


def clustered(record: Record) -> bool:
    """Return whether the kernel ran on the cores of a cluster."""
    return "arbiter" in record


def speed_ups(records: Sequence[Record]) -> list[float | None]:
    """Speed-up of each run over the same on one core; None where that did not run."""
    single = {_group(record): record["cycles"] for record in records if record["cores"] == 1}
    found = [single.get(_group(record)) for record in records]
    return [
        None if alone is None else alone / max(record["cycles"], 1)
        for alone, record in zip(found, records, strict=True)
    ]


def scaling_figure(records: Sequence[Record]) -> dict[str, Any]:
    """The plot as plotly takes it: to the left MAC per cycle, to the right the speed-up for each core where known."""
    differing = [name for name in _GROUP if len({record[name] for record in records}) > 1]
    groups = list(dict.fromkeys(map(_group, records)))
    measured = list(zip(records, speed_ups(records), strict=True))
    compared = any(speed_up is not None for _, speed_up in measured)
    traces: list[dict[str, Any]] = []
    for number, group in enumerate(groups):
        rows = sorted((pair for pair in measured if _group(pair[0]) == group), key=lambda pair: pair[0]["cores"])
        values: dict[str, Any] = dict(zip(_GROUP, group, strict=True))
        name = ", ".join(_NAMED.get(key, "{}").format(values[key]) for key in differing) or values["variant"]
        line = {
            "mode": "lines+markers",
            "name": name,
            "legendgroup": name,
            "line": {"color": PALETTE[number % len(PALETTE)]},
            "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8},
            "x": [record["cores"] for record, _ in rows],
        }
        traces.append(
            {
                **line,
                "y": [record["macs_per_cycle"] for record, _ in rows],
                "customdata": [record["cycles"] for record, _ in rows],
                "hovertemplate": f"%{{x}} cores: %{{y:.2f}} MAC/cycle, %{{customdata}} cycles<extra>{name}</extra>",
            }
        )
        if compared:
            traces.append(
                {
                    **line,
                    "y": [
                        None if speed_up is None else _PERCENT * speed_up / record["cores"] for record, speed_up in rows
                    ],
                    "customdata": [speed_up for _, speed_up in rows],
                    "hovertemplate": f"%{{x}} cores: %{{customdata:.2f}} times faster<extra>{name}</extra>",
                    "xaxis": "x2",
                    "yaxis": "y2",
                    "showlegend": False,
                }
            )
    return {"data": traces, "layout": _layout(records, differing, compared=compared)}


def _layout(records: Sequence[Record], differing: Sequence[str], *, compared: bool) -> dict[str, Any]:
    common = dict(zip(_GROUP, _group(records[0]), strict=True))
    title = ", ".join(_NAMED.get(key, "{}").format(value) for key, value in common.items() if key not in differing)
    cores = sorted({record["cores"] for record in records})
    lines = {"gridcolor": GRID, "linecolor": INK}
    across = {**lines, "title": {"text": "cores"}, "type": "log", "tickvals": cores, "ticktext": list(map(str, cores))}
    upwards = {**lines, "title": {"text": "MAC per cycle, whole kernel"}}
    # a line for each doubling, as there is one for each doubling of the cores
    doubling = {**upwards, "type": "log", "tick0": 0, "dtick": math.log10(2)}
    shown = layout(title or "Kernels on clusters", _HEIGHT, xaxis=across, yaxis=doubling)
    if compared:
        half = (1 - _GAP) / 2
        shown["xaxis"] = {**across, "domain": [0, half]}
        shown["xaxis2"] = {**across, "domain": [1 - half, 1], "anchor": "y2"}
        ratio = {"title": {"text": "speed-up over one core / cores"}, "ticksuffix": " %", "anchor": "x2"}
        shown["yaxis2"] = {**lines, **ratio}
    return shown
