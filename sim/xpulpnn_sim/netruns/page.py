"""Runs of networks as a page: one file that needs nothing but a browser, the same for the same results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xpulpnn_sim.explorer.report.html import page_environment, plotly_script
from xpulpnn_sim.files import write_text
from xpulpnn_sim.netruns.figures import Figure, confusion_figure, energy_figure, layers_figure, memory_figure
from xpulpnn_sim.netruns.job import Job, Task
from xpulpnn_sim.netruns.pictures import is_picture, picture

_MOST_PICTURES = 24
_MOST_CLASSES = 20
"""For which there is a plot of labels and answers."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An image on the page."""

    source: str
    number: int
    answer: str  # what the network says, and what is right; empty: unknown
    label: str  # what the network says, and what is right; empty: unknown
    right: bool  # whether they are the same, or nothing is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Contents of the page for a network: its record on each target, its images, their classes."""

    task: Task
    records: Sequence[Record]
    pictures: Sequence[Shown]
    more: int
    figures: Sequence[Figure]

    @property
    def first(self) -> Record:
        """The record of the first target."""
        return self.records[0]


def write_page(path: Path, job: Job, records: Sequence[Record], *, command: str, conditions: Sequence[str]) -> None:
    """Write the page in one step."""
    parts = [_part(task, [one for one in records if one["kernel"] == task.network.name]) for task in job.tasks]
    parts = [part for part in parts if part.records]
    plots = [list(part.figures) for part in parts] + [_target_figures(record) for record in records]
    environment = page_environment("xpulpnn_sim.netruns")
    text = environment.get_template("networks.html.j2").render(
        title=", ".join(part.task.network.name for part in parts),
        command=command,
        conditions=conditions,
        parts=parts,
        records=records,
        causes=[_causes(record) for record in records],
        moved=_moved,
        plots=plots,
        plotly=plotly_script(),
    )
    write_text(path, text)


def _target_figures(record: Record) -> list[Figure]:
    figures = [layers_figure(record, shares=False), layers_figure(record, shares=True)]
    if any("energy_nj" in layer for layer in record["layers"]):
        figures.append(energy_figure(record))
    if record.get("plan"):
        figures.append(memory_figure(record))
    if record.get("outside"):
        figures.append(memory_figure(record, outside=True))
    return figures


def _causes(record: Record) -> list[str]:
    """Causes of lost cycles that occur."""
    return [cause for cause in record["stalls"] if any(layer["stalls"][cause] for layer in record["layers"])]


def _moved(record: Record) -> Mapping[str, str]:
    """Headings of what is known of the bytes of layers, and its name."""
    return _OWN | (_BY_DMA if "steps" in record else _BY_INSTRUCTIONS)


def _part(task: Task, records: Sequence[Record]) -> Part:
    if not records:
        return Part(task=task, records=(), pictures=(), more=0, figures=())
    runs, classes = records[0]["runs"], records[0].get("classes", [])
    pictures = _pictures(task, runs)
    figures: list[Figure] = []
    if 1 < len(classes) <= _MOST_CLASSES and len(runs) > 1:
        counts = np.zeros((len(classes), len(classes)), np.int64)
        for run in runs:
            counts[run["label"], run["answer"]] += 1
        figures.append(confusion_figure([one["name"] for one in classes], counts.tolist()))
    return Part(
        task=task,
        records=records,
        pictures=pictures,
        more=len(runs) - len(pictures) if pictures else 0,
        figures=figures,
    )


def _pictures(task: Task, runs: Sequence[Record]) -> list[Shown]:
    """The images whose answers are wrong, then others, a few of them."""
    samples = task.samples
    if samples is None or not is_picture(samples[0]):
        return []

    def name(number: int) -> str:
        return task.classes[number] if task.classes else str(number)

    ordered = sorted(runs, key=lambda run: run.get("label", run["answer"]) == run["answer"])
    return [
        Shown(
            source=picture(samples[run["image"]]),
            number=run["image"],
            answer=name(run["answer"]),
            label=name(run["label"]) if "label" in run else "",
            right=run.get("label", run["answer"]) == run["answer"],
        )
        for run in ordered[:_MOST_PICTURES]
    ]
