"""Convolution of an image: a filter row meets bytes that follow each other, and takes no more words than they do."""

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.arguments import CONV_ARGUMENTS
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.im2col import SPARE_WORDS, Im2col
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_run
from xpulpnn_sw.kernels.operands import Blocking, place_operands
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import BYTE_BITS, for_pixels, variant
from xpulpnn_sw.layers.image import ImageConvLayer
from xpulpnn_sw.layout import ImageBuilder, Placement, banked_words, pack_words, pad_axis
from xpulpnn_sw.precision import Precision

_AHEAD = 2
"""Words behind the image that may be read: the last run ends anywhere in a word, and is copied in pairs of words."""


def image_kernel(
    layer: ImageConvLayer,
    precision: Precision,
    name: str,
    tensors: LayerTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The convolution of ``tensors`` by variant ``name``, with buffers and stacks for ``cores`` cores.

    Memory symbols are those of :func:`~xpulpnn_sw.kernels.layers.conv.conv_kernel`; of ``input`` the margins are part.
    The run of pixels that a filter row meets is copied from wherever it begins, with the bytes behind it up to whole
    words, for which filters have zeros. Raises :class:`LayerError` unless inputs and weights are bytes.
    """
    if (precision.x, precision.w) != (BYTE_BITS, BYTE_BITS):
        raise LayerError(f"inputs and weights of an image must have {BYTE_BITS} bits, not {precision}")
    chosen = for_pixels(variant(name), layer.pixels)
    chosen.check_precision(precision)
    tensors.check(layer, precision)
    run_words = -(-layer.kernel_width * layer.channels // WORD)
    words = layer.kernel_height * run_words
    blocking = Blocking(chosen, precision, tensors.rule, folded=tensors.folded)
    row_stride = blocking.filled(words) * WORD
    memory = ImageBuilder()
    top, bottom, left, right = layer.padding
    outside = precision.around(layer.outside)
    stored = np.pad(tensors.activations, ((top, bottom), (left, right), (0, 0)), constant_values=outside)
    source = memory.place("input", pack_words(stored.reshape(-1), precision.x), spare=_AHEAD)
    runs = tensors.weights.reshape(layer.out_channels, layer.kernel_height, -1)
    filters = pad_axis(runs, 2, run_words * WORD).reshape(layer.out_channels, -1)
    buffer_stride = banked_words(chosen.npx * row_stride // WORD + SPARE_WORDS, placement) * WORD
    arguments = {
        "input": source,
        **place_operands(memory, blocking, layer, tensors, pack_words(filters, precision.w), placement),
        "buffer": memory.reserve("im2col", cores * buffer_stride),
        "buffer_stride": buffer_stride,
        "row_stride": row_stride,
        "height": layer.stored_height,
        "width": layer.stored_width,
        "pixel_bytes": layer.channels,
        "out_height": layer.out_height,
        "out_width": layer.out_width,
        "kernel_height": layer.kernel_height,
        "kernel_width": layer.kernel_width,
        "stride_y": layer.stride[0],
        "stride_x": layer.stride[1],
        "pad_top": 0,
        "pad_left": 0,
    }
    return kernel_run(
        "image",
        layer,
        blocking,
        CONV_ARGUMENTS,
        memory,
        arguments,
        im2col=Im2col(chosen, precision, inside=True),
        cores=cores,
        specialise=specialise,
        placement=placement,
    )
