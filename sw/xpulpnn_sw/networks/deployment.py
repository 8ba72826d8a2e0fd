"""Deployment of a network in the TCDM of a cluster: the lifetime and address of each piece of data.

In each step the cores compute a layer or a tile while the DMA engine fetches filters and maps of later steps. Pieces
occupy memory only during their lifetime. Input, filters and results of the network are in main memory, as are maps that
tiled layers read or write.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Program
from xpulpnn_sw.kernels.programs.tiled import description_bytes
from xpulpnn_sw.kernels.tiling.map_division import MapDivision
from xpulpnn_sw.kernels.tiling.plan import TilePlan, TileStep, fastest_plan, schedule
from xpulpnn_sw.kernels.tiling.product_division import ProductDivision
from xpulpnn_sw.kernels.tiling.tile import TileOperand
from xpulpnn_sw.kernels.tiling.transfer import aligned
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.layer import GatherLayer
from xpulpnn_sw.networks.kernels import edges, input_pieces
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage

# maps that are spilled, and numbers of the layers for which they are fetched again
Spills = Collection[tuple[str, int]]
# descriptions of the steps of a layer between the first and the last, double-buffered
CALLS = "calls"
CALL_SLOTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    name: str  # unique
    size: int
    first: int  # first step that needs it
    last: int  # last step that needs it


def results_name(layer: str) -> str:
    return f"{layer}.output"


def weights_name(layer: str) -> str:
    return f"{layer}.weights"


Order = Callable[[Piece], tuple[int, ...]]
# orders in which pieces are placed; none is the best for every network
_ORDERS: tuple[Order, ...] = (
    lambda piece: (-piece.size, piece.first),
    lambda piece: (-piece.size * (piece.last - piece.first + 1),),
    lambda piece: (piece.first - piece.last, -piece.size),
    lambda piece: (piece.first, -piece.size),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class PlannedMemory:
    pieces: tuple[Piece, ...] = ()
    offsets: dict[str, int] = field(default_factory=dict[str, int])  # offsets in bytes

    @property
    def extent(self) -> int:
        return max((self.offsets[piece.name] + aligned(piece.size) for piece in self.pieces), default=0)

    def demand(self, step: int) -> int:
        return sum(aligned(piece.size) for piece in self.pieces if piece.first <= step <= piece.last)


def arrange(pieces: Iterable[Piece]) -> PlannedMemory:
    """Place data so that no two pieces overlap that one step needs; return the smallest of several arrangements."""
    own = tuple(pieces)
    arrangements = (PlannedMemory(pieces=own, offsets=_placed(sorted(own, key=order))) for order in _ORDERS)
    return min(arrangements, key=lambda memory: memory.extent)


def _placed(pieces: Sequence[Piece]) -> dict[str, int]:
    places: dict[str, int] = {}
    done: list[Piece] = []
    for piece in pieces:
        simultaneous = (other for other in done if piece.first <= other.last and other.first <= piece.last)
        taken = sorted((places[other.name], places[other.name] + aligned(other.size)) for other in simultaneous)
        best, least, end = None, 0, 0
        for start, after in taken:
            room = start - end
            if room >= aligned(piece.size) and (best is None or room < least):
                best, least = end, room
            end = max(end, after)
        places[piece.name] = end if best is None else best
        done.append(piece)
    return places


@dataclass(slots=True, kw_only=True)
class Residence:
    name: str  # of the piece of memory
    content: str  # name of the map in main memory
    writer: int | None  # number of the layer that writes it; None: it is fetched from main memory
    readers: list[int] = field(default_factory=list[int])  # numbers of the layers that read it, ascending


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlacement:
    residences: tuple[Residence, ...]  # sorted by map, then by time
    stored: frozenset[str]  # results in TCDM that are stored to main memory
    # piece of memory by layer and symbol of its kernel; for a tiled layer the map in main memory
    inputs: dict[tuple[int, str], str]


def place_maps(network: Network, runs: Sequence[KernelRun], tiled: Collection[int], spilled: Spills) -> MapPlacement:
    """Decide where maps are if the layers ``tiled`` use main memory and the maps ``spilled`` are fetched again."""
    writers = {results_name(stage.name): number for number, stage in enumerate(network.stages)}
    # edges to the readers of each map, the network's inputs first
    maps = {name: readers for name, (_, readers) in input_pieces(network, runs).items()} | {key: [] for key in writers}
    for edge in edges(network, runs):
        if edge.source != NETWORK_INPUT:
            maps[results_name(edge.source)].append(edge)
    residences: list[Residence] = []
    inputs: dict[tuple[int, str], str] = {}
    stored: set[str] = set()
    for content, readers in maps.items():
        writer = writers.get(content)
        own: list[Residence] = []
        if writer is not None and writer not in tiled:
            own.append(Residence(name=content, content=content, writer=writer))
        for edge in readers:
            if edge.reader in tiled:
                inputs[edge.reader, edge.symbol] = content
                continue
            if not own or ((content, edge.reader) in spilled and edge.reader not in own[-1].readers):
                name = f"{content}.{len(own)}" if own else content
                own.append(Residence(name=name, content=content, writer=None))
            if edge.reader not in own[-1].readers:
                own[-1].readers.append(edge.reader)
            inputs[edge.reader, edge.symbol] = own[-1].name
        is_outside = any(residence.writer is None for residence in own) or any(edge.reader in tiled for edge in readers)
        if writer is not None and writer not in tiled and (is_outside or not readers):
            stored.add(content)
        residences += own
    return MapPlacement(residences=tuple(residences), stored=frozenset(stored), inputs=inputs)


@dataclass(frozen=True, eq=False, kw_only=True)
class TiledLayer:
    name: str
    plan: TilePlan
    steps: tuple[TileStep, ...]
    cores: int  # number of cores that compute; the others wait
    call_bytes: int  # bytes of the description of a step

    @property
    def shared(self) -> str | None:
        symbol = self.plan.division.run.buffer
        return None if symbol is None else f"{self.name}.{symbol}"

    def buffer(self, operand: TileOperand, slot: int) -> str:
        return f"{self.name}.{operand.value}{slot}"

    def call(self, slot: int) -> str:
        return f"{self.name}.{CALLS}{slot}"

    def pieces(self) -> Iterator[tuple[str, int]]:
        for operand, (count, size) in self.plan.buffers.items():
            yield from ((self.buffer(operand, slot), size) for slot in range(count))
        yield from ((self.call(slot), self.call_bytes) for slot in range(CALL_SLOTS))
        if self.shared is not None:
            yield self.shared, self.plan.division.buffer_bytes(self.plan.lines, self.plan.channels)


def tiled_layer(
    stage: Stage, run: KernelRun, cores: int, memory: int, always: int, *, direct: bool = False
) -> TiledLayer:
    """Tile a layer within ``memory`` bytes, of which ``always`` are taken; raises :class:`LayerError` if that fails."""
    call_bytes = description_bytes(run, memory)
    try:
        if isinstance(run.variant, Variant):
            whole = ProductDivision(run, folded=stage.tensors.folded)
            divisions = [whole, *(() if direct else whole.cuts())]
        else:
            divisions = [MapDivision(run, cores, partial(_tile_function, stage, run, cores))]
        plan = fastest_plan(divisions, cores, memory, always + CALL_SLOTS * call_bytes, direct=direct)
    except LayerError as error:
        raise LayerError(f"{stage.name}: {error}") from None
    steps = tuple(schedule(plan.tiles, overlap=plan.overlap))
    return TiledLayer(name=stage.name, plan=plan, steps=steps, cores=cores, call_bytes=call_bytes)


def _tile_function(stage: Stage, run: KernelRun, cores: int, layer: Any) -> Program:
    shape = (layer.height, layer.width, layer.channels)
    maps = dict.fromkeys(stage.map_names, np.zeros(shape, np.int64))
    tensors = replace(stage.tensors, **maps)
    building = (layer, stage.precision, run.variant.name, tensors)
    # the tiles of a gather have one function, with their place among its arguments
    return stage.kind.build(*building, cores=cores, specialise=not isinstance(layer, GatherLayer)).function


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedStep:
    """Work of a cluster between two barriers: the cores compute a layer or tile, the DMA engine moves data."""

    layer: int | None = None  # number of the layer that is computed, or whose tiles are only moved
    loads: tuple[str, ...] = ()  # pieces that are fetched from main memory
    stores: tuple[str, ...] = ()  # pieces that are stored to main memory
    tile: int | None = None  # number among the steps of a tiled layer


@dataclass(frozen=True, eq=False, kw_only=True)
class Deployment(PlannedMemory):
    network: Network
    runs: tuple[KernelRun, ...]
    maps: MapPlacement
    tiled: Mapping[int, TiledLayer]  # by number of the layer
    steps: tuple[DeployedStep, ...]

    def tile_step(self, step: DeployedStep) -> TileStep | None:
        return None if step.layer is None or step.tile is None else self.tiled[step.layer].steps[step.tile]

    def loop_of(self, step: DeployedStep) -> TiledLayer | None:
        """Return the layer in whose loop a step is: neither the first nor the last step of a tiled layer."""
        layer = None if step.layer is None else self.tiled.get(step.layer)
        return layer if layer and step.tile and step.tile + 1 < len(layer.steps) else None

    def computes(self, step: DeployedStep) -> bool:
        tile = self.tile_step(step)
        return step.layer is not None and (tile is None or tile.work is not None)

    @property
    def report_slots(self) -> int:
        return report_slots(len(self.steps), is_tiled=bool(self.tiled))


def report_slots(steps: int, *, is_tiled: bool) -> int:
    """Return how many reports TCDM holds: one for each step, or two, used alternately, if layers are tiled."""
    return min(steps, 2) if is_tiled else steps


def first_step(steps: Sequence[DeployedStep], layer: int) -> int:
    return next(number for number, step in enumerate(steps) if step.layer == layer)


def last_step(steps: Sequence[DeployedStep], layer: int) -> int:
    return max(number for number, step in enumerate(steps) if step.layer == layer)
