"""Builds the kernels of a network's layers, checks that their layouts match, and joins them to one function."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError, require
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import BYTE_BITS, TEXT_BASE, WORD_BYTES
from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels.builder import ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, RA, SP, STACK_ALIGNMENT
from xpulpnn_sw.kernels.kernel import BUFFERS, INPUT, OUTPUT, SHARED, STACK_STRIDE, Function, KernelRun, with_functions
from xpulpnn_sw.kernels.layout import MAX_DATA, ImageBuilder, Ints, OutputLayout, Program, Words
from xpulpnn_sw.layers.layer import DepthwiseLayer, ImageConvLayer, LinearLayer
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.network import NETWORK_INPUT, MapType, Network, Stage, check_network

Runs = Sequence[KernelRun] | Mapping[int, KernelRun]  # kernels of all layers, or of some by their numbers
# callee-saved registers that hold the arguments while kernels are called
_SAVED = dict(zip((ARGUMENTS_POINTER, CORE, CORES), map(register_number, ("s0", "s1", "s2")), strict=True))
_MOST_CODE = (1 << 20) - (1 << 16)  # bytes of kernels within the reach of a jump
# bytes of input, weights and maps, without argument structures, a buffer and a stack
_MOST_DATA = MAX_DATA - (1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    source: str  # the layer that writes it, or NETWORK_INPUT
    reader: int  # number of the layer that reads it
    symbol: str  # its name in the kernel of that layer


def kernels(
    network: Network, image: Ints, variants: Sequence[str], *, cores: int, specialise: bool = True
) -> tuple[KernelRun, ...]:
    """Build the kernel of each layer in its variant, with buffers for ``cores`` cores.

    ``image`` is the input of the network. With ``specialise`` functions have the sizes of their layer built in. Raises
    :class:`LayerError` for layers that do not match, or that read a feature map in another layout than the one in which
    it is written.
    """
    check_network(network)
    assert len(variants) == len(network.stages)
    building = {"cores": cores, "specialise": specialise}
    runs = tuple(_built(network, number, name, image, **building) for number, name in enumerate(variants))
    written = {stage.name: (stage, run) for stage, run in zip(network.stages, runs, strict=True)}
    for edge in edges(network, runs):
        if edge.source != NETWORK_INPUT:
            _check_edge(*written[edge.source], network.stages[edge.reader], runs[edge.reader], edge.symbol)
    return runs


def _built(network: Network, number: int, variant: str, image: Ints, **building: Any) -> KernelRun:
    stage = network.stages[number]
    operands = stage.with_inputs(*(image if source == NETWORK_INPUT else None for source in network.sources(number)))
    try:
        return stage.kind.build(stage.layer, stage.precision, variant, operands, **building)
    except LayerError as error:
        raise LayerError(f"{stage.name}: {error}") from None


def input_type(stage: Stage, run: KernelRun, symbol: str) -> MapType:
    return stage.inputs[run.inputs.index(symbol)]


def edges(network: Network, runs: Runs) -> Iterator[Edge]:
    """Yield an edge for each feature map that a layer reads, in the order of the layers."""
    for number, run in runs.items() if isinstance(runs, Mapping) else enumerate(runs):
        for source, symbol in zip(network.sources(number), run.inputs, strict=True):
            yield Edge(source=source, reader=number, symbol=symbol)


def map_bytes(network: Network, runs: Sequence[KernelRun]) -> dict[str, int]:
    """Return the size in bytes of each layer's results, including words after their end that kernels read ahead."""
    needed = {stage.name: run.length(OUTPUT) for stage, run in zip(network.stages, runs, strict=True)}
    for edge in edges(network, runs):
        if edge.source != NETWORK_INPUT:
            needed[edge.source] = max(needed[edge.source], runs[edge.reader].length(edge.symbol))
    return needed


