"""A model whose bits are looked for: assignments and the search for them, accuracy and cycles with each."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product, takewhile
from math import inf, prod
from typing import Any, NamedTuple

from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, LayerError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.images import Images
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase, is_folding
from xpulpnn_sim.reference.golden.network import run_scores
from xpulpnn_sim.tools.results import digest, sources_digest
from xpulpnn_sw.networks.importers.assembly import SAMPLE_BITS
from xpulpnn_sw.networks.importers.onnx_file import OnnxModel
from xpulpnn_sw.networks.importers.policy import Calibration
from xpulpnn_sw.networks.importers.registry import ImportOptions, LayerWidths, WidthRequest
from xpulpnn_sw.networks.network import Described, Stage

Assignment = tuple[LayerWidths, ...]  # bits of the layers with weights, in their order


def widths_text(widths: Assignment) -> str:
    """Bits as an import of the network takes them."""
    return ",".join(map(str, widths))


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthPoint:
    """Accuracy and cost of an assignment."""

    widths: Assignment
    right: int  # images that the reference classifies as labelled, of so many
    images: int  # images that the reference classifies as labelled, of so many
    cycles: int = 0  # sum of its layers'
    weight_bytes: int = 0  # their weights and parameters in memory
    problem: str = ""  # why the design cannot run the network; empty: it can

    @property
    def accuracy(self) -> float:
        """Share of the images."""
        return self.right / self.images

    def record(self) -> dict[str, Any]:
        """All of it for a JSON file."""
        figures: dict[str, Any] = {"bits": widths_text(self.widths), "right": self.right, "images": self.images}
        if self.problem:
            return figures | {"problem": self.problem}
        return figures | {"cycles": self.cycles, "weight_bytes": self.weight_bytes}


def widths_front(points: Iterable[WidthPoint], cost: Callable[[WidthPoint], int] | None = None) -> list[WidthPoint]:
    """The points that no other is better than in images and in what they cost, the cheapest first.

    That is cycles unless said. Of points that are alike in both the one with the fewest bytes is there, and of these
    the first.
    """
    price = cost or (lambda point: point.cycles)
    runnable = [point for point in points if not point.problem]
    found: list[WidthPoint] = []
    for point in sorted(runnable, key=lambda one: (price(one), -one.right, one.weight_bytes)):
        if not found or point.right > found[-1].right:
            found.append(point)
    return found


def cheapest(points: Sequence[WidthPoint], floor: float) -> WidthPoint | None:
    """The fastest point that classifies so much of the images as labelled; None: there is none."""
    return next((point for point in widths_front(points) if point.accuracy >= floor), None)


Evaluate = Callable[[Sequence[Assignment]], Sequence[WidthPoint]]

_LOOKED_AT = 6  # Changes evaluated for a step of the descent: those that were best when they were last evaluated


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Widths that a layer may have, ascending; a single one is no choice."""

    weights: tuple[int, ...]  # of its weights, and of the maps it reads
    activations: tuple[int, ...]  # of its weights, and of the maps it reads

    def __iter__(self) -> Iterator[LayerWidths]:
        """All of them, the widest first."""
        return (LayerWidths(w, x) for w in reversed(self.weights) for x in reversed(self.activations))

    def stepped(self, own: LayerWidths, weights: int, activations: int) -> LayerWidths | None:
        """So many steps up; None if there are no such widths."""
        places = (self.weights.index(own.weights) + weights, self.activations.index(own.activations) + activations)
        if not 0 <= places[0] < len(self.weights) or not 0 <= places[1] < len(self.activations):
            return None
        return LayerWidths(self.weights[places[0]], self.activations[places[1]])


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthSpace:
    """All assignments of a network."""

    layers: tuple[Choices, ...]  # of the layers with weights

    def __len__(self) -> int:
        """Number of assignments."""
        return prod(len(one.weights) * len(one.activations) for one in self.layers)

    def __iter__(self) -> Iterator[Assignment]:
        """All of them, those with most bits first."""
        return product(*self.layers)

    def uniform(self) -> list[Assignment]:
        """The same bits everywhere, as far as a layer has a choice; the widest first."""
        depth = max(len(ladder) for one in self.layers for ladder in (one.weights, one.activations))
        rows = [
            tuple(
                LayerWidths(
                    one.weights[-min(step, len(one.weights))], one.activations[-min(step, len(one.activations))]
                )
                for one in self.layers
            )
            for step in range(1, depth + 1)
        ]
        return list(dict.fromkeys(rows))

    def changes(self, widths: Assignment, *, up: bool = False) -> dict["Change", Assignment]:
        """Changes of a step: of a layer the weights, what it reads, or both; with ``up`` also to more bits."""
        found: dict[Change, Assignment] = {}
        for layer, (choices, own) in enumerate(zip(self.layers, widths, strict=True)):
            for step in (-1, 1) if up else (-1,):
                for change in ((layer, step, 0), (layer, 0, step), (layer, step, step)):
                    if (after := choices.stepped(own, *change[1:])) is not None:
                        found[change] = (*widths[:layer], after, *widths[layer + 1 :])
        return found


