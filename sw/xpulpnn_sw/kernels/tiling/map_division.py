"""Tiling of depthwise convolutions, poolings and operations on maps, by rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import gcd
from typing import Any

from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.channelwise.depthwise_channel import rows_stride
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import GROUPED_PIXELS, Program
from xpulpnn_sw.kernels.tiling.tile import (
    BUFFER,
    Filters,
    LayerShape,
    LineMap,
    Sizes,
    Tile,
    TileOperand,
    in_words,
    is_row,
)
from xpulpnn_sw.kernels.tiling.transfer import DMA_ALIGNMENT, DmaTransfer, aligned
from xpulpnn_sw.layers.layer import DepthwiseLayer, GatherLayer, Layer, MapLayer, TransposeLayer, WindowLayer

_MAP_CYCLES = 2  # estimated cycles of each word of a window, or of a map


class MapDivision:
    """Tiling of a layer whose output rows can be computed separately."""

    def __init__(self, run: KernelRun, cores: int, build: Callable[[Layer], Program]) -> None:
        # ``build`` returns the function of a layer
        self.run, self._cores, self._build, layer = run, cores, build, run.layer
        height, width = layer.out_shape
        self._along = isinstance(layer, WindowLayer | MapLayer) and is_row(layer.height, height, layer)
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
            stride = in_words(rows * line) if planes > 1 else rows * line
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

    def buffer_bytes(self, lines: int, channels: int) -> int:
        return aligned(self._cores * self._rows_stride(lines)) if BUFFER in self.run.image.symbols else 0

    def filters(self, channels: range, part: int) -> Filters:
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
        return {layer: self._build(layer) for layer in dict.fromkeys(self.function_of(tile) for tile, _ in calls)}

    def function_of(self, tile: Tile) -> Layer:
        """Return the layer whose function computes a tile."""
        layer, rows = self.run.layer, len(tile.in_lines)
        if isinstance(layer, WindowLayer) and rows:
            needed = (len(tile.lines) - 1) * self.shape.step + self.shape.window
            padding = (tile.pad_top, needed - tile.pad_top - rows)
            if self._along:
                return replace(layer, width=rows, padding=(*layer.padding[:2], *padding))
            padding = (*padding, *layer.padding[2:])
            return replace(layer, height=rows, padding=padding)
        if isinstance(layer, WindowLayer | GatherLayer):
            return layer
        sizes: Any = {"width" if self._along else "height": rows}
        return replace(layer, **sizes)
