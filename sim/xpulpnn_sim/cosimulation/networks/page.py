"""Writes the HTML report of runs of networks."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from xpulpnn_sim.cosimulation.networks.figures import confusion_figure, energy_figure, layers_figure, memory_figure
from xpulpnn_sim.cosimulation.networks.images import picture
from xpulpnn_sim.cosimulation.networks.job import Job, NetworkTask
from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell
from xpulpnn_sim.tools.pages import Figure, Page, Plot, hint, notes


def is_picture(samples: NDArray[Any]) -> bool:
    """Return whether ``samples`` can be shown as a picture: ``[row][column]`` or ``[row][column][colour]``."""
    return samples.ndim in (2, 3) and samples.shape[2:] in ((), (1,), (3,)) and min(samples.shape[:2]) > 1


_MOST_PICTURES = 24
_MOST_CLASSES = 20  # most classes in a plot of labels and answers
_FJ_PER_NJ = 1e6
_OWN = {"weights, bytes": "weight_bytes", "results, bytes": "result_bytes"}
_BY_DMA = {
    "TCDM in use": "tcdm_bytes",
    "DMA in": "loaded",
    "DMA out": "stored",
    "cycles of moving": "moving",
    "cycles of waiting for it": "waiting",
}
_BY_INSTRUCTIONS = {"loaded": "read", "stored": "written"}
Record = Mapping[str, Any]


def write_network_page(
    path: Path, job: Job, records: Sequence[Record], *, command: str, conditions: Sequence[str]
) -> None:
    tasks = [(task, [record for record in records if record["kernel"] == task.network.name]) for task in job.tasks]
    shown = [(task, own[0]) for task, own in tasks if own]
    title = ", ".join(task.network.name for task, _ in shown)
    page = Page(title=title, heading=f"{title}, layer by layer", command=command, notes=conditions)
    right = [
        (task.network.name, f"{own['right']} of {own['images']} images right, {100 * own['accuracy']:.2f} %")
        for task, own in shown
        if "right" in own
    ]
    cycles = "{[cycles]:,} cycles, {:.2f} MAC/cycle".format
    page.facts = [*right, *((record["target"] or "cycles", cycles(record, _rate(record))) for record in records)]
    page.section("networks", "Networks", _table("Networks", _NETWORK, records))
    for number, (task, own) in enumerate(shown):
        parts = _answers(page, task, own, f"answers-{number}")
        if parts:
            page.section(f"answers-{number}", f"Answers of {task.network.name}", *parts)
    for number, record in enumerate(records):
        figures = [
            Plot(name=f"run-{number}-{place}", variants={(): figure})
            for place, figure in enumerate(_target_figures(record))
        ]
        tables = _layers(record), _bytes(record)
        remarks = notes(record.get("energy_conditions", ()))
        page.section(f"run-{number}", f"{record['kernel']} on {record['target']}", page.grid(figures), *tables, remarks)
    page.write(path)


def _rate(record: Record) -> float:
    return record["macs"] / record["cycles"] if record["cycles"] else 0.0


def _cycles(record: Record) -> str:
    least, most = record["cycles_least"], record["cycles_most"]
    return f"{record['cycles']:,}" + (f" ({least:,} to {most:,})" if least != most else "")


# cells by heading: a field of the record, or a function of it
Cells = Mapping[str, str | Callable[[Record], TableCell]]

_TEXTS = frozenset({"network", "on", "layer", "size", "precision", "variant", "class", "most often taken for"})
_COUNT: Mapping[str, Any] = {"digits": 0, "grouped": True}
_FORMATS: Mapping[str, Mapping[str, Any]] = {
    "MAC/cycle": {"digits": 2},
    "waiting for it, %": {"digits": 1},
    "energy": {"unit": "nJ", "digits": 1, "grouped": True},
    "fJ/MAC": {"digits": 1},
    **{name: {} for name in _TEXTS},
}
_NETWORK: Cells = {
    "network": "kernel",
    "on": "target",
    "cycles of an image": _cycles,
    "MAC": "macs",
    "MAC/cycle": _rate,
    "code, bytes": "code_bytes",
    "data, bytes": "data_bytes",
    "L2, bytes": lambda record: record.get("l2_bytes"),
    "moved by DMA, bytes": lambda record: record["loaded"] + record["stored"] if "steps" in record else None,
    "waiting for it, %": lambda record: (
        100 * record["waiting"] / max(record["cycles"], 1) if "steps" in record else None
    ),
    "images": "images",
    "right": lambda record: record.get("right"),
    "same as reference": "same_as_reference",
    "differences": "mismatches",
}
_CLASS: Cells = {
    "class": "name",
    "images": "images",
    "right": "right",
    "most often taken for": lambda record: f"{record['other']} ({record['count']})" if record["other"] else None,
}
_ENERGY: Cells = {
    "energy": lambda layer: layer.get("energy_nj"),
    "fJ/MAC": lambda layer: (
        _FJ_PER_NJ * layer["energy_nj"] / layer["macs"] if "energy_nj" in layer and layer["macs"] else None
    ),
}


def _table(title: str, cells: Cells, records: Sequence[Record]) -> NamedTable:
    return NamedTable(
        title=title,
        columns=[Column(name=name, **_FORMATS.get(name, _COUNT)) for name in cells],
        rows=[[row[cell] if isinstance(cell, str) else cell(row) for cell in cells.values()] for row in records],
        failed=frozenset(number for number, row in enumerate(records) if "differences" in cells and row["mismatches"]),
    )


def _layers(record: Record) -> NamedTable:
    lost = [cause for cause in record["stalls"] if any(layer["stalls"][cause] for layer in record["layers"])]
    cells: Cells = {
        "layer": "name",
        "size": "layer",
        "precision": "precision",
        "variant": _variant,
        "cycles": _cycles,
        "MAC": lambda layer: layer["macs"] or None,
        "MAC/cycle": lambda layer: layer["macs_per_cycle"] if layer["macs"] else None,
        **{cause.replace("_", " "): partial(_stalls, cause) for cause in lost},
        "differences": "mismatches",
    }
    return _table("Layers", cells, record["layers"])


def _stalls(cause: str, layer: Record) -> int:
    return layer["stalls"][cause]


def _variant(layer: Record) -> str:
    tiles = f", {layer['tiles']} tiles" if layer.get("tiles") else ""
    return f"{layer['variant']}{', folded' * bool(layer['folded'])}{tiles}"


def _bytes(record: Record) -> NamedTable:
    moved = _OWN | (_BY_DMA if "steps" in record else _BY_INSTRUCTIONS)
    cells: Cells = {"layer": "name", **moved, **(_ENERGY if "energy_nj" in record else {})}
    return _table("Bytes", cells, record["layers"])


def _target_figures(record: Record) -> list[Figure]:
    figures = [layers_figure(record, shares=False), layers_figure(record, shares=True)]
    if any("energy_nj" in layer for layer in record["layers"]):
        figures.append(energy_figure(record))
    if record.get("plan"):
        figures.append(memory_figure(record))
    if record.get("outside"):
        figures.append(memory_figure(record, external=True))
    return figures


def _answers(page: Page, task: NetworkTask, record: Record, name: str) -> list[Markup | NamedTable]:
    runs, classes = record["runs"], record.get("classes", [])
    parts: list[Markup | NamedTable] = []
    if 1 < len(classes) <= _MOST_CLASSES and len(runs) > 1:
        counts = np.zeros((len(classes), len(classes)), np.int64)
        for run in runs:
            counts[run["label"], run["answer"]] += 1
        figure = confusion_figure([row["name"] for row in classes], counts.tolist())
        parts += [
            page.plot(Plot(name=name, variants={(): figure})),
            _table("Classes", _CLASS, [row for row in classes if row["images"]]),
        ]
    samples = task.samples
    if samples is not None and is_picture(samples[0]):
        wrong_first = sorted(runs, key=_is_right)
        listed = wrong_first[:_MOST_PICTURES]
        pictures = Markup("\n").join(_picture(task, samples[run["image"]], run) for run in listed)
        parts.append(Markup('<div class="pictures">\n{}\n</div>').format(pictures))
        more = len(runs) - len(listed)
        text = f"{more} more images are not shown; those with another answer than their label come first."
        parts += [hint(text)] if more else []
    return parts


def _is_right(run: Record) -> bool:
    return run.get("label", run["answer"]) == run["answer"]


def _picture(task: NetworkTask, sample: NDArray[Any], run: Record) -> Markup:
    def name(number: int) -> str:
        return task.classes[number] if task.classes else str(number)

    text = '<figure class="{}"><img src="{}" alt="image {}">\n<figcaption><strong>{}</strong>{}</figcaption></figure>'
    label = "" if _is_right(run) else f", labelled {name(run['label'])}"
    source = picture(sample)
    return Markup(text).format("" if _is_right(run) else "wrong", source, run["image"], name(run["answer"]), label)
