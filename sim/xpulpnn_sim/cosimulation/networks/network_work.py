"""Networks as workloads: another input for the same program, the results of every layer, the record of a layer."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.networks.network_case import NetworkCase
from xpulpnn_sim.cosimulation.workloads.workload import DIGITS, Compared, Progress, Result, Workload
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sim.reference.programs.elf import Executable, Segment
from xpulpnn_sw.kernels.layout import Symbol, fold, is_stored
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.networks.kernels import packed_input
from xpulpnn_sw.networks.network import NETWORK_INPUT, Stage

LayerResults = Sequence[NDArray[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkResult(Result):
    """The result of a case, with those of the last layer."""

    scores: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class BuiltNetwork(ABC):
    """The program of a network for a target, made once for all inputs."""

    case: NetworkCase  # what it was made of
    executable: Executable  # the program for the input of the case

    @property
    @abstractmethod
    def symbols(self) -> Mapping[str, Symbol]:
        """Places of the operands."""

    @property
    @abstractmethod
    def bytes_needed(self) -> int:
        """Bytes of code and data."""

    @abstractmethod
    def results(self, outcome: RunResult) -> LayerResults:
        """Return the results of every layer after a run."""

    @abstractmethod
    def figures(self, case: NetworkCase, outcome: RunResult) -> dict[str, Any]:
        """Return the target's own part of the record, ``cycles`` and ``layers`` in it."""

    def executable_for(self, case: NetworkCase) -> Executable:
        """The program with the input of ``case``, of the same network on the same target."""
        if case.image is self.case.image:
            return self.executable
        own, given = self.case, replace(self.case, image=case.image).given
        pieces = packed_input(own.computed, given, own.variants, cores=own.cores)
        segments = self.executable.segments
        for name, words in pieces.items():
            segments = tuple(_patched(one, self.symbols[name], words.tobytes()) for one in segments)
        return replace(self.executable, segments=segments)

    def run(self, case: NetworkCase, progress: Progress | None = None) -> NetworkResult:
        """Run it for the input of ``case`` and compare the results of every layer with the golden model's."""
        work = _NetworkWork(self, case)
        result = work.run(progress)
        last = work.results[-1][..., : case.network.stages[-1].layer.out_channels]
        return NetworkResult(record=result.record, reports=result.reports, scores=last.reshape(-1))


def _patched(segment: Segment, symbol: Symbol, content: bytes) -> Segment:
    """``segment`` with other bytes at the beginning of a symbol, which has room for them, if it holds that."""
    assert len(content) <= symbol.length
    at, data = symbol.address - segment.address, segment.data
    if not 0 <= at < len(data):
        return segment
    return replace(segment, data=data[:at] + content + data[at + len(content) :])


class _NetworkWork(Workload):
    """A network for one input."""

    results: LayerResults

    def __init__(self, built: BuiltNetwork, case: NetworkCase) -> None:
        super().__init__(case.config, case.machine, built.executable_for(case), checked=case.checked)
        self.built, self.case = built, case

    def compared(self, outcome: RunResult) -> Iterator[Compared]:
        """Compare the results of every layer with the golden model's."""
        self.results = self.built.results(outcome)
        return compared(self.case, self.results)

    def figures(self, outcome: RunResult, compared: Sequence[Compared]) -> dict[str, Any]:
        """Return the record."""
        network, figures = self.case.network, self.built.figures(self.case, outcome)
        own = {stage.name: stage for stage in network.stages}
        for layer, found in zip(figures["layers"], compared, strict=True):
            layer["mismatches"] = found.wrong
            if layer["name"] in own:
                stage = own[layer["name"]]
                layer |= _size(stage, layer["cycles"]) | {"computed": layer["layer"], "layer": str(stage.layer)}
        return {
            "kernel": network.name,
            "cores": self.case.cores,
            "macs": network.macs,
            "cycles_per_mac": round(figures["cycles"] / max(network.macs, 1), DIGITS),
            **figures,
        }


def compared(case: NetworkCase, results: LayerResults) -> Iterator[Compared]:
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
        expected, counts = values.reshape(got.shape), None
        if is_folding(stage):
            expected, counts = fold(expected), is_stored(expected)
        yield Compared.of(stage.name, expected, got, counts)


def is_folding(stage: Stage) -> bool:
    """Return whether a layer leaves its results folded for the pooling behind it."""
    return isinstance(stage.tensors, LayerTensors) and stage.tensors.folded


def layer_record(stage: Stage, variant: str, cycles: int, accounts: Sequence[NDArray[Any]]) -> dict[str, Any]:
    """The record of a layer on any target, from its cycles and the accounts of its instructions on every core."""
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


def require_memory(case: NetworkCase, needed: int, what: str) -> None:
    """Raise :class:`InputError` if ``what`` takes more bytes than the memory for networks has."""
    most = case.machine.l2_bytes
    if needed > most:
        raise InputError(f"{what} of {case.network.name} must be at most the memory's {most} bytes, not {needed}")
