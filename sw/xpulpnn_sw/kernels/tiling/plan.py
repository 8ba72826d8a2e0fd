"""Choice of tiles: the division of a layer that fits into the memory and takes the least time by estimate."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product

from xpulpnn.errors import LayerError

DMA_ALIGNMENT = 8  # of what the DMA engine moves: it takes windows of so many bytes


def aligned(size: int) -> int:
    """``size`` in whole windows of the DMA engine."""
    return -(-size // DMA_ALIGNMENT) * DMA_ALIGNMENT


class TileOperand(Enum):
    """Operands that are moved."""

    INPUT = "input"
    WEIGHTS = "weights"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A piece of the output."""

    lines: range
    channels: range
    in_lines: range  # of the input; empty where the tile has nothing but padding under it
    pad_top: int  # lines of padding above the first of them
    pixels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """Lines and channels of a layer."""

    lines: int  # output lines: rows of the output map, groups of pixels of a matrix product
    line_pixels: int  # output pixels of a line
    pixels: int  # output pixels; the last line may have fewer
    channels: int  # output channels; those of a tile, but for the last, are a multiple of the unit
    channel_unit: int  # a multiple of it are the channels of all tiles but the last
    in_lines: int
    step: int  # input lines from the first of an output line to the first of the next
    window: int  # input lines that an output line needs, as far as there are
    top: int  # lines of padding above the input

    def tile(self, lines: range, channels: range) -> "Tile":
        """The tile of these output lines and channels."""
        first = lines.start * self.step - self.top
        after = (lines.stop - 1) * self.step - self.top + self.window
        start, stop = max(first, 0), min(after, self.in_lines)
        needed = range(start, stop) if start < stop else range(0)
        return Tile(
            lines=lines,
            channels=channels,
            in_lines=needed,
            pad_top=start - first if needed else 0,
            pixels=min(lines.stop * self.line_pixels, self.pixels) - lines.start * self.line_pixels,
        )

    def most_in_lines(self, lines: int) -> int:
        """Input lines that any tile of so many output lines may need."""
        return min((lines - 1) * self.step + self.window, self.in_lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Bytes that tiles take."""

    fixed: int  # of what there is once for all tiles: im2col buffers, stacks, reports
    in_line: int  # bytes of an input line
    in_spare: int  # bytes after the last input line of a tile
    group: int  # output pixels that are computed together
    blocks: Callable[[int], int]  # of so many channels the blocks that are computed
    pixel: Callable[[int], int]  # bytes of an output pixel of so many channels
    streams: int  # streams that the filters are divided among
    stream: Callable[[int], int]  # bytes of each for so many blocks
    spare: int  # bytes after the last stream
    parameters: int  # of a block beside its filters

    def weights(self, channels: int) -> int:
        """Bytes of filters and parameters."""
        blocks = self.blocks(channels)
        return self.streams * self.stream(blocks) + self.spare + blocks * self.parameters

    def size(self, operand: TileOperand, tile: Tile) -> int:
        """Bytes of a buffer for an operand of a tile."""
        channels = len(tile.channels)
        if operand is TileOperand.WEIGHTS:
            return aligned(self.weights(channels))
        if operand is TileOperand.INPUT:
            return aligned(len(tile.in_lines) * self.in_line + self.in_spare)
        return aligned(-(-tile.pixels // self.group) * self.group * self.pixel(channels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Cycles that an estimate counts with."""

    block: int  # of a group of pixels and a block of channels
    group: int  # of a group of pixels besides
    step: int
    bytes_per_cycle: float  # that the DMA engine moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Wishes of the caller for the tiles."""

    lines: int | None = None  # of a tile; None: as it suits
    channels: int | None = None  # of a tile; None: as it suits
    overlap: bool = True  # whether data are moved while tiles are computed, which takes two buffers each


@dataclass(frozen=True, slots=True, kw_only=True)
class TilePlan:
    """A division."""

    shape: LayerShape
    lines: int  # of a tile; those at the ends may have fewer
    channels: int  # of a tile; those at the ends may have fewer
    channels_first: bool  # whether all channels of some lines are computed before the next lines
    overlap: bool  # whether data are moved while tiles are computed
    tiles: tuple[Tile, ...]
    buffers: dict[TileOperand, tuple[int, int]]  # number and bytes of the buffers
    fixed: int  # bytes of all else in the memory
    estimate: int  # cycles that it takes about

    @property
    def bytes(self) -> int:
        """Bytes of memory that the division needs."""
        return self.fixed + sum(count * size for count, size in self.buffers.values())


def tiles_of(shape: LayerShape, lines: int, channels: int, *, channels_first: bool) -> tuple[Tile, ...]:
    """All tiles of one size, in the order of the channels and of the lines within them, or the other way round."""
    rows, columns = pieces(shape.lines, lines), pieces(shape.channels, channels)
    pairs = product(rows, columns) if channels_first else ((row, column) for column in columns for row in rows)
    return tuple(shape.tile(row, column) for row, column in pairs)


def planned(shape: LayerShape, footprint: Footprint, rates: Rates, cores: int, memory: int, demand: Demand) -> TilePlan:
    """The division that fits into ``memory`` bytes and takes ``cores`` cores the least time.

    Raises :class:`LayerError` if there is none, or for a demand that cannot be met.
    """
    _require(shape, demand)
    candidates = list(_candidates(shape, footprint, demand))
    fitting = [one for one in candidates if one.bytes <= memory]
    if not fitting:
        least = min(one.bytes for one in candidates)
        raise LayerError(f"tiles must be at most the TCDM's {memory} bytes with buffers and stacks, not {least}")
    best = min(fitting, key=lambda one: one.cost(rates, cores))
    tiles = tiles_of(shape, best.lines, best.channels, channels_first=best.channels_first)
    buffers = {
        operand: (
            slots_needed(tiles, operand, overlap=best.overlap),
            max(footprint.size(operand, one) for one in tiles),
        )
        for operand in TileOperand
    }
    return TilePlan(
        shape=shape,
        lines=best.lines,
        channels=best.channels,
        channels_first=best.channels_first,
        overlap=best.overlap,
        tiles=tiles,
        buffers=buffers,
        fixed=footprint.fixed,
        estimate=best.cost(rates, cores),
    )


def _require(shape: LayerShape, demand: Demand) -> None:
    if demand.lines is not None and not 1 <= demand.lines <= shape.lines:
        raise LayerError(f"lines of a tile must be 1 to {shape.lines}, not {demand.lines}")
    if demand.channels is not None:
        fits = 1 <= demand.channels <= shape.channels
        if not fits or (demand.channels % shape.channel_unit and demand.channels != shape.channels):
            raise LayerError(
                f"channels of a tile must be a multiple of {shape.channel_unit} up to the layer's {shape.channels}, "
                f"or all, not {demand.channels}"
            )


def _sizes(total: int, unit: int) -> Iterator[int]:
    """Sizes of pieces, multiples of ``unit`` unless there is one piece, that differ in the number of pieces."""
    units, size = -(-total // unit), 0
    yield total
    for count in range(2, units + 1):
        if (following := -(-units // count)) != size and following * unit < total:
            size = following
            yield size * unit


def line_counts(lines: int) -> list[int]:
    """Lines of tiles that differ in the number of tiles, the most first."""
    return list(dict.fromkeys(_sizes(lines, 1)))


def _candidates(shape: LayerShape, footprint: Footprint, demand: Demand) -> Iterator["_Candidate"]:
    lines = [demand.lines] if demand.lines else line_counts(shape.lines)
    channels = [demand.channels] if demand.channels else list(dict.fromkeys(_sizes(shape.channels, shape.channel_unit)))
    for size in product(lines, channels, (False, True)):
        yield _Candidate(shape, footprint, *size, demand.overlap)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A division into tiles of one size."""

    shape: LayerShape
    footprint: Footprint
    lines: int
    channels: int
    channels_first: bool
    overlap: bool

    @property
    def rows(self) -> int:
        return -(-self.shape.lines // self.lines)

    @property
    def columns(self) -> int:
        return -(-self.shape.channels // self.channels)

    @property
    def bytes(self) -> int:
        """Bytes needed at most; no tile is larger than one from the inside."""
        rows, columns, shape = self.rows, self.columns, self.shape
        several = {TileOperand.INPUT: rows, TileOperand.WEIGHTS: columns, TileOperand.OUTPUT: rows * columns}
        tile = Tile(
            lines=range(self.lines),
            channels=range(self.channels),
            in_lines=range(shape.most_in_lines(self.lines)),
            pad_top=0,
            pixels=min(self.lines * shape.line_pixels, shape.pixels),
        )
        return self.footprint.fixed + sum(
            (2 if self.overlap and count > 1 else 1) * self.footprint.size(operand, tile)
            for operand, count in several.items()
        )

    def cost(self, rates: Rates, cores: int) -> int:
        """Cycles, as if all tiles moved as much."""
        rows, columns, shape, footprint = self.rows, self.columns, self.shape, self.footprint
        count, computed = rows * columns, 0
        tile_pixels = self.lines * shape.line_pixels
        last_channels = shape.channels - (columns - 1) * self.channels
        for number, pixels in ((rows - 1, tile_pixels), (1, shape.pixels - (rows - 1) * tile_pixels)):
            groups = -(-pixels // (footprint.group * cores))
            for times, width in ((columns - 1, self.channels), (1, last_channels)):
                computed += number * times * groups * (rates.group + footprint.blocks(width) * rates.block)
        all_input = rows * shape.most_in_lines(self.lines) * footprint.in_line
        all_weights = columns * footprint.weights(self.channels)
        moved = all_input * (columns if rows > 1 and not self.channels_first else 1)
        moved += all_weights * (rows if columns > 1 and self.channels_first else 1)
        moved += shape.pixels * footprint.pixel(shape.channels)
        transferred = int(moved / rates.bytes_per_cycle)
        total = max(computed, transferred) if self.overlap else computed + transferred
        return total + transferred // count + count * rates.step * (1 if self.overlap else 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Data of a tile on its way between memories."""

    operand: TileOperand  # Which; outputs are stored, the others are loaded
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


def _key(operand: TileOperand, tile: Tile) -> Hashable:
    if operand is TileOperand.WEIGHTS:
        return tile.channels
    return tile.in_lines if operand is TileOperand.INPUT else (tile.lines, tile.channels)


def slots_needed(tiles: Sequence[Tile], operand: TileOperand, *, overlap: bool) -> int:
    """Buffers for an operand: two where one is filled or emptied while the other is in use."""
    return 2 if overlap and len({_key(operand, tile) for tile in tiles}) > 1 else 1


def schedule(tiles: Sequence[Tile], *, overlap: bool) -> list[TileStep]:
    """The steps that compute ``tiles`` in their order.

    What the next tile has in common with the one before stays where it is. Without ``overlap`` nothing is moved while
    something is computed.
    """
    counts = {operand: slots_needed(tiles, operand, overlap=overlap) for operand in TileOperand}
    works: list[TileWork] = []
    loads: list[list[Move]] = []
    slots, keys = dict.fromkeys(TileOperand, -1), dict.fromkeys(TileOperand, None)
    for number, tile in enumerate(tiles):
        fetched: list[Move] = []
        for operand in TileOperand:
            key = _key(operand, tile)
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


def pieces(total: int, size: int) -> list[range]:
    """0 to ``total`` in pieces of ``size``, the last of which may be shorter."""
    return [range(start, min(start + size, total)) for start in range(0, total, size)]
