"""Tiles of layers, and what is moved for them.

A tile is a range of lines and, in layers with filters, of output channels. A line is a row of a feature map or, in a
map of a single row, a pixel; in a matrix product it is a group of pixels. If the input channels are cut, a tile adds
the products of one part of them to the sums of the tiles before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import Any

from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.tiling.transfer import DmaTransfer
from xpulpnn_sw.layers.layer import DepthwiseLayer, Layer, TransposeLayer

BUFFER = "buffer"  # argument for memory used only while a kernel runs

Sizes = Sequence[tuple[int, int]]


def in_words(size: int) -> int:
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
    part: int = 0  # number of the part of the input channels whose products are computed
    is_last: bool = True  # whether the products of this part complete the results

    def key(self, operand: TileOperand) -> object:
        if operand is TileOperand.WEIGHTS:
            return self.channels, self.part
        return (self.in_lines, self.part) if operand is TileOperand.INPUT else (self.lines, self.channels)


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
    parts: int = 1  # parts into which the input channels are cut

    def tile(self, lines: range, channels: range, part: int) -> Tile:
        first = lines.start * self.step - self.top
        after = (lines.stop - 1) * self.step - self.top + self.window
        start, stop = max(first, 0), min(after, self.in_lines)
        needed = range(start, stop) if start < stop else range(0)
        pad_top = start - first if needed else 0
        pixels = min(lines.stop * self.line_pixels, self.pixels) - lines.start * self.line_pixels
        own: dict[str, Any] = {"lines": lines, "channels": channels, "in_lines": needed, "pad_top": pad_top}
        return Tile(**own, pixels=pixels, part=part, is_last=part == self.parts - 1)

    def tiles(self, lines: int, channels: int, *, channels_first: bool) -> tuple[Tile, ...]:
        rows, columns = _pieces(self.lines, lines), _pieces(self.channels, channels)
        pairs = product(rows, columns) if channels_first else ((row, column) for column in columns for row in rows)
        return tuple(self.tile(row, column, part) for row, column in pairs for part in range(self.parts))

    def most_in_lines(self, lines: int) -> int:
        return min((lines - 1) * self.step + self.window, self.in_lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMap:
    symbol: str  # argument with its address
    line: int  # bytes of a line of a plane
    read_ahead: int = 0  # bytes behind the map that may be read
    planes: int = 1  # pieces of consecutive lines
    stride: int = 0  # bytes from one plane to the next
    pixel: int = 0  # bytes of a pixel if only a part of its channels is moved, of `stride` bytes

    @property
    def row(self) -> int:
        return self.planes * self.line

    def transfer(self, lines: range, inside: int, outside: int, part: int = 0, *, inwards: bool) -> DmaTransfer:
        size, first, count = len(lines) * self.line, lines.start * self.line, self.planes
        if self.pixel:
            first = first // self.pixel * self.stride + part * self.pixel
            size, count = self.pixel, size // self.pixel
        return DmaTransfer(
            inside=inside,
            outside=outside + first,
            line=size,
            lines=count,
            inside_stride=in_words(size),
            outside_stride=self.stride,
            inwards=inwards,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    name: str
    content: bytes
    places: Mapping[str, int]  # offsets of pointer arguments from the start
    arguments: Mapping[str, int] = field(default_factory=dict[str, int])  # other arguments that belong to the filters


def is_row(height: int, out_height: int, layer: Layer) -> bool:
    return height == out_height == 1 and not isinstance(layer, DepthwiseLayer | TransposeLayer)
