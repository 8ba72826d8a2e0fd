"""Layers with filters in tiles: pieces of the input by pieces of the filters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.im2col import Im2col
from xpulpnn_sw.kernels.kernel import (
    CONV1D_ARGUMENTS,
    CONV1D_OUTSIDE_ARGUMENTS,
    CONV_ARGUMENTS,
    CONV_OUTSIDE_ARGUMENTS,
    LINEAR_ARGUMENTS,
    MATMUL_ARGUMENTS,
    KernelRun,
)
from xpulpnn_sw.kernels.layout import Words, banked_words, padded_channels
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.requantised_code import product_program
from xpulpnn_sw.kernels.tiling.division import (
    BUFFER,
    BYTES_PER_CYCLE,
    STEP_CYCLES,
    Division,
    DmaTransfer,
    LayerAddresses,
    OutsideMemory,
    PlacedLayer,
)
from xpulpnn_sw.kernels.tiling.plan import Footprint, LayerShape, Move, Rates, Tile, TileOperand, TilePlan, aligned
from xpulpnn_sw.kernels.variants import BYTE_BITS, Variant
from xpulpnn_sw.layers.convolution import ImageConvLayer

_AHEAD = 2  # words that may be read behind an input
_BLOCK_CYCLES = 45  # cycles of the accumulators' start, requantisation and stores
_PIXEL_CYCLES = 40
_WORD_CYCLES = 2.5  # cycles of the im2col, for a pixel and each of its words


class InputForm(Enum):
    """The form of a kernel's input, by its argument structure."""

    MAP = "a feature map, through im2col"
    ROWS = "a row for each pixel"
    VECTOR = "a single row, whose outputs the cores share"


_MAP_ARGUMENTS = (CONV_ARGUMENTS, CONV_OUTSIDE_ARGUMENTS, CONV1D_ARGUMENTS, CONV1D_OUTSIDE_ARGUMENTS)
_FORMS = {structure.name: InputForm.MAP for structure in _MAP_ARGUMENTS} | {
    MATMUL_ARGUMENTS.name: InputForm.ROWS,
    LINEAR_ARGUMENTS.name: InputForm.VECTOR,
}