Change = tuple[int, int, int]  # a layer, and steps of its weights and of what it reads


def search_widths(space: WidthSpace, evaluate: Evaluate, trials: int, floor: float) -> list[WidthPoint]:
    """The points of all assignments, or of ``trials`` at most.

    If there are more, bits are taken from the widest assignment step by step, each time where the fewest images are
    lost per cycle saved; then the neighbours of what is best so far are evaluated. Neither goes on from where less than
    ``floor`` of the images are classified as labelled.
    """
    if len(space) <= trials:
        return [*evaluate([*space])]
    known = _Known(space, evaluate, trials)
    known.points_of(space.uniform())
    _descend(known, floor)
    _look_around(known, floor)
    return [*known.points.values()]


class _Known:
    """Points that are evaluated, not more than ``trials``."""

    def __init__(self, space: WidthSpace, evaluate: Evaluate, trials: int) -> None:
        self.space = space
        self.points: dict[Assignment, WidthPoint] = {}
        self._evaluate = evaluate
        self._trials = trials

    @property
    def left(self) -> int:
        """Assignments that may still be evaluated."""
        return self._trials - len(self.points)

    def points_of(self, wanted: Sequence[Assignment]) -> list[WidthPoint]:
        """The points of these; those at the end are left out if there may not be more."""
        new = [one for one in dict.fromkeys(wanted) if one not in self.points][: self.left]
        if new:
            self.points.update(zip(new, self._evaluate(new), strict=True))
        return [self.points[one] for one in takewhile(self.points.__contains__, wanted)]


def _descend(known: _Known, floor: float) -> None:
    current = known.points[known.space.uniform()[0]]
    price: dict[Change, float] = {}
    while known.left and current.accuracy >= floor:
        changes = known.space.changes(current.widths)
        fresh = [change for change in changes if change not in price]
        chosen = fresh or sorted(changes, key=lambda change: price[change])[:_LOOKED_AT]
        # there may be fewer points than changes, those in front
        found = dict(zip(chosen, known.points_of([changes[change] for change in chosen]), strict=False))
        for change, after in found.items():
            price[change] = _price(current, after)
        best = min(found, key=lambda change: price[change], default=None)
        if best is None or price[best] == inf:
            break
        current = found[best]


def _price(before: WidthPoint, after: WidthPoint) -> float:
    """Images lost for a cycle saved; infinite if none is saved."""
    saved = before.cycles - after.cycles
    return (before.right - after.right) / saved if saved > 0 and not after.problem else inf


def _look_around(known: _Known, floor: float) -> None:
    seen: set[Assignment] = set()
    while known.left:
        best = [point for point in widths_front(known.points.values()) if point.accuracy >= floor]
        unseen = [point for point in best if point.widths not in seen]
        if not unseen:
            break
        seen.add(unseen[0].widths)
        known.points_of([*known.space.changes(unseen[0].widths, up=True).values()])


_SHOWS_ONLY = frozenset({"benches", "cli", "energy", "proofs", "publishing", "report", "verification"})
"""Folders of sources that neither accuracies nor cycles depend on."""


class Studied(NamedTuple):
    """Accuracy and layers of an assignment, found without the design."""

    right: int  # images that the reference classifies as labelled
    layers: Sequence[str] = ()  # of each layer all that its cycles depend on
    problem: str = ""  # why the design cannot run the network; empty: it can


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredWidths:
    """A run of a whole network on the design."""

    cycles: int
    # for each layer what its cycles depend on, the cycles, and bytes of weights and parameters
    layers: tuple[tuple[str, int, int], ...]
    reports: tuple[str, ...] = ()  # what was wrong


