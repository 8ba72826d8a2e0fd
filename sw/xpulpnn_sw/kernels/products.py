"""Kernels of layers with filters: matrix products of activation rows, which are in memory or gathered by im2col.

Memory symbols: ``input``, ``weights`` (streams of filter rows), ``parameters``, ``output`` (``[pixel][channel]``),
``arguments``, ``stack``, and ``im2col`` if there are buffers. A layer with a single pixel is computed by a one-pixel
variant.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import BYTE_BITS, WORD_MASK, XLEN
from xpulpnn_sw.kernels import kernel, layout
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.gather.im2col import SPARE_WORDS
from xpulpnn_sw.kernels.gather.row_format import RowFormat, activation_rows, element_order, in_lane_order
from xpulpnn_sw.kernels.gather.row_reuse import reuse_words
from xpulpnn_sw.kernels.kernel import ArgumentField, KernelRequest, KernelRun, Structure
from xpulpnn_sw.kernels.layout import pack_words, pad_axis, padded_channels
from xpulpnn_sw.kernels.operands import Blocking, place_operands
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.requantised_code import product_program
from xpulpnn_sw.kernels.tensors import LayerTensors, random_tensors
from xpulpnn_sw.kernels.variants import LoopStyle, Variant, for_pixels
from xpulpnn_sw.layers.layer import Conv1dLayer, ConvLayer, ImageConvLayer, PointwiseLayer, ProductLayer
from xpulpnn_sw.layers.precision import Precision

_BLOCK, _GROUP = 40, 40  # estimated cycles of a channel step without products, and of a pixel group
_AHEAD = 2
"""Words after the input that may be read: one is fetched ahead, one completes a pair or the last run of an image."""

_PRODUCT = """\
weights, parameters: as `xpulpnn pack` lays them out. Output: room for whole groups of pixels (in 4x4 blocks: 4).
Functions whose name ends with qnt need parameters at a multiple of 64 bytes, or of 16 for results of 2 bits."""

_OPERANDS = (
    ArgumentField("input", "activations", pointer=True),
    ArgumentField("weights", "packed filter rows", pointer=True),
    ArgumentField("parameters", "biases, lambda and kappa", pointer=True),
    ArgumentField("output", "results, room for whole pixel groups", pointer=True),
)
_WEIGHT_STRIDE = ArgumentField("weight_stride", "bytes from one weight stream to the next")
_ROW_WORDS = ArgumentField("row_words", "words of a packed filter row")
_RESULTS = (
    ArgumentField("out_channels", "output channels"),
    ArgumentField("out_stride", "bytes from one output pixel to the next"),
    _WEIGHT_STRIDE,
    ArgumentField("row_stride", "bytes from one activation row to the next"),
    kernel.SHIFT,
)
CONV_ARGUMENTS = kernel.argument_structure(
    "conv",
    *_OPERANDS,
    ArgumentField("buffer", "im2col rows of all cores, core 0 first", pointer=True),
    ArgumentField("buffer_stride", "bytes between the im2col rows of two cores"),
    *_RESULTS,
    *kernel.SIZES,
    ArgumentField("pixel_bytes", "bytes of an input pixel"),
    *kernel.OUT_SIZES,
    *kernel.WINDOW,
    notes=f"""\