def divides(run: KernelRun) -> bool:
    """Tell whether :class:`ProductDivision` knows the kernel."""
    return isinstance(run.variant, Variant) and run.structure.name in _FORMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters and parameters of the channels of a tile."""

    words: Words  # filters, then parameters
    weight_bytes: int
    arguments: dict[str, int]  # fields of the argument structure that go with them


class ProductDivision(Division):
    """Division of a convolution, a matrix product or a fully connected layer.

    Raises :class:`LayerError` for any other kernel.
    """

    def __init__(self, run: KernelRun, *, folded: bool = False) -> None:
        variant = run.variant
        if not isinstance(variant, Variant) or not divides(run):
            raise LayerError(f"layer in tiles must be one with filters, not {run.layer} of {run.name}")
        if run.rule is Rule.QNT:
            raise LayerError("layer in tiles must be requantised by a rule without pv.qnt, not qnt")
        super().__init__(run)
        self.variant, self.precision, self.arguments = variant, run.precision, run.arguments
        self._is_map = _FORMS[run.structure.name] is InputForm.MAP
        self._is_rows = _FORMS[run.structure.name] is InputForm.ROWS
        self._blocking = Blocking(variant, run.precision, run.rule, folded=folded)

    @property
    def line_pixels(self) -> int:
        """Output pixels of a line: of a row of the map, of a group, or the only one."""
        if self._is_map:
            return self.arguments["out_width"]
        return self.variant.npx if self._is_rows else 1

    @property
    def _pixels(self) -> int:
        if self._is_map:
            return self.arguments["out_height"] * self.line_pixels
        return self.arguments["pixels"] if self._is_rows else 1

    @cached_property
    def _filter_words(self) -> int:
        """Words of a packed filter."""
        if not self._is_map:
            return self._blocking.filled(self.arguments["row_words"])
        widened = self.variant.row_bits(self.precision.w) // self.precision.w
        return self.arguments["row_stride"] // WORD // (widened * self.variant.planes(self.precision))

    @property
    def _stream_words(self) -> int:
        """Words of a stream of filters for each block of channels."""
        return self.variant.nch // self.variant.weight_streams * self._filter_words

    @property
    def in_line(self) -> int:
        """Bytes of an input line."""
        if self._is_map:
            return self.arguments["width"] * self.arguments["pixel_bytes"]
        if self._is_rows:
            return self.variant.npx * self.arguments["row_stride"]
        return self.run.image.symbols["input"].length

    def _blocks(self, channels: int) -> int:
        """Blocks that are computed for so many channels."""
        step = self._blocking.channel_step
        return -(-channels // step) * step // self.variant.nch

    def _pixel_bytes(self, channels: int) -> int:
        """Bytes of an output pixel of so many channels."""
        width = self.precision.y if self.precision.requantised else self.precision.w
        return padded_channels(channels, width) * self.precision.y // BYTE_BITS

    @property
    def shape(self) -> LayerShape:
        """Shape of the kernel's layer."""
        arguments, groups = self.arguments, -(-self._pixels // self.line_pixels)
        lines = {"lines": groups, "in_lines": groups, "step": 1, "window": 1, "top": 0}
        if self._is_map:
            distance = arguments.get("dilation", 0) or 1
            lines = {
                "lines": arguments["out_height"],
                "in_lines": arguments["height"],
                "step": arguments["stride_y"],
                "window": (arguments["kernel_height"] - 1) * distance + 1,
                "top": arguments["pad_top"],
            }
        return LayerShape(
            **lines,
            line_pixels=self.line_pixels,
            pixels=self._pixels,
            channels=self.run.layer.out_channels,
            # results of a tile begin with a whole word
            channel_unit=max(padded_channels(1, self.precision.y), self._blocking.channel_step),
        )

    @property
    def rates(self) -> Rates:
        """Speed of the kernel."""
        variant, is_inner = self.variant, self.run.function.inner
        # written once for each block of a channel step or of a word of results, and for each plane of a block
        loops = int((is_inner & ~np.roll(is_inner, 1)).sum())
        inner = int(is_inner.sum()) // loops * variant.planes(self.precision)
        copied = self.arguments["row_stride"] // WORD if self._is_map else 0
        return Rates(
            block=self._filter_words // variant.unrolled * inner + _BLOCK_CYCLES,
            group=int(variant.npx * (_PIXEL_CYCLES + _WORD_CYCLES * copied)) if copied else _PIXEL_CYCLES,
            step=STEP_CYCLES,
            bytes_per_cycle=BYTES_PER_CYCLE,
        )

    def footprint(self, fixed: int) -> Footprint:
        """Bytes that tiles take beside ``fixed``."""
        all_blocks = self._blocks(self.run.layer.out_channels)
        return Footprint(
            fixed=fixed,
            in_line=self.in_line,
            in_spare=_AHEAD * WORD,
            group=self.variant.npx,
            blocks=self._blocks,
            pixel=self._pixel_bytes,
            streams=self.variant.weight_streams,
            stream=lambda blocks: banked_words(blocks * self._stream_words, self.run.placement) * WORD,
            spare=self.variant.nch * WORD,
            parameters=self.run.image.symbols["parameters"].length // all_blocks,
        )

    def buffer_bytes(self, lines: int | None) -> int:
        """Bytes of the im2col buffers."""
        symbol = self.run.image.symbols.get("im2col")
        return 0 if symbol is None else aligned(symbol.length)

    # -- what is said about tiles

    @property
    def unit(self) -> str:
        """Name of the rows of a tile."""
        return "rows" if self._is_map else "pixels"

    def lines_of(self, rows: int) -> int:
        """Lines of a tile of so many output rows, or of so many pixels where there are no rows.

        Raises :class:`LayerError` for what is no number of lines.
        """
        most, unit = (self.arguments["out_height"], 1) if self._is_map else (self._pixels, self.line_pixels)
        if not 1 <= rows <= most or (rows % unit and rows != most):
            multiple = "" if unit == 1 else f", a multiple of {unit} or all"
            raise LayerError(f"{self.unit} of a tile must be 1 to {most}{multiple}, not {rows}")
        return -(-rows // unit)

    def rows_of(self, tile: Tile) -> range:
        """Output rows of a tile, or pixels where there are no rows."""
        if self._is_map:
            return tile.lines
        first = tile.lines.start * self.line_pixels
        return range(first, first + tile.pixels)

    # -- operands and function

    def filters_of(self, channels: range) -> Filters:
        """The filters of some of a kernel's channels, laid out as if there were no others."""
        count, nch = self.variant.weight_streams, self.variant.nch
        blocks = range(channels.start // nch, self._blocks(channels.stop))
        weights, parameters = (self.run.image.view(symbol).view("<u4") for symbol in ("weights", "parameters"))
        streams = weights[: count * self.arguments["weight_stride"] // WORD].reshape(count, -1)
        own = streams[:, blocks.start * self._stream_words : blocks.stop * self._stream_words]
        words = banked_words(own.shape[1], self.run.placement)
        filled = np.pad(np.pad(own, ((0, 0), (0, words - own.shape[1]))).reshape(-1), (0, nch))
        of_blocks = parameters.reshape(self._blocks(self.run.layer.out_channels), -1)[blocks.start : blocks.stop]
        return Filters(
            words=np.append(filled, of_blocks.reshape(-1)).astype(np.uint32),
            weight_bytes=filled.size * WORD,
            arguments={
                "out_channels": len(channels),
                "out_stride": self._pixel_bytes(len(channels)),
                "weight_stride": words * WORD,
            },
        )

    def place(self, name: str, outside: OutsideMemory, plan: TilePlan, addresses: LayerAddresses) -> PlacedLayer:
        """Put the filters of each piece of channels outside."""
        filters: dict[range, tuple[int, Filters]] = {}
        for tile in plan.tiles:
            if tile.channels not in filters:
                part = self.filters_of(tile.channels)
                content = part.words.astype("<u4").tobytes()
                filters[tile.channels] = outside.place(f"{name}filters{tile.channels.start}", content), part
        return _PlacedProduct(self, filters, addresses)

    def specialised(self, calls: Sequence[Mapping[str, int]]) -> Program:
        """A function for ``calls`` only: fields that are the same in all of these argument structures are constants."""
        run = self.run
        known = {field.name for field in run.structure.fields if not field.pointer}
        constants = {name: calls[0][name] for name in known if len({values[name] for values in calls}) == 1}
        im2col = None
        if self._is_map:
            is_image = isinstance(run.layer, ImageConvLayer)
            dilated, valued = "dilation" in known, "outside" in known
            im2col = Im2col(self.variant, self.precision, dilated=dilated, valued=valued, inside=is_image)
        return product_program(self._blocking, run.structure, constants, im2col)

    def function(self, calls: Sequence[Mapping[str, int]]) -> Words:
        """Code with what all tiles have in common as constants."""
        return self.specialised(calls).words


class _PlacedProduct(PlacedLayer):
    def __init__(
        self, division: ProductDivision, filters: dict[range, tuple[int, Filters]], addresses: LayerAddresses
    ) -> None:
        self._division, self._filters, self._addresses = division, filters, addresses

    def transfers(self, move: Move) -> Sequence[DmaTransfer]:
        tile, inside = move.tile, self._addresses.buffers[move.operand][move.slot]
        if move.operand is TileOperand.WEIGHTS:
            address, filters = self._filters[tile.channels]
            return (DmaTransfer(inside=inside, outside=address, line=filters.words.nbytes, inwards=True),)
        if move.operand is TileOperand.INPUT:
            line, (source,) = self._division.in_line, self._addresses.sources
            outside, size = source + tile.in_lines.start * line, len(tile.in_lines) * line
            return (DmaTransfer(inside=inside, outside=outside, line=size, inwards=True),)
        return (self._store(tile, inside),)

    def _store(self, tile: Tile, inside: int) -> DmaTransfer:
        """Results of a tile, of each pixel no more than is written: what follows belongs to others, or stays zero."""
        stride, bits = self._division.arguments["out_stride"], self._division.precision.y
        first_pixel = tile.lines.start * self._division.line_pixels
        return DmaTransfer(
            inside=inside,
            outside=self._addresses.output + first_pixel * stride + tile.channels.start * bits // BYTE_BITS,
            line=-(-len(tile.channels) * bits // BYTE_BITS),
            lines=tile.pixels,
            inside_stride=self._filters[tile.channels][1].arguments["out_stride"],
            outside_stride=stride,
            inwards=False,
        )

    def arguments(self, tile: Tile, slots: dict[TileOperand, int]) -> dict[str, int]:
        source, weights, output = (self._addresses.buffers[operand][slots[operand]] for operand in TileOperand)
        filters = self._filters[tile.channels][1]
        own = {} if self._addresses.buffer is None else {BUFFER: self._addresses.buffer}
        values = {
            **self._division.arguments,
            **own,
            **filters.arguments,
            "input": source,
            "weights": weights,
            "parameters": weights + filters.weight_bytes,
            "output": output,
        }
        if BUFFER in values:
            return values | {"height": len(tile.in_lines), "out_height": len(tile.lines), "pad_top": tile.pad_top}
        return values | {"pixels": tile.pixels}
