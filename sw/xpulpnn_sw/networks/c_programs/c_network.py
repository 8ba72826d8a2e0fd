"""A network ready to be written as C: its layers with their functions, and its memory."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Self

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, XLEN
from xpulpnn_sw.kernels.kernel import ARGUMENTS, OUTPUT, KernelRun
from xpulpnn_sw.kernels.layout import Ints, Words
from xpulpnn_sw.layers.layer import DepthwiseLayer, ImageConvLayer
from xpulpnn_sw.library.functions import library_run
from xpulpnn_sw.networks.deployment import Piece, PlannedMemory, arrange, results_name, weights_name
from xpulpnn_sw.networks.kernels import edges, input_pieces, input_type, kernels, map_bytes, pixel_distance
from xpulpnn_sw.networks.legalise import padded_input
from xpulpnn_sw.networks.network import Network, Stage

_USED = ("", "weights", "buffer")  # endings of names of pieces, the least used first; any other for maps
_ANYTIME = -1  # weights are not loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    layer: int | None = None  # number of the layer that is computed
    load: int | None = None  # number of the layer whose weights are loaded meanwhile


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryPlan(PlannedMemory):
    steps: tuple[PlanStep, ...]
    outside: PlannedMemory = field(default_factory=PlannedMemory)  # maps and buffers in main memory for lack of room
    weights_outside: tuple[int, ...] = ()  # numbers of the layers whose weights stay in main memory for lack of room

    @property
    def record(self) -> dict[str, Any]:
        steps = [
            {"layer": step.layer, "load": step.load, "bytes": self.demand(number)}
            for number, step in enumerate(self.steps)
        ]
        return {
            "bytes": self.extent,
            "outside_bytes": self.outside.extent,
            "steps": steps,
            "pieces": _records(self),
            "outside": _records(self.outside),
            "weights_outside": list(self.weights_outside),
        }


def _records(memory: PlannedMemory) -> list[dict[str, Any]]:
    return [
        {"name": own.name, "offset": memory.offsets[own.name], "bytes": own.size, "first": own.first, "last": own.last}
        for own in memory.pieces
    ]


def planned_memory(network: Network, runs: Sequence[KernelRun], memory: int | None = None) -> MemoryPlan:
    """Place data in ``memory`` bytes of TCDM or, if they do not fit, in main memory; in one memory if that is None."""
    outside: set[str] = set()
    weighted = [number for number, run in enumerate(runs) if run.weight_bytes]
    # weights are loaded during the previous layer with weights, those of the first before layer 0
    soonest = dict.fromkeys(range(len(runs)), _ANYTIME) | dict(zip(weighted, [0, *weighted], strict=False))
    while True:
        left = [number for number, stage in enumerate(network.stages) if weights_name(stage.name) in outside]
        loads = [_ANYTIME if memory is None or number in left else soonest[number] for number in range(len(runs))]
        while True:
            steps = _steps(loads, is_brought=memory is not None)
            pieces = tuple(_pieces(network, runs, steps))
            inside = arrange(piece for piece in pieces if piece.name not in outside)
            plan = MemoryPlan(steps=steps, pieces=inside.pieces, offsets=inside.offsets, weights_outside=tuple(left))
            late = None if memory is None or plan.extent <= memory else _delayable(network, plan, loads)
            if late is None:
                break
            loads[late] += 1
        if memory is None or plan.extent <= memory:
            return replace(plan, outside=arrange(piece for piece in pieces if piece.name in outside))
        outside.add(_least_used(plan, memory))


def _steps(loads: Sequence[int], *, is_brought: bool) -> tuple[PlanStep, ...]:
    during = {when: number for number, when in enumerate(loads) if when not in (_ANYTIME, number)}
    steps: list[PlanStep] = []
    for number, when in enumerate(loads):
        if when == number:
            steps.append(PlanStep(load=number))
        elif is_brought and not steps:
            steps.append(PlanStep())
        steps.append(PlanStep(layer=number, load=during.get(number)))
    return tuple(steps)


def _pieces(network: Network, runs: Sequence[KernelRun], steps: Sequence[PlanStep]) -> Iterator[Piece]:
    computed = [number for number, step in enumerate(steps) if step.layer is not None]
    loaded = {step.load: number for number, step in enumerate(steps) if step.load is not None}
    for name, (words, readers) in input_pieces(network, runs).items():
        last = max(computed[edge.reader] for edge in readers)
        yield Piece(name=name, size=words.nbytes, first=0, last=last)
    sizes = map_bytes(network, runs)
    last_use = {stage.name: computed[-1] for stage in network.stages[-1:]}
    for edge in edges(network, runs):
        last_use[edge.source] = computed[edge.reader]
    for number, (stage, run) in enumerate(zip(network.stages, runs, strict=True)):
        step = computed[number]
        yield Piece(name=results_name(stage.name), size=sizes[stage.name], first=step, last=last_use[stage.name])
        buffer = run.buffer
        if buffer is not None:
            yield Piece(name=f"{stage.name}.buffer", size=run.length(buffer), first=step, last=step)
        if number in loaded:
            yield Piece(name=weights_name(stage.name), size=run.weight_bytes, first=loaded[number], last=step)


def _delayable(network: Network, plan: MemoryPlan, loads: Sequence[int]) -> int | None:
    pieces = {piece.name: piece for piece in plan.pieces}
    early = {
        number: pieces[weights_name(network.stages[number].name)]
        for number, when in enumerate(loads)
        if when not in (_ANYTIME, number)
    }
    for step in sorted(range(len(plan.steps)), key=plan.demand, reverse=True):
        for number, piece in early.items():
            if piece.first <= step < piece.last:
                return number
    return None


def _least_used(plan: MemoryPlan, memory: int) -> str:
    """Choose the data to move to main memory, so that the largest step of a plan needs less TCDM; return their name."""
    most = max(range(len(plan.steps)), key=plan.demand)
    missing = max(plan.demand(most), plan.extent if plan.demand(most) <= memory else 0) - memory
    kinds: list[list[Piece]] = [[], [], []]
    for piece in plan.pieces:
        if piece.first <= most <= piece.last:
            ending = piece.name.rpartition(".")[2]
            kinds[_USED.index(ending) if ending in _USED else 0].append(piece)
    for kind in kinds[:-1]:
        enough = [piece for piece in kind if piece.size >= missing]
        if enough:
            return min(enough, key=lambda piece: piece.size).name
    others = [*kinds[0], *kinds[1]] or kinds[2]
    return max(others, key=lambda piece: piece.size).name


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLayout:
    """Layout in memory of a network's input as a layer reads it; distances between elements are in bits."""

    rows: int  # 1 for a row
    columns: int  # 1 for a row of channels
    channels: int
    bits: int
    signed: bool
    size: int  # bytes, with those that are read ahead
    channel_bits: int
    pixel_bits: int = 0
    row_bits: int = 0
    top: int = 0  # rows of padding above the first row
    left: int = 0  # columns of padding before the first column
    around: int = 0  # value of the padding

    @classmethod
    def of(cls, stage: Stage, run: KernelRun, symbol: str, channels: int) -> Self:
        """Return the layout in which a layer reads its input ``symbol`` with ``channels`` channels before padding."""
        form, layer = input_type(stage, run, symbol), stage.layer
        shape, bits = form.shape, form.bits
        sizes = {"rows": shape[0] if len(shape) > 1 else 1, "columns": prod(shape[1:-1]), "channels": channels}
        known = cls(**sizes, bits=bits, signed=form.signed, size=run.length(symbol), channel_bits=bits)
        if isinstance(layer, ImageConvLayer):
            return replace(
                known,
                top=layer.padding[0],
                left=layer.padding[2],
                row_bits=layer.stored_width * layer.channels * bits,
                pixel_bits=layer.channels * bits,
                around=stage.precision.padding_value(layer.outside),
            )
        if isinstance(layer, DepthwiseLayer):
            row_bits = run.arguments["row_bytes"] * BYTE_BITS
            return replace(known, row_bits=row_bits, pixel_bits=bits, channel_bits=layer.height * row_bits)
        distance = pixel_distance(stage, run, symbol)
        return replace(known, row_bits=known.columns * distance * BYTE_BITS, pixel_bits=distance * BYTE_BITS)

    @property
    def samples(self) -> str:
        rows = f"{self.rows} rows of {self.columns} pixels of " if self.rows * self.columns > 1 else ""
        return f"{rows}{self.channels} byte{'s' if self.channels > 1 else ''}"

    @property
    def description(self) -> str:
        elements = f"of {self.bits} bit{'s' if self.bits > 1 else ''}"
        if self.rows == self.columns == 1:
            return f"{self.channels} elements {elements}, the first in the lowest bits"
        if self.channel_bits != self.bits:
            return f"elements {elements}, a row every {self.row_bits} bits, a channel every {self.channel_bits}"
        text = f"{self.channels} element{'s' if self.channels > 1 else ''} {elements} every {self.pixel_bits} bits"
        return f"{text}, a row every {self.row_bits}{', within margins' if self.top or self.left else ''}"

    def bit(self, row: Any, column: Any, channel: Any) -> Any:
        """Return the offset in bits of an element; row, column and channel may also be arrays."""
        return (self.top + row) * self.row_bits + (self.left + column) * self.pixel_bits + channel * self.channel_bits


