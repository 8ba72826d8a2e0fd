"""Networks as workloads: programs for any input, results of every layer, records of layers."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.machine import ADDRESS_SPACE
from xpulpnn_sim.cosimulation.model.machine import Machine, Waves
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads.workload import DIGITS, Comparison, Progress, Result, Workload
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sw.kernels.layout import Ints, Symbol, fold, is_stored
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.tiling.transfer import DmaTransfer
from xpulpnn_sw.layers.layer import ConvLayer, LinearLayer, MapLayer
from xpulpnn_sw.layers.text import Windows
from xpulpnn_sw.networks.kernels import packed_input
from xpulpnn_sw.networks.layouts import folded
from xpulpnn_sw.networks.legalise import legalise, padded_input
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage

_PIXELS = 4  # fewest pixels of a row, as many as kernels compute at a time
_CHANNELS = 16  # fewest channels, whose number is a multiple of this, so that they fill words of any width


@dataclass(frozen=True, eq=False, kw_only=True)
class WorkPiece:
    """A part of a layer that is a layer itself and represents the whole one in measurements."""

    stage: Stage
    maps: tuple[Ints, ...]  # its inputs, from the middle of the layer's
    share: float  # share of its results in all results


def piece_of(stage: Stage, maps: Sequence[Ints], share: float) -> WorkPiece:
    """Return a smaller layer that computes about the fraction ``share`` of the results, from the middle of its input
    ``maps``; with a share of 1 it is the whole layer."""
    whole = int(np.prod(stage.output_shape))
    shaped = tuple(values.reshape(operand.shape) for values, operand in zip(maps, stage.inputs, strict=True))
    usual = {name: False for name in ("folded", "flat") if getattr(stage.tensors, name, False)}
    cut, inputs = (replace(stage, tensors=replace(stage.tensors, **usual)) if usual else stage), shaped
    if share < 1 and isinstance(cut.layer, Windows):
        cut, inputs = _window_part(cut, inputs, share)
    elif share < 1 and isinstance(cut.layer, MapLayer):
        rows = max(1, int(cut.layer.height * share))
        inputs = tuple(_middle(values, rows, values.shape[1]) for values in inputs)
        cut = _with_maps(replace(cut, layer=replace(cut.layer, height=rows)), inputs)
    left = share * whole / int(np.prod(cut.output_shape))
    if left < 1 and isinstance(cut.layer, ConvLayer | LinearLayer):
        cut = _with_outputs(cut, max(_CHANNELS, int(cut.layer.out_channels * left) // _CHANNELS * _CHANNELS))
    return WorkPiece(stage=cut, maps=inputs, share=int(np.prod(cut.output_shape)) / whole)


def _window_part(stage: Stage, maps: tuple[Ints, ...], share: float) -> tuple[Stage, tuple[Ints, ...]]:
    layer: Any = stage.layer
    rows, columns = max(1, int(layer.out_height * share)), layer.out_width
    least = min(_PIXELS, columns)
    if rows == 1:
        columns = max(least, min(columns, int(columns * layer.out_height * share)))
    height = min((rows - 1) * layer.stride[0] + layer.kernel_height, layer.height)
    top, bottom, left, right = layer.padding
    if height >= layer.kernel_height:
        top = bottom = 0
    width = layer.width
    if columns < layer.out_width:
        width = min((columns - 1) * layer.stride[1] + layer.kernel_width, layer.width)
        left, right = (0, 0) if width >= layer.kernel_width else (left, right)
    inputs = tuple(_middle(values, height, width) for values in maps)
    part = replace(layer, height=height, width=width, padding=(top, bottom, left, right))
    return _with_maps(replace(stage, layer=part), inputs), inputs


def _middle(values: Ints, rows: int, columns: int) -> Ints:
    top, left = (values.shape[0] - rows) // 2, (values.shape[1] - columns) // 2
    return values[top : top + rows, left : left + columns]


def _with_maps(stage: Stage, maps: Sequence[Ints]) -> Stage:
    return replace(stage, tensors=replace(stage.tensors, **dict(zip(stage.map_names, maps, strict=True))))


def _with_outputs(stage: Stage, count: int) -> Stage:
    layer: Any = stage.layer
    channels = layer.out_channels
    if count >= channels:
        return stage
    name = "outputs" if isinstance(layer, LinearLayer) else "out_channels"
    tensors = replace(_first_of(stage.tensors, channels, count), activations=stage.tensors.activations)
    return replace(stage, layer=replace(layer, **{name: count}), tensors=tensors)


def _first_of(value: Any, channels: int, count: int) -> Any:
    if isinstance(value, np.ndarray):
        values: Ints = value
        return values[:count] if values.ndim and len(values) == channels else values
    if not is_dataclass(value) or isinstance(value, type):
        return value
    names = [field.name for field in fields(value)]
    return replace(value, **{name: _first_of(getattr(value, name), channels, count) for name in names})


_CACHED = 8  # most legalised networks that are cached


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCase:
    network: Network
    image: Ints  # the input, `[row][column][channel]`
    config: CoreConfig | ClusterConfig  # all cores of a cluster share each layer
    machine: Machine
    checked: bool = True  # whether every retirement is checked, not only the results
    # results of the layers by run_reference; None: they are computed when needed
    expected: Sequence[NDArray[Any]] | None = None

    @property
    def legalised(self) -> Network:
        """The network as it is computed, with padded channels and additional layers that reorder maps."""
        unfolded, config = self._unfolded, self.config
        memory = config.tcdm_bytes if isinstance(config, ClusterConfig) else ADDRESS_SPACE
        return _folded(unfolded, tuple(self._variants(unfolded)), memory)

    @property
    def legalised_input(self) -> Ints:
        return padded_input(self.image, self._unfolded)

    @property
    def variants(self) -> list[str]:
        return self._variants(self.legalised)

    def _variants(self, network: Network) -> list[str]:
        core = self.config.core
        return [stage.fastest_variant(core.extensions, core.widths) for stage in network.stages]

    @property
    def _unfolded(self) -> Network:
        return _legalised(self.network, self.config.core.extensions)


_legalised, _folded = lru_cache(_CACHED)(legalise), lru_cache(_CACHED)(folded)


_RESULTS = ("output", "ahead")
_INPUTS = ("input", "first", "second")  # names of copies of the network's input in the layers that read it


def memory_plan(network: Network, symbols: Mapping[str, Symbol]) -> list[dict[str, Any]]:
    """Return the memory areas by address, each with the numbers of the first and last layer that need its content:
    weights are needed by their layer, maps until the last layer that reads them, everything else by all layers."""
    first: dict[str, int] = {stage.name: number for number, stage in enumerate(network.stages)}
    last = {**first, NETWORK_INPUT: 0}
    for number in range(len(network.stages)):
        last |= dict.fromkeys(network.sources(number), number)
    pieces: list[dict[str, Any]] = []
    for name, symbol in sorted(symbols.items(), key=lambda item: item[1].address):
        owner, _, what = name.rpartition(".")
        if name == NETWORK_INPUT:
            span = 0, last[NETWORK_INPUT]
        elif owner in first and what in _INPUTS:
            span = 0, first[owner]
        elif owner in first:
            span = first[owner], last[owner] if what in _RESULTS else first[owner]
        else:
            span = 0, len(network.stages) - 1
        if symbol.length:
            pieces.append(_placed(name, symbol, *span))
    return pieces


def _placed(name: str, symbol: Symbol, first: int, last: int) -> dict[str, Any]:
    return {"name": name, "address": symbol.address, "bytes": symbol.length, "first": first, "last": last}


def outside_plan(symbols: Mapping[str, Symbol], moved: Sequence[Sequence[DmaTransfer]]) -> list[dict[str, Any]]:
    """Return the areas of external memory that the DMA engine accesses, each with the first and last step that accesses
    it; ``moved`` holds the transfers of each step."""
    pieces: list[dict[str, Any]] = []
    for name, symbol in sorted(symbols.items(), key=lambda item: item[1].address):
        inside = range(symbol.address, symbol.address + symbol.length)
        touched = [at for at, transfers in enumerate(moved) if any(each.outside in inside for each in transfers)]
        if touched:
            pieces.append(_placed(name, symbol, touched[0], touched[-1]))
    return pieces


LayerResults = Sequence[NDArray[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkResult(Result):
    scores: NDArray[np.int64]


def require_memory(case: NetworkCase, needed: int, what: str) -> None:
    most = case.machine.l2_bytes
    if needed > most:
        raise InputError(
            f"{what} of {case.network.name} must be at most the memory's {most} bytes (--l2-bytes), not {needed}"
        )


class BuiltNetwork(Workload):
    """The program of a network for a target, with the input of a case. It is built once and takes other inputs."""

    results: LayerResults  # of every layer after a run

    def __init__(self, case: NetworkCase, executable: Executable, symbols: Mapping[str, Symbol], size: int) -> None:
        # `symbols` and `size` (bytes of code and data) are those of external memory on a cluster
        require_memory(case, size, "code and data")
        super().__init__(case.config, case.machine, executable, macs=case.network.macs, checked=case.checked)
        self.case, self.symbols = case, symbols

    @abstractmethod
    def layer_results(self, outcome: RunResult) -> LayerResults:
        """Return the results of every layer after a run."""

    @abstractmethod
    def target_figures(self, outcome: RunResult) -> dict[str, Any]:
        """Return the record of the target, with ``cycles`` and ``layers``."""

    def with_input(self, case: NetworkCase) -> Self:
        other = copy(self)
        other.case, other.checked = case, case.checked
        if case.image is not self.case.image:
            assert isinstance(self.executable, Executable)
            own, given = self.case, replace(self.case, image=case.image).legalised_input
            pieces = packed_input(own.legalised, given, own.variants, cores=own.config.cores)
            segments = self.executable.segments
            for name, words in pieces.items():
                address = self.symbols[name].address
                segments = tuple(segment.patched(address, words.tobytes()) for segment in segments)
            other.executable = replace(self.executable, segments=segments)
        return other

    def run(self, progress: Progress | None = None, waves: Waves | None = None) -> NetworkResult:
        result = super().run(progress, waves)
        last = self.results[-1][..., : self.case.network.stages[-1].layer.out_channels]
        return NetworkResult(record=result.record, reports=result.reports, scores=last.reshape(-1))

    def compared(self, outcome: RunResult) -> Iterator[Comparison]:
        self.results = self.layer_results(outcome)
        return compared(self.case, self.results)

    def figures(self, outcome: RunResult, compared: Sequence[Comparison]) -> dict[str, Any]:
        network, figures = self.case.network, self.target_figures(outcome)
        own = {stage.name: stage for stage in network.stages}
        for layer, comparison in zip(figures["layers"], compared, strict=True):
            layer["mismatches"] = comparison.wrong
            if layer["name"] in own:
                stage = own[layer["name"]]
                layer |= _size(stage, layer["cycles"]) | {"computed": layer["layer"], "layer": str(stage.layer)}
        return {
            "kernel": network.name,
            "cores": self.config.cores,
            "macs": network.macs,
            "cycles_per_mac": round(figures["cycles"] / max(network.macs, 1), DIGITS),
            **figures,
        }


def compared(case: NetworkCase, results: LayerResults) -> Iterator[Comparison]:
    expectations = case.expected
    if expectations is None:
        expectations = [batch[0] for batch in run_reference(case.network, case.image[np.newaxis])]
    known = {NETWORK_INPUT: case.image}
    known |= {stage.name: values for stage, values in zip(case.network.stages, expectations, strict=True)}
    for number, (stage, result) in enumerate(zip(case.legalised.stages, results, strict=True)):
        # additional layers, which reorder maps, leave all values unchanged
        values = known.setdefault(stage.name, known[case.legalised.sources(number)[0]]).astype(np.int64)
        got = result[..., : values.shape[-1]]
        expected, counts = values.reshape(got.shape), None
        if is_folding(stage):
            expected, counts = fold(expected), is_stored(expected)
        yield Comparison.of(stage.name, expected, got, counts)


def is_folding(stage: Stage) -> bool:
    """Return whether a layer stores maxima of neighbouring columns, for the pooling layer that follows."""
    return isinstance(stage.tensors, LayerTensors) and stage.tensors.folded


def layer_record(stage: Stage, variant: str, cycles: int, accounts: Sequence[NDArray[Any]]) -> dict[str, Any]:
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
