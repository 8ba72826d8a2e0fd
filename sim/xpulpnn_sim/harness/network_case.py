"""A network to run and what comes of it: the record of a layer, and its results beside the golden model's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn_sim.golden.network import run_reference
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.session import RunResult, stalls_of
from xpulpnn_sw.kernels.folding import fold, is_stored
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.networks.folded import folded
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage
from xpulpnn_sw.networks.suited import suited
from xpulpnn_sw.networks.whole_words import filled_input

DIGITS = 4
"""Of fractions in records."""

_KEPT = 8
"""Networks that are kept as they are computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCase:
    """A network to run for an input."""

    network: Network
    image: Ints  # the input, `[row][column][channel]`
    config: CoreConfig | ClusterConfig  # the core, or the cluster all of whose cores share each layer
    machine: Machine
    checked: bool = True  # whether every retirement is checked, not only the results
    # results of the layers of the network for the image by run_reference; None: they are computed when they are needed
    expected: Sequence[NDArray[Any]] | None = None

    @property
    def cores(self) -> int:
        """Cores that share the work."""
        return self.config.cores if isinstance(self.config, ClusterConfig) else 1

    @property
    def core(self) -> CoreConfig:
        """One of them."""
        return self.config.core if isinstance(self.config, ClusterConfig) else self.config

    def sharing(self, cores: int) -> "NetworkCase":
        """The same on a cluster of so many cores, usual in everything else."""
        return replace(self, config=ClusterConfig(core=self.core, cores=cores))

    @property
    def computed(self) -> Network:
        """The network as it is computed: layers may have more channels, or others between them for the order in memory.

        Their names stay. See :func:`~xpulpnn_sw.networks.suited.suited`, :func:`~xpulpnn_sw.networks.folded.folded`.
        """
        return _folded(self.network, tuple(self.variants))

    @property
    def given(self) -> Ints:
        """The input for that."""
        return filled_input(self.image, _suited(self.network))

    @property
    def variants(self) -> list[str]:
        """Of each layer as it is computed the fastest that the core can run."""
        return [stage.fastest(self.core.extensions, self.core.widths) for stage in _suited(self.network).stages]


@lru_cache(_KEPT)
def _suited(network: Network) -> Network:
    return suited(network)


@lru_cache(_KEPT)
def _folded(network: Network, variants: tuple[str, ...]) -> Network:
    return folded(_suited(network), variants)


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """What came of a case: its record, its first mismatches, and the results of the last layer."""

    record: dict[str, Any]
    reports: list[str]
    scores: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Results of a layer beside the golden model's: how many are wrong, and a line about the first of these."""

    wrong: int
    report: str | None


def compared(case: NetworkCase, results: Sequence[NDArray[np.int64]]) -> Iterator[Compared]:
    """Compare the results of every layer with the reference's of the network for the case's input.

    Of layers that are computed with more channels only those count that there are in the network.
    """
    expectations = case.expected
    if expectations is None:
        expectations = [batch[0] for batch in run_reference(case.network, case.image[np.newaxis])]
    known = {NETWORK_INPUT: case.image}
    known |= {stage.name: values for stage, values in zip(case.network.stages, expectations, strict=True)}
    for number, (stage, found) in enumerate(zip(case.computed.stages, results, strict=True)):
        # what only changes the order in memory leaves every number as it is
        values = known.setdefault(stage.name, known[case.computed.sources(number)[0]]).astype(np.int64)
        got = found[..., : values.shape[-1]]
        expected, counts = values.reshape(got.shape), np.ones(got.shape, np.int64)
        if is_folding(stage):
            expected, counts = fold(expected), is_stored(expected)
        wrong = np.argwhere((got != expected) & (counts > 0))
        report = None
        if len(wrong):
            at = tuple(wrong[0].tolist())
            place = "".join(f"[{index}]" for index in at)
            report = f"{stage.name}{place}: expected {expected[at]}, got {got[at]} ({len(wrong)} wrong results)"
        yield Compared(wrong=len(wrong), report=report)


def is_folding(stage: Stage) -> bool:
    """Whether a layer leaves its results folded for the pooling behind it."""
    return isinstance(stage.tensors, LayerTensors) and stage.tensors.folded


def layer_record(stage: Stage, variant: str, cycles: int, accounts: Sequence[NDArray[Any]]) -> dict[str, Any]:
    """What is known of a layer on any target, from its cycles and the accounts of its instructions on every core."""
    return {
        "name": stage.name,
        "kernel": stage.kind.name,
        "layer": str(stage.layer),
        "precision": str(stage.precision),
        "variant": variant,
        "folded": is_folding(stage),
        "cycles": cycles,
        **_size(stage, cycles),
        "stalls": stalls_of(np.concatenate(accounts), devices=len(accounts) > 1),
    }


def _size(stage: Stage, cycles: int) -> dict[str, Any]:
    macs = stage.layer.macs if stage.multiplies else 0
    return {"macs": macs, "macs_per_cycle": round(macs / max(cycles, 1), DIGITS)}


def finished(
    case: NetworkCase, outcome: RunResult, figures: dict[str, Any], results: Sequence[NDArray[np.int64]]
) -> NetworkResult:
    """The result of a case from its run, its ``figures``, ``cycles`` and ``layers`` among them, and its layers'."""
    reports = [outcome.difference] if outcome.difference else []
    if not outcome.exit.ok:
        reports.append(outcome.exit.text)
    own = {stage.name: stage for stage in case.network.stages}
    for layer, found in zip(figures["layers"], compared(case, results), strict=True):
        layer["mismatches"] = found.wrong
        reports += [found.report] if found.report else []
        if layer["name"] in own:
            stage = own[layer["name"]]
            layer |= _size(stage, layer["cycles"]) | {"computed": layer["layer"], "layer": str(stage.layer)}
    mismatches = outcome.mismatches + sum(layer["mismatches"] for layer in figures["layers"])
    record = {
        "kernel": case.network.name,
        "cores": case.cores,
        "macs": case.network.macs,
        "cycles_per_mac": round(figures["cycles"] / max(case.network.macs, 1), DIGITS),
        **figures,
        "mismatches": mismatches if outcome.exit.ok else max(mismatches, 1),
        "wall_s": round(outcome.wall_s, DIGITS),
        "sim_cycles_per_s": round(outcome.cycles / outcome.wall_s),
    }
    scores = results[-1][..., : case.network.stages[-1].layer.out_channels]
    return NetworkResult(record, reports, scores.reshape(-1))
