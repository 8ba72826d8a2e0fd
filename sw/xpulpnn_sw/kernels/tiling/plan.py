"""Choice of the tiles of a layer: the fastest tiling that fits into the memory, and the schedule of its steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.layout import ImageBuilder
from xpulpnn_sw.kernels.tiling.map_division import MapDivision
from xpulpnn_sw.kernels.tiling.product_division import ProductDivision
from xpulpnn_sw.kernels.tiling.tile import BUFFER, LineMap, Tile, TileOperand
from xpulpnn_sw.kernels.tiling.transfer import DmaTransfer, aligned

Division = MapDivision | ProductDivision  # operands, transfers and arguments of a layer's tiles

_STEP_CYCLES = 150  # cycles of commands, barrier and the start of the function
_FINALISTS = 12  # plans of which all steps are estimated
_BYTES_PER_CYCLE = 6.0  # bytes that the DMA engine moves in a cycle while cores compute


def operand_bytes(division: Division, operand: TileOperand, tile: Tile) -> int:
    channels, group = len(tile.channels), division.group
    if operand is TileOperand.WEIGHTS:
        return aligned(division.filter_bytes(channels))
    if operand is TileOperand.INPUT:
        return aligned(len(tile.in_lines) * division.in_line + division.in_spare)
    return aligned(-(-tile.pixels // group) * group * division.pixel_bytes(channels))


@dataclass(frozen=True, eq=False, kw_only=True)
class TilePlan:
    division: Division
    fixed: int  # bytes that do not depend on the tiles, such as stacks and reports
    cores: int  # cores that share each tile
    lines: int  # lines of a tile, fewer at the end
    channels: int  # channels of a tile, fewer at the end
    channels_first: bool  # whether all channels of some lines are computed before the next lines
    overlap: bool  # whether data are moved while tiles are computed, which takes two buffers per operand
    direct: bool = False  # whether cores read an operand from main memory, for which the TCDM has no room

    @cached_property
    def tiles(self) -> tuple[Tile, ...]:
        return self.division.shape.tiles(self.lines, self.channels, channels_first=self.channels_first)

    @cached_property
    def buffers(self) -> dict[TileOperand, tuple[int, int]]:
        return {
            operand: (
                slots_needed(self.tiles, operand, overlap=self.overlap),
                max(self._operand_bytes(operand, tile) for tile in self.tiles),
            )
            for operand in TileOperand
        }

    def _operand_bytes(self, operand: TileOperand, tile: Tile) -> int:
        return 0 if self.is_outside(operand) else operand_bytes(self.division, operand, tile)

    def is_outside(self, operand: TileOperand) -> bool:
        return self.direct and operand is self.division.largest

    @property
    def bytes(self) -> int:
        return self._constant_bytes + sum(count * size for count, size in self.buffers.values())

    @property
    def _constant_bytes(self) -> int:
        return self.fixed + self.division.buffer_bytes(self.lines)

    @property
    def _counts(self) -> tuple[int, int]:
        shape = self.division.shape
        return -(-shape.lines // self.lines), -(-shape.channels // self.channels)

    @property
    def most_bytes(self) -> int:
        """Upper bound of the bytes that the plan needs, computed from an inner tile, as no tile is larger."""
        (rows, columns), shape = self._counts, self.division.shape
        several = {TileOperand.INPUT: rows, TileOperand.WEIGHTS: columns, TileOperand.OUTPUT: rows * columns}
        lines, channels, in_lines = map(range, (self.lines, self.channels, shape.most_in_lines(self.lines)))
        pixels = min(self.lines * shape.line_pixels, shape.pixels)
        tile = Tile(lines=lines, channels=channels, in_lines=in_lines, pad_top=0, pixels=pixels)
        return self._constant_bytes + sum(
            (2 if self.overlap and count > 1 else 1) * self._operand_bytes(operand, tile)
            for operand, count in several.items()
        )

    @cached_property
    def estimate(self) -> int:
        (rows, columns), division, shape = self._counts, self.division, self.division.shape
        count, computed = rows * columns, 0
        tile_pixels = self.lines * shape.line_pixels
        last_channels = shape.channels - (columns - 1) * self.channels
        for number, pixels in ((rows - 1, tile_pixels), (1, shape.pixels - (rows - 1) * tile_pixels)):
            for times, width in ((columns - 1, self.channels), (1, last_channels)):
                computed += number * times * division.cycles(pixels, width, self.cores) if number * times else 0
        all_input = rows * shape.most_in_lines(self.lines) * division.in_line
        all_weights = columns * division.filter_bytes(self.channels)
        moved = all_input * (columns if rows > 1 and not self.channels_first else 1)
        moved += all_weights * (rows if columns > 1 and self.channels_first else 1)
        moved += shape.pixels * division.pixel_bytes(shape.channels)
        transferred = int(moved / _BYTES_PER_CYCLE)
        total = max(computed, transferred) if self.overlap else computed + transferred
        return total + transferred // count + count * _STEP_CYCLES * (1 if self.overlap else 2)

    @cached_property
    def scheduled(self) -> int:
        """Estimated cycles of all steps, in which data are moved while a tile is computed; slower than ``estimate``."""
        division, total = self.division, 0
        sizes = [*dict.fromkeys((tile.pixels, len(tile.channels)) for tile in self.tiles)]
        computed = {size: division.cycles(*size, self.cores, sizes) for size in sizes}
        for step in schedule(self.tiles, overlap=self.overlap):
            moved = sum(self._operand_bytes(move.operand, move.tile) for move in step.moves) / _BYTES_PER_CYCLE
            work = computed[step.work.tile.pixels, len(step.work.tile.channels)] if step.work else 0
            total += _STEP_CYCLES + max(work, int(moved))
        return total


def slots_needed(tiles: tuple[Tile, ...], operand: TileOperand, *, overlap: bool) -> int:
    """Return the number of buffers of an operand: two if one is transferred while the tile in the other is computed."""
    return 2 if overlap and len({tile.key(operand) for tile in tiles}) > 1 else 1


def fastest_plan(
    division: Division,
    cores: int,
    memory: int,
    fixed: int,
    *,
    lines: int | None = None,
    channels: int | None = None,
    overlap: bool | None = None,
    direct: bool = False,
) -> TilePlan:
    """Return the fastest tiling that fits into ``memory`` bytes; raise :class:`LayerError` if none does."""
    shape = division.shape
    if lines is not None and not 1 <= lines <= shape.lines:
        raise LayerError(f"lines of a tile must be 1 to {shape.lines}, not {lines}")
    if channels is not None:
        fits = 1 <= channels <= shape.channels
        if not fits or (channels % shape.channel_unit and channels != shape.channels):
            raise LayerError(
                f"channels of a tile must be a multiple of {shape.channel_unit} up to the layer's {shape.channels}, "
                f"or all, not {channels}"
            )
    divided = partial(
        TilePlan, division=division, fixed=fixed, cores=cores, overlap=overlap is not False, direct=direct
    )
    candidates = [
        divided(lines=height, channels=width, channels_first=channels_first)
        for height in ([lines] if lines else dict.fromkeys(_sizes(shape.lines, shape.line_unit)))
        for width in ([channels] if channels else dict.fromkeys(_sizes(shape.channels, shape.channel_unit)))
        for channels_first in (False, True)
    ]
    fitting = [plan for plan in candidates if plan.most_bytes <= memory]
    if not fitting and overlap is None:
        return fastest_plan(
            division, cores, memory, fixed, lines=lines, channels=channels, overlap=False, direct=direct
        )
    if not fitting:
        least = min(plan.most_bytes for plan in candidates)
        raise LayerError(f"tiles must be at most the TCDM's {memory} bytes with buffers and stacks, not {least}")
    best = sorted(fitting, key=lambda plan: plan.estimate)[:_FINALISTS]
    return min(best, key=lambda plan: plan.scheduled)


def _sizes(total: int, unit: int) -> Iterator[int]:
    units, size = -(-total // unit), 0
    yield total
    for count in range(2, units + 1):
        if (following := -(-units // count)) != size and following * unit < total:
            size = following
            yield size * unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    operand: TileOperand  # outputs are stored, inputs and weights loaded
    tile: Tile
    slot: int  # number of the buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class TileWork:
    number: int
    tile: Tile
    slots: dict[TileOperand, int]


@dataclass(slots=True)
class TileStep:
    """Computation of a tile and transfers of other tiles, which take place between two barriers."""

    work: TileWork | None = None
    moves: list[Move] = field(default_factory=list[Move])


def schedule(tiles: tuple[Tile, ...], *, overlap: bool) -> list[TileStep]:
    """Return the steps that compute ``tiles`` in order; operands of the previous tile are not moved again."""
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


class PlacedLayer:
    """A layer divided into tiles, with the addresses of its operands.

    Outside the cluster, the inputs are at ``sources`` and the results at ``output``. Filters and parameters are placed
    in the image ``outside``, under names that begin with ``name``. In the cluster, ``buffers`` are the addresses of
    each operand's tiles, with all inputs in one buffer. The kernel's working memory is at ``buffer``, if it needs any.
    """

    def __init__(
        self,
        plan: TilePlan,
        name: str,
        outside: ImageBuilder,
        *,
        sources: Sequence[int],
        output: int,
        buffers: Mapping[TileOperand, Sequence[int]],
        buffer: int | None,
    ) -> None:
        self.plan, self._sources, self._output, self._buffers, self._buffer = plan, sources, output, buffers, buffer
        pieces = dict.fromkeys(tile.channels for tile in plan.tiles)
        self._filters = {channels: plan.division.filters(channels) for channels in pieces}
        self._places = {
            piece: outside.place(f"{name}{filters.name}", filters.content) for piece, filters in self._filters.items()
        }

    def _inputs(self, buffer: int) -> Iterator[tuple[LineMap, int]]:
        lines = self.plan.division.shape.most_in_lines(self.plan.lines)
        for line_map in self.plan.division.inputs:
            yield line_map, buffer
            buffer += aligned(lines * line_map.row + line_map.read_ahead)

    def transfers(self, move: Move) -> Sequence[DmaTransfer]:
        tile, inside = move.tile, self._buffers[move.operand][move.slot]
        if self.plan.is_outside(move.operand):
            return ()
        match move.operand:
            case TileOperand.WEIGHTS:
                place, size = self._places[tile.channels], len(self._filters[tile.channels].content)
                return (DmaTransfer(inside=inside, outside=place, line=size, inwards=True),) if size else ()
            case TileOperand.INPUT:
                parts = zip(self._inputs(inside), self._sources, strict=True)
                return [lines.transfer(tile.in_lines, at, outside, inwards=True) for (lines, at), outside in parts]
            case TileOperand.OUTPUT:
                return (self.plan.division.store(tile, self.plan.lines, inside, self._output),)

    def arguments(self, tile: Tile, slots: dict[TileOperand, int]) -> dict[str, int]:
        source, weights, output = (self._buffers[operand][slots[operand]] for operand in TileOperand)
        filters = self._filters[tile.channels]
        inputs = {line_map.symbol: at for line_map, at in self._inputs(source)}
        if self.plan.is_outside(TileOperand.WEIGHTS):
            weights = self._places[tile.channels]
        if self.plan.is_outside(TileOperand.INPUT):
            maps = zip(self.plan.division.inputs, self._sources, strict=True)
            inputs = {line_map.symbol: start + tile.in_lines.start * line_map.line for line_map, start in maps}
        return {
            **self.plan.division.run.arguments,
            "output": output,
            **inputs,
            **{name: weights + distance for name, distance in filters.places.items()},
            **filters.arguments,
            **({} if self._buffer is None else {BUFFER: self._buffer}),
            **self.plan.division.tile_arguments(tile, self.plan.lines),
        }
