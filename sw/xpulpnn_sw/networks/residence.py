"""Maps of a network in the memory of a cluster, with their first and last layer, and those outside."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.networks.kernels import Edge, edges, input_pieces
from xpulpnn_sw.networks.lifetimes import results_name
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network

# maps that are fetched for a layer although they have been in the memory before: names of maps, numbers of layers
Away = Collection[tuple[str, int]]


@dataclass(slots=True, kw_only=True)
class Residence:
    """A map in the memory of the cluster for some time."""

    name: str  # of the piece of memory
    content: str  # of the map, by which it is known outside
    writer: int | None  # number of the layer that writes it; None: it is fetched from outside
    readers: list[int] = field(default_factory=list[int])  # numbers of the layers that read it, in their order


@dataclass(frozen=True, slots=True, kw_only=True)
class Maps:
    """Places of the maps of a network."""

    residences: tuple[Residence, ...]  # those in the memory of the cluster, by map, then by time
    stored: frozenset[str]  # results that layers leave in the memory of the cluster and that are needed outside too
    # of each layer and symbol of its kernel the piece of memory, or the map outside for a layer in tiles
    inputs: dict[tuple[int, str], str]
    results: tuple[str, ...]  # of each layer the piece of memory with its results, or the map outside


def _sources_of(network: Network, runs: Sequence[KernelRun]) -> dict[str, list[Edge]]:
    """Every map by name, those of the network's input first, and who reads it."""
    found = {name: list(readers) for name, (_, readers) in input_pieces(network, runs).items()}
    written = {stage.name: results_name(stage.name) for stage in network.stages}
    found |= {name: [] for name in written.values()}
    for edge in edges(network, runs):
        if edge.source != NETWORK_INPUT:
            found[written[edge.source]].append(edge)
    return found


def located(network: Network, runs: Sequence[KernelRun], tiled: Collection[int], away: Away) -> Maps:
    """Places of the maps if the layers ``tiled`` read and write outside and those ``away`` leave for a while."""
    writers = {results_name(stage.name): number for number, stage in enumerate(network.stages)}
    residences: list[Residence] = []
    inputs: dict[tuple[int, str], str] = {}
    results = list(writers)
    stored: set[str] = set()
    for content, readers in _sources_of(network, runs).items():
        writer = writers.get(content)
        own: list[Residence] = []
        if writer is not None and writer not in tiled:
            own.append(Residence(name=content, content=content, writer=writer))
        for edge in readers:
            if edge.reader in tiled:
                inputs[edge.reader, edge.symbol] = content
                continue
            is_new = not own or ((content, edge.reader) in away and edge.reader not in own[-1].readers)
            if is_new:
                name = content if not own else f"{content}.{len(own)}"
                own.append(Residence(name=name, content=content, writer=None))
            if edge.reader not in own[-1].readers:
                own[-1].readers.append(edge.reader)
            inputs[edge.reader, edge.symbol] = own[-1].name
        is_outside = any(one.writer is None for one in own) or any(edge.reader in tiled for edge in readers)
        if writer is not None and writer not in tiled and (is_outside or not readers):
            stored.add(content)
        residences += own
    return Maps(residences=tuple(residences), stored=frozenset(stored), inputs=inputs, results=tuple(results))
