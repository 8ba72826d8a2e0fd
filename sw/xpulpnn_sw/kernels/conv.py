"""Convolution kernels: im2col, MatMul, requantisation, for every variant and width."""

import numpy as np

from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.im2col import STATE_WORDS, Im2col
from xpulpnn_sw.kernels.kernel import Blocking, KernelCode, KernelRun, output_layout, place_operands
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import WORD_BITS, variant
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.layout import ImageBuilder, pack_words, pad_axis, padded_channels

_MASK = 0xFFFF_FFFF


def conv_kernel(layer: ConvLayer, bits: int, name: str, tensors: LayerTensors) -> KernelRun:
    """The convolution of ``tensors`` by variant ``name``; one core, whole layer.

    Memory symbols: ``input`` (HWC), ``weights`` (streams of filter rows), ``parameters`` (bias, lambda, kappa),
    ``im2col``, ``state``, ``output`` (HWC; requantised to ``bits`` or int32).
    """
    chosen = variant(name)
    chosen.check_width(bits)
    tensors.check(layer)
    channels = padded_channels(layer.channels, bits)
    pixel_words = channels * bits // WORD_BITS
    words = layer.kernel_height * layer.kernel_width * pixel_words
    row_bytes = words * chosen.row_bits(bits) // bits * WORD
    blocking = Blocking(
        variant=chosen,
        bits=bits,
        out_channels=layer.out_channels,
        pixels=layer.pixels,
        requantised=tensors.requantisation is not None,
    )
    memory = ImageBuilder()
    source = memory.place("input", pack_words(pad_axis(tensors.activations, 2, channels), bits))
    rows = pack_words(pad_axis(tensors.weights, 3, channels), bits).reshape(layer.out_channels, words)
    operands = place_operands(memory, blocking, tensors, rows)
    # one word to spare: the inner loop of the nn variants loads one past the row of pixel 0
    buffer = memory.reserve("im2col", chosen.npx * row_bytes + WORD)
    state = memory.reserve("state", STATE_WORDS * WORD)
    code = KernelCode(blocking, words, operands, [buffer + pixel * row_bytes for pixel in range(chosen.npx)], tensors)
    im2col = Im2col(
        layer=layer,
        variant=chosen,
        bits=bits,
        pixel_words=pixel_words,
        buffer=buffer,
        state=state,
        registers=code.scratch,
    )
    memory.fill("state", np.array([value & _MASK for value in im2col.initial_state(source)], dtype=np.uint32))
    shape = (layer.out_height, layer.out_width, layer.out_channels)
    stream = code.write(im2col.emit, 0)
    return KernelRun(
        layer=layer,
        bits=bits,
        variant=chosen,
        stream=stream,
        image=memory.finish(),
        output=output_layout(blocking, shape),
        relocations=code.relocations,
    )
