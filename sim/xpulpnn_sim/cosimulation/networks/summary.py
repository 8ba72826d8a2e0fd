"""Summarises the runs of a network over all images: means, extremes, answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.cosimulation.networks.images import Images
from xpulpnn_sim.cosimulation.networks.job import Item, Job, NetworkOutcome
from xpulpnn_sim.reference.golden.network import run_scores
from xpulpnn_sim.tools.files import write_bytes
from xpulpnn_sw.networks.network import NetworkModel


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers:
    network: str
    names: tuple[str, ...]  # of the classes
    answers: NDArray[np.int64]
    labels: NDArray[np.int64] | None = None
    scores: NDArray[np.int32] | None = None  # results of the last layer, `[image][result]`

    def write_scores(self, path: Path) -> None:
        assert self.scores is not None
        packed = BytesIO()
        np.savez_compressed(packed, scores=self.scores, answers=self.answers)
        write_bytes(path, packed.getvalue())

    @property
    def right(self) -> int:
        return int((self.answers == self.labels).sum())

    @property
    def accuracy(self) -> float:
        return self.right / len(self.answers)

    @property
    def classes(self) -> list[dict[str, Any]]:
        """For each class the images, the right answers, and the most frequent wrong answer with its count."""
        records: list[dict[str, Any]] = []
        for number, name in enumerate(self.names):
            counts = np.bincount(self.answers[self.labels == number], minlength=len(self.names))
            images, right, counts[number] = int(counts.sum()), int(counts[number]), 0
            most = int(counts.argmax())
            rest = {"other": self.names[most] if counts.any() else "", "count": int(counts[most])}
            records.append({"name": name, "images": images, "right": right, **rest})
        return records

    def record(self) -> dict[str, Any]:
        record = {"network": self.network, "images": len(self.answers), "answers": self.answers.tolist()}
        if self.labels is None:
            return record
        return record | {"right": self.right, "accuracy": self.accuracy, "labels": self.labels.tolist()}


def classified(described: NetworkModel, images: Images, progress: Callable[[int], None] | None = None) -> Answers:
    """Return the answers of the golden model: the index of the first greatest result of the last layer. Raises an error
    for images of another size and for labels that are no classes."""
    labels = None if images.labels is None else images.checked_labels(described.classes)
    scores = run_scores(described.network, described.batch(images.samples), progress)
    return Answers(
        network=described.network.name,
        names=described.labels or tuple(map(str, range(described.classes))),
        answers=scores.argmax(axis=1).astype(np.int64),
        labels=labels,
        scores=scores,
    )


_DIGITS = 4
_Record = dict[str, Any]


def summary_records(job: Job, outcomes: Mapping[Item, NetworkOutcome]) -> list[_Record]:
    """Return a record for every network on every target that has runs: means over all images, least and most cycles,
    sums of ``mismatches`` and ``wall_s``, and in ``runs`` the outcome of each image."""
    groups: dict[tuple[int, int], dict[Item, NetworkOutcome]] = {}
    for item in sorted(outcomes):
        groups.setdefault((item.task, item.target), {})[item] = outcomes[item]
    return [_record(job, *place, own) for place, own in groups.items()]


def _record(job: Job, number: int, target: int, own: Mapping[Item, NetworkOutcome]) -> _Record:
    task, runs = job.tasks[number], [outcome.record for outcome in own.values()]
    record: _Record = mean_of(runs)
    _add_extremes(record, runs)
    for place, layer in enumerate(record["layers"]):
        layers = [run["layers"][place] for run in runs]
        _add_extremes(layer, layers)
        layer["macs_per_cycle"] = round(layer["macs"] / max(layer["cycles"], 1), _DIGITS)
        layer["mismatches"] = sum(layer_record["mismatches"] for layer_record in layers)
    wall = sum(run["wall_s"] for run in runs)
    simulated = sum(run["sim_cycles_per_s"] * run["wall_s"] for run in runs)
    record |= {
        "target": job.targets[target].title,
        "check": job.check,
        "images": len(own),
        "checked_images": sum(outcome.checked for outcome in own.values()),
        "mismatches": sum(run["mismatches"] for run in runs),
        "wall_s": round(wall, _DIGITS),
        "sim_cycles_per_s": round(simulated / wall) if wall else 0,
        "same_as_reference": sum(outcome.answer == outcome.reference for outcome in own.values()),
    }
    if task.labels is not None:
        answers = answers_of(job, number, own)
        record |= {"right": answers.right, "accuracy": round(answers.accuracy, _DIGITS), "classes": answers.classes}
    record["runs"] = [
        {
            "image": item.image,
            **({} if task.labels is None else {"label": int(task.labels[item.image])}),
            "answer": outcome.answer,
            **({"class": task.classes[outcome.answer]} if task.classes else {}),
            "score": outcome.score,
            "reference": outcome.reference,
            "cycles": outcome.record["cycles"],
            "mismatches": outcome.record["mismatches"],
            "checked": outcome.checked,
        }
        for item, outcome in own.items()
    ]
    return record


def answers_of(job: Job, number: int, own: Mapping[Item, NetworkOutcome]) -> Answers:
    task = job.tasks[number]
    assert task.labels is not None
    count = int(np.prod(task.network.stages[-1].output_shape))
    return Answers(
        network=task.network.name,
        names=task.classes or tuple(map(str, range(count))),
        answers=np.array([outcome.answer for outcome in own.values()]),
        labels=task.labels[[item.image for item in own]],
    )


def _add_extremes(record: _Record, runs: Sequence[_Record]) -> None:
    cycles = [run["cycles"] for run in runs]
    record |= {"cycles_least": min(cycles), "cycles_most": max(cycles)}


def mean_of(values: Sequence[Any]) -> Any:
    """Merge records with the same keys: equal values stay, different numbers become their mean, rounded for integers.
    Of lists with different lengths, and of other values that differ, the first one is used."""
    first: Any = values[0]
    if isinstance(first, dict):
        return {key: mean_of([value[key] for value in values]) for key in first}
    if isinstance(first, list) and all(len(value) == len(first) for value in values):
        return [*map(mean_of, zip(*values, strict=True))]
    if isinstance(first, bool) or not isinstance(first, int | float) or all(value == first for value in values):
        return first
    mean = sum(values) / len(values)
    return round(mean) if isinstance(first, int) else round(mean, _DIGITS)