@dataclass(frozen=True, eq=False, kw_only=True)
class Subject:
    """A model in floating point, the images that decide, and the core that computes."""

    model: OnnxModel
    calibration: Calibration  # its tensors' ranges
    options: ImportOptions  # how it is read; of the images only what calibration has of them counts
    images: Images  # what accuracies are of
    config: CoreConfig | ClusterConfig  # the core, or the cluster all of whose cores share each layer

    def space(self, bits: tuple[int, ...]) -> WidthSpace:
        """All assignments of these widths; raises :class:`InputError` for a model without weights.

        Layers that read the samples of images have no choice of these, and of the weights only where it makes a
        difference to the design: kernels for images have weights of 8 bits in any case.
        """
        weighted = [reader for reader in self.model.readers if reader.weights]
        if not weighted:
            raise InputError("model must have layers with weights, not none")
        ladder = tuple(sorted(bits))
        samples = Choices(weights=ladder, activations=(SAMPLE_BITS,))
        free = Choices(weights=ladder, activations=ladder)
        space = WidthSpace(layers=tuple(samples if reader.is_first else free for reader in weighted))
        widest = space.uniform()[0]
        alike = replace(samples, weights=ladder[-1:])
        return WidthSpace(
            layers=tuple(
                alike if choices is samples and self._same(widest, number, ladder[0]) else choices
                for number, choices in enumerate(space.layers)
            )
        )

    def _same(self, widths: Assignment, number: int, bits: int) -> bool:
        """Return whether weights of so many bits make no difference to the design in a layer."""
        other = (*widths[:number], replace(widths[number], weights=bits), *widths[number + 1 :])
        first, second = (
            [(str(stage.layer), str(stage.precision)) for stage in self.described(one).network.stages]
            for one in (widths, other)
        )
        return first == second

    def described(self, widths: Assignment, name: str | None = None) -> Described:
        """The network with these bits; raises what an import raises."""
        options = self.options if name is None else replace(self.options, name=name)
        return self.model.network(options, self.calibration.policy(WidthRequest(listed=widths)))

    def case(self, described: Described, samples: NDArray[Any]) -> NetworkCase:
        """A run for an image on the design."""
        return NetworkCase(
            network=described.network,
            image=described.inputs(samples),
            config=self.config,
            machine=Machine(),
            checked=False,
        )

    def right(self, widths: Assignment) -> int:
        """Number of images that the reference classifies as labelled."""
        described = self.described(widths)
        labels = self.images.known(described.classes)
        scores = run_scores(described.network, described.batch(self.images.samples))
        return int((scores.argmax(axis=1) == labels).sum())

    def study(self, widths: Assignment) -> Studied:
        """Accuracy and layers of an assignment."""
        right = self.right(widths)
        try:
            case = self.case(self.described(widths), self.images.samples[0])
            build_network(case)
        except LayerError as error:
            return Studied(right=right, problem=str(error))
        return Studied(right=right, layers=tuple(self._keys(case)))

    def measure(self, widths: Assignment, image: int = 0) -> MeasuredWidths:
        """Run it on the design, the results of every layer compared with the reference."""
        case = self.case(self.described(widths), self.images.samples[image])
        result = build_network(case).run()
        found = [(layer["cycles"], layer["weight_bytes"]) for layer in result.record["layers"]]
        keys = self._keys(case)
        if len(keys) > len(found):
            # what a cluster moves before the first layer and behind the last
            found.append((result.record["cycles"] - sum(cycles for cycles, _ in found), 0))
        layers = tuple((key, *figures) for key, figures in zip(keys, found, strict=True))
        return MeasuredWidths(cycles=result.record["cycles"], layers=layers, reports=tuple(result.reports))

    def _keys(self, case: NetworkCase) -> list[str]:
        found = [_key(stage, variant) for stage, variant in zip(case.computed.stages, case.variants, strict=True)]
        return [*found, f"around {found[0]} {found[-1]}"] if isinstance(self.config, ClusterConfig) else found

    @cached_property
    def identity(self) -> str:
        """Hash of all that accuracies depend on besides the bits."""
        options = (self.options.samples, [*self.options.normalisation])
        images = [*self.calibration.samples.values(), self.images.samples, self.images.labels]
        return digest(self.model.proto.SerializeToString(), options, sources_digest(_SHOWS_ONLY), images)

    @cached_property
    def design(self) -> str:
        """Digest of all else that the cycles of a layer depend on."""
        return digest(self.config, sources_digest(_SHOWS_ONLY))


def _key(stage: Stage, variant: str) -> str:
    """All that the cycles of a layer depend on but the core."""
    own = stage.tensors
    rule = getattr(getattr(own, "requantisation", None), "rule", None)
    folded = getattr(own, "folded", False) if not is_folding(stage) else "folding"
    biased = getattr(own, "bias", None) is not None
    parts = (stage.kind.name, stage.layer, stage.precision, variant, rule and rule.value, folded, biased, stage.pad)
    return " ".join(map(str, parts))