def packed_input(network: Network, image: Ints, variants: Sequence[str], *, cores: int) -> dict[str, Words]:
    """Pack another ``image`` as :func:`input_pieces` does; only kernels that read the input are built."""
    readers = {
        number: _built(network, number, variants[number], image, cores=cores)
        for number in range(len(network.stages))
        if NETWORK_INPUT in network.sources(number)
    }
    return {name: words for name, (words, _) in input_pieces(network, readers).items()}


def input_pieces(network: Network, runs: Runs) -> dict[str, tuple[Words, list[Edge]]]:
    """Return packed copies of the input by name, one per layout in use, with their readers; the first is INPUT."""
    pieces: dict[tuple[object, ...], tuple[str, Words, list[Edge]]] = {}
    for edge in edges(network, runs):
        if edge.source != NETWORK_INPUT:
            continue
        stage, run = network.stages[edge.reader], runs[edge.reader]
        way, words = _layout_key(stage, run, edge.symbol), run.image.view(edge.symbol).view("<u4")
        name = f"{stage.name}.{edge.symbol}" if pieces else INPUT
        name, known, readers = pieces.get(way, (name, words, []))
        # the longer one has more words for reading ahead
        pieces[way] = name, max(known, words, key=len), [*readers, edge]
    return {name: (words, readers) for name, words, readers in pieces.values()}


def _check_edge(before: Stage, written: KernelRun, stage: Stage, read: KernelRun, symbol: str) -> None:
    orders, output = ("pixel by pixel", "channel by channel", "in groups of pixels"), written.output
    wants_planes, wants_groups = isinstance(stage.layer, DepthwiseLayer), getattr(stage.tensors, "from_groups", False)
    wanted = orders[1 if wants_planes else 2 * wants_groups]
    own = orders[1 if output.planes or output.flat else 2 * output.grouped]
    require(wanted == own, f"inputs of {stage.name} must be {wanted}, not {own} as of {before.name}", LayerError)
    if wants_planes:
        return
    shape, distance = written.output.shape, written.output.pixel_bytes
    pixels, channels = prod(shape[:-1]), shape[-1]
    is_dense = distance * BYTE_BITS == channels * before.precision.y
    if isinstance(stage.layer, LinearLayer):
        fits = is_dense or (pixels == 1 and before.precision.y != SIGN_BITS)
    elif (taken := input_type(stage, read, symbol).shape[-1]) != channels:
        # a row that is read as a map
        fits = is_dense and pixel_distance(stage, read, symbol) * BYTE_BITS == taken * before.precision.y
    else:
        # padding of words is 0 and adds nothing, but single bits have no 0
        fits = distance == pixel_distance(stage, read, symbol) and (is_dense or before.precision.y != SIGN_BITS)
    require(fits, f"channels of {before.name} must fill whole words, not {channels}", LayerError)


def _layout_key(stage: Stage, run: KernelRun, symbol: str) -> tuple[object, ...]:
    layer = stage.layer
    if isinstance(layer, ImageConvLayer):
        return "image", layer.padding, layer.outside
    if isinstance(layer, DepthwiseLayer):
        return ("channel by channel",)
    form = input_type(stage, run, symbol)
    dense = form.shape[-1] * form.bits // BYTE_BITS
    return ("pixel by pixel", dense if isinstance(layer, LinearLayer) else pixel_distance(stage, run, symbol))


def pixel_distance(stage: Stage, run: KernelRun, symbol: str) -> int:
    for name in ("pixel_bytes", "row_stride"):
        if name in run.arguments:
            return run.arguments[name]
    return run.length(symbol) // prod(input_type(stage, run, symbol).shape[:-1])


@dataclass(frozen=True, eq=False, kw_only=True)
class ChainedLayer:
    stage: Stage
    run: KernelRun
    results: OutputLayout


@dataclass(frozen=True, eq=False, kw_only=True)
class Chain:
    function: Function
    steps: tuple[ChainedLayer, ...]


