"""A feature map channel by channel, as depthwise convolutions read it, out of one pixel by pixel."""

from dataclasses import dataclass, replace

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.arguments import Field, Structure
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.channelwise.levels import PLAIN_LEVELS
from xpulpnn_sw.kernels.channelwise.run import Maps, Options, finished
from xpulpnn_sw.kernels.channelwise.transpose_code import TransposeCode, turn_pixels
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.variants import BYTE_BITS
from xpulpnn_sw.layers.channelwise import TransposeLayer
from xpulpnn_sw.layout import ImageBuilder, Ints, Placement, PlanesLayout
from xpulpnn_sw.precision import Precision

TRANSPOSE_ARGUMENTS = Structure(
    "xp_transpose_arguments",
    (
        Field("input", "feature map, pixel by pixel", pointer=True),
        Field("output", "the same channel by channel", pointer=True),
        Field("height", "rows"),
        Field("width", "columns"),
        Field("pixel_bytes", "bytes of an input pixel"),
        Field("row_bytes", "bytes from one output row to the next"),
    ),
)
"""Of a transposition."""

# no instruction that xpulpnn adds is of use
TRANSPOSE_LEVELS = {name: level for name, level in PLAIN_LEVELS.items() if name in ("rv32im", "xpulpv2")}
"""Those there are, slowest first."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TransposeTensors:
    """What is transposed."""

    activations: Ints  # `[height][width][channel]`


def check_transpose(_: TransposeLayer, precision: Precision) -> Precision:
    """The precision; raises :class:`LayerError` unless a transposition can have it."""
    if (precision.x, precision.x_signed) != (precision.y, precision.y_signed):
        raise LayerError(f"precision of transpose must be inputs and outputs of one width and sign, not {precision}")
    return precision


def random_transpose(layer: TransposeLayer, precision: Precision, rng: np.random.Generator) -> TransposeTensors:
    """Elements over their whole range."""
    least = -(1 << (precision.x - 1)) if precision.x_signed else 0
    shape = (layer.height, layer.width, layer.channels)
    return TransposeTensors(activations=rng.integers(least, least + (1 << precision.x), shape))


def transpose_kernel(
    layer: TransposeLayer,
    precision: Precision,
    name: str,
    tensors: TransposeTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The map of ``tensors`` channel by channel for the level ``name``, with stacks for ``cores`` cores.

    Memory symbols: ``input`` (HWC), ``output`` (CHW, rows of whole words as a depthwise convolution reads them),
    ``arguments``, ``stack``.
    """
    level = TRANSPOSE_LEVELS[name]
    level.check_precision(precision)
    check_transpose(layer, precision)
    memory = ImageBuilder()
    maps = Maps(memory, layer.channels, precision.x)
    pixel_bytes = maps.pixel_bytes(precision.x)
    row_bytes = -(-layer.width * precision.x // (WORD * BYTE_BITS)) * WORD
    # the last pixels of a row are loaded with those behind them
    ahead = -layer.width % turn_pixels(level, precision.x)
    arguments = {
        "input": maps.place("input", tensors.activations, precision.x, spare=ahead * pixel_bytes // WORD),
        "output": memory.reserve("output", maps.padded * layer.height * row_bytes),
        "height": layer.height,
        "width": layer.width,
        "pixel_bytes": pixel_bytes,
        "row_bytes": row_bytes,
    }
    run = finished(
        layer,
        precision,
        level,
        Options(name="transpose", cores=cores, specialise=specialise, placement=placement),
        TRANSPOSE_ARGUMENTS,
        memory,
        arguments,
        pixel_bytes,
        lambda known: TransposeCode(level, precision.x, TRANSPOSE_ARGUMENTS, known).write(),
    )
    output = PlanesLayout(
        symbol="output",
        bits=precision.y,
        shape=run.output.shape,
        pixel_bytes=row_bytes,
        signed=precision.y_signed,
    )
    return replace(run, output=output)
