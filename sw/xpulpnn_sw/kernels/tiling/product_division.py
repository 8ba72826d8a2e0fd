"""Tiling of layers with filters."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.gather.row_format import RowFormat
from xpulpnn_sw.kernels.kernel import SHARED, KernelRun
from xpulpnn_sw.kernels.layout import GROUPED_PIXELS, Program, banked_words, pad_axis, padded_channels
from xpulpnn_sw.kernels.matmul_code import PartialSums
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.products import MATMUL_ARGUMENTS, buffer_stride, channel_parts
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
from xpulpnn_sw.kernels.tiling.transfer import DMA_ALIGNMENT, DmaTransfer, aligned
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.layer import ImageConvLayer

_AHEAD = 2  # words that may be read behind an input
_BLOCK_CYCLES = 45  # cycles of the accumulators' start, requantisation and stores
_PIXEL_CYCLES = 40
_WORD_CYCLES = 2.5  # cycles of the im2col for each word of a pixel


class ProductDivision:
    """Tiling of a layer with filters by rows and channels; raises :class:`LayerError` for any other layer.

    The input channels are cut into ``parts`` equal parts (see :meth:`cuts`). Tiles of all parts but the last leave
    their accumulators behind the im2col buffers, each core its own in the order in which it computes them.
    """

    in_spare = _AHEAD * WORD
    largest = TileOperand.WEIGHTS

    def __init__(self, run: KernelRun, *, folded: bool = False, parts: int = 1) -> None:
        variant, precision, arguments = run.variant, run.precision, dict(run.arguments)
        if not isinstance(variant, Variant):
            raise LayerError(f"layer in tiles must be one with filters, not {run.layer} of {run.name}")
        if run.rule is Rule.QNT:
            raise LayerError("layer in tiles must be requantised by a rule without pv.qnt, not qnt")
        self._variant, self._folded = variant, folded
        stored = {"folded": folded, "flat": run.output.flat, "grouped": run.output.grouped}
        self._blocking = Blocking(variant, precision, run.rule, **stored)
        self._is_map, self.group = BUFFER in arguments, variant.npx
        self._cores = run.length(SHARED) // arguments["buffer_stride"] if self._is_map else 0
        if parts > 1:
            arguments |= self._part_arguments(run, parts)
        self.run = run = replace(run, arguments=arguments)
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
        self._taps = arguments["kernel_height"] * arguments["kernel_width"] if parts > 1 else 1
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
            lines = {"lines": pixels, "in_lines": arguments["width"], "top": arguments["pad_left"]}
            lines |= {"step": arguments["stride_x"], "window": arguments["kernel_width"], "line_unit": variant.npx}
        cut = {"pixel": arguments["pixel_bytes"], "stride": parts * arguments["pixel_bytes"]} if parts > 1 else {}
        self.inputs = (LineMap(symbol="input", line=self.in_line, **cut),)
        self.shape = LayerShape(
            **lines,
            parts=parts,
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
        self._block_cycles += 2 * variant.nch * variant.npx if parts > 1 else 0
        self._group_cycles = int(variant.npx * (_PIXEL_CYCLES + _WORD_CYCLES * copied)) if copied else _PIXEL_CYCLES
        self._parameter_words = run.image.symbols["parameters"].length // WORD // self._blocks(run.layer.out_channels)

    def _part_arguments(self, run: KernelRun, parts: int) -> dict[str, int]:
        own, fill = run.arguments, self._blocking.filled
        size, words = own["pixel_bytes"] // parts, own["row_words"] // parts
        stride = own["row_stride"] // fill(own["row_words"]) * fill(words)
        layer: Any = getattr(run.layer, "geometry", run.layer)
        form = RowFormat(self._variant, run.precision, own, inside=False)
        distance = buffer_stride(form, layer, size, stride, self._cores, run.placement)
        return {"pixel_bytes": size, "row_words": words, "row_stride": stride, "buffer_stride": distance}

    def cuts(self) -> Iterator["ProductDivision"]:
        """Yield the tilings of the same layer with its input channels cut into two or more parts."""
        arguments, blocking = self.run.arguments, self._blocking
        has_sums = blocking.variant.planes(self.run.precision) == 1 and not blocking.counts and not blocking.by_sign
        is_image = isinstance(self.run.layer, ImageConvLayer)
        if not self._is_map or not has_sums or is_image or blocking.by_channels or blocking.variant.has_coprocessor:
            return
        size, taps = arguments["pixel_bytes"], arguments["kernel_height"] * arguments["kernel_width"]
        for parts in range(2, size // DMA_ALIGNMENT + 1):
            if size % (parts * DMA_ALIGNMENT) == arguments["row_words"] % (parts * taps) == 0:
                yield ProductDivision(self.run, folded=self._folded, parts=parts)

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

    def buffer_bytes(self, lines: int, channels: int) -> int:
        if self.shape.parts == 1:
            return aligned(self.run.length(SHARED))
        sums = self._sums(min(lines * self.shape.line_pixels, self.shape.pixels), channels)
        return aligned(sums.start + sums.stride * self._cores)

    def _sums(self, pixels: int, channels: int) -> PartialSums:
        """Return the place of the sums of tiles with at most so many pixels and channels."""
        groups = -(-pixels // (self.group * self._cores))
        words = groups * self.group * self._blocks(channels) * self._variant.nch
        start = self._cores * self.run.arguments["buffer_stride"]
        return PartialSums(start=start, stride=banked_words(words, "padded") * WORD)

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

    def filters(self, channels: range, part: int) -> Filters:
        """Return the filters of ``channels``, laid out as in a kernel that has only these and a part of the inputs."""
        count, nch = self._variant.weight_streams, self._variant.nch
        blocks = slice(channels.start // nch, self._blocks(channels.stop))
        weights, parameters = (self.run.image.view(symbol).view("<u4") for symbol in ("weights", "parameters"))
        streams = weights[: count * self.run.arguments["weight_stride"] // WORD].reshape(count, -1)
        # filter rows, from which a range of each tap is taken
        parts, row_words, per_stream = self.shape.parts, self.run.arguments["row_words"], nch // count
        filled = self._blocking.filled(parts * row_words)
        rows = streams[:, : streams.shape[1] // (filled * per_stream) * filled * per_stream]
        rows = rows.reshape(count, -1, filled, per_stream)[:, blocks, : parts * row_words]
        taps = rows.reshape(count, rows.shape[1], self._taps, parts, -1, per_stream)[:, :, :, part]
        own = pad_axis(taps.reshape(count, rows.shape[1], row_words, per_stream), 2, self._blocking.filled(row_words))
        own = own.reshape(count, -1)
        words = banked_words(own.shape[1], self.run.placement)
        filled = np.pad(np.pad(own, ((0, 0), (0, words - own.shape[1]))).reshape(-1), (0, nch))
        sizes = {"out_channels": len(channels), "out_stride": self.pixel_bytes(len(channels))}
        of_blocks = parameters.reshape(-1, self._parameter_words)[blocks]
        return Filters(
            name=f"filters{channels.start}" + (f".{part}" if self.shape.parts > 1 else ""),
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

    def functions(self, calls: Sequence[tuple[Tile, Mapping[str, int]]], cores: int) -> dict[Hashable, Program]:
        """Return functions in which the arguments that are equal in all ``calls`` are constants."""
        known = {field.name for field in self.run.structure.fields if not field.pointer}
        constants = {name: calls[0][1][name] for name in known if len({values[name] for _, values in calls}) == 1}
        sizes = [(tile.pixels, len(tile.channels)) for tile, _ in calls]
        sums = self._sums(*map(max, zip(*sizes, strict=True))) if self.shape.parts > 1 else PartialSums()
        return {
            (resumes, keeps): product_program(
                self._blocking,
                self.run.structure,
                constants,
                inside=isinstance(self.run.layer, ImageConvLayer),
                parts=(self._parts(sizes, cores), cores),
                sums=replace(sums, resumes=resumes, keeps=keeps),
            )
            for resumes, keeps in dict.fromkeys(self.function_of(tile) for tile, _ in calls)
        }

    def function_of(self, tile: Tile) -> tuple[bool, bool]:
        """Return whether the function of a tile begins with sums of others, and whether it leaves sums."""
        return tile.part > 0, not tile.is_last
