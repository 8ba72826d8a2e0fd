"""Shape, bytes and speed of a layer in tiles, from its kernel."""

from dataclasses import dataclass, fields
from enum import Enum

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.arguments import (
    CONV1D_ARGUMENTS,
    CONV1D_OUTSIDE_ARGUMENTS,
    CONV_ARGUMENTS,
    CONV_OUTSIDE_ARGUMENTS,
    LINEAR_ARGUMENTS,
    MATMUL_ARGUMENTS,
)
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.variants import BYTE_BITS, Variant
from xpulpnn_sw.layout import banked_words, padded_channels
from xpulpnn_sw.tiling.plan import Footprint, Rates
from xpulpnn_sw.tiling.shape import Shape, Tile

_AHEAD = 2
"""Words that may be read behind an input."""

_BLOCK_CYCLES = 45
"""Of the accumulators' start, requantisation and stores."""

_PIXEL_CYCLES = 40
_WORD_CYCLES = 2.5
"""Of the im2col, for a pixel and each of its words."""

_STEP_CYCLES = 150
"""Of commands, barrier and the start of the function."""

_BYTES_PER_CYCLE = 6.0
"""That the DMA engine moves beside the cores."""


class Form(Enum):
    """The form of a kernel's input, by its argument structure."""

    MAP = "a feature map, through im2col"
    ROWS = "a row for each pixel"
    VECTOR = "a single row, whose outputs the cores share"


