"""The kernels of a network's layers: whether they fit together, what they need in memory, and their arguments there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Ints, Words
from xpulpnn_sw.kernels.variants import BYTE_BITS
from xpulpnn_sw.layers.layer import DepthwiseLayer, ImageConvLayer, LinearLayer
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.network import NETWORK_INPUT, MapForm, Network, Stage, check_network

INPUT, OUTPUT = "input", "output"  # symbols of a kernel that other layers know too
SUMMANDS = ("first", "second")  # symbols of both inputs of an addition
SHARED = "im2col"  # symbol of what a kernel needs only while it runs
BUFFERS = (SHARED, "buffer")  # symbols of that, of which a kernel has one or none
ARGUMENTS, STACK = "arguments", "stack"  # symbols of a kernel that belong to its call


Runs = Sequence[KernelRun] | Mapping[int, KernelRun]  # of all layers, or of some by their numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A map on its way into a layer."""

    source: str  # the layer that writes it, or NETWORK_INPUT
    reader: int  # number of the layer that reads it
    symbol: str  # what the kernel of that calls it


def kernels(
    network: Network, image: Ints, variants: Sequence[str], *, cores: int, specialise: bool = True
) -> tuple[KernelRun, ...]:
    """The kernels of the layers, each by a variant, with buffers for ``cores`` cores.

    Those that read the input of the network have ``image`` there. Functions are for their layer only unless they are
    not to ``specialise``. Raises :class:`LayerError` for layers that do not
    fit together, or of which one does not find its inputs in memory as it needs them.
    """
    check_network(network)
    assert len(variants) == len(network.stages)
    runs = tuple(
        _built(network, number, image, name, cores, specialise=specialise) for number, name in enumerate(variants)
    )
    written = {stage.name: (stage, run) for stage, run in zip(network.stages, runs, strict=True)}
    for edge in edges(network, runs):
        if edge.source != NETWORK_INPUT:
            _check_edge(*written[edge.source], network.stages[edge.reader], runs[edge.reader], edge.symbol)
    return runs


def _built(
    network: Network, number: int, image: Ints, variant: str, cores: int, *, specialise: bool = True
) -> KernelRun:
    """The kernel of a layer, with the input of the network where it reads that."""
    stage = network.stages[number]
    operands = stage.fed(*(image if source == NETWORK_INPUT else None for source in network.sources(number)))
    try:
        return stage.kind.build(stage.layer, stage.precision, variant, operands, cores=cores, specialise=specialise)
    except LayerError as error:
        raise LayerError(f"{stage.name}: {error}") from None


def inputs_of(run: KernelRun) -> tuple[str, ...]:
    """Symbols of the maps that a kernel reads, in the order of the layer's inputs: one, of an addition two."""
    return SUMMANDS if SUMMANDS[0] in run.image.symbols else (INPUT,)


def buffer_of(run: KernelRun) -> str | None:
    """Symbol of what a kernel needs only while it runs."""
    return next((name for name in BUFFERS if name in run.image.symbols), None)


def form_of(stage: Stage, run: KernelRun, symbol: str) -> MapForm:
    """The map that a kernel calls ``symbol``."""
    return stage.inputs[inputs_of(run).index(symbol)]


def edges(network: Network, runs: Runs) -> Iterator[Edge]:
    """All maps on their way into layers, by the layers in their order."""
    for number, run in runs.items() if isinstance(runs, Mapping) else enumerate(runs):
        for source, symbol in zip(network.sources(number), inputs_of(run), strict=True):
            yield Edge(source=source, reader=number, symbol=symbol)


def map_bytes(network: Network, runs: Sequence[KernelRun]) -> dict[str, int]:
    """Memory of the results of each layer: kernels read ahead, as far as their inputs have words to spare."""
    needed = {stage.name: length(run, OUTPUT) for stage, run in zip(network.stages, runs, strict=True)}
    for edge in edges(network, runs):
        if edge.source != NETWORK_INPUT:
            needed[edge.source] = max(needed[edge.source], length(runs[edge.reader], edge.symbol))
    return needed


def packed_input(network: Network, image: Ints, variants: Sequence[str], *, cores: int) -> dict[str, Words]:
    """The same words for another input, without kernels of layers that do not read it."""
    readers = {
        number: _built(network, number, image, variants[number], cores)
        for number in range(len(network.stages))
        if NETWORK_INPUT in network.sources(number)
    }
    return {name: words for name, (words, _) in input_pieces(network, readers).items()}


