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
_MOST_ANSWERS = 10  # in a table
_MOST_CLASSES = 20  # most classes in a plot of labels and answers
_FJ_PER_NJ = 1e6
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
    page.section("networks", "Networks", network_table(records))
    for number, (task, own) in enumerate(shown):
        parts = _answers(page, task, own, f"answers-{number}")
        if parts:
            page.section(f"answers-{number}", f"Answers of {task.network.name}", *parts)
    for number, record in enumerate(records):
        figures = [
            Plot(name=f"run-{number}-{place}", variants={(): figure})
            for place, figure in enumerate(_target_figures(record))
        ]
        tables = layer_table(record), memory_table(record)
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
    **{name: {"digits": 2} for name in ("speed-up", "simulated Mcycles/s", "right, %")},
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
    "right, %": lambda record: 100 * record["right"] / record["images"],
    "most often taken for": lambda record: f"{record['other']} ({record['count']})" if record["other"] else None,
}
_ENERGY: Cells = {
    "energy": lambda layer: layer.get("energy_nj"),
    "fJ/MAC": lambda layer: (
        _FJ_PER_NJ * layer["energy_nj"] / layer["macs"] if "energy_nj" in layer and layer["macs"] else None
    ),
}


def _table(title: str, cells: Cells, records: Sequence[Record], *notes: str) -> NamedTable:
    return NamedTable(
        title=title,
        notes=notes,
        columns=[Column(name=name, **_FORMATS.get(name, _COUNT)) for name in cells],
        rows=[[row[cell] if isinstance(cell, str) else cell(row) for cell in cells.values()] for row in records],
        failed=frozenset(number for number, row in enumerate(records) if "differences" in cells and row["mismatches"]),
    )


def network_table(records: Sequence[Record], *notes: str) -> NamedTable:
    alone = {record["kernel"]: record["cycles"] for record in records if record["cores"] == 1}

    def speed_up(record: Record) -> float | None:
        cycles = alone.get(record["kernel"])
        return cycles / record["cycles"] if cycles and record["cycles"] else None

    speed: Cells = {"speed-up": speed_up, "simulated Mcycles/s": lambda record: record["sim_cycles_per_s"] / 1e6}
    return _table("Networks", {**_NETWORK, **speed}, records, *notes)


def class_table(classes: Sequence[Record]) -> NamedTable:
    return _table("Classes", _CLASS, [row for row in classes if row["images"]])


def answer_table(record: Record) -> NamedTable:
    runs, classes = record["runs"], record.get("classes", [])
    cells: Cells = {"image": "image", "answer": lambda run: run.get("class", run["answer"]), "score": "score"}
    label: Cells = {"label": lambda run: classes[run["label"]]["name"]} if classes else {}
    more = [f"{len(runs) - _MOST_ANSWERS} more are in --json."] if len(runs) > _MOST_ANSWERS else []
    return _table(f"Answers of {record['kernel']}", {**cells, **label}, runs[:_MOST_ANSWERS], *more)


def layer_table(record: Record) -> NamedTable:
    layers, cores = record["layers"], record["cores"]
    lost = [cause for cause in layers[0]["stalls"] if any(layer["stalls"][cause] for layer in layers)]
    cells: Cells = {
        "layer": "name",
        "size": "layer",
        "precision": "precision",
        "variant": partial(_variant, cores),
        "cycles": _cycles,
        "MAC": lambda layer: layer["macs"] or None,
        "MAC/cycle": lambda layer: layer["macs_per_cycle"] if layer["macs"] else None,
        **{cause.replace("_", " "): partial(_stalls, cause) for cause in lost},
        "differences": "mismatches",
    }
    means = f", means of {record['images']} images" if record["images"] > 1 else ""
    counted = f"from barrier to barrier on {cores} cores, and summed over them" if cores > 1 else "on one core, and"
    note = f"Cycles{means}: {counted} those without a retired instruction, by cause."
    return _table(f"Layers of {record['kernel']}", cells, layers, note)


def _stalls(cause: str, layer: Record) -> int:
    return layer["stalls"][cause]


def _variant(cores: int, layer: Record) -> str:
    tiles, used = layer.get("tiles", 0), layer.get("cores", cores)
    parts = (f", {tiles} tiles" if tiles else "", f", {used} cores" if used < cores else "")
    return f"{layer['variant']}{', folded' * bool(layer['folded'])}{''.join(parts)}"


def memory_table(record: Record) -> NamedTable:
    """Return the table of bytes in memory and moved: of a cluster for each step, of one core for each layer."""
    layers = {layer["name"]: layer for layer in record["layers"]}
    cells: Cells = {
        "layer": "name",
        "cycles": "cycles",
        "weights, bytes": lambda step: layers.get(step["name"], {}).get("weight_bytes"),
        "results, bytes": lambda step: layers.get(step["name"], {}).get("result_bytes"),
        **(_BY_DMA if "steps" in record else _BY_INSTRUCTIONS),
        **(_ENERGY if "energy_nj" in record else {}),
    }
    return _table("Bytes", cells, record.get("steps") or record["layers"], _memory(record))


def _memory(record: Record) -> str:
    if "steps" not in record:
        return f"Code {record['code_bytes']:,} bytes, data {record['data_bytes']:,}."
    moved = f"DMA moves {record['loaded']:,} in and {record['stored']:,} out in {record['moving']:,} cycles"
    room = f"{record['data_bytes']:,} of {record['tcdm_bytes']:,} bytes of TCDM and {record['l2_bytes']:,} of L2"
    share = record["waiting"] / max(record["cycles"], 1)
    return f"At most {room}, with code; {moved}; the cores wait for it {share:.1%} of the time."


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
            class_table(classes),
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
