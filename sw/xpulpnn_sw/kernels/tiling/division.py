"""Tiles of layers, and the tiling of each kind of kernel.

A tile is a range of lines and, in layers with filters, of output channels. A line is a row of a feature map or, in a
map of a single row, a pixel; in a matrix product it is a group of pixels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate, product
from math import gcd

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.channelwise.depthwise_channel import rows_stride
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import GROUPED_PIXELS, Program, banked_words, padded_channels
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.products import MATMUL_ARGUMENTS, channel_parts
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.requantised_code import product_program
from xpulpnn_sw.kernels.tiling.transfer import DMA_ALIGNMENT, DmaTransfer, aligned
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.layer import (
    DepthwiseLayer,
    GatherLayer,
    ImageConvLayer,
    Layer,
    MapLayer,
    TransposeLayer,
    WindowLayer,
)

BUFFER = "buffer"  # argument for memory used only while a kernel runs


Sizes = Sequence[tuple[int, int]]


def _in_words(size: int) -> int:
    return -(-size // WORD) * WORD


class TileOperand(Enum):
    INPUT = "input"
    WEIGHTS = "weights"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    lines: range
    channels: range
    in_lines: range  # lines of the input; empty if the tile needs nothing but padding
    pad_top: int  # lines of padding above the first input line
    pixels: int

    def key(self, operand: TileOperand) -> object:
        if operand is TileOperand.WEIGHTS:
            return self.channels
        return self.in_lines if operand is TileOperand.INPUT else (self.lines, self.channels)


def _pieces(total: int, size: int) -> list[range]:
    return [range(start, min(start + size, total)) for start in range(0, total, size)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    lines: int  # output lines: rows of the output map, groups of pixels of a matrix product
    line_unit: int = 1  # unit of the lines of all tiles but the last
    line_pixels: int  # output pixels of a line
    pixels: int  # output pixels; the last line may have fewer
    channels: int = 1  # output channels
    channel_unit: int = 1  # unit of the channels of all tiles but the last
    in_lines: int
    step: int = 1  # input lines between the starts of neighbouring output lines
    window: int = 1  # most input lines that an output line needs
    top: int = 0  # lines of padding above the input

    def tile(self, lines: range, channels: range) -> Tile:
        first = lines.start * self.step - self.top
        after = (lines.stop - 1) * self.step - self.top + self.window
        start, stop = max(first, 0), min(after, self.in_lines)
        needed = range(start, stop) if start < stop else range(0)
        pad_top = start - first if needed else 0
        pixels = min(lines.stop * self.line_pixels, self.pixels) - lines.start * self.line_pixels
        return Tile(lines=lines, channels=channels, in_lines=needed, pad_top=pad_top, pixels=pixels)

    def tiles(self, lines: int, channels: int, *, channels_first: bool) -> tuple[Tile, ...]:
        rows, columns = _pieces(self.lines, lines), _pieces(self.channels, channels)
        pairs = product(rows, columns) if channels_first else ((row, column) for column in columns for row in rows)
        return tuple(self.tile(row, column) for row, column in pairs)

    def most_in_lines(self, lines: int) -> int:
        return min((lines - 1) * self.step + self.window, self.in_lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMap:
    symbol: str  # argument with its address
    line: int  # bytes of a line of a plane
    read_ahead: int = 0  # bytes behind the map that may be read
    planes: int = 1  # pieces of consecutive lines
    stride: int = 0  # bytes from one plane to the next

    @property
    def row(self) -> int:
        return self.planes * self.line

    def transfer(self, lines: range, inside: int, outside: int, *, inwards: bool) -> DmaTransfer:
        size = len(lines) * self.line
        return DmaTransfer(
            inside=inside,
            outside=outside + lines.start * self.line,
            line=size,
            lines=self.planes,
            inside_stride=_in_words(size),
            outside_stride=self.stride,
            inwards=inwards,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    name: str
    content: bytes
    places: Mapping[str, int]  # offsets of pointer arguments from the start
    arguments: Mapping[str, int] = field(default_factory=dict[str, int])  # other arguments that belong to the filters


_MAP_CYCLES = 2  # estimated cycles of each word of a window, or of a map


class MapDivision:
    """Tiling of a layer whose output rows can be computed separately."""

    def __init__(self, run: KernelRun, cores: int, build: Callable[[Layer], Program]) -> None:
        # ``build`` returns the function of a layer
        self.run, self._cores, self._build, layer = run, cores, build, run.layer
        height, width = layer.out_shape
        self._along = isinstance(layer, WindowLayer | MapLayer) and _is_row(layer.height, height, layer)
        if self._along:
            height, width = width, 1
        rows, area = {"in_lines": height}, 1
        if isinstance(layer, GatherLayer):
            rows = {"in_lines": layer.height, "step": 0, "window": layer.height}
        if isinstance(layer, WindowLayer):
            size = (layer.width, layer.kernel_width) if self._along else (layer.height, layer.kernel_height)
            rows = {"in_lines": size[0], "step": layer.stride[self._along], "window": size[1]}
            rows, area = rows | {"top": layer.padding[2 * self._along]}, layer.area
        # operand that cores can read from main memory, and output pixels that lie together
        self.largest = TileOperand.WEIGHTS if isinstance(layer, DepthwiseLayer) else TileOperand.INPUT
        self.group = GROUPED_PIXELS if run.output.grouped else 1
        rows["line_unit"] = self.group // gcd(width, self.group)
        self.shape = LayerShape(lines=height, line_pixels=width, pixels=height * width, **rows)
        self.inputs = tuple(self._inputs())
        size = run.image.symbols["output"].length
        line = run.arguments["row_bytes"] if isinstance(layer, TransposeLayer) else size // height
        line = width * run.output.pixel_bytes if run.output.grouped else line
        self._output = LineMap(symbol="output", line=line, planes=size // (height * line), stride=height * line)
        # bytes of an input line, and spare bytes after the last line of a tile
        self.in_line = sum(lines.row for lines in self.inputs)
        self.in_spare = sum(aligned(lines.read_ahead) + DMA_ALIGNMENT for lines in self.inputs)
        # planes begin with whole words
        self.in_spare += sum(lines.planes * (WORD - 1) for lines in self.inputs if lines.line % WORD)
        # estimated cycles of a pixel
        self._pixel_cycles = -(-self.in_line // (WORD * width)) * area * _MAP_CYCLES
        names = {"output", BUFFER, "arguments", "stack", *(lines.symbol for lines in self.inputs)}
        self._constants = [name for name in run.image.symbols if name not in names]

    def _inputs(self) -> Iterator[LineMap]:
        layer, arguments, rows = self.run.layer, self.run.arguments, self.shape.in_lines
        planes = layer.channels if isinstance(layer, DepthwiseLayer) else 1
        for name, symbol in self.run.image.symbols.items():
            if name not in ("first", "second", "input"):
                continue
            size = symbol.length
            # bytes of a line of one channel or of all
            line = arguments["pixel_bytes"] * arguments["width"] if "pixel_bytes" in arguments else size // rows
            line = arguments.get("pixel_bytes", line) if self._along else line
            line = arguments["row_bytes"] if isinstance(layer, DepthwiseLayer) else line
            stride = _in_words(rows * line) if planes > 1 else rows * line
            yield LineMap(symbol=name, line=line, planes=planes, stride=stride, read_ahead=size - planes * stride)

    def cycles(self, pixels: int, channels: int, cores: int, sizes: Sizes = ()) -> int:
        # depthwise convolutions begin each tile with the rows above, which they have at hand in larger tiles
        again = self.shape.line_pixels * isinstance(self.run.layer, DepthwiseLayer)
        return channels * -(-(pixels + again) // cores) * self._pixel_cycles

    def pixel_bytes(self, channels: int) -> int:
        return channels * -(-self._output.row // self.shape.line_pixels)

    def filter_bytes(self, channels: int) -> int:
        return channels * sum(self.run.image.symbols[name].length for name in self._constants)

    def _rows_stride(self, lines: int) -> int:
        layer = self.run.layer
        assert isinstance(layer, DepthwiseLayer)
        return rows_stride(layer, (lines - 1) * layer.stride[0] + layer.kernel_height, self.run.placement)

    def buffer_bytes(self, lines: int) -> int:
        return aligned(self._cores * self._rows_stride(lines)) if BUFFER in self.run.image.symbols else 0

    def filters(self, channels: range) -> Filters:
        contents = [self.run.image.view(name).tobytes() for name in self._constants]
        places = dict(zip(self._constants, accumulate(map(len, contents), initial=0), strict=False))
        return Filters(name="constants", content=b"".join(contents), places=places)

    def store(self, tile: Tile, lines: int, inside: int, outside: int) -> DmaTransfer:
        transfer = self._output.transfer(tile.lines, inside, outside, inwards=False)
        return replace(transfer, line=transfer.line + -tile.pixels % self.group * self.run.output.pixel_bytes)

    def tile_arguments(self, tile: Tile, lines: int) -> dict[str, int]:
        """Return the arguments that differ between tiles; ``lines`` is the number of lines of the largest tile."""
        layer, arguments, rows = self.run.layer, self.run.arguments, len(tile.lines)
        if isinstance(layer, WindowLayer):
            copied = {"buffer_stride": self._rows_stride(lines)} if isinstance(layer, DepthwiseLayer) else {}
            if self._along:
                return {"width": len(tile.in_lines), "out_width": rows, "pad_left": tile.pad_top}
            return {"height": len(tile.in_lines), "out_height": rows, "pad_top": tile.pad_top, **copied}
        if isinstance(layer, TransposeLayer):
            return {"height": rows}
        if isinstance(layer, GatherLayer):
            steps = arguments["steps"] // self.shape.lines
            return {"steps": steps * rows, "start": steps * tile.lines.start}
        return {name: arguments[name] // self.shape.lines * rows for name in ("words", "steps") if name in arguments}

    def functions(self, calls: Sequence[tuple[Tile, Mapping[str, int]]], cores: int) -> dict[Layer, Program]:
        return {layer: self._build(layer) for layer in dict.fromkeys(self.layer_of(tile) for tile, _ in calls)}

    def layer_of(self, tile: Tile) -> Layer:
        layer, rows = self.run.layer, len(tile.in_lines)
        if isinstance(layer, WindowLayer) and rows:
            needed = (len(tile.lines) - 1) * self.shape.step + self.shape.window
            padding = (tile.pad_top, needed - tile.pad_top - rows)
            if self._along:
                return replace(layer, width=rows, padding=(*layer.padding[:2], *padding))
            padding = (*padding, *layer.padding[2:])
            return replace(layer, height=rows, padding=padding)
        if isinstance(layer, MapLayer):
            return replace(layer, width=rows) if self._along else replace(layer, height=rows)
        return layer


def _is_row(height: int, out_height: int, layer: Layer) -> bool:
    return height == out_height == 1 and not isinstance(layer, DepthwiseLayer | TransposeLayer)


_AHEAD = 2  # words that may be read behind an input
_BLOCK_CYCLES = 45  # cycles of the accumulators' start, requantisation and stores
_PIXEL_CYCLES = 40
_WORD_CYCLES = 2.5  # cycles of the im2col for each word of a pixel


class ProductDivision:
    """Tiling of a layer with filters by rows and channels; raises :class:`LayerError` for any other layer."""

    in_spare = _AHEAD * WORD
    largest = TileOperand.WEIGHTS

    def __init__(self, run: KernelRun, *, folded: bool = False) -> None:
        variant, precision, arguments = run.variant, run.precision, run.arguments
        if not isinstance(variant, Variant):
            raise LayerError(f"layer in tiles must be one with filters, not {run.layer} of {run.name}")
        if run.rule is Rule.QNT:
            raise LayerError("layer in tiles must be requantised by a rule without pv.qnt, not qnt")
        self.run, self._variant = run, variant
        stored = {"folded": folded, "flat": run.output.flat, "grouped": run.output.grouped}
        self._blocking = Blocking(variant, precision, run.rule, **stored)
        self._is_map, self.group = BUFFER in arguments, variant.npx
        self._along = self._is_map and _is_row(arguments["height"], arguments["out_height"], run.layer)
        # output pixels of a line: of a row of the map, of a group, or the only one
        line_pixels = pixels = 1
        self.in_line = run.image.symbols["input"].length
        if self._is_map:
            line_pixels, self.in_line = arguments["out_width"], arguments["width"] * arguments["pixel_bytes"]
            pixels = arguments["out_height"] * line_pixels
        elif run.structure == MATMUL_ARGUMENTS:
            line_pixels, pixels = variant.npx, arguments["pixels"]
            self.in_line = variant.npx * arguments["row_stride"]
        self.inputs = (LineMap(symbol="input", line=self.in_line),)
        filter_words = self._blocking.filled(arguments["row_words"])
        # words of a stream of filters for each block of channels
        self._stream_words = variant.nch // variant.weight_streams * filter_words
        groups = -(-pixels // line_pixels)
        lines = {"lines": groups, "in_lines": groups}
        if self._is_map:
            distance = arguments.get("dilation", 0) or 1
            lines = {"lines": arguments["out_height"], "in_lines": arguments["height"], "top": arguments["pad_top"]}
            lines |= {"step": arguments["stride_y"], "window": (arguments["kernel_height"] - 1) * distance + 1}
            lines["line_unit"] = GROUPED_PIXELS // gcd(line_pixels, GROUPED_PIXELS) if run.output.grouped else 1
        if self._along:
            # lines are pixels of the only row
            line_pixels, self.in_line = 1, arguments["pixel_bytes"]
            self.inputs = (LineMap(symbol="input", line=self.in_line),)
            lines = {"lines": pixels, "in_lines": arguments["width"], "top": arguments["pad_left"]}
            lines |= {"step": arguments["stride_x"], "window": arguments["kernel_width"], "line_unit": variant.npx}
        self.shape = LayerShape(
            **lines,
            line_pixels=line_pixels,
            pixels=pixels,
            channels=run.layer.out_channels,
            # results of a tile begin with a whole word
            channel_unit=max(padded_channels(1, precision.y), self._blocking.channel_step),
        )
        is_inner = run.function.is_inner
        # inner loops in the code, one for each block of a channel step or of a word of results and for each plane
        loops = int((is_inner & ~np.roll(is_inner, 1)).sum())
        inner = int(is_inner.sum()) // loops * variant.planes(precision)
        copied = arguments["row_stride"] // WORD if self._is_map else 0
        self._block_cycles = filter_words // variant.unrolled * inner + _BLOCK_CYCLES
        self._group_cycles = int(variant.npx * (_PIXEL_CYCLES + _WORD_CYCLES * copied)) if copied else _PIXEL_CYCLES
        self._parameter_words = run.image.symbols["parameters"].length // WORD // self._blocks(run.layer.out_channels)

    def cycles(self, pixels: int, channels: int, cores: int, sizes: Sizes = ()) -> int:
        """Return the estimated cycles of a tile; ``sizes`` are pixels and channels of all tiles of the function."""
        groups, blocks = -(-pixels // self.group), self._blocks(channels)
        if self._blocking.by_channels:
            return self._group_cycles + -(-blocks // cores) * self._block_cycles
        parts = self._parts(sizes or [(pixels, channels)], cores)
        return -(-groups * parts // cores) * (self._group_cycles + blocks // parts * self._block_cycles)

    def _parts(self, sizes: Sizes, cores: int) -> int:
        return channel_parts(self._blocking, cores, self.run.arguments["row_words"], sizes)

    def _blocks(self, channels: int) -> int:
        step = self._blocking.channel_step
        return -(-channels // step) * step // self._variant.nch

    def pixel_bytes(self, channels: int) -> int:
        precision = self.run.precision
        width = precision.y if precision.requantised else precision.w
        return padded_channels(channels, width) * precision.y // BYTE_BITS

    def filter_bytes(self, channels: int) -> int:
        variant, blocks = self._variant, self._blocks(channels)
        stream = banked_words(blocks * self._stream_words, self.run.placement)
        return (variant.weight_streams * stream + variant.nch + blocks * self._parameter_words) * WORD

    def buffer_bytes(self, lines: int) -> int:
        symbol = self.run.image.symbols.get("im2col")
        return 0 if symbol is None else aligned(symbol.length)

    @property
    def unit(self) -> str:
        return "rows" if self._is_map and not self._along else "pixels"

    def lines_of(self, rows: int) -> int:
        """Return how many lines have ``rows`` rows or pixels; raise :class:`LayerError` unless the lines are whole."""
        most, unit = (self.shape.lines, 1) if self.unit == "rows" else (self.shape.pixels, self.shape.line_pixels)
        if not 1 <= rows <= most or (rows % unit and rows != most):
            multiple = "" if unit == 1 else f", a multiple of {unit} or all"
            raise LayerError(f"{self.unit} of a tile must be 1 to {most}{multiple}, not {rows}")
        return -(-rows // unit)

    def rows_of(self, tile: Tile) -> range:
        if self.unit == "rows":
            return tile.lines
        first = tile.lines.start * self.shape.line_pixels
        return range(first, first + tile.pixels)

    def filters(self, channels: range) -> Filters:
        """Return the filters of ``channels``, laid out as in a kernel that has only these channels."""
        count, nch = self._variant.weight_streams, self._variant.nch
        blocks = slice(channels.start // nch, self._blocks(channels.stop))
        weights, parameters = (self.run.image.view(symbol).view("<u4") for symbol in ("weights", "parameters"))
        streams = weights[: count * self.run.arguments["weight_stride"] // WORD].reshape(count, -1)
        own = streams[:, blocks.start * self._stream_words : blocks.stop * self._stream_words]
        words = banked_words(own.shape[1], self.run.placement)
        filled = np.pad(np.pad(own, ((0, 0), (0, words - own.shape[1]))).reshape(-1), (0, nch))
        sizes = {"out_channels": len(channels), "out_stride": self.pixel_bytes(len(channels))}
        of_blocks = parameters.reshape(-1, self._parameter_words)[blocks]
        return Filters(
            name=f"filters{channels.start}",
            content=np.append(filled, of_blocks.reshape(-1)).astype("<u4").tobytes(),
            places={"weights": 0, "parameters": filled.size * WORD},
            arguments=sizes | {"weight_stride": words * WORD},
        )

    def _plane(self, lines: int) -> int:
        return _in_words(min(lines * self.shape.line_pixels, self.shape.pixels))

    def store(self, tile: Tile, lines: int, inside: int, outside: int) -> DmaTransfer:
        stride, bits = self.run.arguments["out_stride"], self.run.precision.y
        pixel, channel = tile.lines.start * self.shape.line_pixels, tile.channels.start
        unit = GROUPED_PIXELS if self._blocking.grouped else 1
        place, line = pixel * stride + channel * unit * bits // BYTE_BITS, len(tile.channels) * unit * bits
        count, inside_stride = -(-tile.pixels // unit), self.pixel_bytes(len(tile.channels)) * unit
        if self._blocking.flat:
            place, line, count = pixel + channel * stride, tile.pixels * bits, len(tile.channels)
            inside_stride = self._plane(lines)
        return DmaTransfer(
            inside=inside,
            outside=outside + place,
            line=-(-line // BYTE_BITS),
            lines=count,
            inside_stride=inside_stride,
            outside_stride=stride * unit,
            inwards=False,
        )

    def tile_arguments(self, tile: Tile, lines: int) -> dict[str, int]:
        strides = {"out_stride": self._plane(lines)} if self._blocking.flat else {}
        if self._along:
            return {"width": len(tile.in_lines), "out_width": tile.pixels, "pad_left": tile.pad_top, **strides}
        if BUFFER in self.run.arguments:
            return {"height": len(tile.in_lines), "out_height": len(tile.lines), "pad_top": tile.pad_top, **strides}
        return {"pixels": tile.pixels, **strides}

    def functions(self, calls: Sequence[tuple[Tile, Mapping[str, int]]], cores: int) -> dict[Layer, Program]:
        """Return a function in which the arguments that are equal in all ``calls`` are constants."""
        known = {field.name for field in self.run.structure.fields if not field.pointer}
        constants = {name: calls[0][1][name] for name in known if len({values[name] for _, values in calls}) == 1}
        is_image = isinstance(self.run.layer, ImageConvLayer)
        parts = self._parts([(tile.pixels, len(tile.channels)) for tile, _ in calls], cores)
        program = product_program(self._blocking, self.run.structure, constants, inside=is_image, parts=(parts, cores))
        return {self.run.layer: program}

    def layer_of(self, tile: Tile) -> Layer:
        return self.run.layer


Division = MapDivision | ProductDivision  # operands, transfers and arguments of a layer's tiles
