"""A model whose bits are looked for: its accuracy with an assignment, and the cycles of its layers."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, LayerError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.images import Images
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase, is_folding
from xpulpnn_sim.exploration.widths.search import Assignment, Choices, WidthSpace, text_of
from xpulpnn_sim.reference.golden.network import run_scores
from xpulpnn_sim.tools.results import digest, sources_digest
from xpulpnn_sw.networks.importers.assembly import SAMPLE_BITS
from xpulpnn_sw.networks.importers.onnx_file import OnnxModel
from xpulpnn_sw.networks.importers.policy import Calibration
from xpulpnn_sw.networks.importers.registry import ImportOptions, WidthRequest
from xpulpnn_sw.networks.network import Described, Stage

_SHOWS_ONLY = frozenset({"benches", "cli", "energy", "proofs", "publishing", "report", "verification"})
"""Folders of sources that neither accuracies nor cycles depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Studied:
    """Accuracy and layers of an assignment, found without the design."""

    right: int  # images that the reference classifies as labelled
    layers: tuple[str, ...] = ()  # of each layer all that its cycles depend on
    problem: str = ""  # why the design cannot run the network; empty: it can


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
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

    def measure(self, widths: Assignment, image: int = 0) -> Measured:
        """Run it on the design, the results of every layer compared with the reference."""
        case = self.case(self.described(widths), self.images.samples[image])
        result = build_network(case).run(case)
        found = [(layer["cycles"], layer["weight_bytes"]) for layer in result.record["layers"]]
        # on a cluster there is what is moved before the first layer and behind the last
        rest = [(result.record["cycles"] - sum(cycles for cycles, _ in found), 0)] if self._moves else []
        pairs = zip(self._keys(case), [*found, *rest], strict=True)
        layers = tuple((key, cycles, size) for key, (cycles, size) in pairs)
        return Measured(cycles=result.record["cycles"], layers=layers, reports=tuple(result.reports))

    @property
    def _moves(self) -> bool:
        """Return whether the input has to be moved to where it is computed with."""
        return isinstance(self.config, ClusterConfig)

    def _keys(self, case: NetworkCase) -> list[str]:
        found = [_key(stage, variant) for stage, variant in zip(case.computed.stages, case.variants, strict=True)]
        return [*found, f"around {found[0]} {found[-1]}"] if self._moves else found

    @cached_property
    def identity(self) -> str:
        """Hash of all that accuracies depend on besides the bits."""
        options = (self.options.low, self.options.high, [*self.options.normalisation], self.options.wide)
        images = [*self.calibration.samples.values(), self.images.samples, self.images.labels]
        return digest(self.model.proto.SerializeToString(), options, sources_digest(_SHOWS_ONLY), images)

    @cached_property
    def design(self) -> str:
        """Digest of all else that the cycles of a layer depend on."""
        return digest(self.config, sources_digest(_SHOWS_ONLY))

    def study_key(self, widths: Assignment) -> str:
        """Name under which the study of an assignment is kept."""
        return f"{self.identity} {self.design} {text_of(widths)}"


def _key(stage: Stage, variant: str) -> str:
    """All that the cycles of a layer depend on but the core."""
    own = stage.tensors
    rule = getattr(getattr(own, "requantisation", None), "rule", None)
    folded = getattr(own, "folded", False) if not is_folding(stage) else "folding"
    biased = getattr(own, "bias", None) is not None
    parts = (stage.kind.name, stage.layer, stage.precision, variant, rule and rule.value, folded, biased, stage.pad)
    return " ".join(map(str, parts))
