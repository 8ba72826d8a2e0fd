"""Convolution kernels: im2col, MatMul, requantisation, for every variant and precision."""

from xpulpnn_sw.kernels.arguments import CONV_ARGUMENTS
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.im2col import SPARE_WORDS, Im2col
from xpulpnn_sw.kernels.kernel import Blocking, KernelRun, kernel_run, place_operands
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import WORD_BITS, variant
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.layout import ImageBuilder, Placement, banked_words, pack_words, pad_axis, padded_channels
from xpulpnn_sw.precision import Precision


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
    chosen, bits = variant(name), precision.w
    tensors.check(layer, precision)
    chosen.check_precision(precision)
    channels = padded_channels(layer.channels, bits)
    pixel_bytes = channels * bits // WORD_BITS * WORD
    words = layer.kernel_height * layer.kernel_width * pixel_bytes // WORD
    row_stride = words * chosen.row_bits(bits) // bits * WORD
    blocking = Blocking(chosen, precision)
    memory = ImageBuilder()
    top, _, left, _ = layer.padding
    # a word to spare: odd runs are copied in pairs
    source = memory.place("input", pack_words(pad_axis(tensors.activations, 2, channels), bits), spare=1)
    rows = pack_words(pad_axis(tensors.weights, 3, channels), bits).reshape(layer.out_channels, words)
    buffer_words = chosen.npx * row_stride // WORD + SPARE_WORDS
    buffer_stride = banked_words(buffer_words, placement) * WORD
    arguments = {
        "input": source,
        **place_operands(memory, blocking, layer, tensors, rows, placement),
        "buffer": memory.reserve("im2col", cores * buffer_stride),
        "buffer_stride": buffer_stride,
        "row_stride": row_stride,
        "height": layer.height,
        "width": layer.width,
        "pixel_bytes": pixel_bytes,
        "out_height": layer.out_height,
        "out_width": layer.out_width,
        "kernel_height": layer.kernel_height,
        "kernel_width": layer.kernel_width,
        "stride_y": layer.stride[0],
        "stride_x": layer.stride[1],
        "pad_top": top,
        "pad_left": left,
    }
    return kernel_run(
        layer,
        blocking,
        CONV_ARGUMENTS,
        memory,
        arguments,
        im2col=Im2col(chosen, bits),
        cores=cores,
        specialise=specialise,
        placement=placement,
    )
