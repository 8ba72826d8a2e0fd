"""What the kernels' layouts mean for tiles: shape, bytes and speed of a layer, from its kernel."""

from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import Blocking, KernelRun
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.layout import BANKED_WORDS, banked_words, padded_channels
from xpulpnn_sw.tiling.plan import Footprint, Rates
from xpulpnn_sw.tiling.shape import Shape

_BLOCK_CYCLES = 45
"""Of the accumulators' start, requantisation and stores."""

_PIXEL_CYCLES = 40
_WORD_CYCLES = 2.5
"""Of the im2col, for a pixel and each of its words."""

_STEP_CYCLES = 150
"""Of commands, barrier and the start of the function."""

_BYTES_PER_CYCLE = 5.5
"""That the DMA engine moves beside the cores."""


def shape_of(run: KernelRun) -> Shape:
    """How the layer of a kernel divides."""
    layer, npx = run.layer, run.variant.npx
    channels = {"channels": layer.out_channels, "channel_unit": padded_channels(1, run.precision.w)}
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


def row_words(run: KernelRun) -> int:
    """Words of a packed filter."""
    arguments = run.arguments
    if isinstance(run.layer, ConvLayer):
        return run.layer.kernel_height * run.layer.kernel_width * arguments["pixel_bytes"] // WORD
    return arguments["row_words"]


def in_line_bytes(run: KernelRun) -> int:
    """Bytes of an input line."""
    arguments = run.arguments
    if isinstance(run.layer, ConvLayer):
        return arguments["width"] * arguments["pixel_bytes"]
    return run.variant.npx * arguments["row_stride"]


def footprint_of(run: KernelRun, fixed: int) -> Footprint:
    """Bytes that tiles of a kernel take beside ``fixed``."""
    blocking, variant = Blocking(run.variant, run.precision), run.variant
    rest = banked_words(1, run.placement) % BANKED_WORDS
    return Footprint(
        fixed=fixed,
        in_line=in_line_bytes(run),
        in_spare=WORD,
        channel_bits=run.precision.y,
        channel_step=blocking.channel_step,
        group=variant.npx,
        filter_words=row_words(run),
        streams=variant.weight_streams,
        stream_unit=BANKED_WORDS,
        stream_rest=rest,
        stream_spare=variant.nch,
        parameter_words=3 if run.precision.requantised else 1,
    )


def rates_of(run: KernelRun) -> Rates:
    """About how fast a kernel is."""
    words, variant, blocking = row_words(run), run.variant, Blocking(run.variant, run.precision)
    # an innermost loop for each block of a channel step
    inner = int(run.function.inner.sum()) * variant.nch // blocking.channel_step
    copied = words * variant.row_bits(run.precision.w) // run.precision.w if isinstance(run.layer, ConvLayer) else 0
    return Rates(
        block=words * inner + _BLOCK_CYCLES,
        block_channels=variant.nch,
        group=int(variant.npx * (_PIXEL_CYCLES + _WORD_CYCLES * copied)) if copied else _PIXEL_CYCLES,
        step=_STEP_CYCLES,
        bytes_per_cycle=_BYTES_PER_CYCLE,
    )


def tile_lines(run: KernelRun, rows: int) -> tuple[int, bool]:
    """Lines for so many rows of a tile, as a user counts them, and whether they divide."""
    if isinstance(run.layer, ConvLayer):
        return rows, True
    return -(-rows // run.variant.npx), rows % run.variant.npx == 0
