"""Tiles of layers, and the DMA transfers that move their operands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from xpulpnn.isa.cluster import DMA_LENGTH_BITS, DmaCommand

DMA_ALIGNMENT = 8  # alignment of transfers: the DMA engine moves windows of so many bytes
MOST_TRANSFER_BYTES = (1 << DMA_LENGTH_BITS) - DMA_ALIGNMENT  # most bytes of a transfer
BUFFER = "buffer"  # argument for memory used only while a kernel runs


def aligned(size: int) -> int:
    return -(-size // DMA_ALIGNMENT) * DMA_ALIGNMENT


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    lines: int  # output lines: rows of the output map, groups of pixels of a matrix product
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

    def most_in_lines(self, lines: int) -> int:
        return min((lines - 1) * self.step + self.window, self.in_lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaTransfer:
    inside: int  # first address in the cluster
    outside: int  # first address outside
    line: int  # bytes of a line
    lines: int = 1  # number of lines
    inside_stride: int = 0  # bytes from one line to the next in the cluster
    outside_stride: int = 0  # bytes from one line to the next outside
    inwards: bool  # whether the lines move into the cluster

    @property
    def bytes(self) -> int:
        return self.line * self.lines

    def commands(self) -> Iterator[list[int]]:
        flags = DmaCommand.INCREMENT | (DmaCommand.FROM_EXTERNAL if self.inwards else DmaCommand(0))
        # a command moves so many pieces: bytes, or lines with gaps between them
        pieces, size, inside_step, outside_step, strides = self.bytes, 1, 1, 1, list[int]()
        if self.bytes and self.lines > 1 and not self.line == self.inside_stride == self.outside_stride:
            flags |= DmaCommand.EXTERNAL_2D | DmaCommand.TCDM_2D
            inside_step, outside_step, pieces, size = self.inside_stride, self.outside_stride, self.lines, self.line
            strides = [size, outside_step, size, inside_step]
        most = MOST_TRANSFER_BYTES // size
        for done in range(0, pieces, most):
            length = min(pieces - done, most) * size
            yield [length | flags, self.inside + done * inside_step, self.outside + done * outside_step, *strides]


def command_words(transfers: list[DmaTransfer]) -> list[int]:
    return [word for transfer in transfers for command in transfer.commands() for word in command]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMap:
    """A feature map in memory, divided into lines that tiles consist of."""

    symbol: str  # argument with its address
    line: int  # bytes of a line of a plane
    ahead: int = 0  # bytes behind the map that may be read
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
            inside_stride=size,
            outside_stride=self.stride,
            inwards=inwards,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    name: str
    content: bytes
    places: Mapping[str, int]  # offsets of pointer arguments from the start
    arguments: Mapping[str, int] = field(default_factory=dict[str, int])  # other arguments that belong to the filters
