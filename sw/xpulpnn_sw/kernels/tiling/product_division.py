"""Tiling of layers with filters."""

from collections.abc import Mapping, Sequence
from math import gcd

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import GROUPED_PIXELS, Program, banked_words, padded_channels
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.products import MATMUL_ARGUMENTS, channel_parts
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.requantised_code import product_program
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
from xpulpnn_sw.kernels.tiling.transfer import DmaTransfer, aligned
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.layer import ImageConvLayer, Layer

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
        self._along = self._is_map and is_row(arguments["height"], arguments["out_height"], run.layer)
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
        return in_words(min(lines * self.shape.line_pixels, self.shape.pixels))

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
