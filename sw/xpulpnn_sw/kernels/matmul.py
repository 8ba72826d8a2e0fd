"""Matrix-product kernels: the MatMul of a convolution on activation rows that lie ready in memory."""

from xpulpnn_sw.kernels.arguments import MATMUL_ARGUMENTS
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import Blocking, KernelRun, kernel_run, place_operands
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import WORD_BITS, Variant, variant
from xpulpnn_sw.layer import MatmulLayer
from xpulpnn_sw.layout import ImageBuilder, Ints, Placement, Words, pack_words, pad_axis
from xpulpnn_sw.precision import Precision


def _activation_rows(activations: Ints, bits: int, chosen: Variant, words: int) -> Words:
    """Rows as an im2col would leave them: unpacked to 8 bit, or interleaved, as the variant wants them."""
    groups = -(-activations.shape[0] // chosen.npx)
    padded = pad_axis(pad_axis(activations, 0, groups * chosen.npx), 1, words * WORD_BITS // bits)
    rows = pack_words(padded, chosen.row_bits(bits))
    if chosen.interleaved:
        return rows.reshape(groups, chosen.npx, words).swapaxes(1, 2)
    return rows


def matmul_kernel(
    layer: MatmulLayer,
    precision: Precision,
    name: str,
    tensors: LayerTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The matrix product of ``tensors`` by variant ``name``, with stacks for ``cores`` cores.

    Memory symbols: ``input`` (rows of activations in groups of ``npx`` pixels), ``weights``, ``parameters``,
    ``output`` (``[pixel][channel]``), ``arguments``, ``stack``. A specialised function is for this layer only.
    ``placement`` is that of weight streams and stacks in a banked memory.
    """
    chosen, bits = variant(name), precision.w
    tensors.check(layer, precision)
    chosen.check_precision(precision)
    words = -(-layer.reduction * bits // WORD_BITS)
    blocking = Blocking(chosen, precision)
    memory = ImageBuilder()
    # one word to spare: the inner loop of the nn variants loads one past the row of pixel 0
    source = memory.place("input", _activation_rows(tensors.activations, bits, chosen, words), spare=1)
    rows = pack_words(tensors.weights, bits)
    arguments = {
        "input": source,
        **place_operands(memory, blocking, layer, tensors, rows, placement),
        "row_stride": words * chosen.row_bits(bits) // bits * WORD,
        "pixels": layer.pixels,
        "row_words": words,
    }
    return kernel_run(
        layer,
        blocking,
        MATMUL_ARGUMENTS,
        memory,
        arguments,
        cores=cores,
        specialise=specialise,
        placement=placement,
    )