Also for conv1d without dilation, and for pointwise and linear layers that cannot be computed in place. Variants Nx1
are for layers with a single output pixel, others for more. An input pixel has channels for whole words of inputs and
weights.
{_PRODUCT}
Input: one word behind it may be read, three by variants for the coprocessor. Buffer: buffer_stride for each core, at
least the variant's pixels times row_stride and {SPARE_WORDS} words; best 2 words more than a multiple of 32, which
avoids bank conflicts; with x3_4x4 a multiple of 32, and the buffer 2 words and a multiple of 32 behind the weights. In
a longer buffer x3_4x4 keeps rows of fields for the groups below, if the output's width is a multiple of 4.""",
)
CONV_OUTSIDE_ARGUMENTS = kernel.with_outside(CONV_ARGUMENTS)
CONV1D_ARGUMENTS = kernel.argument_structure(
    "conv1d",
    *CONV_ARGUMENTS.fields,
    ArgumentField("dilation", "input rows from one filter row to the next"),
    notes=f"""\
Dilated: the sequence runs along the rows, width and kernel_width are 1. Otherwise as conv.
{_PRODUCT}""",
)
CONV1D_OUTSIDE_ARGUMENTS = kernel.with_outside(CONV1D_ARGUMENTS)
MATMUL_ARGUMENTS = kernel.argument_structure(
    "matmul",
    *_OPERANDS,
    *_RESULTS,
    ArgumentField("pixels", "activation rows"),
    _ROW_WORDS,
    notes=f"""\
Rows of activations: for pointwise the pixels of a map, behind which a group less one pixel, and two words, may be read;
for matmul one word, two with x3_4x4. Rows of matmul alternate word by word in groups of four with the variants nn_4x4,
x2_4x4 and x3_4x4, of two with x2_4x2. Inputs wider than the weights are cut into planes; without sub-byte products rows
are bytes.
{_PRODUCT}""",
)
LINEAR_ARGUMENTS = kernel.argument_structure(
    "linear",
    *_OPERANDS,
    ArgumentField("out_channels", "output neurons"),
    _WEIGHT_STRIDE,
    kernel.SHIFT,
    _ROW_WORDS,
    notes=f"""\
Inputs as wide as the weights (bytes without sub-byte products). Up to two words may be read behind the inputs, which
are padded to whole words of weights.
{_PRODUCT}""",
)


