"""A network in the memory of a cluster: what is there when, and what the DMA engine brings and takes.

Step by step the cores compute a layer, or a tile of one that is too large, while the DMA engine fetches filters and
maps that are needed later. Memory belongs to a piece of data only as long as that is needed. Input, filters and results
of the network are in the memory outside, and so are maps that layers in tiles read or write.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.tiling.division import TileOperand, aligned
from xpulpnn_sw.kernels.tiling.kernels import MapDivision, ProductDivision
from xpulpnn_sw.kernels.tiling.plan import TilePlan, TileStep, planned, schedule
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.networks.kernels import edges, input_pieces
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Something that needs memory for some time."""

    name: str  # what it is, another for each piece
    size: int
    first: int  # first step that needs it
    last: int  # last step that needs it

    def meets(self, other: "Piece") -> bool:
        """Return whether there is a step in which both need memory."""
        return self.first <= other.last and other.first <= self.last


def results_name(layer: str) -> str:
    """The piece with the results of a layer."""
    return f"{layer}.output"


def buffer_name(layer: str) -> str:
    """The piece with the buffers that a layer needs while it is computed."""
    return f"{layer}.buffer"


def weights_name(layer: str) -> str:
    """The piece with the weights of a layer and what goes with them."""
    return f"{layer}.weights"