_FORMS = {
    CONV_ARGUMENTS.name: Form.MAP,
    CONV_OUTSIDE_ARGUMENTS.name: Form.MAP,
    CONV1D_ARGUMENTS.name: Form.MAP,
    CONV1D_OUTSIDE_ARGUMENTS.name: Form.MAP,
    MATMUL_ARGUMENTS.name: Form.ROWS,
    LINEAR_ARGUMENTS.name: Form.VECTOR,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Product(KernelRun):
    """A kernel whose layer can be divided: it is made of products with filters."""

    variant: Variant

    @property
    def form(self) -> Form:
        """The form of its input."""
        return _FORMS[self.structure.name]

    @property
    def pixels(self) -> int:
        """Output pixels of the layer."""
        if self.form is Form.MAP:
            return self.arguments["out_height"] * self.line_pixels
        return self.arguments["pixels"] if self.form is Form.ROWS else 1

    @property
    def line_pixels(self) -> int:
        """Output pixels of a line: of a row of the map, of a group, or the only one."""
        if self.form is Form.MAP:
            return self.arguments["out_width"]
        return self.variant.npx if self.form is Form.ROWS else 1

    @property
    def filter_words(self) -> int:
        """Words of a packed filter."""
        if self.form is not Form.MAP:
            words = self.arguments["row_words"]
            return Blocking(self.variant, self.precision, self.rule).filled(words)
        row = self.arguments["row_stride"] // WORD
        widened = self.variant.row_bits(self.precision.w) // self.precision.w
        return row // (widened * self.variant.planes(self.precision))

    @property
    def stream_words(self) -> int:
        """Words of a stream of filters for each block of channels."""
        return self.variant.nch // self.variant.weight_streams * self.filter_words

    @property
    def in_line(self) -> int:
        """Bytes of an input line."""
        if self.form is Form.MAP:
            return self.arguments["width"] * self.arguments["pixel_bytes"]
        if self.form is Form.ROWS:
            return self.variant.npx * self.arguments["row_stride"]
        return self.image.symbols["input"].length

    @property
    def channel_step(self) -> int:
        """Output channels of which all are computed."""
        return Blocking(self.variant, self.precision, None).channel_step

    def blocks(self, channels: int) -> int:
        """Blocks that are computed for so many channels."""
        return -(-channels // self.channel_step) * self.channel_step // self.variant.nch

    def pixel_bytes(self, channels: int) -> int:
        """Bytes of an output pixel of so many channels."""
        width = self.precision.y if self.precision.requantised else self.precision.w
        return padded_channels(channels, width) * self.precision.y // BYTE_BITS


def divides(run: KernelRun) -> bool:
    """Tell whether the layer of a kernel can be divided."""
    return isinstance(run.variant, Variant) and run.structure.name in _FORMS


def product_of(run: KernelRun) -> Product:
    """A kernel as one whose layer can be divided; raises :class:`LayerError` for any other."""
    if not divides(run):
        raise LayerError(f"layer in tiles must be one with filters, not {run.layer} of {run.name}")
    if run.rule is Rule.QNT:
        raise LayerError("layer in tiles must be requantised by a rule without pv.qnt, not qnt")
    return Product(**{item.name: getattr(run, item.name) for item in fields(run)})


def shape_of(run: Product) -> Shape:
    """The shape of a kernel's layer."""
    # results of a tile begin with a whole word
    unit = max(padded_channels(1, run.precision.y), run.channel_step)
    channels = {"channels": run.layer.out_channels, "channel_unit": unit}
    arguments = run.arguments
    if run.form is Form.MAP:
        distance = arguments.get("dilation", 0) or 1
        return Shape(
            lines=arguments["out_height"],
            line_pixels=run.line_pixels,
            pixels=run.pixels,
            in_lines=arguments["height"],
            step=arguments["stride_y"],
            window=(arguments["kernel_height"] - 1) * distance + 1,
            top=arguments["pad_top"],
            **channels,
        )
    groups = -(-run.pixels // run.line_pixels)
    return Shape(
        lines=groups,
        line_pixels=run.line_pixels,
        pixels=run.pixels,
        in_lines=groups,
        step=1,
        window=1,
        top=0,
        **channels,
    )


def footprint_of(run: Product, fixed: int) -> Footprint:
    """Bytes that tiles of a kernel take beside ``fixed``."""
    all_blocks = run.blocks(run.layer.out_channels)
    return Footprint(
        fixed=fixed,
        in_line=run.in_line,
        in_spare=_AHEAD * WORD,
        group=run.variant.npx,
        blocks=run.blocks,
        pixel=run.pixel_bytes,
        streams=run.variant.weight_streams,
        stream=lambda blocks: banked_words(blocks * run.stream_words, run.placement) * WORD,
        spare=run.variant.nch * WORD,
        parameters=run.image.symbols["parameters"].length // all_blocks,
    )


def rates_of(run: Product) -> Rates:
    """About how fast a kernel is."""
    variant = run.variant
    is_inner = run.function.inner
    # written once for each block of a channel step or of a word of results, and for each plane of a block
    loops = int((is_inner & ~np.roll(is_inner, 1)).sum())
    inner = int(is_inner.sum()) // loops * variant.planes(run.precision)
    iterations = run.filter_words // variant.unrolled
    copied = run.arguments["row_stride"] // WORD if run.form is Form.MAP else 0
    return Rates(
        block=iterations * inner + _BLOCK_CYCLES,
        group=int(variant.npx * (_PIXEL_CYCLES + _WORD_CYCLES * copied)) if copied else _PIXEL_CYCLES,
        step=_STEP_CYCLES,
        bytes_per_cycle=_BYTES_PER_CYCLE,
    )


def lines_of(run: Product, rows: int) -> int:
    """Lines of a tile of so many output rows, or of so many pixels where there are no rows.

    Raises :class:`LayerError` for what is no number of lines.
    """
    is_map = run.form is Form.MAP
    most, unit = (run.arguments["out_height"], 1) if is_map else (run.pixels, run.line_pixels)
    if not 1 <= rows <= most or (rows % unit and rows != most):
        multiple = "" if unit == 1 else f", a multiple of {unit} or all"
        raise LayerError(f"{unit_of(run)} of a tile must be 1 to {most}{multiple}, not {rows}")
    return -(-rows // unit)


def rows_of(run: Product, tile: Tile) -> range:
    """Output rows of a tile, or pixels where there are no rows."""
    if run.form is Form.MAP:
        return tile.lines
    first = tile.lines.start * run.line_pixels
    return range(first, first + tile.pixels)


def unit_of(run: Product) -> str:
    """Name of the rows of a tile."""
    return "rows" if run.form is Form.MAP else "pixels"