def channel_parts(blocking: Blocking, cores: int, row_words: int, sizes: Sequence[tuple[int, int]]) -> int:
    """Return into how many parts ``cores`` split the channels: a power of two with the fewest estimated cycles.

    ``sizes`` are pixels and channels of all calls of a function.
    """
    variant, step = blocking.variant, blocking.channel_step
    calls = [(-(-pixels // variant.npx), -(-channels // step)) for pixels, channels in sizes]
    step_cycles = step * variant.npx * row_words // 2 + _BLOCK

    def cycles(parts: int) -> int:
        return sum(-(-groups * parts // cores) * (steps // parts * step_cycles + _GROUP) for groups, steps in calls)

    able = [1 << bits for bits in range(cores.bit_length()) if cores % (1 << bits) == 0]
    able = [parts for parts in able if all(steps % parts == 0 for _, steps in calls)]
    return min(able, key=cycles) if calls and variant.npx > 1 and variant.splits else 1


def buffer_stride(
    form: RowFormat, layer: ConvLayer, pixel_bytes: int, row_stride: int, cores: int, placement: layout.Placement
) -> int:
    """Return the bytes between the im2col buffers of two cores."""
    words = form.variant.npx * row_stride // WORD + SPARE_WORDS
    words += reuse_words(form, layer, pixel_bytes, words, cores)
    # in the same banks for all cores of pairs, which then have the fewest conflicts at different times
    return layout.banked_words(words, "aligned" if form.variant.style is LoopStyle.PAIR else placement) * WORD


class _ProductKernel:
    def __init__(
        self, request: KernelRequest, layer: ProductLayer, variant: Variant | None = None, *, biased: bool = True
    ) -> None:
        tensors, level = request.tensors, variant or for_pixels(request.level, layer.pixels)
        if not Blocking(level, request.precision, tensors.rule).requantises:
            tensors = tensors.in_software(request.precision)
        self.request, self.layer, self.variant = replace(request, level=level, tensors=tensors), layer, level
        stored = {name: getattr(tensors, name) for name in ("folded", "flat", "grouped")}
        self.blocking = Blocking(level, request.precision, tensors.rule, biased=biased, **stored)

    def row_stride(self, rows: layout.Words) -> int:
        precision, variant = self.request.precision, self.variant
        widened = variant.row_bits(precision) // precision.w
        return self.blocking.filled(rows.shape[1]) * widened * variant.planes(precision) * WORD

    def finish(
        self,
        name: str,
        structure: Structure,
        activations: layout.Words,
        spare: int,
        rows: layout.Words,
        *,
        inside: bool = False,
        **sizes: int,
    ) -> KernelRun:
        """Return the kernel for packed filter ``rows`` and ``activations``; ``spare`` words follow the activations."""
        request, memory, blocking = self.request, self.request.memory, self.blocking
        arguments = {"input": memory.place("input", activations, spare=spare)}
        arguments |= place_operands(request, blocking, self.layer, rows)
        if "buffer" in structure.names:
            assert isinstance(self.layer, ConvLayer)
            row_stride, alignment, offset = self.row_stride(rows), WORD, 0
            form = RowFormat(self.variant, request.precision, structure.names, inside=inside)
            if self.variant.style is LoopStyle.PAIR and request.placement == "padded":
                alignment, offset = layout.BANKED_WORDS * WORD, arguments["weights"] + layout.BANKS_BETWEEN * WORD
            own = sizes["pixel_bytes"], row_stride, request.cores, request.placement
            stride = buffer_stride(form, self.layer, *own)
            buffer = memory.reserve("im2col", request.cores * stride, alignment=alignment, offset=offset)
            arguments |= {"buffer": buffer, "buffer_stride": stride, "row_stride": row_stride}
            arguments |= kernel.window_arguments(self.layer)
        calls = [(self.layer.pixels, self.layer.out_channels)] if request.specialise else []
        parts = channel_parts(blocking, request.cores, rows.shape[1], calls)
        marks = f"{'_folded' * blocking.folded}{'_unbiased' * (blocking.is_fresh and not blocking.requantises)}"
        run = request.finish(
            f"{name}{marks}",
            structure,
            {**arguments, **sizes, "row_words": rows.shape[1]},
            lambda known: product_program(blocking, structure, known, inside=inside, parts=(parts, request.cores)),
            blocking.rule,
        )
        return replace(run, output=replace(run.output, flat=blocking.flat, grouped=blocking.grouped))


def matmul_kernel(request: KernelRequest) -> KernelRun:
    layer, tensors, precision = request.layer, request.tensors, request.precision
    tensors.check(layer, precision)
    product = _ProductKernel(request, layer)
    rows = pack_words(in_lane_order(tensors.weights, element_order(product.variant, precision)), precision.w)
    words, stride = product.blocking.filled(rows.shape[1]), product.row_stride(rows)
    activations = activation_rows(tensors.activations, product.variant, precision, words)
    # the inner loop of the nn variants loads a word past the row of pixel 0, that of pairs also past that of pixel 1
    spare = 2 if product.variant.style is LoopStyle.PAIR else 1
    if product.variant.has_coprocessor:
        spare = product.variant.npx
    return product.finish("matmul", MATMUL_ARGUMENTS, activations, spare, rows, row_stride=stride, pixels=layer.pixels)


def conv1d_kernel(request: KernelRequest) -> KernelRun:
    layer, tensors = request.layer, request.tensors
    tensors.check_shapes((layer.length, layer.channels), (layer.out_channels, layer.kernel, layer.channels))
    return receptive_fields("conv1d", request, layer.geometry, tensors.reshaped(layer.geometry))


def pointwise_kernel(request: KernelRequest) -> KernelRun:
    """Return a kernel for a pointwise convolution; where possible, the pixels of the input are the activation rows."""
    layer, tensors, precision = request.layer, request.tensors, request.precision
    variant = for_pixels(request.level, layer.pixels)
    if not layer.is_plain or variant.has_coprocessor or variant.row_bits(precision) != precision.x:
        return receptive_fields("pointwise", request, layer, tensors)
    tensors.check(layer, precision)
    product = _ProductKernel(request, layer, replace(variant, in_place=not tensors.from_groups, splits=True))
    channels = padded_channels(layer.channels, precision.x)
    padded = pad_axis(tensors.activations, 2, channels).reshape(layer.pixels, -1)
    pixels = pack_words(padded, precision.x)
    rows = pack_words(pad_axis(tensors.weights.reshape(layer.out_channels, -1), 1, channels), precision.w)
    # pixels that fill the last group, and words fetched ahead
    spare, stride = (product.variant.npx - 1) * pixels.shape[1] + 2, pixels.shape[1] * WORD
    if tensors.from_groups:
        pixels, spare = activation_rows(padded, product.variant, precision, pixels.shape[1]), 2
    return product.finish("pointwise", MATMUL_ARGUMENTS, pixels, spare, rows, row_stride=stride, pixels=layer.pixels)


def linear_kernel(request: KernelRequest) -> KernelRun:
    """Return a kernel for a fully connected layer, which reads inputs in place if they are as wide as the weights."""
    layer, tensors, precision = request.layer, request.tensors, request.precision
    tensors.check_shapes((layer.inputs,), (layer.outputs, layer.inputs))
    if request.level.row_bits(precision) != precision.x:
        pixel = PointwiseLayer(height=1, width=1, channels=layer.inputs, out_channels=layer.outputs)
        return receptive_fields("linear", request, pixel, tensors.reshaped(pixel))
    tensors.check(layer.geometry, precision, activations=(layer.inputs,))
    rows = pack_words(tensors.weights, precision.w)
    # the loop of RV32IM ends with the inputs, which are therefore padded to whole words of weights
    inputs = pack_words(tensors.activations[np.newaxis], precision.x)
    # specialised for accumulators without biases
    unbiased = request.specialise and tensors.bias is None and not precision.requantised
    product = _ProductKernel(request, layer.geometry, request.level, biased=not unbiased)
    missing = product.blocking.filled(rows.shape[1]) * (precision.x // precision.w) - inputs.shape[1]
    return product.finish("linear", LINEAR_ARGUMENTS, inputs, missing + _AHEAD, rows)


def image_kernel(request: KernelRequest) -> KernelRun:
    """Return a kernel for a convolution of an image, whose pixels are stored with the padding and without gaps."""
    layer: ImageConvLayer = request.layer
    tensors, precision = request.tensors, request.precision
    tensors.check(layer, precision)
    top, bottom, left, right = layer.padding
    outside = precision.padding_value(layer.outside)
    stored = np.pad(tensors.activations, ((top, bottom), (left, right), (0, 0)), constant_values=outside)
    runs = tensors.weights.reshape(layer.out_channels, layer.kernel_height, -1)
    filters = pad_axis(runs, 2, -(-runs.shape[2] // WORD) * WORD).reshape(layer.out_channels, -1)
    sizes = {"height": layer.height + top + bottom, "width": layer.stored_width, "pixel_bytes": layer.channels}
    operands = pack_words(stored.reshape(-1), precision.x), _AHEAD, pack_words(filters, precision.w)
    placed = _ProductKernel(request, layer)
    return placed.finish("image", CONV_ARGUMENTS, *operands, inside=True, **sizes, pad_top=0, pad_left=0)


def receptive_fields(name: str, request: KernelRequest, layer: ConvLayer, tensors: LayerTensors) -> KernelRun:
    """Return a kernel that computes the requested layer as the convolution ``layer``, by gathering im2col rows."""
    precision, dilation = request.precision, layer.dilation if layer.dilation > 1 else 0
    tensors.check(layer, precision)
    outside = precision.padding_value(layer.outside)
    valued = outside != precision.outside and any(layer.padding)
    product = _ProductKernel(replace(request, tensors=tensors), layer)
    channels = padded_channels(layer.channels, min(precision.x, precision.w))
    filters = in_lane_order(pad_axis(tensors.weights, 3, channels), element_order(product.variant, precision))
    structure = CONV1D_ARGUMENTS if dilation else CONV_ARGUMENTS
    if valued:
        structure = CONV1D_OUTSIDE_ARGUMENTS if dilation else CONV_OUTSIDE_ARGUMENTS
    return product.finish(
        f"{name}_outside" if valued else name,
        structure,
        pack_words(pad_axis(tensors.activations, 2, channels), precision.x),
        # odd runs are copied in pairs, by kernels of the coprocessor four words at a time
        3 if product.variant.has_coprocessor else 1,
        pack_words(filters, precision.w).reshape(layer.out_channels, -1),
        pixel_bytes=channels * precision.x // XLEN * WORD,
        dilation=dilation,
        outside=outside & WORD_MASK,
    )


def image_precision(layer: ImageConvLayer, precision: Precision) -> Precision:
    if (precision.x, precision.w) != (BYTE_BITS, BYTE_BITS):
        raise LayerError(f"inputs and weights of an image must have {BYTE_BITS} bits, not {precision}")
    return precision


def random_product(layer: Any, precision: Precision, rng: np.random.Generator, *, rule: Rule = Rule.BN32) -> Any:
    tensors = random_tensors(layer.geometry, precision, rng, rule=rule)
    if isinstance(layer, Conv1dLayer):
        weights = tensors.weights.reshape(layer.out_channels, layer.kernel, layer.channels)
        return replace(tensors, activations=tensors.activations.reshape(layer.length, layer.channels), weights=weights)
    return replace(tensors, activations=tensors.activations[0])
