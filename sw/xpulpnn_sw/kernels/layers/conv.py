"""Convolution kernels: im2col, MatMul, requantisation, for every variant and precision."""

from xpulpnn_sw.kernels.arguments import (
    CONV1D_ARGUMENTS,
    CONV1D_OUTSIDE_ARGUMENTS,
    CONV_ARGUMENTS,
    CONV_OUTSIDE_ARGUMENTS,
    window_arguments,
)
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.im2col import SPARE_WORDS, Im2col
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_run
from xpulpnn_sw.kernels.operands import Blocking, place_operands
from xpulpnn_sw.kernels.rows import element_order, ordered
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import WORD_BITS, Variant, for_pixels, variant
from xpulpnn_sw.layer import ConvLayer, Layer
from xpulpnn_sw.layout import ImageBuilder, Placement, banked_words, pack_words, pad_axis, padded_channels
from xpulpnn_sw.precision import Precision

_WORD_MASK = 0xFFFF_FFFF


def conv_kernel(
    layer: ConvLayer,
    precision: Precision,
    name: str,
    tensors: LayerTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The convolution of ``tensors`` by variant ``name``, with buffers and stacks for ``cores`` cores.

    Memory symbols: ``input`` (HWC), ``weights`` (streams of filter rows), ``parameters`` (bias, lambda, kappa),
    ``im2col``, ``output`` (HWC), ``arguments``, ``stack``. A specialised function is for this layer only.
    ``placement`` is that of weight streams, im2col buffers and stacks in a banked memory.
    """
    return receptive_fields("conv", layer, layer, precision, variant(name), tensors, cores, specialise, placement)


def receptive_fields(
    kind: str,
    shown: Layer,
    layer: ConvLayer,
    precision: Precision,
    chosen: Variant,
    tensors: LayerTensors,
    cores: int,
    specialise: bool,
    placement: Placement,
    *,
    dilation: int = 0,
) -> KernelRun:
    """A kernel called ``kind`` that computes the layer ``shown`` as the convolution ``layer``, through im2col rows.

    A layer with a single pixel is computed by a variant for such. ``dilation`` is the distance of filter rows in rows
    of the input; 0: they follow each other, and so do their elements in memory. A function around whose input there is
    another value than usual is told which, and is another one.
    """
    chosen.check_precision(precision)
    precision = chosen.computed(precision)
    tensors.check(layer, precision)
    outside = precision.around(layer.outside)
    valued = outside != precision.outside and any(layer.padding)
    chosen = for_pixels(chosen, layer.pixels)
    channels = padded_channels(layer.channels, min(precision.x, precision.w))
    pixel_bytes = channels * precision.x // WORD_BITS * WORD
    words = layer.kernel_height * layer.kernel_width * channels * precision.w // WORD_BITS
    blocking = Blocking(chosen, precision, tensors.rule, folded=tensors.folded)
    widened = chosen.row_bits(precision.w) // precision.w
    row_stride = blocking.filled(words) * widened * chosen.planes(precision) * WORD
    memory = ImageBuilder()
    # a word to spare: odd runs are copied in pairs
    source = memory.place("input", pack_words(pad_axis(tensors.activations, 2, channels), precision.x), spare=1)
    filters = ordered(pad_axis(tensors.weights, 3, channels), element_order(chosen, precision))
    rows = pack_words(filters, precision.w).reshape(layer.out_channels, words)
    buffer_words = chosen.npx * row_stride // WORD + SPARE_WORDS
    buffer_stride = banked_words(buffer_words, placement) * WORD
    arguments = {
        "input": source,
        **place_operands(memory, blocking, layer, tensors, rows, placement),
        "buffer": memory.reserve("im2col", cores * buffer_stride),
        "buffer_stride": buffer_stride,
        "row_stride": row_stride,
        **window_arguments(layer),
        "pixel_bytes": pixel_bytes,
        "dilation": dilation,
        "outside": outside & _WORD_MASK,
    }
    structure = CONV1D_ARGUMENTS if dilation else CONV_ARGUMENTS
    if valued:
        structure = CONV1D_OUTSIDE_ARGUMENTS if dilation else CONV_OUTSIDE_ARGUMENTS
    return kernel_run(
        f"{kind}_outside" if valued else kind,
        shown,
        blocking,
        structure,
        memory,
        arguments,
        im2col=Im2col(chosen, precision, dilated=dilation > 0, valued=valued),
        cores=cores,
        specialise=specialise,
        placement=placement,
    )
