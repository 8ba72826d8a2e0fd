"""Matrix-product kernels: the MatMul of a convolution on activation rows that lie ready in memory."""

from xpulpnn_sw.kernels.arguments import MATMUL_ARGUMENTS
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_run
from xpulpnn_sw.kernels.operands import Blocking, place_operands
from xpulpnn_sw.kernels.rows import activation_rows, element_order, ordered
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import for_pixels, variant
from xpulpnn_sw.layer import MatmulLayer
from xpulpnn_sw.layout import ImageBuilder, Placement, pack_words
from xpulpnn_sw.precision import Precision


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
    ``placement`` is that of weight streams and stacks in a banked memory. A single row is computed by a variant for
    such.
    """
    chosen = variant(name)
    chosen.check_precision(precision)
    precision = chosen.computed(precision)
    tensors.check(layer, precision)
    chosen = for_pixels(chosen, layer.pixels)
    order = element_order(chosen, precision)
    rows = pack_words(ordered(tensors.weights, order), precision.w)
    words = rows.shape[1]
    blocking = Blocking(chosen, precision, tensors.rule)
    plane_words = blocking.filled(words)
    activations = activation_rows(tensors.activations, chosen, precision, plane_words)
    row_words = plane_words * (chosen.row_bits(precision.w) // precision.w) * chosen.planes(precision)
    memory = ImageBuilder()
    arguments = {
        # one word to spare: the inner loop of the nn variants loads one past the row of pixel 0
        "input": memory.place("input", activations, spare=1),
        **place_operands(memory, blocking, layer, tensors, rows, placement),
        "row_stride": row_words * WORD,
        "pixels": layer.pixels,
        "row_words": words,
    }
    return kernel_run(
        "matmul",
        layer,
        blocking,
        MATMUL_ARGUMENTS,
        memory,
        arguments,
        cores=cores,
        specialise=specialise,
        placement=placement,
    )