def input_pieces(network: Network, runs: Runs) -> dict[str, tuple[Words, list[Edge]]]:
    """The input of the network in memory, by name: its words, and who reads them.

    Layers that read it in different ways have a copy each; the first is called :data:`INPUT`.
    """
    pieces: dict[tuple[object, ...], tuple[str, Words, list[Edge]]] = {}
    for edge in edges(network, runs):
        if edge.source != NETWORK_INPUT:
            continue
        stage, run = network.stages[edge.reader], runs[edge.reader]
        way, words = _way(stage, run, edge.symbol), run.image.view(edge.symbol).view("<u4")
        name = f"{stage.name}.{edge.symbol}" if pieces else INPUT
        name, known, readers = pieces.get(way, (name, words, []))
        # what the longer one has behind the other is there to be read ahead
        pieces[way] = name, max(known, words, key=len), [*readers, edge]
    return {name: (words, readers) for name, words, readers in pieces.values()}


def length(run: KernelRun, name: str) -> int:
    """Bytes of a symbol, 0 if a kernel has none such."""
    return run.image.symbols[name].length if name in run.image.symbols else 0


def own_symbols(run: KernelRun) -> list[str]:
    """The symbols that belong to a layer alone: filters, parameters, tables."""
    return [name for name in run.image.symbols if name not in (*inputs_of(run), OUTPUT, *BUFFERS, ARGUMENTS, STACK)]


def weight_bytes(run: KernelRun) -> int:
    """Bytes of what belongs to a layer alone."""
    return sum(length(run, name) for name in own_symbols(run))


def structure(run: KernelRun, places: Mapping[str, int]) -> list[int]:
    """The argument structure of a kernel whose symbols have moved, those there are in ``places``."""

    def moved(address: int) -> int:
        for name, symbol in run.image.symbols.items():
            if name in places and symbol.address <= address < symbol.address + symbol.length:
                return places[name] + address - symbol.address
        raise AssertionError(address)

    fields = ((field, run.arguments[field.name]) for field in run.structure.fields)
    return [moved(value) if field.pointer else value & WORD_MASK for field, value in fields]


def _check_edge(before: Stage, written: KernelRun, stage: Stage, read: KernelRun, symbol: str) -> None:
    """Raise :class:`LayerError` unless a layer finds the results of another where it looks for them."""
    orders = "pixel by pixel", "channel by channel"
    wanted, found = isinstance(stage.layer, DepthwiseLayer), written.output.planes
    if wanted != found:
        raise LayerError(f"inputs of {stage.name} must be {orders[wanted]}, not {orders[found]} as of {before.name}")
    if wanted:
        return
    shape, distance = written.output.shape, written.output.pixel_bytes
    pixels, channels = prod(shape[:-1]), shape[-1]
    is_dense = distance * BYTE_BITS == channels * before.precision.y
    if isinstance(stage.layer, LinearLayer):
        fits = is_dense or (pixels == 1 and before.precision.y != SIGN_BITS)
    elif (taken := form_of(stage, read, symbol).shape[-1]) != channels:
        # a row that is read as a map
        fits = is_dense and pixel_distance(stage, read, symbol) * BYTE_BITS == taken * before.precision.y
    else:
        # channels that fill a word up have no part in what is read but for single bits, of which each is a number
        fits = distance == pixel_distance(stage, read, symbol) and (is_dense or before.precision.y != SIGN_BITS)
    if not fits:
        raise LayerError(f"channels of {before.name} must fill whole words, not {channels}")


def _way(stage: Stage, run: KernelRun, symbol: str) -> tuple[object, ...]:
    """A key that is the same for layers that can read the same copy of a map."""
    layer = stage.layer
    if isinstance(layer, ImageConvLayer):
        return "image", layer.padding, layer.outside
    if isinstance(layer, DepthwiseLayer):
        return ("channel by channel",)
    form = form_of(stage, run, symbol)
    dense = form.shape[-1] * form.bits // BYTE_BITS
    return ("pixel by pixel", dense if isinstance(layer, LinearLayer) else pixel_distance(stage, run, symbol))


def pixel_distance(stage: Stage, run: KernelRun, symbol: str) -> int:
    """Bytes from one pixel to the next of a map as a kernel reads it."""
    for name in ("pixel_bytes", "row_stride"):
        if name in run.arguments:
            return run.arguments[name]
    return length(run, symbol) // prod(form_of(stage, run, symbol).shape[:-1])
