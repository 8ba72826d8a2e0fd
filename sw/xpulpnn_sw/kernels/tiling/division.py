"""Layers in tiles, whatever their kernel: what a tile needs, what is moved for it by DMA, how it is called."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xpulpnn.isa.cluster import DMA_LENGTH_BITS, DmaCommand
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import ImageBuilder
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.tiling.plan import (
    DMA_ALIGNMENT,
    Tile,
    TileOperand,
    TilePlan,
    TileSizes,
    aligned,
    slots_needed,
)

MOST_TRANSFER_BYTES = (1 << DMA_LENGTH_BITS) - DMA_ALIGNMENT  # of a transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaTransfer:
    """Lines of bytes between the memories."""

    inside: int  # first address in the cluster
    outside: int  # first address outside
    line: int  # bytes of a line
    lines: int = 1  # number of lines
    inside_stride: int = 0  # bytes from one line to the next in the cluster
    outside_stride: int = 0  # bytes from one line to the next outside
    inwards: bool  # whether they go into the cluster

    @property
    def bytes(self) -> int:
        """Bytes that are moved."""
        return self.line * self.lines

    def commands(self) -> Iterator[list[int]]:
        """Words of the commands of the DMA engine."""
        if not self.bytes:
            return
        if self.lines == 1 or self.line == self.inside_stride == self.outside_stride:
            for done in range(0, self.bytes, MOST_TRANSFER_BYTES):
                yield [
                    self._first(min(self.bytes - done, MOST_TRANSFER_BYTES), DmaCommand(0)),
                    self.inside + done,
                    self.outside + done,
                ]
            return
        most = MOST_TRANSFER_BYTES // self.line
        for done in range(0, self.lines, most):
            lines = min(self.lines - done, most)
            yield [
                self._first(lines * self.line, DmaCommand.EXTERNAL_2D | DmaCommand.TCDM_2D),
                self.inside + done * self.inside_stride,
                self.outside + done * self.outside_stride,
                self.line,
                self.outside_stride,
                self.line,
                self.inside_stride,
            ]

    def _first(self, length: int, flags: DmaCommand) -> int:
        direction = DmaCommand.FROM_EXTERNAL if self.inwards else DmaCommand(0)
        return length | DmaCommand.INCREMENT | direction | flags


def command_words(transfers: list[DmaTransfer]) -> list[int]:
    """Words of all commands, one after the other."""
    return [word for transfer in transfers for command in transfer.commands() for word in command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Data of a tile on its way between memories."""

    operand: TileOperand  # outputs are stored, the others are loaded
    tile: Tile
    slot: int  # number of the buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class TileWork:
    """A tile to compute, and the numbers of the buffers that it uses."""

    number: int
    tile: Tile
    slots: dict[TileOperand, int]


@dataclass(slots=True)
class TileStep:
    """Work and moves between two barriers, all at the same time."""

    work: TileWork | None = None
    moves: list[Move] = field(default_factory=list[Move])


def schedule(tiles: tuple[Tile, ...], *, overlap: bool) -> list[TileStep]:
    """The steps that compute ``tiles`` in their order.

    What the next tile has in common with the one before stays where it is. Without ``overlap`` nothing is moved while
    something is computed.
    """
    counts = {operand: slots_needed(tiles, operand, overlap=overlap) for operand in TileOperand}
    works: list[TileWork] = []
    loads: list[list[Move]] = []
    slots, keys = dict.fromkeys(TileOperand, -1), dict[TileOperand, object]()
    for number, tile in enumerate(tiles):
        fetched: list[Move] = []
        for operand in TileOperand:
            key = tile.key(operand)
            if number and key == keys[operand]:
                continue
            keys[operand], slots[operand] = key, (slots[operand] + 1) % counts[operand]
            if operand is not TileOperand.OUTPUT:
                fetched.append(Move(operand=operand, tile=tile, slot=slots[operand]))
        works.append(TileWork(number=number, tile=tile, slots=dict(slots)))
        loads.append(fetched)
    stores = [[Move(operand=TileOperand.OUTPUT, tile=work.tile, slot=work.slots[TileOperand.OUTPUT])] for work in works]
    if overlap:
        steps = [TileStep() for _ in range(len(tiles) + 2)]
        for number, work in enumerate(works):
            steps[number].moves += loads[number]
            steps[number + 1].work = work
            steps[number + 2].moves += stores[number]
        return steps
    steps = [TileStep(moves=loads[0])]
    for number, work in enumerate(works):
        following = loads[number + 1] if number + 1 < len(works) else []
        steps += [TileStep(work=work), TileStep(moves=stores[number] + following)]
    return steps


