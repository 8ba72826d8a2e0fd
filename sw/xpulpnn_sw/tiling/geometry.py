"""What the kernels' layouts mean for tiles: shape, bytes and speed of a layer, from its kernel."""

from dataclasses import dataclass, fields

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.variants import BYTE_BITS, Variant
from xpulpnn_sw.layer import ConvLayer, MatmulLayer
from xpulpnn_sw.layout import banked_words, padded_channels
from xpulpnn_sw.tiling.plan import Footprint, Rates
from xpulpnn_sw.tiling.shape import Shape, Tile

_BLOCK_CYCLES = 45
"""Of the accumulators' start, requantisation and stores."""

_PIXEL_CYCLES = 40
_WORD_CYCLES = 2.5
"""Of the im2col, for a pixel and each of its words."""

_STEP_CYCLES = 150
"""Of commands, barrier and the start of the function."""

_BYTES_PER_CYCLE = 6.0
"""That the DMA engine moves beside the cores."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Product(KernelRun):
    """A kernel whose layer can be divided: a convolution or a matrix product."""

    layer: ConvLayer | MatmulLayer
    variant: Variant

    @property
    def filter_words(self) -> int:
        """Words of a packed filter."""
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
        if isinstance(self.layer, ConvLayer):
            return self.arguments["width"] * self.arguments["pixel_bytes"]
        return self.variant.npx * self.arguments["row_stride"]

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
    """Whether the layer of a kernel can be divided."""
    return isinstance(run.layer, ConvLayer | MatmulLayer)


def product_of(run: KernelRun) -> Product:
    """A kernel as one whose layer can be divided; raises :class:`LayerError` for any other."""
    if not divides(run):
        raise LayerError(f"layer in tiles must be of a convolution or a matrix product, not {run.layer} of {run.name}")
    return Product(**{item.name: getattr(run, item.name) for item in fields(run)})


def shape_of(run: Product) -> Shape:
    """How the layer of a kernel divides."""
    layer, npx = run.layer, run.variant.npx
    # results of a tile begin at a byte, and with a whole word
    narrowest = min(run.precision.x, run.precision.w, run.precision.y)
    channels = {"channels": layer.out_channels, "channel_unit": padded_channels(1, narrowest)}
    if isinstance(layer, ConvLayer):
        return Shape(
            lines=layer.out_height,
            line_pixels=layer.out_width,
            pixels=layer.pixels,
            in_lines=layer.height,
            step=layer.stride[0],
            window=layer.kernel_height,
            top=layer.padding[0],
            **channels,
        )
    groups = -(-layer.pixels // npx)
    return Shape(
        lines=groups, line_pixels=npx, pixels=layer.pixels, in_lines=groups, step=1, window=1, top=0, **channels
    )


def footprint_of(run: Product, fixed: int) -> Footprint:
    """Bytes that tiles of a kernel take beside ``fixed``."""
    all_blocks = run.blocks(run.layer.out_channels)
    return Footprint(
        fixed=fixed,
        in_line=run.in_line,
        in_spare=WORD,
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
    # an innermost loop for each block of a channel step
    loops = run.channel_step // variant.nch
    inner = int(run.function.inner.sum()) // loops
    iterations = run.filter_words // variant.unrolled
    copied = run.arguments["row_stride"] // WORD if isinstance(run.layer, ConvLayer) else 0
    return Rates(
        block=iterations * inner + _BLOCK_CYCLES,
        group=int(variant.npx * (_PIXEL_CYCLES + _WORD_CYCLES * copied)) if copied else _PIXEL_CYCLES,
        step=_STEP_CYCLES,
        bytes_per_cycle=_BYTES_PER_CYCLE,
    )


def lines_of(run: Product, rows: int) -> int:
    """Lines of a tile of so many output rows, or of so many pixels of a matrix product; raises :class:`LayerError`."""
    if isinstance(run.layer, ConvLayer):
        what, most, unit = "rows", run.layer.out_height, 1
    else:
        what, most, unit = "pixels", run.layer.pixels, run.variant.npx
    if not 1 <= rows <= most or (rows % unit and rows != most):
        multiple = "" if unit == 1 else f", a multiple of {unit} or all"
        raise LayerError(f"{what} of a tile must be 1 to {most}{multiple}, not {rows}")
    return -(-rows // unit)


def rows_of(run: Product, tile: Tile) -> range:
    """Output rows of a tile, or pixels of a matrix product."""
    if isinstance(run.layer, ConvLayer):
        return tile.lines
    first = tile.lines.start * run.variant.npx
    return range(first, first + tile.pixels)
