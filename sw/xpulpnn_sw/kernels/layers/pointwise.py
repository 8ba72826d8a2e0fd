"""Kernels of pointwise convolutions: the pixels of the input are the activation rows."""

from dataclasses import replace

from xpulpnn_sw.kernels.arguments import MATMUL_ARGUMENTS
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_run
from xpulpnn_sw.kernels.layers.conv import receptive_fields
from xpulpnn_sw.kernels.operands import Blocking, place_operands
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import for_pixels, variant
from xpulpnn_sw.layers.pointwise import PointwiseLayer
from xpulpnn_sw.layout import ImageBuilder, Placement, pack_words, pad_axis, padded_channels
from xpulpnn_sw.precision import Precision


def pointwise_kernel(
    layer: PointwiseLayer,
    precision: Precision,
    name: str,
    tensors: LayerTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The convolution of ``tensors`` by variant ``name``, in place where it can be.

    With a stride, padding, or inputs of another width than the activation rows have, it goes through im2col rows like
    any other convolution, and has its arguments; else those of a matrix product, without a symbol ``im2col``. Pixels
    behind the input are read to fill up the last group.
    """
    chosen = variant(name)
    chosen.check_precision(precision)
    precision = chosen.computed(precision)
    if not layer.is_plain or chosen.row_bits(precision.w) != precision.x:
        return receptive_fields("pointwise", layer, layer, precision, chosen, tensors, cores, specialise, placement)
    tensors.check(layer, precision)
    chosen = replace(for_pixels(chosen, layer.pixels), in_place=True)
    channels = padded_channels(layer.channels, precision.x)
    pixels = pack_words(pad_axis(tensors.activations, 2, channels), precision.x).reshape(layer.pixels, -1)
    rows = pack_words(pad_axis(tensors.weights.reshape(layer.out_channels, -1), 1, channels), precision.w)
    blocking = Blocking(chosen, precision, tensors.rule)
    memory = ImageBuilder()
    arguments = {
        # words fetched ahead, besides
        "input": memory.place("input", pixels, spare=(chosen.npx - 1) * pixels.shape[1] + 2),
        **place_operands(memory, blocking, layer, tensors, rows, placement),
        "row_stride": pixels.shape[1] * WORD,
        "pixels": layer.pixels,
        "row_words": rows.shape[1],
    }
    return kernel_run(
        "pointwise",
        layer,
        blocking,
        MATMUL_ARGUMENTS,
        memory,
        arguments,
        cores=cores,
        specialise=specialise,
        placement=placement,
    )
