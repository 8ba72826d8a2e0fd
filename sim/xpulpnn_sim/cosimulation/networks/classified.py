"""Images as a network classifies them by the reference, beside what they are labelled as."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.cosimulation.networks.images import Images
from xpulpnn_sim.reference.golden.network import run_scores
from xpulpnn_sw.networks.described import Described


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRecord:
    """Answers for the images of a class."""

    name: str
    images: int  # their number, and how many of them were classified as such
    right: int  # their number, and how many of them were classified as such
    other: str  # what the wrong ones were taken for most often; empty: there are none
    count: int  # how many of them


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers:
    """Answers beside labels."""

    names: tuple[str, ...]
    answers: NDArray[np.int64]  # the class of each image, by a network and by its label
    labels: NDArray[np.int64]  # the class of each image, by a network and by its label

    @property
    def right(self) -> int:
        """Number of answers that equal the label."""
        return int((self.answers == self.labels).sum())

    @property
    def accuracy(self) -> float:
        """Share of answers that equal the label."""
        return self.right / len(self.labels)

    @property
    def classes(self) -> list[ClassRecord]:
        """Answers by class."""
        records: list[ClassRecord] = []
        for number, name in enumerate(self.names):
            counts = np.bincount(self.answers[self.labels == number], minlength=len(self.names))
            images, right, counts[number] = int(counts.sum()), int(counts[number]), 0
            most = int(counts.argmax())
            other = self.names[most] if counts.any() else ""
            records.append(ClassRecord(name=name, images=images, right=right, other=other, count=int(counts[most])))
        return records


@dataclass(frozen=True, eq=False, kw_only=True)
class Classified(Answers):
    """The answers of a network."""

    described: Described

    def record(self) -> dict[str, Any]:
        """All of it for a JSON file."""
        return {
            "network": self.described.network.name,
            "images": len(self.labels),
            "right": self.right,
            "accuracy": self.accuracy,
            "answers": self.answers.tolist(),
            "labels": self.labels.tolist(),
        }


def classified(described: Described, images: Images, progress: Callable[[int], None] | None = None) -> Classified:
    """The answers for images: the number of the greatest result of the last layer, the first of several.

    Raises :class:`~xpulpnn.errors.LayerError` for images of another size, and
    :class:`~xpulpnn.errors.InputError` for labels that are no classes.
    """
    labels = images.known(described.classes)
    scores = run_scores(described.network, described.batch(images.samples), progress)
    return Classified(
        described=described,
        names=described.labels or tuple(map(str, range(described.classes))),
        answers=scores.argmax(axis=1).astype(np.int64),
        labels=labels,
    )
