"""A network ready to be written as C: its layers with their functions, and its memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Ints, Words
from xpulpnn_sw.library.functions import library_run
from xpulpnn_sw.networks.c_programs.input_layout import InputLayout
from xpulpnn_sw.networks.c_programs.names import identifier, identifiers
from xpulpnn_sw.networks.c_programs.plan import MemoryPlan, planned_memory
from xpulpnn_sw.networks.kernels import ARGUMENTS, OUTPUT, buffer_of, edges, input_pieces, kernels, length, weight_bytes
from xpulpnn_sw.networks.lifetimes import buffer_name, results_name, weights_name
from xpulpnn_sw.networks.network import Network, Stage
from xpulpnn_sw.networks.whole_words import filled_input


@dataclass(frozen=True, eq=False, kw_only=True)
class CLayer:
    """A layer."""

    stage: Stage
    run: KernelRun  # the function of the library, with the layer's operands
    name: str  # what it is called in C
    places: dict[str, str]  # the piece of memory of each symbol that its function shares with others

    @property
    def macs(self) -> int:
        """Multiplications with weights."""
        return self.stage.layer.macs if self.stage.multiplies else 0


@dataclass(frozen=True, eq=False, kw_only=True)
class CNetwork:
    """A network."""

    network: Network  # its layers, as they are computed
    layers: tuple[CLayer, ...]  # these with their functions
    plan: MemoryPlan
    cores: int | None  # of the cluster that it is for; None: one core
    input: dict[str, Words]  # an example of the input in memory, by piece
    input_layouts: tuple[InputLayout, ...]  # where elements of the input are in each of these; empty: that is not known
    results: tuple[int, ...]  # shape of the results of the last layer that have a meaning
    classes: tuple[str, ...] = ()  # what these stand for; empty: that is not known

    @property
    def name(self) -> str:
        """The C identifier of the network."""
        return c_identifier(self.network.name)

    @cached_property
    def piece_names(self) -> dict[str, str]:
        """The C identifiers of the pieces of memory."""
        layers = {layer.stage.name: layer.name for layer in self.layers}
        found: dict[str, str] = {}
        for piece in (*self.plan.pieces, *self.plan.outside):
            owner, dot, what = piece.name.rpartition(".")
            found[piece.name] = f"at_{layers[owner]}_{what}" if dot else f"at_{what}"
        return found

    def place(self, piece: str) -> str:
        """The address of a piece of memory."""
        name = self.piece_names[piece]
        return f"L2({name})" if piece in self.plan.outside_places else f"AT({name})"

    @property
    def outside(self) -> list[str]:
        """Names and bytes of the pieces that the TCDM has no room for."""
        weights = [(weights_name(layer.stage.name), weight_bytes(layer.run)) for layer in self._left]
        maps = [(piece.name, piece.size) for piece in self.plan.outside]
        return [f"{name} ({size} bytes)" for name, size in (*weights, *maps)]

    @property
    def _left(self) -> list[CLayer]:
        return [self.layers[number] for number in self.plan.left]

    @property
    def functions(self) -> list[KernelRun]:
        """The functions of the library that it calls, each once."""
        found: dict[str, KernelRun] = {}
        for layer in self.layers:
            known = found.setdefault(layer.run.name, layer.run)
            assert (known.function.words == layer.run.function.words).all(), layer.run.name
        return list(found.values())


def c_identifier(name: str) -> str:
    """Return the C identifier of a network."""
    found = identifier(name)
    return found if found[:1].isalpha() else f"net_{found}"


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
    """The network with ``image`` as an example of its inputs, each layer by a variant."""
    filled = filled_input(image, network)
    names = identifiers(stage.name for stage in network.stages)
    built = kernels(network, filled, variants, cores=cores or 1, specialise=specialise)
    runs = [
        replace(run, name=f"{c_identifier(network.name)}_{names[stage.name]}_function")
        if specialise
        else library_run(run)
        for stage, run in zip(network.stages, built, strict=True)
    ]
    arguments = sum(length(run, ARGUMENTS) for run in runs)
    plan = planned_memory(network, runs, None if memory is None else max(memory - arguments, 0))
    pieces = input_pieces(network, runs)
    brought = {(edge.reader, edge.symbol): name for name, (_, readers) in pieces.items() for edge in readers}
    places: list[dict[str, str]] = [{OUTPUT: results_name(stage.name)} for stage in network.stages]
    for edge in edges(network, runs):
        own = brought.get((edge.reader, edge.symbol))
        places[edge.reader][edge.symbol] = own or results_name(edge.source)
    for number, (stage, run) in enumerate(zip(network.stages, runs, strict=True)):
        buffer = buffer_of(run)
        if buffer is not None and length(run, buffer):
            places[number][buffer] = buffer_name(stage.name)
    layers = tuple(
        CLayer(stage=stage, run=run, name=names[stage.name], places=own)
        for stage, run, own in zip(network.stages, runs, places, strict=True)
    )
    layouts = [
        InputLayout.of(network.stages[edge.reader], runs[edge.reader], edge.symbol, image.shape[-1])
        for _, readers in pieces.values()
        for edge in [max(readers, key=lambda one: length(runs[one.reader], one.symbol))]
    ]
    known = all(layout.describes(image, words) for layout, (words, _) in zip(layouts, pieces.values(), strict=True))
    return CNetwork(
        network=network,
        layers=layers,
        plan=plan,
        cores=cores,
        input={name: words for name, (words, _) in pieces.items()},
        input_layouts=tuple(layouts) if known else (),
        results=original.stages[-1].output_shape,
    )
