"""Records of all images of a network on a target: means, extremes, answers."""

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
from xpulpnn_sw.networks.network import Described


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers:
    """Answers of a network, beside labels if these are known."""

    network: str
    names: tuple[str, ...]
    answers: NDArray[np.int64]  # the class of each image by a network
    labels: NDArray[np.int64] | None = None  # the class of each image by its label
    scores: NDArray[np.int32] | None = None  # the results of the last layer, `[image][result]`

    def write_scores(self, path: Path) -> None:
        """Write the scores and the answers into an npz file."""
        assert self.scores is not None
        packed = BytesIO()
        np.savez_compressed(packed, scores=self.scores, answers=self.answers)
        write_bytes(path, packed.getvalue())

    @property
    def right(self) -> int:
        """Number of answers that equal the label, of images whose labels are known."""
        return int((self.answers == self.labels).sum())

    @property
    def accuracy(self) -> float:
        """Share of answers that equal the label."""
        return self.right / len(self.answers)

    @property
    def classes(self) -> list[dict[str, Any]]:
        """Answers by class: ``images``, of which ``right``, and what ``count`` wrong ones were taken for most often."""
        records: list[dict[str, Any]] = []
        for number, name in enumerate(self.names):
            counts = np.bincount(self.answers[self.labels == number], minlength=len(self.names))
            images, right, counts[number] = int(counts.sum()), int(counts[number]), 0
            most = int(counts.argmax())
            rest = {"other": self.names[most] if counts.any() else "", "count": int(counts[most])}
            records.append({"name": name, "images": images, "right": right, **rest})
        return records

    def record(self) -> dict[str, Any]:
        """All of it for a JSON file."""
        found = {"network": self.network, "images": len(self.answers), "answers": self.answers.tolist()}
        if self.labels is None:
            return found
        return found | {"right": self.right, "accuracy": self.accuracy, "labels": self.labels.tolist()}


def classified(described: Described, images: Images, progress: Callable[[int], None] | None = None) -> Answers:
    """The answers for images: the number of the greatest result of the last layer, the first of several.

    Raises :class:`~xpulpnn.errors.LayerError` for images of another size, and
    :class:`~xpulpnn.errors.InputError` for labels that are no classes.
    """
    labels = None if images.labels is None else images.known(described.classes)
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
    """A record for every network on every target of which there is a run: means over its images.

    ``cycles`` of the network and of its layers come with their least and most, ``mismatches`` and ``wall_s`` are those
    of all images together, ``runs`` has what is known of each image.
    """
    found: list[_Record] = []
    for number in range(len(job.tasks)):
        for target in range(len(job.targets)):
            own = {item: one for item, one in outcomes.items() if (item.task, item.target) == (number, target)}
            if own:
                found.append(_record(job, number, target, own))
    return found


def _record(job: Job, number: int, target: int, own: Mapping[Item, NetworkOutcome]) -> _Record:
    task, single = job.tasks[number], [one.record for one in own.values()]
    record: _Record = mean_of(single)
    _add_extremes(record, single)
    for place, layer in enumerate(record["layers"]):
        layers = [one["layers"][place] for one in single]
        _add_extremes(layer, layers)
        layer["macs_per_cycle"] = round(layer["macs"] / max(layer["cycles"], 1), _DIGITS)
        layer["mismatches"] = sum(one["mismatches"] for one in layers)
    wall = sum(one["wall_s"] for one in single)
    simulated = sum(one["sim_cycles_per_s"] * one["wall_s"] for one in single)
    record |= {
        "target": job.targets[target].title,
        "check": job.check,
        "images": len(own),
        "checked_images": sum(one.checked for one in own.values()),
        "mismatches": sum(one["mismatches"] for one in single),
        "wall_s": round(wall, _DIGITS),
        "sim_cycles_per_s": round(simulated / wall) if wall else 0,
        "same_as_reference": sum(one.answer == one.reference for one in own.values()),
    }
    if task.labels is not None:
        answers = answers_of(job, number, own)
        record |= {
            "right": answers.right,
            "accuracy": round(answers.accuracy, _DIGITS),
            "classes": answers.classes,
        }
    record["runs"] = [
        {
            "image": item.image,
            **({} if task.labels is None else {"label": int(task.labels[item.image])}),
            "answer": one.answer,
            **({"class": task.classes[one.answer]} if task.classes else {}),
            "score": one.score,
            "reference": one.reference,
            "cycles": one.record["cycles"],
            "mismatches": one.record["mismatches"],
            "checked": one.checked,
        }
        for item, one in own.items()
    ]
    return record


def answers_of(job: Job, number: int, own: Mapping[Item, NetworkOutcome]) -> Answers:
    """The answers of a network whose images have labels."""
    task = job.tasks[number]
    assert task.labels is not None
    count = int(np.prod(task.network.stages[-1].output_shape))
    return Answers(
        network=task.network.name,
        names=task.classes or tuple(map(str, range(count))),
        answers=np.array([one.answer for one in own.values()]),
        labels=task.labels[[item.image for item in own]],
    )


def _add_extremes(record: _Record, single: Sequence[_Record]) -> None:
    cycles = [one["cycles"] for one in single]
    record |= {"cycles_least": min(cycles), "cycles_most": max(cycles)}


def mean_of(values: Sequence[Any]) -> Any:
    """Merge records: what is the same in all of them stays; numbers that differ become their means, whole ones whole.

    Records must have the same keys; of lists of several lengths and of other values that differ the first is taken.
    """
    first = values[0]
    if isinstance(first, dict):
        keys: list[str] = list(first)
        return {key: mean_of([one[key] for one in values]) for key in keys}
    if all(one == first for one in values[1:]):
        return first
    if isinstance(first, list):
        items: list[Any] = first
        if any(len(one) != len(items) for one in values):
            return items
        return [mean_of([one[place] for one in values]) for place in range(len(items))]
    if isinstance(first, bool) or not isinstance(first, int | float):
        return first
    mean = sum(values) / len(values)
    return round(mean) if isinstance(first, int) else round(mean, _DIGITS)
