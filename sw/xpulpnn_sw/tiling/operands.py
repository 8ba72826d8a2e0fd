"""A layer's operands in the memory outside the cluster, and the commands that move tiles between the memories."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xpulpnn.isa.cluster import DMA_LENGTH_BITS, DmaCommand
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.layout import Image, Symbol, Words, banked_words
from xpulpnn_sw.tiling.geometry import Form, Product
from xpulpnn_sw.tiling.plan import ALIGNMENT, aligned
from xpulpnn_sw.tiling.schedule import Move, Operand
from xpulpnn_sw.tiling.shape import Tile

MOST_BYTES = (1 << DMA_LENGTH_BITS) - ALIGNMENT
"""Of a transfer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters and parameters of the channels of a tile."""

    words: Words  # Filters, then parameters
    weight_bytes: int
    arguments: dict[str, int]  # fields of the argument structure that go with them


def filters_of(run: Product, channels: range) -> Filters:
    """The filters of some of a kernel's channels, laid out as if there were no others."""
    count, blocks = run.variant.weight_streams, range(channels.start // run.variant.nch, run.blocks(channels.stop))
    weights, parameters = (run.image.view(symbol).view("<u4") for symbol in ("weights", "parameters"))
    streams = weights[: count * run.arguments["weight_stride"] // WORD].reshape(count, -1)
    own = streams[:, blocks.start * run.stream_words : blocks.stop * run.stream_words]
    words = banked_words(own.shape[1], run.placement)
    filled = np.pad(np.pad(own, ((0, 0), (0, words - own.shape[1]))).reshape(-1), (0, run.variant.nch))
    of_blocks = parameters.reshape(run.blocks(run.layer.out_channels), -1)[blocks.start : blocks.stop]
    return Filters(
        words=np.append(filled, of_blocks.reshape(-1)).astype(np.uint32),
        weight_bytes=filled.size * WORD,
        arguments={
            "out_channels": len(channels),
            "out_stride": run.pixel_bytes(len(channels)),
            "weight_stride": words * WORD,
        },
    )


class Outside:
    """Memory outside the cluster, filled from ``base`` on with what belongs to a layer."""

    def __init__(self, base: int) -> None:
        self.base, self._end = base, base
        self._pieces: list[tuple[int, bytes]] = []
        self.symbols: dict[str, Symbol] = {}

    def place(self, name: str, content: bytes) -> int:
        """Add a piece and return its address."""
        symbol = self.symbols[name] = Symbol(self._end, len(content))
        self._pieces.append((symbol.address, content))
        self._end = self.base + aligned(self._end - self.base + len(content))
        return symbol.address

    def image(self) -> Image:
        """Everything."""
        data = np.zeros(self._end - self.base, np.uint8)
        for address, content in self._pieces:
            data[address - self.base : address - self.base + len(content)] = np.frombuffer(content, np.uint8)
        return Image(self.base, data, self.symbols)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Lines of bytes between the memories."""

    inside: int  # first addresses
    outside: int  # first addresses
    line: int  # bytes of a line; their number
    lines: int = 1  # bytes of a line; their number
    inside_stride: int = 0  # bytes from one line to the next
    outside_stride: int = 0  # bytes from one line to the next
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
            for done in range(0, self.bytes, MOST_BYTES):
                yield [
                    self._first(min(self.bytes - done, MOST_BYTES), DmaCommand(0)),
                    self.inside + done,
                    self.outside + done,
                ]
            return
        most = MOST_BYTES // self.line
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the operands of a layer are."""

    run: Product
    input: int  # addresses outside
    output: int  # addresses outside
    filters: dict[range, tuple[int, Filters]]  # address outside of the filters of the channels
    buffers: dict[Operand, tuple[int, ...]]  # addresses in the cluster

    def transfer(self, move: Move) -> Transfer:
        """The transfer that a move means."""
        tile, inside = move.tile, self.buffers[move.operand][move.slot]
        if move.operand is Operand.WEIGHTS:
            address, filters = self.filters[tile.channels]
            return Transfer(inside=inside, outside=address, line=filters.words.nbytes, inwards=True)
        if move.operand is Operand.INPUT:
            line = self.run.in_line
            outside = self.input + tile.in_lines.start * line
            size = len(tile.in_lines) * line
            return Transfer(inside=inside, outside=outside, line=size, inwards=True)
        return self._store(tile, inside)

    def _store(self, tile: Tile, inside: int) -> Transfer:
        """Results of a tile, of each pixel no more than is written: what follows belongs to others, or stays zero."""
        stride, bits = self.run.arguments["out_stride"], self.run.precision.y
        arguments = self.filters[tile.channels][1].arguments
        first = self._first_pixel(tile) * stride + tile.channels.start * bits // 8
        return Transfer(
            inside=inside,
            outside=self.output + first,
            line=-(-len(tile.channels) * bits // 8),
            lines=tile.pixels,
            inside_stride=arguments["out_stride"],
            outside_stride=stride,
            inwards=False,
        )

    def _first_pixel(self, tile: Tile) -> int:
        return tile.lines.start * self.run.line_pixels

    def arguments(self, tile: Tile, slots: dict[Operand, int]) -> dict[str, int]:
        """Fields of the argument structure for a tile."""
        source, weights, output = (self.buffers[operand][slots[operand]] for operand in Operand)
        filters = self.filters[tile.channels][1]
        values = {
            **self.run.arguments,
            **filters.arguments,
            "input": source,
            "weights": weights,
            "parameters": weights + filters.weight_bytes,
            "output": output,
        }
        if self.run.form is Form.MAP:
            return values | {"height": len(tile.in_lines), "out_height": len(tile.lines), "pad_top": tile.pad_top}
        return values | {"pixels": tile.pixels}


def command_words(transfers: list[Transfer]) -> list[int]:
    """Words of all commands, one after the other."""
    return [word for transfer in transfers for command in transfer.commands() for word in command]
