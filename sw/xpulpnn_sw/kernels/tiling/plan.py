"""Choice of tiles: the division of a layer that fits into the memory and takes the least time by estimate."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from itertools import product

from xpulpnn.errors import LayerError

DMA_ALIGNMENT = 8  # of what the DMA engine moves: it takes windows of so many bytes
_STEP_CYCLES = 150  # cycles of commands, barrier and the start of the function
_BYTES_PER_CYCLE = 6.0  # bytes that the DMA engine moves beside the cores


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

    def key(self, operand: TileOperand) -> object:
        """Tiles with the same key have an operand in common."""
        if operand is TileOperand.WEIGHTS:
            return self.channels
        return self.in_lines if operand is TileOperand.INPUT else (self.lines, self.channels)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """Lines and channels of a layer."""

    lines: int  # output lines: rows of the output map, groups of pixels of a matrix product
    line_pixels: int  # output pixels of a line
    pixels: int  # output pixels; the last line may have fewer
    channels: int = 1  # output channels
    channel_unit: int = 1  # a multiple of it are the channels of all tiles but the last
    in_lines: int
    step: int = 1  # input lines from the first of an output line to the first of the next
    window: int = 1  # input lines that an output line needs, as far as there are
    top: int = 0  # lines of padding above the input

    def tile(self, lines: range, channels: range) -> Tile:
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


class TileSizes(ABC):
    """Bytes and cycles that tiles of a layer take."""

    shape: LayerShape
    in_line: int  # bytes of an input line
    in_spare: int  # bytes after the last input line of a tile
    group = 1  # output pixels that are computed together
    block_cycles: int  # about, of a group of pixels and a block of channels
    group_cycles = 0  # of a group of pixels besides

    def blocks(self, channels: int) -> int:
        """Blocks that are computed for so many channels."""
        return channels

    @abstractmethod
    def pixel_bytes(self, channels: int) -> int:
        """Bytes of an output pixel of so many channels."""

    @abstractmethod
    def buffer_bytes(self, lines: int) -> int:
        """Bytes that the kernel needs while it runs, for tiles of so many lines."""

    @abstractmethod
    def filter_bytes(self, channels: int) -> int:
        """Bytes of filters and parameters of so many channels."""

    def size(self, operand: TileOperand, tile: Tile) -> int:
        """Bytes of a buffer for an operand of a tile."""
        channels = len(tile.channels)
        if operand is TileOperand.WEIGHTS:
            return aligned(self.filter_bytes(channels))
        if operand is TileOperand.INPUT:
            return aligned(len(tile.in_lines) * self.in_line + self.in_spare)
        return aligned(-(-tile.pixels // self.group) * self.group * self.pixel_bytes(channels))


def tiles_of(shape: LayerShape, lines: int, channels: int, *, channels_first: bool) -> tuple[Tile, ...]:
    """All tiles of one size, in the order of the channels and of the lines within them, or the other way round."""
    rows, columns = _pieces(shape.lines, lines), _pieces(shape.channels, channels)
    pairs = product(rows, columns) if channels_first else ((row, column) for column in columns for row in rows)
    return tuple(shape.tile(row, column) for row, column in pairs)


def _pieces(total: int, size: int) -> list[range]:
    """0 to ``total`` in pieces of ``size``, the last of which may be shorter."""
    return [range(start, min(start + size, total)) for start in range(0, total, size)]


@dataclass(frozen=True, eq=False, kw_only=True)
class TilePlan:
    """A division into tiles of one size."""

    sizes: TileSizes
    fixed: int  # bytes of what there is once for all tiles, whatever they are: stacks, reports
    cores: int  # that share each tile
    lines: int  # of a tile; those at the ends may have fewer
    channels: int  # of a tile; those at the ends may have fewer
    channels_first: bool  # whether all channels of some lines are computed before the next lines
    overlap: bool  # whether data are moved while tiles are computed, which takes two buffers each

    @cached_property
    def tiles(self) -> tuple[Tile, ...]:
        """All tiles in their order."""
        return tiles_of(self.sizes.shape, self.lines, self.channels, channels_first=self.channels_first)

    @cached_property
    def buffers(self) -> dict[TileOperand, tuple[int, int]]:
        """Number and bytes of the buffers of each operand."""
        return {
            operand: (
                slots_needed(self.tiles, operand, overlap=self.overlap),
                max(self.sizes.size(operand, one) for one in self.tiles),
            )
            for operand in TileOperand
        }

    @property
    def bytes(self) -> int:
        """Bytes of memory that the division needs."""
        return self._always + sum(count * size for count, size in self.buffers.values())

    @property
    def _always(self) -> int:
        return self.fixed + self.sizes.buffer_bytes(self.lines)

    @property
    def _counts(self) -> tuple[int, int]:
        """Tiles one below the other, and side by side."""
        shape = self.sizes.shape
        return -(-shape.lines // self.lines), -(-shape.channels // self.channels)

    @property
    def most_bytes(self) -> int:
        """Bytes needed at most, without a look at each tile: none is larger than one from the inside."""
        (rows, columns), shape = self._counts, self.sizes.shape
        several = {TileOperand.INPUT: rows, TileOperand.WEIGHTS: columns, TileOperand.OUTPUT: rows * columns}
        tile = Tile(
            lines=range(self.lines),
            channels=range(self.channels),
            in_lines=range(shape.most_in_lines(self.lines)),
            pad_top=0,
            pixels=min(self.lines * shape.line_pixels, shape.pixels),
        )
        return self._always + sum(
            (2 if self.overlap and count > 1 else 1) * self.sizes.size(operand, tile)
            for operand, count in several.items()
        )

    @cached_property
    def estimate(self) -> int:
        """Cycles that it takes about, as if all tiles moved as much."""
        (rows, columns), sizes, shape = self._counts, self.sizes, self.sizes.shape
        count, computed = rows * columns, 0
        tile_pixels = self.lines * shape.line_pixels
        last_channels = shape.channels - (columns - 1) * self.channels
        for number, pixels in ((rows - 1, tile_pixels), (1, shape.pixels - (rows - 1) * tile_pixels)):
            groups = -(-pixels // (sizes.group * self.cores))
            for times, width in ((columns - 1, self.channels), (1, last_channels)):
                computed += number * times * groups * (sizes.group_cycles + sizes.blocks(width) * sizes.block_cycles)
        all_input = rows * shape.most_in_lines(self.lines) * sizes.in_line
        all_weights = columns * sizes.filter_bytes(self.channels)
        moved = all_input * (columns if rows > 1 and not self.channels_first else 1)
        moved += all_weights * (rows if columns > 1 and self.channels_first else 1)
        moved += shape.pixels * sizes.pixel_bytes(shape.channels)
        transferred = int(moved / _BYTES_PER_CYCLE)
        total = max(computed, transferred) if self.overlap else computed + transferred
        return total + transferred // count + count * _STEP_CYCLES * (1 if self.overlap else 2)


def slots_needed(tiles: tuple[Tile, ...], operand: TileOperand, *, overlap: bool) -> int:
    """Buffers for an operand: two where one is filled or emptied while the other is in use."""
    return 2 if overlap and len({tile.key(operand) for tile in tiles}) > 1 else 1


def planned(
    sizes: TileSizes,
    cores: int,
    memory: int,
    fixed: int,
    *,
    lines: int | None = None,
    channels: int | None = None,
    overlap: bool | None = None,
) -> TilePlan:
    """The division that fits into ``memory`` bytes, ``fixed`` of which are taken, and takes the least time.

    Tiles have so many lines and channels, or as it suits. With ``overlap`` data are moved while tiles are computed, by
    default if there is room for that. Raises :class:`LayerError` if there is none, or for wishes that cannot be met.
    """
    shape = sizes.shape
    if lines is not None and not 1 <= lines <= shape.lines:
        raise LayerError(f"lines of a tile must be 1 to {shape.lines}, not {lines}")
    if channels is not None:
        fits = 1 <= channels <= shape.channels
        if not fits or (channels % shape.channel_unit and channels != shape.channels):
            raise LayerError(
                f"channels of a tile must be a multiple of {shape.channel_unit} up to the layer's {shape.channels}, "
                f"or all, not {channels}"
            )
    divided = partial(TilePlan, sizes=sizes, fixed=fixed, cores=cores, overlap=overlap is not False)
    candidates = [
        divided(lines=height, channels=width, channels_first=channels_first)
        for height in ([lines] if lines else dict.fromkeys(_sizes(shape.lines, 1)))
        for width in ([channels] if channels else dict.fromkeys(_sizes(shape.channels, shape.channel_unit)))
        for channels_first in (False, True)
    ]
    fitting = [one for one in candidates if one.most_bytes <= memory]
    if not fitting and overlap is None:
        return planned(sizes, cores, memory, fixed, lines=lines, channels=channels, overlap=False)
    if not fitting:
        least = min(one.most_bytes for one in candidates)
        raise LayerError(f"tiles must be at most the TCDM's {memory} bytes with buffers and stacks, not {least}")
    return min(fitting, key=lambda one: one.estimate)


def _sizes(total: int, unit: int) -> Iterator[int]:
    """Sizes of pieces, multiples of ``unit`` unless there is one piece, that differ in the number of pieces."""
    units, size = -(-total // unit), 0
    yield total
    for count in range(2, units + 1):
        if (following := -(-units // count)) != size and following * unit < total:
            size = following
            yield size * unit
