"""Accuracy and cycles of a floating-point model whose layers are quantised to given bit widths."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import LayerError, require
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.images import Images
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase, is_folding
from xpulpnn_sim.exploration.widths.width_search import Assignment, Choices, WidthSpace
from xpulpnn_sim.reference.golden.network import run_scores
from xpulpnn_sim.tools.results import digest, sources_digest
from xpulpnn_sw.networks.importers.calibration import Calibration
from xpulpnn_sw.networks.importers.layer_builder import SAMPLE_BITS
from xpulpnn_sw.networks.importers.onnx_file import OnnxModel
from xpulpnn_sw.networks.importers.registry import ImportOptions, WidthRequest
from xpulpnn_sw.networks.network import NetworkModel, Stage

_SHOWS_ONLY = frozenset({"benches", "cli", "energy", "proofs", "publishing", "report", "verification"})
"""Source folders that can change neither accuracies nor cycles."""


class AssignmentStudy(NamedTuple):
    """Accuracy and layers of an assignment of bit widths, obtained without running the design."""

    right: int  # images that the reference classifies correctly
    layers: Sequence[str] = ()  # key of each layer: everything that its cycles depend on
    problem: str = ""  # why the design cannot run the network, or empty


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRun:
    cycles: int
    # key, cycles, and bytes of weights and parameters of each layer
    layers: tuple[tuple[str, int, int], ...]
    reports: tuple[str, ...] = ()  # mismatches


@dataclass(frozen=True, eq=False, kw_only=True)
class StudiedModel:
    onnx: OnnxModel
    calibration: Calibration  # ranges of the tensors
    options: ImportOptions  # import options; of the images only the calibration counts
    images: Images  # images for the accuracy
    config: CoreConfig | ClusterConfig  # all cores of a cluster share each layer

    def space(self, bits: tuple[int, ...]) -> WidthSpace:
        """Return all assignments of the widths ``bits``; layers that read samples have activations of fixed width."""
        weighted = [reader for reader in self.onnx.readers if reader.weights]
        require(weighted, "model must have layers with weights, not none")
        ladder = tuple(sorted(bits))
        samples = Choices(weights=ladder, activations=(SAMPLE_BITS,))
        free = Choices(weights=ladder, activations=ladder)
        space = WidthSpace(layers=tuple(samples if reader.is_first else free for reader in weighted))
        widest = space.uniform()[0]
        no_choice = replace(samples, weights=ladder[-1:])
        return WidthSpace(
            layers=tuple(
                no_choice if choices is samples and self._gives_same_layers(widest, number, ladder[0]) else choices
                for number, choices in enumerate(space.layers)
            )
        )

    def _gives_same_layers(self, widths: Assignment, number: int, bits: int) -> bool:
        other = (*widths[:number], replace(widths[number], weights=bits), *widths[number + 1 :])
        first, second = (
            [(str(stage.layer), str(stage.precision)) for stage in self.described(assignment).network.stages]
            for assignment in (widths, other)
        )
        return first == second

    def described(self, widths: Assignment, name: str | None = None) -> NetworkModel:
        options = self.options if name is None else replace(self.options, name=name)
        return self.onnx.network(options, self.calibration.with_widths(WidthRequest(listed=widths)))

    def case(self, widths: Assignment) -> NetworkCase:
        described = self.described(widths)
        return NetworkCase(
            network=described.network,
            image=described.inputs(self.images.samples[0]),
            config=self.config,
            machine=Machine(),
            checked=False,
        )

    def count_correct(self, widths: Assignment) -> int:
        described = self.described(widths)
        labels = self.images.checked_labels(described.classes)
        scores = run_scores(described.network, described.batch(self.images.samples))
        return int((scores.argmax(axis=1) == labels).sum())

    def study(self, widths: Assignment) -> AssignmentStudy:
        right = self.count_correct(widths)
        try:
            case = self.case(widths)
            build_network(case)
        except LayerError as error:
            return AssignmentStudy(right=right, problem=str(error))
        return AssignmentStudy(right=right, layers=tuple(self._keys(case)))

    def measure(self, widths: Assignment) -> NetworkRun:
        case = self.case(widths)
        result = build_network(case).run()
        figures = [(layer["cycles"], layer["weight_bytes"]) for layer in result.record["layers"]]
        keys = self._keys(case)
        if len(keys) > len(figures):
            # transfers of a cluster before the first and after the last layer
            figures.append((result.record["cycles"] - sum(cycles for cycles, _ in figures), 0))
        layers = tuple((key, *pair) for key, pair in zip(keys, figures, strict=True))
        return NetworkRun(cycles=result.record["cycles"], layers=layers, reports=tuple(result.reports))

    def _keys(self, case: NetworkCase) -> list[str]:
        keys = [_key(stage, variant) for stage, variant in zip(case.legalised.stages, case.variants, strict=True)]
        return [*keys, f"around {keys[0]} {keys[-1]}"] if isinstance(self.config, ClusterConfig) else keys

    @cached_property
    def identity(self) -> str:
        """Return a hash of everything that accuracies depend on besides the bit widths."""
        options = (self.options.samples, [*self.options.normalisation])
        images = [*self.calibration.samples.values(), self.images.samples, self.images.labels]
        return digest(self.onnx.proto.SerializeToString(), options, sources_digest(_SHOWS_ONLY), images)

    @cached_property
    def design(self) -> str:
        """Return a hash of configuration and sources; together with a layer's key it determines the layer's cycles."""
        return digest(self.config, sources_digest(_SHOWS_ONLY))


def _key(stage: Stage, variant: str) -> str:
    """Return everything that the cycles of a layer depend on besides the configuration."""
    own = stage.tensors
    rule = getattr(getattr(own, "requantisation", None), "rule", None)
    folded = getattr(own, "folded", False) if not is_folding(stage) else "folding"
    biased = getattr(own, "bias", None) is not None
    parts = (stage.kind.name, stage.layer, stage.precision, variant, rule and rule.value, folded, biased, stage.pad)
    return " ".join(map(str, parts))