BUFFER = "buffer"  # argument of all kernels that need memory only while they run


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMap:
    """A map that is divided into lines."""

    symbol: str  # argument with its address
    line: int  # bytes of a line of a plane
    ahead: int = 0  # bytes behind that may be read
    planes: int = 1  # pieces of consecutive lines
    stride: int = 0  # bytes from one plane to the next

    @property
    def row(self) -> int:
        """Bytes of a line in all planes."""
        return self.planes * self.line

    def transfer(self, lines: range, inside: int, outside: int, *, inwards: bool) -> DmaTransfer:
        """Move some lines."""
        size = len(lines) * self.line
        return DmaTransfer(
            inside=inside,
            outside=outside + lines.start * self.line,
            line=size,
            lines=self.planes,
            inside_stride=size,
            outside_stride=self.stride,
            inwards=inwards,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters and parameters of the channels of a tile."""

    name: str
    content: bytes
    places: Mapping[str, int]  # distances of pointer arguments from the start
    arguments: Mapping[str, int] = field(default_factory=dict[str, int])  # other arguments that go with them


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerAddresses:
    """Memory of a layer in tiles."""

    sources: tuple[int, ...]  # maps outside, as many as the layer has inputs
    output: int  # its results outside
    buffers: Mapping[TileOperand, tuple[int, ...]]
    buffer: int | None  # what the kernel needs while it runs, in the cluster


class Division(TileSizes):
    """Division of the layer of a kernel."""

    run: KernelRun
    inputs: tuple[LineMap, ...]

    @abstractmethod
    def filters(self, channels: range) -> Filters:
        """The filters of some of a kernel's channels, laid out as if there were no others."""

    @abstractmethod
    def store(self, tile: Tile, inside: int, outside: int) -> DmaTransfer:
        """Move the results of a tile to the map at ``outside``."""

    @abstractmethod
    def tile_arguments(self, tile: Tile, plan: TilePlan) -> dict[str, int]:
        """Arguments that are other ones for a tile, beside addresses and those of its filters."""

    @abstractmethod
    def function(self, calls: Sequence[Mapping[str, int]]) -> Program:
        """A function for these argument structures only."""

    def place(self, name: str, outside: ImageBuilder, plan: TilePlan, addresses: LayerAddresses) -> "PlacedLayer":
        """Put filters and parameters outside, under names that begin with ``name``."""
        filters = {channels: self.filters(channels) for channels in dict.fromkeys(one.channels for one in plan.tiles)}
        places = {channels: outside.place(f"{name}{one.name}", one.content) for channels, one in filters.items()}
        return PlacedLayer(self, plan, addresses, filters, places)


@dataclass(frozen=True, eq=False)
class PlacedLayer:
    """A layer in tiles whose operands have addresses: inputs one behind the other in a buffer."""

    division: Division
    plan: TilePlan
    addresses: LayerAddresses
    filters: Mapping[range, Filters]
    places: Mapping[range, int]  # filters outside

    def _inputs(self, buffer: int) -> Iterator[tuple[LineMap, int]]:
        lines = self.division.shape.most_in_lines(self.plan.lines)
        for one in self.division.inputs:
            yield one, buffer
            buffer += aligned(lines * one.row + one.ahead)

    def transfers(self, move: Move) -> Sequence[DmaTransfer]:
        """Transfers that a move means."""
        tile, addresses = move.tile, self.addresses
        inside = addresses.buffers[move.operand][move.slot]
        match move.operand:
            case TileOperand.WEIGHTS:
                place, size = self.places[tile.channels], len(self.filters[tile.channels].content)
                return (DmaTransfer(inside=inside, outside=place, line=size, inwards=True),) if size else ()
            case TileOperand.INPUT:
                parts = zip(self._inputs(inside), addresses.sources, strict=True)
                return [one.transfer(tile.in_lines, at, outside, inwards=True) for (one, at), outside in parts]
            case TileOperand.OUTPUT:
                return (self.division.store(tile, inside, addresses.output),)

    def arguments(self, tile: Tile, slots: dict[TileOperand, int]) -> dict[str, int]:
        """Fields of the argument structure for a tile with operands in these buffers."""
        source, weights, output = (self.addresses.buffers[operand][slots[operand]] for operand in TileOperand)
        filters = self.filters[tile.channels]
        return {
            **self.division.run.arguments,
            "output": output,
            **{one.symbol: at for one, at in self._inputs(source)},
            **{name: weights + distance for name, distance in filters.places.items()},
            **filters.arguments,
            **({} if self.addresses.buffer is None else {BUFFER: self.addresses.buffer}),
            **self.division.tile_arguments(tile, self.plan),
        }