def identifier(name: str) -> str:
    """Replace all characters other than letters and digits by underscores; the result may begin with a digit."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def c_identifiers(names: Iterable[str]) -> dict[str, str]:
    identifiers: dict[str, str] = {}
    for name in names:
        chosen, number = identifier(name), 2
        while chosen in identifiers.values():
            chosen, number = f"{identifier(name)}_{number}", number + 1
        identifiers[name] = chosen
    return identifiers


def comment_text(text: str) -> str:
    shown = "".join(letter if letter.isprintable() and letter != "\\" else "?" for letter in text)
    return shown.replace("*/", "* /").replace("/*", "/ *")


def c_string(text: str) -> str:
    return json.dumps("".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text))


@dataclass(frozen=True, eq=False, kw_only=True)
class CLayer:
    stage: Stage
    run: KernelRun
    name: str  # its C identifier
    weights: str  # C identifier of its weights
    places: dict[str, str]  # pieces of memory of its kernel's symbols other than weights

    @property
    def macs(self) -> int:
        return self.stage.layer.macs if self.stage.multiplies else 0

    @property
    def description(self) -> str:
        stage, macs = self.stage, f", {self.macs} MAC" if self.macs else ""
        return f"{stage.name}: {stage.kind.name} {stage.layer}, {stage.precision}{macs}."

    @property
    def contents(self) -> dict[str, Words]:
        return {name: self.run.image.view(name).view("<u4") for name in self.run.own_symbols}

    @property
    def results(self) -> str:
        return results_name(self.stage.name)

    @property
    def result_bits(self) -> int:
        output = self.run.output.in_rows
        return output.shape[-1] * output.bits

    @property
    def counts(self) -> tuple[int, ...]:
        """Multiplications, result pixels, words of memory for each pixel, and words of these that hold results."""
        output = self.run.output.in_rows
        return self.macs, prod(output.shape[:-1]), output.pixel_bytes // WORD_BYTES, -(-self.result_bits // XLEN)

    @property
    def mask(self) -> int:
        return (1 << ((self.result_bits - 1) % XLEN + 1)) - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class CNetwork:
    network: Network  # legalised
    layers: tuple[CLayer, ...]
    variants: tuple[str, ...]  # requested variants; layers of one pixel may use another
    plan: MemoryPlan
    cores: int | None  # of a cluster; None: a single core
    input: dict[str, Words]  # an example of the input, by piece
    input_layouts: tuple[InputLayout, ...]  # of each of these pieces
    results: tuple[int, ...]  # shape of the results without added channels
    classes: tuple[str, ...] = ()  # labels of the results; empty: none

    @property
    def name(self) -> str:
        return c_identifier(self.network.name)

    @cached_property
    def piece_names(self) -> dict[str, str]:
        """C identifiers for the addresses of all data in memory, by the name of the data in the plan."""
        layers = {layer.stage.name: layer.name for layer in self.layers}
        identifiers: dict[str, str] = {}
        for piece in (*self.plan.pieces, *self.plan.outside.pieces):
            owner, dot, what = piece.name.rpartition(".")
            identifiers[piece.name] = f"at_{layers[owner]}_{what}" if dot else f"at_{what}"
        return identifiers

    def place(self, piece: str) -> str:
        name = self.piece_names[piece]
        return f"L2({name})" if piece in self.plan.outside.offsets else f"AT({name})"

    @property
    def outside(self) -> list[str]:
        left = [self.layers[number] for number in self.plan.weights_outside]
        weights = [(weights_name(layer.stage.name), layer.run.weight_bytes) for layer in left]
        maps = [(piece.name, piece.size) for piece in self.plan.outside.pieces]
        return [f"{name} ({size} bytes)" for name, size in (*weights, *maps)]

    @property
    def functions(self) -> list[KernelRun]:
        functions: dict[str, KernelRun] = {}
        for layer in self.layers:
            known = functions.setdefault(layer.run.name, layer.run)
            assert (known.function.words == layer.run.function.words).all(), layer.run.name
        return list(functions.values())


def c_identifier(name: str) -> str:
    chosen = identifier(name)
    return chosen if chosen[:1].isalpha() else f"net_{chosen}"


def c_network(
    original: Network,
    network: Network,
    image: Ints,
    variants: Sequence[str],
    *,
    cores: int | None = None,
    memory: int | None = None,
    specialise: bool = False,
) -> CNetwork:
    """Build the kernel of each layer in its variant, and plan the memory; ``image`` is an input of ``original``."""
    filled, prefix = padded_input(image, network), c_identifier(network.name)
    names = c_identifiers(stage.name for stage in network.stages)
    built = kernels(network, filled, variants, cores=cores or 1, specialise=specialise)
    runs = [
        replace(run, name=f"{prefix}_{names[stage.name]}_function") if specialise else library_run(run)
        for stage, run in zip(network.stages, built, strict=True)
    ]
    arguments = sum(run.length(ARGUMENTS) for run in runs)
    plan = planned_memory(network, runs, None if memory is None else max(memory - arguments, 0))
    pieces = input_pieces(network, runs)
    brought = {(edge.reader, edge.symbol): name for name, (_, readers) in pieces.items() for edge in readers}
    places: list[dict[str, str]] = [{OUTPUT: results_name(stage.name)} for stage in network.stages]
    for edge in edges(network, runs):
        own = brought.get((edge.reader, edge.symbol))
        places[edge.reader][edge.symbol] = own or results_name(edge.source)
    for number, (stage, run) in enumerate(zip(network.stages, runs, strict=True)):
        buffer = run.buffer
        if buffer is not None and run.length(buffer):
            places[number][buffer] = f"{stage.name}.buffer"
    layers = tuple(
        CLayer(stage=stage, run=run, name=name, weights=f"{prefix}_{name}_weights", places=own)
        for stage, run, name, own in zip(network.stages, runs, names.values(), places, strict=True)
    )
    layouts = tuple(
        InputLayout.of(network.stages[edge.reader], runs[edge.reader], edge.symbol, image.shape[-1])
        for _, readers in pieces.values()
        for edge in [max(readers, key=lambda edge: runs[edge.reader].length(edge.symbol))]
    )
    known: dict[str, Any] = {"network": network, "layers": layers, "variants": tuple(variants), "cores": cores}
    given = {name: words for name, (words, _) in pieces.items()}
    return CNetwork(**known, plan=plan, input=given, input_layouts=layouts, results=original.stages[-1].output_shape)
