"""Choice of the tiles of a layer: the fastest tiling that fits into the memory, and the schedule of its steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product

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
        """Number and bytes of the buffers of each operand, computed from an inner tile, as no tile is larger."""
        (rows, columns, parts), shape = self._counts, self.division.shape
        several = {TileOperand.INPUT: (rows if shape.step else 1) * parts, TileOperand.WEIGHTS: columns * parts}
        several[TileOperand.OUTPUT] = rows * columns
        lines, channels, in_lines = map(range, (self.lines, self.channels, shape.most_in_lines(self.lines)))
        pixels = min(self.lines * shape.line_pixels, shape.pixels)
        tile = Tile(lines=lines, channels=channels, in_lines=in_lines, pad_top=0, pixels=pixels)
        return {
            operand: (2 if self.overlap and count > 1 else 1, self._operand_bytes(operand, tile))
            for operand, count in several.items()
        }

    def _operand_bytes(self, operand: TileOperand, tile: Tile) -> int:
        division, channels = self.division, len(tile.channels)
        if self.is_outside(operand):
            return 0
        if operand is TileOperand.WEIGHTS:
            return aligned(division.filter_bytes(channels))
        if operand is TileOperand.INPUT:
            return aligned(len(tile.in_lines) * division.in_line + division.in_spare)
        return aligned(-(-tile.pixels // division.group) * division.group * division.pixel_bytes(channels))

    def is_outside(self, operand: TileOperand) -> bool:
        return self.direct and operand is self.division.largest

    @property
    def bytes(self) -> int:
        operands = sum(count * size for count, size in self.buffers.values())
        return self.fixed + self.division.buffer_bytes(self.lines, self.channels) + operands

    @property
    def _counts(self) -> tuple[int, int, int]:
        shape = self.division.shape
        return -(-shape.lines // self.lines), -(-shape.channels // self.channels), shape.parts

    @cached_property
    def estimate(self) -> int:
        (rows, columns, parts), division, shape = self._counts, self.division, self.division.shape
        count, computed, is_cut = rows * columns * parts, 0, parts > 1
        tile_pixels = self.lines * shape.line_pixels
        last_channels = shape.channels - (columns - 1) * self.channels
        for number, pixels in ((rows - 1, tile_pixels), (1, shape.pixels - (rows - 1) * tile_pixels)):
            for times, width in ((columns - 1, self.channels), (1, last_channels)):
                times *= number * parts
                computed += times * division.cycles(pixels, width, self.cores) if times else 0
        all_input = rows * parts * shape.most_in_lines(self.lines) * division.in_line
        all_weights = columns * parts * division.filter_bytes(self.channels)
        moved = all_input * (columns if is_cut or (rows > 1 and not self.channels_first) else 1)
        moved += all_weights * (rows if is_cut or (columns > 1 and self.channels_first) else 1)
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


def fastest_plan(
    divisions: Sequence[Division],
    cores: int,
    memory: int,
    fixed: int,
    *,
    lines: int | None = None,
    channels: int | None = None,
    overlap: bool | None = None,
    direct: bool = False,
) -> TilePlan:
    """Return the fastest tiling that fits into ``memory`` bytes; raise :class:`LayerError` if none does.

    ``divisions`` are of the same layer and differ in the parts into which its input channels are cut.
    """
    shape = divisions[0].shape
    if channels is not None:
        fits = 1 <= channels <= shape.channels
        if not fits or (channels % shape.channel_unit and channels != shape.channels):
            raise LayerError(
                f"channels of a tile must be a multiple of {shape.channel_unit} up to the layer's {shape.channels}, "
                f"or all, not {channels}"
            )
    heights = [lines] if lines else [*dict.fromkeys(_sizes(shape.lines, shape.line_unit))]
    widths = [channels] if channels else [*dict.fromkeys(_sizes(shape.channels, shape.channel_unit))]
    least = 0
    for overlaps in (True, False) if overlap is None else (overlap,):
        divided = partial(TilePlan, fixed=fixed, cores=cores, overlap=overlaps, direct=direct)
        candidates = [
            divided(division=division, lines=height, channels=width, channels_first=channels_first)
            for division, height, width, channels_first in product(divisions, heights, widths, (False, True))
        ]
        if fitting := [plan for plan in candidates if plan.bytes <= memory]:
            best = sorted(fitting, key=lambda plan: plan.estimate)[:_FINALISTS]
            return min(best, key=lambda plan: plan.scheduled)
        least = min(plan.bytes for plan in candidates)
    raise LayerError(f"tiles must be at most the TCDM's {memory} bytes with buffers and stacks, not {least}")


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
    counts = {op: 2 if overlap and len({tile.key(op) for tile in tiles}) > 1 else 1 for op in TileOperand}
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
    stores = [
        [Move(operand=TileOperand.OUTPUT, tile=work.tile, slot=work.slots[TileOperand.OUTPUT])] * work.tile.is_last
        for work in works
    ]
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
        pieces = dict.fromkeys((tile.channels, tile.part) for tile in plan.tiles)
        self._filters = {piece: plan.division.filters(*piece) for piece in pieces}
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
        piece = tile.channels, tile.part
        if self.plan.is_outside(move.operand):
            return ()
        match move.operand:
            case TileOperand.WEIGHTS:
                place, size = self._places[piece], len(self._filters[piece].content)
                return (DmaTransfer(inside=inside, outside=place, line=size, inwards=True),) if size else ()
            case TileOperand.INPUT:
                parts = zip(self._inputs(inside), self._sources, strict=True)
                own = tile.in_lines, tile.part
                return [lines.transfer(own[0], at, outside, own[1], inwards=True) for (lines, at), outside in parts]
            case TileOperand.OUTPUT:
                return (self.plan.division.store(tile, self.plan.lines, inside, self._output),)

    def arguments(self, tile: Tile, slots: dict[TileOperand, int]) -> dict[str, int]:
        source, weights, output = (self._buffers[operand][slots[operand]] for operand in TileOperand)
        filters = self._filters[tile.channels, tile.part]
        inputs = {line_map.symbol: at for line_map, at in self._inputs(source)}
        if self.plan.is_outside(TileOperand.WEIGHTS):
            weights = self._places[tile.channels, tile.part]
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
