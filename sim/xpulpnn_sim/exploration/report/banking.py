"""Gain of more banks: cycles of a SIMD multiply-accumulate on one core and on many, as Fig. 9 of the XpulpNN paper
shows them."""

from collections.abc import Sequence
from typing import Any

from xpulpnn_sim.exploration.report.scaling import Record
from xpulpnn_sim.tools.pages import INK, layout

_SAME = ("kernel", "layer", "precision", "variant", "arbiter", "placement", "cores")
"""Fields that runs share which differ in their banks."""

_NAMES = ("kernel", "layer", "precision", "variant")
_KINDS = ("cores", "banks", "arbiter", "placement")

_COLOURS = ("#5b5b5b", "#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#8c6bb1", "#a6761d")
_HEIGHT = 420


def bank_gains(records: Sequence[Record]) -> list[float | None]:
    """Cycles per sum of dot products of the same with half as many banks over those of each run, less 1; None where
    that did not run, and on one core, which meets nobody in the banks.
    """
    known = {
        (*(record[name] for name in _SAME), record["banks"]): record["cycles_per_sdotp"]
        for record in records
        if record["cores"] > 1 and record["sdotp"]
    }
    gains: list[float | None] = []
    for record in records:
        same = tuple(record[name] for name in _SAME)
        own, half = known.get((*same, record["banks"])), known.get((*same, record["banks"] / 2))
        gains.append(half / own - 1 if own and half else None)
    return gains


def banking_figure(records: Sequence[Record]) -> dict[str, Any]:
    """The plot as plotly takes it: for each kernel a bar for one core and for each cluster, all with products alone.

    One core by itself is the same with any number of banks. A banking factor (BF) is banks over cores.
    """
    counted = [record for record in records if record["sdotp"]]
    names = [name for name in _NAMES if len({record[name] for record in counted}) > 1] or ["variant"]
    kinds = [name for name in _KINDS[2:] if len({record[name] for record in counted}) > 1]
    bars: dict[str, dict[str, float]] = {}
    for record in sorted(counted, key=lambda record: (record["cores"], record["banks"])):
        kernel = ", ".join(str(record[name]) for name in names)
        bars.setdefault(_cluster(record, kinds), {}).setdefault(kernel, record["cycles_per_sdotp"])
    traces = [
        {
            "type": "bar",
            "name": cluster,
            "x": list(found),
            "y": list(found.values()),
            "text": [f"{value:.3f}" for value in found.values()],
            "textposition": "outside",
            "marker": {"color": _COLOURS[number % len(_COLOURS)]},
            "hovertemplate": f"%{{x}}: %{{y:.3f}} cycles<extra>{cluster}</extra>",
        }
        for number, (cluster, found) in enumerate(bars.items())
    ]
    common = ", ".join(str(counted[0][name]) for name in _NAMES if name not in names)
    title = f"Cycles per SIMD sum of dot products, inner loops{f': {common}' if common else ''}"
    shown = layout(title, _HEIGHT, barmode="group", xaxis={"linecolor": INK, "type": "category"})
    shown["yaxis"] |= {"title": {"text": "cycles per sdotp, of each core"}, "rangemode": "tozero"}
    return {"data": traces, "layout": shown}


def _cluster(record: Record, kinds: Sequence[str]) -> str:
    if record["cores"] == 1:
        return "1 core"
    factor = record["banks"] / record["cores"]
    others = "".join(f", {record[name]}" for name in kinds)
    return f"{record['cores']} cores, {record['banks']} banks (BF{factor:g}){others}"