def chain(network: Network, image: Ints, variants: Sequence[str]) -> Chain:
    """Build the function of a network for one core; raises :class:`LayerError` for layers that do not match."""
    runs = kernels(network, image, variants, cores=1)
    _check_size(network, runs)
    memory, sizes = ImageBuilder(), map_bytes(network, runs)
    buffer = memory.reserve(SHARED, max(run.length(name) for run in runs for name in BUFFERS))
    # for each layer the addresses of its kernel's symbols
    places: list[dict[str, int]] = [dict.fromkeys(BUFFERS, buffer) for _ in runs]
    for name, (words, readers) in input_pieces(network, runs).items():
        address = memory.place(name, words)
        for edge in readers:
            places[edge.reader][edge.symbol] = address
    maps: dict[str, int] = {}
    structures: list[list[int]] = []
    steps: list[ChainedLayer] = []
    for number, (stage, run, own) in enumerate(zip(network.stages, runs, places, strict=True)):
        results, size = replace(run.output, symbol=f"{stage.name}.output"), run.length(OUTPUT)
        maps[stage.name] = own[OUTPUT] = memory.reserve(results.symbol, size)
        memory.reserve(f"{stage.name}.ahead", sizes[stage.name] - size)
        for symbol, source in zip(run.inputs, network.sources(number), strict=True):
            if source != NETWORK_INPUT:
                own[symbol] = maps[source]
        for name in run.own_symbols:
            own[name] = memory.place(f"{stage.name}.{name}", run.image.view(name).view("<u4"))
        structures.append(run.relocated_arguments(own))
        steps.append(ChainedLayer(stage=stage, run=run, results=results))
    memory.place("arguments", np.array([word for words in structures for word in words], dtype=np.uint32))
    memory.reserve("stack", STACK_STRIDE)
    offsets = np.cumsum([0, *map(len, structures)]) * WORD_BYTES
    function = Function(
        name=network.name,
        function=_program(network.stages, runs, offsets.tolist()),
        extensions=frozenset[Extension]().union(*(run.extensions for run in runs)),
        image=memory.finish(),
        output=steps[-1].results,
        macs=network.macs,
    )
    return Chain(function=function, steps=tuple(steps))


def _check_size(network: Network, runs: Sequence[KernelRun]) -> None:
    inputs = sum(words.nbytes for words, _ in input_pieces(network, runs).values())
    data = inputs + sum(map_bytes(network, runs).values()) + sum(run.weight_bytes for run in runs)
    code = sum(run.function.words.nbytes for run in runs)
    for name, size, most in (("data", data, _MOST_DATA), ("code", code, _MOST_CODE)):
        require(size <= most, f"{name} of {network.name} must be at most {most} bytes, not {size}", LayerError)


def _program(stages: Sequence[Stage], runs: Sequence[KernelRun], offsets: Sequence[int]) -> Program:
    b = Builder(TEXT_BASE, xpulp=False)
    saved = (RA, *_SAVED.values())
    b("addi", SP, SP, -STACK_ALIGNMENT)
    for number, register in enumerate(saved):
        b("sw", register, number * WORD_BYTES, SP)
    for argument, register in _SAVED.items():
        b.mv(register, argument)
    labels = [Label() for _ in runs]
    for stage, label, offset in zip(stages, labels, offsets, strict=False):
        with b.region(stage.name):
            b.mv(ARGUMENTS_POINTER, _SAVED[ARGUMENTS_POINTER])
            b.add(ARGUMENTS_POINTER, offset, CORE)
            b.mv(CORE, _SAVED[CORE])
            b.mv(CORES, _SAVED[CORES])
            b.jump(label, link=RA)
    for number, register in enumerate(saved):
        b("lw", register, number * WORD_BYTES, SP)
    b("addi", SP, SP, STACK_ALIGNMENT)
    b("jalr", ZERO, 0, RA)
    names = [stage.name for stage in stages]
    return with_functions(b, names, labels, [run.function for run in runs])
