"""A network ready to be written as C: its layers with their functions, and its memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xpulpnn_sw.clibrary.functions import library_run
from xpulpnn_sw.cnetworks.input_layout import InputLayout
from xpulpnn_sw.cnetworks.names import identifier, identifiers
from xpulpnn_sw.cnetworks.plan import MemoryPlan, buffer_name, planned, results_name
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.layout import Ints, Words
from xpulpnn_sw.networks.kernels import OUTPUT, buffer_of, edges, input_pieces, kernels, length
from xpulpnn_sw.networks.network import Network, Stage
from xpulpnn_sw.networks.whole_words import filled_input


@dataclass(frozen=True, eq=False, kw_only=True)
class CLayer:
    """A layer.

    Parameters
    ----------
    stage : Stage
        What it computes.
    run : KernelRun
        The function of the library, with the layer's operands.
    name : str
        What it is called in C.
    places : dict of str to str
        The piece of memory of each symbol that its function shares with others.
    """

    stage: Stage
    run: KernelRun
    name: str
    places: dict[str, str]

    @property
    def macs(self) -> int:
        """Multiplications with weights."""
        return self.stage.layer.macs if self.stage.multiplies else 0


@dataclass(frozen=True, eq=False, kw_only=True)
class CNetwork:
    """A network.

    Parameters
    ----------
    network : Network
        Its layers, as they are computed.
    layers : tuple of CLayer
        These with their functions.
    plan : MemoryPlan
        Its memory.
    cores : int or None
        Of the cluster that it is for; None: one core.
    input : dict of str to array of uint32
        An example of the input in memory, by piece.
    input_layouts : tuple of InputLayout
        Where elements of the input are in each of these; empty: that is not known.
    results : tuple of int
        Shape of the results of the last layer that have a meaning.
    """

    network: Network
    layers: tuple[CLayer, ...]
    plan: MemoryPlan
    cores: int | None
    input: dict[str, Words]
    input_layouts: tuple[InputLayout, ...]
    results: tuple[int, ...]

    @property
    def name(self) -> str:
        """What it is called in C."""
        name = identifier(self.network.name)
        return name if name[:1].isalpha() else f"net_{name}"

    @cached_property
    def piece_names(self) -> dict[str, str]:
        """What pieces of memory are called in C."""
        layers = {layer.stage.name: layer.name for layer in self.layers}
        found: dict[str, str] = {}
        for piece in self.plan.pieces:
            owner, dot, what = piece.name.rpartition(".")
            found[piece.name] = f"at_{layers[owner]}_{what}" if dot else f"at_{what}"
        return found

    @property
    def functions(self) -> list[KernelRun]:
        """The functions of the library that it calls, each once."""
        found: dict[str, KernelRun] = {}
        for layer in self.layers:
            known = found.setdefault(layer.run.name, layer.run)
            assert (known.function.words == layer.run.function.words).all(), layer.run.name
        return list(found.values())


def c_network(
    original: Network,
    network: Network,
    image: Ints,
    variants: Sequence[str],
    *,
    cores: int | None = None,
    memory: int | None = None,
) -> CNetwork:
    """The network with ``image`` as an example of its inputs, each layer by a variant.

    Parameters
    ----------
    original, network : Network
        Its layers, and these as they are computed: maybe with more channels.
    image : array of int
        An input of the original.
    variants : sequence of str
        How each layer is computed.
    cores, memory : int, optional
        Cores of a cluster and bytes of its TCDM for the network.

    Raises
    ------
    LayerError
        Layers that do not find their inputs in memory as they need them, or do not fit into the TCDM.
    """
    filled = filled_input(image, network)
    built = kernels(network, filled, variants, cores=cores or 1, specialise=False)
    runs = [library_run(run) for run in built]
    plan = planned(network, runs, memory)
    pieces = input_pieces(network, runs)
    brought = {(edge.reader, edge.symbol): name for name, (_, readers) in pieces.items() for edge in readers}
    names = identifiers(stage.name for stage in network.stages)
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