Order = Callable[[Piece], tuple[int, ...]]
# in which the pieces choose their places; no order is the best of all for every network
_ORDERS: tuple[Order, ...] = (
    lambda piece: (-piece.size, piece.first),
    lambda piece: (-piece.size * (piece.last - piece.first + 1),),
    lambda piece: (piece.first - piece.last, -piece.size),
    lambda piece: (piece.first, -piece.size),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class PlannedMemory:
    """Pieces of a memory over time."""

    pieces: tuple[Piece, ...] = ()  # what needs memory in which of the steps
    places: dict[str, int] = field(default_factory=dict[str, int])  # where, in bytes from the beginning of it on

    @property
    def extent(self) -> int:
        """Bytes up to the end of the last piece."""
        return max((self.places[piece.name] + aligned(piece.size) for piece in self.pieces), default=0)

    def demand(self, step: int) -> int:
        """Bytes that are needed in a step."""
        return sum(aligned(piece.size) for piece in self.pieces if piece.first <= step <= piece.last)


def arranged(pieces: Iterable[Piece]) -> PlannedMemory:
    """The memory in which no piece has a byte in common with one that it meets; as few bytes as was found."""
    own = tuple(pieces)
    arrangements = (PlannedMemory(pieces=own, places=_placed(sorted(own, key=order))) for order in _ORDERS)
    return min(arrangements, key=lambda memory: memory.extent)


def _placed(pieces: Sequence[Piece]) -> dict[str, int]:
    """Each piece in turn in the smallest gap between those it meets that has room for it."""
    places: dict[str, int] = {}
    done: list[Piece] = []
    for piece in pieces:
        taken = sorted(
            (places[other.name], places[other.name] + aligned(other.size)) for other in done if other.meets(piece)
        )
        best, least, end = None, 0, 0
        for start, after in taken:
            room = start - end
            if room >= aligned(piece.size) and (best is None or room < least):
                best, least = end, room
            end = max(end, after)
        places[piece.name] = end if best is None else best
        done.append(piece)
    return places


# maps that are fetched for a layer although they have been in the memory before: names of maps, numbers of layers
Spills = Collection[tuple[str, int]]


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


def place_maps(network: Network, runs: Sequence[KernelRun], tiled: Collection[int], spilled: Spills) -> Maps:
    """Places of the maps if the layers ``tiled`` read and write outside and those ``away`` leave for a while."""
    writers = {results_name(stage.name): number for number, stage in enumerate(network.stages)}
    # every map by name, those of the network's input first, and who reads it
    maps = {name: readers for name, (_, readers) in input_pieces(network, runs).items()} | {
        name: [] for name in writers
    }
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
    return Maps(residences=tuple(residences), stored=frozenset(stored), inputs=inputs)


# what a layer in tiles has beside operands: the argument structures of its tiles, two of which are there at a time
CALLS = "calls"
CALL_SLOTS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class TiledLayer:
    """A layer in tiles."""

    name: str
    plan: TilePlan
    steps: tuple[TileStep, ...]  # what happens from barrier to barrier
    cores: int  # that compute; the others wait

    @property
    def call_bytes(self) -> int:
        """Bytes of an argument structure."""
        return _call_bytes(self.plan.division.run)

    @property
    def shared(self) -> str | None:
        """Name of the piece of memory that the kernel needs while it runs."""
        symbol = self.plan.division.run.buffer
        return None if symbol is None else f"{self.name}.{symbol}"

    def buffer(self, operand: TileOperand, slot: int) -> str:
        """Name of the piece of memory of an operand."""
        return f"{self.name}.{operand.value}{slot}"

    def call(self, slot: int) -> str:
        """Name of the piece of memory of an argument structure."""
        return f"{self.name}.{CALLS}{slot}"

    def pieces(self) -> Iterator[tuple[str, int]]:
        """Names and bytes of what it needs as long as it is computed."""
        for operand, (count, size) in self.plan.buffers.items():
            yield from ((self.buffer(operand, slot), size) for slot in range(count))
        yield from ((self.call(slot), self.call_bytes) for slot in range(CALL_SLOTS))
        if self.shared is not None:
            yield self.shared, self.plan.division.buffer_bytes(self.plan.lines)


def tiled_layer(stage: Stage, run: KernelRun, cores: int, memory: int, always: int) -> TiledLayer:
    """A layer, whose kernel has room for ``cores`` cores, in tiles that take ``memory`` bytes less ``always`` at most.

    Raises :class:`LayerError`, which names the layer, if it cannot be divided, or no tile is small enough.
    """
    try:
        is_product = isinstance(run.variant, Variant)
        division = ProductDivision(run, folded=stage.tensors.folded) if is_product else MapDivision(run, cores)
        plan = planned(division, cores, memory, always + CALL_SLOTS * _call_bytes(run))
    except LayerError as error:
        raise LayerError(f"{stage.name}: {error}") from None
    steps = tuple(schedule(plan.tiles, overlap=plan.overlap))
    return TiledLayer(name=stage.name, plan=plan, steps=steps, cores=cores)


def _call_bytes(run: KernelRun) -> int:
    return aligned(len(run.structure.fields) * WORD_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedStep:
    """Work and moves between two barriers."""

    # number of the layer that is computed, as a whole or a tile of it; of one in tiles also while it is only moved
    layer: int | None = None
    loads: tuple[str, ...] = ()  # pieces of memory that are filled from outside meanwhile
    stores: tuple[str, ...] = ()  # pieces of memory that are stored outside meanwhile
    tile: int | None = None  # which of the steps of a layer in tiles it is


@dataclass(frozen=True, eq=False, kw_only=True)
class Deployment(PlannedMemory):
    """Memory of every layer over time."""

    network: Network
    runs: tuple[KernelRun, ...]
    maps: Maps  # where their inputs and results are
    tiled: Mapping[int, TiledLayer]  # the layers in tiles, by number
    steps: tuple[DeployedStep, ...]  # what happens when

    def tile_step(self, step: DeployedStep) -> TileStep | None:
        """Return the step of a layer in tiles, None for other steps."""
        return None if step.layer is None or step.tile is None else self.tiled[step.layer].steps[step.tile]

    def computes(self, step: DeployedStep) -> bool:
        """Return whether the cores compute something in a step."""
        tile = self.tile_step(step)
        return step.layer is not None and (tile is None or tile.work is not None)

    @property
    def report_slots(self) -> int:
        """Places for what the cores report of a step: one for each, or two that are emptied by turns."""
        return report_slots(len(self.steps), is_tiled=bool(self.tiled))


def report_slots(steps: int, *, is_tiled: bool) -> int:
    """Places for what the cores report of so many steps: layers in tiles have many, which are stored one by one."""
    return min(steps, 2) if is_tiled else steps


def first_step(steps: Sequence[DeployedStep], layer: int) -> int:
    """Number of the first step of a layer."""
    return next(number for number, step in enumerate(steps) if step.layer == layer)


def last_step(steps: Sequence[DeployedStep], layer: int) -> int:
    """Number of the last step of a layer."""
    return max(number for number, step in enumerate(steps) if step.layer == layer)
