"""Matrix-product kernels: the MatMul of a convolution on activation rows that lie ready in memory."""

from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import Blocking, KernelCode, KernelRun, output_layout, place_operands
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import WORD_BITS, Variant, variant
from xpulpnn_sw.layer import MatmulLayer
from xpulpnn_sw.layout import ImageBuilder, Ints, Words, pack_words, pad_axis


def _activation_rows(activations: Ints, bits: int, chosen: Variant, words: int) -> Words:
    """Rows as an im2col would leave them: unpacked to 8 bit, or interleaved, as the variant wants them."""
    groups = -(-activations.shape[0] // chosen.npx)
    padded = pad_axis(pad_axis(activations, 0, groups * chosen.npx), 1, words * WORD_BITS // bits)
    rows = pack_words(padded, chosen.row_bits(bits))
    if chosen.interleaved:
        return rows.reshape(groups, chosen.npx, words).swapaxes(1, 2)
    return rows


def matmul_kernel(layer: MatmulLayer, bits: int, name: str, tensors: LayerTensors) -> KernelRun:
    """The matrix product of ``tensors`` by variant ``name``; one core.

    Memory symbols: ``input`` (rows of activations in groups of ``npx`` pixels), ``weights``, ``parameters``,
    ``output`` (``[pixel][channel]``; requantised to ``bits`` or int32).
    """
    chosen = variant(name)
    chosen.check_width(bits)
    tensors.check(layer)
    words = -(-layer.reduction * bits // WORD_BITS)
    row_bytes = words * chosen.row_bits(bits) // bits * WORD
    blocking = Blocking(
        variant=chosen,
        bits=bits,
        out_channels=layer.out_channels,
        pixels=layer.pixels,
        requantised=tensors.requantisation is not None,
    )
    memory = ImageBuilder()
    # one word to spare: the inner loop of the nn variants loads one past the row of pixel 0
    first = memory.place("input", _activation_rows(tensors.activations, bits, chosen, words), spare=1)
    operands = place_operands(memory, blocking, tensors, pack_words(tensors.weights, bits))
    rows = [first + pixel * row_bytes for pixel in range(chosen.npx)]
    code = KernelCode(blocking, words, operands, rows, tensors)
    stream = code.write(None, chosen.npx * row_bytes)
    return KernelRun(
        layer=layer,
        bits=bits,
        variant=chosen,
        stream=stream,
        image=memory.finish(),
        output=output_layout(blocking, (layer.pixels, layer.out_channels)),
        relocations=code.relocations,
    )
